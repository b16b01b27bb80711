"""Adapter for Slack: `connection` listens, `normalize` reads, `render` and `sending` write."""
