"""The language between a sub-agent's process and its parent: frames, and how they are written and read. Light."""
