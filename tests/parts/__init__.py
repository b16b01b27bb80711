"""Fixtures: real servers and emulators, started once and cleaned between tests."""
