"""Sub-agents: child processes without keys, database or network, and what their parent does for them."""
