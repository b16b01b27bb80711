"""From a claimed lane to a committed answer: which messages make a turn, each attempt at it, and its end."""
