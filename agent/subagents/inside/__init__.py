"""What runs in a sub-agent's own process: its loop, its tools, its limits, its two pipes. Light: it starts at once."""
