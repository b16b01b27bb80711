"""The parts every suite may use: real servers, real databases, emulated platforms."""

from __future__ import annotations

pytest_plugins = ["tests.parts.valkey", "tests.parts.databases", "tests.parts.platforms"]
