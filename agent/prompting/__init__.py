"""The system prompt: what people wrote into files, and the sections around it."""
