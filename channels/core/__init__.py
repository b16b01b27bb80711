"""Shared parts of all channels: from a platform to the bus and back. No platform's SDK is imported here."""
