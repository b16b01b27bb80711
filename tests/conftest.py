"""The parts every suite may use: real servers, real databases, emulated platforms."""

from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["tests.parts.valkey", "tests.parts.databases", "tests.parts.platforms"]

settings.register_profile("trivet", deadline=None)  # a busy machine is no fault
settings.load_profile("trivet")
