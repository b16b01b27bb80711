"""The parts every suite may use: real servers, real databases, emulated platforms."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings
from hypothesis.internal.conjecture import providers

pytest_plugins = ["tests.parts.databases", "tests.parts.valkey", "tests.parts.platforms", "tests.parts.warm"]

# A busy machine is no fault. A change is judged by examples that it shares with the one before it; who looks for new
# ones asks for them with --hypothesis-profile=explore.
settings.register_profile("trivet", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("explore", deadline=None, max_examples=1_000)
settings.load_profile("trivet")

# Without what every frame held: to paint that takes seconds for each crash that a test asks for.
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.StackInfoRenderer(),
        structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)


@pytest.hookimpl(trylast=True)  # behind the command line's choice of a profile
def pytest_configure() -> None:
    """Hypothesis draws constants of whatever modules happen to be loaded: other examples after other tests, and
    seconds of reading for every worker."""
    if settings().derandomize:
        pytest.MonkeyPatch().setattr(providers, "is_local_module_file", lambda path: False)


@pytest.hookimpl(tryfirst=True)  # before the selection by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`long_on("postgresql", "slack")`: of a test's variants those that bear one of these words are long. What a story
    asks of PostgreSQL the contracts of the store ask, too."""
    for item in items:
        words = {word for mark in item.iter_markers("long_on") for word in mark.args}
        if item.path.parent.name == "story" and not item.get_closest_marker("both_databases"):
            words.add("postgresql")
        _, bracket, variant = item.name.partition("[")
        if bracket and words & set(variant.rstrip("]").split("-")):
            item.add_marker(pytest.mark.long)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected lives as long as the run: to look through it for garbage costs every worker two seconds. So do
    the apps and servers that tests make: to look through all of them as often as Python would is a fifth of the time
    of those tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()
