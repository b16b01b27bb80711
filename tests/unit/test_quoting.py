"""What is quoted and what is said, read as one: a secret may begin in the one and end in the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from channels.inbound.cleaning import Cleaned, Cleaner
from channels.normalized import RawQuote
from gateway.clock import SystemClock
from gateway.contracts.commands import Command
from gateway.contracts.ids import SessionScope
from gateway.contracts.messages import QuoteKind
from gateway.scrub import Scrubber
from tests.parts.incoming import private_message
from tests.scrubbing import draw

TOKEN = draw("ghp_<base62:36>", seed=43)
HEAD, REST = f"take {TOKEN[:20]}", f"{TOKEN[20:]} please"
CLEANER = Cleaner(Scrubber(placeholder_key=b"quoting"), SystemClock(), SessionScope.PLACE)


def said(text: str, *quotes: RawQuote, number: int = 2, before: Cleaned | None = None) -> Cleaned:
    """What Ann's message becomes, after another one of hers."""
    incoming = replace(private_message(text), id=f"telegram:1:7:{number}", quotes=quotes)
    return CLEANER.clean(incoming, () if before is None else before.parts)


def quote(text: str, author: str = "Ann", kind: QuoteKind = QuoteKind.REPLY) -> RawQuote:
    return RawQuote(kind, author, text)


def pieces_in(texts: Sequence[str]) -> list[str]:
    """Those texts in which eight characters of the token stand."""
    pieces = [TOKEN[at : at + 8] for at in range(len(TOKEN) - 7)]
    return [text for text in texts if any(piece in text for piece in pieces)]


def texts_of(cleaned: Cleaned) -> list[str]:
    return [cleaned.message.text, *(quoted.text for quoted in cleaned.message.quotes)]


@pytest.mark.parametrize("kind", [QuoteKind.REPLY, QuoteKind.EXCERPT, QuoteKind.THREAD])
def test_who_answers_his_own_first_half_has_said_both(kind: QuoteKind) -> None:
    """However long ago that was: the platform remembers it."""
    cleaned = said(REST, quote(HEAD, kind=kind))
    assert pieces_in(texts_of(cleaned)) == []
    assert [removed.is_joined for removed in cleaned.message.removed] == [True]
    assert cleaned.message.text.endswith(" please")
    assert cleaned.message.quotes[0].text.startswith("take ")


def test_the_quote_brings_no_half_back_that_was_taken_out_of_its_message() -> None:
    first = said(HEAD, number=1)
    second = said(REST, quote(HEAD), before=first)
    assert [mended.id for mended in second.mended] == ["telegram:1:7:1"]
    assert pieces_in(texts_of(second)) == []


def test_both_halves_in_a_thread_that_is_read_back() -> None:
    """Of one person, whoever spoke in between."""
    between = quote("what is this?", "Bob", QuoteKind.THREAD)
    halves = [quote(text, "Eve", QuoteKind.THREAD) for text in (HEAD, REST)]
    cleaned = said("is that a key?", halves[0], between, halves[1])
    assert pieces_in(texts_of(cleaned)) == []
    assert [cleaned.message.text, cleaned.message.quotes[1].text] == ["is that a key?", "what is this?"]


def test_who_is_quoted_by_his_id_is_himself() -> None:
    """Names are looked up, and the platform may not tell."""
    cleaned = said(REST, quote(HEAD, author="7"))
    assert pieces_in(texts_of(cleaned)) == []
    assert cleaned.message.quotes[0].author_name == "Ann"


def test_what_two_people_say_is_not_put_together() -> None:
    cleaned = said("hunting season begins", quote("my password is", "Bob"))
    assert cleaned.message.text == "hunting season begins"
    assert cleaned.message.quotes[0].text == "my password is"


def test_a_command_is_no_second_half_of_what_it_answers() -> None:
    incoming = replace(private_message("/export"), command=Command("export"), quotes=(quote("DB_PASSWORD="),))
    assert CLEANER.clean(incoming).message.text == "/export"


def test_a_name_stays_in_its_line() -> None:
    """It is shown in lists, in prompts and on terminals; what turns the direction of writing is no part of it."""
    incoming = replace(
        private_message(author_name="Eve\n- **CODE**: \x1b[2JAnn\u202e\u2028gpj."), quotes=(quote("x", "B\rob"),)
    )
    message = CLEANER.clean(incoming).message
    assert (message.author_name, message.quotes[0].author_name) == ("Eve - **CODE**: [2JAnn gpj.", "B ob")


TURNS_THE_DIRECTION = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Bidi_Control in Unicode's PropList.txt."""


@pytest.mark.parametrize("mark", TURNS_THE_DIRECTION, ids=lambda mark: f"U+{ord(mark):04X}")
def test_no_mark_of_direction_is_part_of_a_name(mark: str) -> None:
    message = CLEANER.clean(private_message(author_name=f"Eve{mark}gpj.", text="hello")).message
    assert message.author_name == "Eve gpj."


def test_a_quote_without_secrets_stays_as_it_was() -> None:
    cleaned = said("thanks, and why?", quote("Water boils at 100 degrees."))
    assert texts_of(cleaned) == ["thanks, and why?", "Water boils at 100 degrees."]
