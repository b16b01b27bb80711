"""Memory of a person beyond the conversation: kept, found again, put before the model."""
