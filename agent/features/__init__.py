"""Features of the agent, one folder each: its commands, tools, services and texts."""
