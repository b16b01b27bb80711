"""Files of one conversation: confined to its own workspace, written atomically, taken back by a journal."""
