"""What the model may do besides talking. One file per tool family."""
