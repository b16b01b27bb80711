"""Whatever a model writes, every platform gets messages it accepts, and nothing is lost on the way."""

from __future__ import annotations

import re
from html import unescape

import pytest
import regex
from hypothesis import example, given

from channels.discord.render import CONTENT_CHARS_MAX
from channels.discord.render import render as render_discord
from channels.slack.render import TEXT_CHARS_MAX
from channels.slack.render import render as render_slack
from channels.telegram.render import ENTITIES_MAX, TEXT_UNITS_MAX, TelegramChunk, TelegramEntity
from channels.telegram.render import render as render_telegram
from gateway.contracts.messages import CleanText, is_visible
from gateway.limits import REPLY_CHARS_MAX
from tests.parts.texts import anything, documents, fragments, patient, patient_with_long_texts

_ALONE = {"pre", "code"}
_QUOTES = {"blockquote", "expandable_blockquote"}
_RENDERERS = (render_telegram, render_discord, render_slack)


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _end(entity: TelegramEntity) -> int:
    return entity.offset + entity.length


def _words(text: str) -> list[str]:
    return regex.findall(r"[\p{L}\p{M}]+|\p{Extended_Pictographic}", text)


def _check_entities(chunk: TelegramChunk) -> None:
    data = chunk.text.encode("utf-16-le")
    for entity in chunk.entities:
        assert entity.length > 0
        assert entity.offset >= 0
        assert _end(entity) <= len(data) // 2
        data[2 * entity.offset : 2 * _end(entity)].decode("utf-16-le")  # no half of a surrogate pair
        assert (entity.type == "text_link") == (entity.url is not None)
    for index, outer in enumerate(chunk.entities):
        for inner in chunk.entities[index + 1 :]:
            if inner.offset >= _end(outer):
                break
            assert _end(inner) <= _end(outer), "entities cross"
            assert not {outer.type, inner.type} & _ALONE, "something in or around code"
            assert not (outer.type in _QUOTES and inner.type in _QUOTES), "quotes nest"


@patient
@given(anything)
def test_telegram_messages_are_valid(text: str) -> None:
    """Within the limits by Telegram's own count, trimmed, and with entities the server takes as they are."""
    for chunk in render_telegram(CleanText(text)):
        assert 0 < _units(chunk.text) <= TEXT_UNITS_MAX
        assert 0 < _units(chunk.plain) <= TEXT_UNITS_MAX
        assert chunk.text == chunk.text.strip()
        assert len(chunk.entities) <= ENTITIES_MAX
        _check_entities(chunk)


@patient
@given(anything)
@example("http://e.com/a_b_c(d)@everyone")
@example("![x](http://e.com/@here) and [y](http://e.com/@everyone)")
def test_discord_messages_are_valid(text: str) -> None:
    """Within the limit by code points, fences closed, nobody pinged outside code."""
    for chunk in render_discord(CleanText(text)):
        assert 0 < len(chunk.content) <= CONTENT_CHARS_MAX
        assert 0 < len(chunk.plain) <= CONTENT_CHARS_MAX
        assert len(re.findall(r"^(?:> )?```", chunk.content, re.MULTILINE)) % 2 == 0
        prose = re.sub(r"^(> )?```.*?^(> )?```$", "", chunk.content, flags=re.DOTALL | re.MULTILINE)
        assert not re.search(r"@(everyone|here)", re.sub(r"`[^`]*`", "", prose))


@patient
@given(anything)
def test_slack_messages_are_valid(text: str) -> None:
    """Within the limit as escaped, fences closed, and every bare `<` begins a link to http."""
    for chunk in render_slack(CleanText(text)):
        assert 0 < len(chunk.text) <= TEXT_CHARS_MAX
        assert 0 < len(chunk.plain) <= TEXT_CHARS_MAX
        assert len(re.findall(r"^```$", chunk.text, re.MULTILINE)) % 2 == 0
        assert not re.search(r"<(?!https?://[^<>|]+\|)", chunk.text)
        assert not re.search(r"&(?!amp;|lt;|gt;)", chunk.text)


@patient_with_long_texts
@given(documents)
def test_no_word_of_a_long_answer_is_lost_or_moved(text: str) -> None:
    """The plain texts of all messages, joined, say what the source says, in its order."""
    for render in _RENDERERS:
        joined = "\n".join(unescape(chunk.plain) for chunk in render(CleanText(text)))
        assert _words(joined.replace("\u2026", "")) == _words(re.sub(r"^```(py)?$", "", text, flags=re.MULTILINE))


@patient_with_long_texts
@given(fragments)
def test_a_text_is_answered_unless_there_is_nothing_to_see(text: str) -> None:
    """No visible text renders to nothing, and nothing renders to no message."""
    for render in _RENDERERS:
        if is_visible(text.encode("utf-8", "replace").decode()):
            assert render(CleanText(text))
    assert render_slack(CleanText(" \n\t \u200b")) == ()


@patient
@given(fragments)
def test_rendering_plain_text_of_telegram_again_keeps_its_limit(text: str) -> None:
    """What was rendered may come round again (an edit, a quote) without growing out of its message."""
    for chunk in render_telegram(CleanText(text)):
        again = render_telegram(CleanText(chunk.plain))
        assert sum(_units(each.text) for each in again) <= 2 * _units(chunk.plain) + 8


_UNITS = (
    *("[", "a\u0301"),
    *(
        pytest.param(unit, marks=pytest.mark.long)
        for unit in (
            *("*", "**a", "![", "<!--", ">", "> a\n", "`", "~~"),
            *("\\[\n", "$$\n", "&amp;", "- a\n", "👩‍👩‍👧", "_a"),
        )
    ),
)


@pytest.mark.parametrize("unit", _UNITS)
def test_the_longest_reply_of_anything_renders(unit: str) -> None:
    """Repetition that makes parsers quadratic, at the longest a reply can be."""
    text = CleanText(unit * (REPLY_CHARS_MAX // len(unit)))
    for render in _RENDERERS:
        assert render(text)
