"""Fixtures for the three platform emulators, served on loopback."""
