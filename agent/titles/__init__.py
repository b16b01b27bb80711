"""Titles of sessions, made beside the reply."""
