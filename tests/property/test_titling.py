"""Titles, for any text at all."""

from __future__ import annotations

import random

import regex
from hypothesis import given
from hypothesis import strategies as st

from agent.features.titles import sanitize_title, wanted_title
from agent.limits import TITLE_GRAPHEMES_MAX
from gateway.scrub import Scrubber
from tests.scrubbing import fill

_SCRUBBER = Scrubber(placeholder_key=b"k" * 32)
_PIECES = st.sampled_from(
    [
        *(
            "<think>",
            "</think>",
            "**",
            "# ",
            "Title: ",
            "“",
            "”",
            "…",
            "`",
            "- ",
            "1. ",
            "\n",
            "標題：",
            "👩‍💻",
            ".",
            "[",
            "]",
        ),
        *("\u200b", "\u0301", "🇩🇪", "x" * 30, "ab " * 15, "```\n", "<title>", "(", ")", "_", "\u0d4e", " "),
    ]
)
_TEXTS = st.lists(_PIECES | st.text(max_size=12), max_size=12).map("".join)
_TEMPLATES = (
    "ghp_<base62:36>",
    "sk-ant-api03-<base64url:93>AA",
    "xoxb-<digits:12>-<digits:13>-<base62:24>",
    "AKIA<base32:16>",
    "<digits:9>:AA<base64url:33>",
)
_SECRETS = st.integers(0, 10**9).map(lambda seed: fill(_TEMPLATES[seed % len(_TEMPLATES)], random.Random(seed)))


@given(_TEXTS)
def test_a_title_is_never_too_long_and_never_more_than_a_line(raw: str) -> None:
    title = sanitize_title(raw, _SCRUBBER.scrub)
    assert len(regex.findall(r"\X", title)) <= TITLE_GRAPHEMES_MAX
    assert len(title.splitlines()) <= 1


@given(_TEXTS)
def test_sanitizing_twice_changes_nothing(raw: str) -> None:
    title = sanitize_title(raw, _SCRUBBER.scrub)
    assert sanitize_title(title, _SCRUBBER.scrub) == title


@given(_TEXTS)
def test_a_title_can_be_seen_or_is_empty(raw: str) -> None:
    title = sanitize_title(raw, _SCRUBBER.scrub)
    assert not title or regex.search(r"[\p{L}\p{N}\p{S}]", title)


@given(_TEXTS, _SECRETS, _TEXTS, st.integers(0, 60), _PIECES)
def test_a_title_never_holds_a_secret(before: str, secret: str, after: str, at: int, within: str) -> None:
    """Not one that was written whole, and not one that comes about when what stood inside it is taken out."""
    parted = secret[:at] + within + secret[at:]
    for make in (sanitize_title, wanted_title):
        assert secret not in make(f"{before} {secret} {after}", _SCRUBBER.scrub)
        assert not _SCRUBBER.findings(make(f"{before} {parted} {after}", _SCRUBBER.scrub))
