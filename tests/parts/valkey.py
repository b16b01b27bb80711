"""Fixtures for a real Valkey server and the bus on it."""
