"""The life of a turn: claimed, run, committed, relayed; and the control lane alongside it."""
