"""The answer cache: a question that was answered before, in the same circumstances, needs no model."""
