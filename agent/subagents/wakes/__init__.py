"""Conversations that are woken when what worked for them is over, on whichever process."""
