"""The way to a model: one Protocol, the litellm client, the scripted demo model, one place for retries."""
