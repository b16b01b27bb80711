"""What is quoted is as clean as what is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from channels.core.message import RawQuote
from channels.core.sanitize import Sanitizer
from gateway.clock import SystemClock
from gateway.contracts.ids import SessionScope
from gateway.contracts.messages import InboundMessage, QuoteKind
from gateway.scrub import Scrubber
from tests.parts.incoming import private_message
from tests.scrubbing import draw

TOKEN = draw("ghp_<base62:36>", seed=43)
CLEANER = Sanitizer(Scrubber(placeholder_key=b"quoting"), SystemClock(), SessionScope.PLACE)


def said(text: str, *quotes: RawQuote) -> InboundMessage:
    """Clean Ann's message with what came along with it."""
    return CLEANER.clean(replace(private_message(text), quotes=quotes))


def quote(text: str, author: str = "Ann", kind: QuoteKind = QuoteKind.REPLY) -> RawQuote:
    return RawQuote(kind, author, text)


def test_a_secret_in_a_quote_goes() -> None:
    message = said("is that a key?", quote(f"take {TOKEN} please", "Bob"))
    assert TOKEN not in message.quotes[0].text
    assert message.quotes[0].text.startswith("take ")


def test_who_is_quoted_by_an_id_is_shown_by_name() -> None:
    """Names are looked up, and the platform may not tell."""
    assert said("yes", quote("really?", author="7")).quotes[0].author_name == "Ann"


def test_what_two_people_say_is_not_put_together() -> None:
    message = said("hunting season begins", quote("my password is", "Bob"))
    assert message.text == "hunting season begins"
    assert message.quotes[0].text == "my password is"


def test_a_name_stays_in_its_line() -> None:
    """It is shown in lists, in prompts and on terminals; what turns the direction of writing is no part of it."""
    incoming = replace(
        private_message(author_name="Eve\n- **CODE**: \x1b[2JAnn\u202e\u2028gpj."), quotes=(quote("x", "B\rob"),)
    )
    message = CLEANER.clean(incoming)
    assert (message.author_name, message.quotes[0].author_name) == ("Eve - **CODE**: [2JAnn gpj.", "B ob")


TURNS_THE_DIRECTION = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Bidi_Control in Unicode's PropList.txt."""


@pytest.mark.parametrize("mark", TURNS_THE_DIRECTION, ids=lambda mark: f"U+{ord(mark):04X}")
def test_no_mark_of_direction_is_part_of_a_name(mark: str) -> None:
    message = CLEANER.clean(private_message(author_name=f"Eve{mark}gpj.", text="hello"))
    assert message.author_name == "Eve gpj."


def test_a_quote_without_secrets_stays_as_it_was() -> None:
    message = said("thanks, and why?", quote("Water boils at 100 degrees."))
    assert [message.text, message.quotes[0].text] == ["thanks, and why?", "Water boils at 100 degrees."]
