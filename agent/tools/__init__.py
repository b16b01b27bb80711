"""The tools of the model. One file per tool family."""
