"""Keeping a conversation inside the window of its model: what is pruned, what is summarised, and how."""
