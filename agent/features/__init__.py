"""Features of the agent: each with its commands, tools, service and texts."""
