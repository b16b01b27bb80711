"""Tokens of programs: who each belongs to, and to whom it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.clients import BadClientName, client_of, new_client, signature, token_of
from gateway.contracts.ids import SessionKey
from gateway.scrub import Scrubber

KEY = "the key of this installation"


def test_a_token_names_its_client() -> None:
    client = new_client("shop")
    assert client.channel == "api"
    assert client.user.startswith("shop-")
    assert client_of(KEY, token_of(KEY, client)) == client


def test_no_name_is_given_twice() -> None:
    assert len({new_client("shop") for _ in range(50)}) > 45


def test_another_installation_and_another_client_have_other_tokens() -> None:
    client = new_client("shop")
    token = token_of(KEY, client)
    assert client_of("another key", token) is None
    assert client_of(KEY, token.replace(client.user, "shop-000000")) is None


@given(st.text(max_size=120))
def test_no_other_text_is_a_token(text: str) -> None:
    assert client_of(KEY, text) is None
    assert client_of(KEY, f"trivet_client_token_{text}") is None


@pytest.mark.parametrize("name", ["", "Shop", "1shop", "a/b", "a:b", "a-b", "x" * 33])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(BadClientName, match="lower case"):
        new_client(name)


def test_a_token_in_a_chat_is_a_secret() -> None:
    token = token_of(KEY, SessionKey("api", "shop-0a1b2c"))
    assert token[:60] not in Scrubber().scrub(f"here it is: {token}")


def test_a_signature_covers_time_and_body() -> None:
    signed = {signature("token", body, at_s) for body in (b"a", b"b") for at_s in (1, 2)}
    assert len(signed) == 4
    assert signature("token", b"a", 1).startswith("t=1,v1=")
