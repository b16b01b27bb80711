"""Models: one Protocol, the litellm client, the demo model, one place for retries."""
