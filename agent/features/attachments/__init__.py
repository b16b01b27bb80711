"""The way of attachments into a turn."""
