"""Engines beside our own loop (`agent.steps`), behind the same protocol. Each is loaded only where it was chosen."""
