"""The six ways in which several sub-agents work on one thing, as values and functions: no process, no clock."""
