"""Fixtures for real databases: SQLite files and one PostgreSQL server per test run."""
