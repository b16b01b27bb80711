"""What a test does to the logging of its process, undone: the tests after it run in the same one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def logging_put_back() -> Iterator[None]:
    """Levels, handlers and ways of all loggers are afterwards what they were; one that is new says all it hears."""
    raises = logging.raiseExceptions
    before = {each: (each.level, each.handlers[:], each.propagate) for each in _loggers()}
    try:
        yield
    finally:
        for logger in _loggers():
            level, logger.handlers[:], logger.propagate = before.get(logger, (logging.NOTSET, [], True))
            logger.setLevel(level)
        logging.raiseExceptions = raises
        logging.captureWarnings(capture=False)
        structlog.reset_defaults()


def _loggers() -> list[logging.Logger]:
    known = logging.Logger.manager.loggerDict.values()
    return [logging.getLogger(), *(each for each in known if isinstance(each, logging.Logger))]
