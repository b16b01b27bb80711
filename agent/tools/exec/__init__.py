"""Commands and programs, run inside a sandbox or not at all."""
