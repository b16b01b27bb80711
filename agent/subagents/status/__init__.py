"""What a chat sees of sub-agents while they work: one quiet line each."""
