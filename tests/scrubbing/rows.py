"""The rows of `rules.toml` and `lines.toml`: their examples are read here, and by nobody else."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import gateway.scrub
from gateway.scrub.lines import LineRule
from gateway.scrub.rules import SecretRule

_DRAWN_AS: Final[Mapping[str, str]] = {
    "dotted": "base64url",
    "signs": "base64url",
    "anybase64": "base64url",
    "anyhex": "hex",
}
"""An alphabet that some tokens end with is drawn without the signs that end a sentence as well."""


def examples_of(rule: SecretRule | LineRule) -> Sequence[str]:
    """Return what a rule finds: by default each of its anchors with a drawn body."""
    row = _row_of(rule)
    alphabet, _, count = row.get("body", "").partition(":")
    drawn = (f"{anchor}<{_DRAWN_AS.get(alphabet, alphabet)}:{count}>" for anchor in rule.anchors)
    return tuple(row.get("examples", drawn))


def counter_examples_of(rule: SecretRule | LineRule) -> Sequence[str]:
    """Return what a rule leaves alone."""
    return tuple(_row_of(rule).get("counter_examples", ()))


def _row_of(rule: SecretRule | LineRule) -> Mapping[str, Any]:
    tables = _tables("lines.toml" if isinstance(rule, LineRule) else "rules.toml")
    return next(table[rule.id] for name in ("line", "shape", "prefix") if rule.id in (table := tables.get(name, {})))


@cache
def _tables(name: str) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    return tomllib.loads(Path(gateway.scrub.__file__).with_name(name).read_text(encoding="utf-8"))
