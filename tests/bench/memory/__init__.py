"""How often memory tells a model the fact that a question needs, and how often another: `make bench-memory`."""
