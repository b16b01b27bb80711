"""The catalogues of `gateway.words`: how they are made of the sources (`make words`), and that they are complete."""
