"""What is still being written can be shown at any moment, on every platform."""

from __future__ import annotations

import time

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from channels.discord.render import CONTENT_CHARS_MAX
from channels.discord.render import render as render_discord
from channels.markdown.unfinished import as_if_closed
from channels.slack.render import TEXT_CHARS_MAX
from channels.slack.render import render as render_slack
from channels.telegram.render import TEXT_UNITS_MAX
from channels.telegram.render import render as render_telegram
from gateway.contracts.messages import CleanText
from gateway.limits import REPLY_CHARS_MAX
from tests.parts.texts import anything, documents, patient

prefixes = st.tuples(documents | anything, st.floats(0, 1)).map(lambda cut: cut[0][: int(len(cut[0]) * cut[1])])


@patient
@given(prefixes)
@example("a | b\n---|---\n**x")
@example("> ```py\n> `")
@example("**a `b")
@example("[a](b(c")
def test_any_beginning_of_any_text_can_be_shown(text: str) -> None:
    shown = as_if_closed(CleanText(text))
    for chunk in render_telegram(shown):
        assert 0 < len(chunk.text.encode("utf-16-le")) // 2 <= TEXT_UNITS_MAX
    for discord in render_discord(shown):
        assert 0 < len(discord.content) <= CONTENT_CHARS_MAX
    for slack in render_slack(shown):
        assert 0 < len(slack.text) <= TEXT_CHARS_MAX


@patient
@given(prefixes)
@example("0" + "[" * 40)
@example("0" + "!" * 40)
@example("0" + "! & " * 40)
@example("0" + "![a](b ! " * 40)
@example("0 " + "~~a !" * 40)
@example("~~~\n\n~~>```a\n!\n~~~")
def test_what_can_be_shown_stays_as_it_is(text: str) -> None:
    shown = as_if_closed(CleanText(text))
    assert as_if_closed(shown) == shown


@patient
@given(prefixes)
def test_nothing_is_made_up_and_nothing_is_out_of_order(text: str) -> None:
    """It is the beginning of the text, and behind it nothing but signs that close."""
    shown = as_if_closed(CleanText(text))
    words = shown.rstrip("*_~`").rstrip()
    assert text.startswith(words)


@given(st.lists(st.from_regex(r"[A-Za-z]{1,9}", fullmatch=True), min_size=1, max_size=40))
def test_plain_words_are_shown_at_once(words: list[str]) -> None:
    assert as_if_closed(CleanText(" ".join(words))) == " ".join(words)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("this is **bo", "this is **bo**"),
        ("this is **bold*", "this is **bold**"),
        ("both **bold *and", "both **bold *and***"),
        ("a ***shout", "a ***shout***"),
        ("call `pri", "call `pri`"),
        ("call `", "call"),
        ("2 * 3 is", "2 * 3 is"),
        ("snake_case_na", "snake_case_na"),
        ("see [the man", "see"),
        ("see [the manual](https://exa", "see"),
        ("see [the manual](https://example.org)", "see [the manual](https://example.org)"),
        ("look ![a c", "look"),
        ("at https://exam", "at"),
        ("at https://example.org now", "at https://example.org now"),
        ("fish &am", "fish"),
        ("fish &amp; chips", "fish &amp; chips"),
        ("a\n\n```pyth", "a\n\n"),
        ("```python\nx = 1", "```python\nx = 1"),
        ("```python\nx = 1\n``", "```python\nx = 1\n"),
        ("```python\nx = **1", "```python\nx = **1"),
        ("| a | b", ""),
        ("before\n\n| a | b |\n|--", "before\n\n"),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n| 3 ", "| a | b |\n|---|---|\n| 1 | 2 |\n"),
        ("text\n-", "text\n"),
        ("1. one\n2", "1. one\n"),
        ("- one\n- **tw", "- one\n- **tw**"),
        ("an escape \\", "an escape"),
    ],
)
def test_what_it_looks_like(text: str, shown: str) -> None:
    assert as_if_closed(CleanText(text)) == shown


@given(documents)
def test_no_letter_is_lost_before_what_is_held_back(text: str) -> None:
    """A document whose last line is done is shown whole."""
    done = f"{text.rstrip()}\n\nThe end"
    shown = as_if_closed(CleanText(done))
    assert regex.findall(r"\p{L}+", shown)[-2:] == ["The", "end"]


@pytest.mark.parametrize("unit", ["[a](", "[", "http:", "!", "**`", "*a", "~~", "](", "> ", "&", "\\"])
@pytest.mark.parametrize("end", ["", "x"])
def test_the_longest_text_is_closed_in_linear_time(unit: str, end: str) -> None:
    """Every growing answer comes past here once a second; links without an end took 22 seconds."""
    text = CleanText((unit * REPLY_CHARS_MAX)[: REPLY_CHARS_MAX - len(end)] + end)
    began_s = time.process_time()
    as_if_closed(text)
    assert time.process_time() - began_s < 2
