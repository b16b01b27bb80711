"""Titles, for any text at all."""

from __future__ import annotations

import regex
from hypothesis import given
from hypothesis import strategies as st

from agent.limits import TITLE_GRAPHEMES_MAX
from agent.titling import sanitize_title

_PIECES = st.sampled_from(
    ["<think>", "</think>", "**", "# ", "Title: ", "“", "”", "…", "`", "- ", "1. ", "\n", "標題：", "👩‍💻", "."]
)
_TEXTS = st.lists(_PIECES | st.text(max_size=12), max_size=12).map("".join)


@given(_TEXTS)
def test_a_title_is_never_too_long_and_never_more_than_a_line(raw: str) -> None:
    title = sanitize_title(raw)
    assert len(regex.findall(r"\X", title)) <= TITLE_GRAPHEMES_MAX
    assert len(title.splitlines()) <= 1


@given(_TEXTS)
def test_sanitizing_twice_changes_nothing(raw: str) -> None:
    title = sanitize_title(raw)
    assert sanitize_title(title) == title
