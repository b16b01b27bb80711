"""Scanners of others, in an environment of their own: the same rows through each of them."""
