"""The work of the scrubber, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from gateway.scrub.own_rules import OwnRule
from gateway.scrub.rules import SecretRule
from gateway.scrub.scrubber import Machine

_TRIED = ((SecretRule, "match"), (OwnRule, "secrets"), (Machine, "_go_on"))


@contextmanager
def counted_work() -> Iterator[Counter[str]]:
    """Count how often a rule is tried and a step is taken, each on a bounded piece of text."""
    work: Counter[str] = Counter()

    def counted(owner: type, name: str) -> Any:
        tried = getattr(owner, name)

        def count(*args: object, **options: object) -> object:
            work[name] += 1
            return tried(*args, **options)

        return patch.object(owner, name, count)

    with ExitStack() as patches:
        for owner, name in _TRIED:
            patches.enter_context(counted(owner, name))
        yield work


def attempts_of(machine: Machine, text: str) -> int:
    """Return how much work a whole text is."""
    with counted_work() as work:
        machine.feed(text, is_last=True)
    return work.total()
