"""Who may call us: Slack's and Discord's signatures, Telegram's secret."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from channels.core.adapter import CallSignature, WebhookCall
from channels.discord import interactions as discord
from channels.slack import client as slack
from channels.telegram.connection import secret_of

NOW_S = 1_790_000_000
SECRET = "0123456789abcdef0123456789abcdef"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC_KEY = KEY.public_key().public_bytes_raw().hex()

bodies = st.binary(max_size=64)
anything = st.text(max_size=160)


def by_slack(body: bytes, timestamp: str = str(NOW_S), secret: str = SECRET) -> str:
    return "v0=" + hmac.new(secret.encode(), b"v0:" + timestamp.encode() + b":" + body, hashlib.sha256).hexdigest()


def by_discord(body: bytes, timestamp: str = str(NOW_S)) -> str:
    return KEY.sign(timestamp.encode() + body).hex()


def is_signed(by: CallSignature, body: bytes, signature: str, timestamp: str) -> bool:
    async def read() -> bytes:
        return body

    call = WebhookCall({by.time_header: timestamp, by.header: signature}, read)
    return asyncio.run(by.body_of(call, NOW_S)) is not None


def is_slacks(body: bytes, signature: str, timestamp: str = str(NOW_S)) -> bool:
    return is_signed(slack.signature_by(SECRET), body, signature, timestamp)


def is_discords(body: bytes, signature: str, timestamp: str = str(NOW_S), key: str = PUBLIC_KEY) -> bool:
    return is_signed(discord.signature_by(key), body, signature, timestamp)


@given(bodies)
def test_what_was_signed_is_taken(body: bytes) -> None:
    assert is_slacks(body, by_slack(body))
    assert is_discords(body, by_discord(body))


@given(bodies, bodies)
def test_another_body_is_not(body: bytes, other: bytes) -> None:
    if body != other:
        assert not is_slacks(other, by_slack(body))
        assert not is_discords(other, by_discord(body))


@given(bodies, anything, anything)
def test_nothing_that_a_header_may_hold_raises_or_passes(body: bytes, signature: str, timestamp: str) -> None:
    assert not is_slacks(body, signature, timestamp)
    assert not is_discords(body, signature, timestamp)


@pytest.mark.parametrize("signature", ["\udcff", "v0=\udcff", "ü" * 67, ""])
def test_bytes_that_are_no_text_are_no_signature(signature: str) -> None:
    """A server passes on what it cannot decode as half characters."""
    assert not is_slacks(b"{}", signature)
    assert not is_discords(b"{}", signature)


@pytest.mark.parametrize("age_s", [-301, 301, 100_000])
def test_a_signature_of_another_time_is_a_replay(age_s: int) -> None:
    timestamp = str(NOW_S - age_s)
    assert not is_slacks(b"{}", by_slack(b"{}", timestamp), timestamp)
    assert not is_discords(b"{}", by_discord(b"{}", timestamp), timestamp)


@pytest.mark.parametrize("timestamp", ["", "now", "1e9", "-1790000000", f"{NOW_S}.5", "１７９０００００００", "9" * 40])
def test_a_timestamp_that_is_no_number_is_refused(timestamp: str) -> None:
    assert not is_slacks(b"{}", by_slack(b"{}", timestamp), timestamp)
    assert not is_discords(b"{}", by_discord(b"{}", timestamp), timestamp)


def test_a_secret_or_key_of_another_app_does_not_open() -> None:
    assert not is_slacks(b"{}", by_slack(b"{}", secret="another"))
    assert not is_discords(
        b"{}", by_discord(b"{}"), key=Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    )
    assert not is_discords(b"{}", by_discord(b"{}"), key="zz")


def test_the_secret_of_a_webhook_is_the_same_everywhere_and_tells_nothing() -> None:
    """Made of the token, so that every process knows it; Telegram takes A-Z a-z 0-9 _ - and up to 256 of them."""
    secret = secret_of("4242001:token")
    assert secret == secret_of("4242001:token") != secret_of("4242001:another")
    assert re.fullmatch(r"[A-Za-z0-9_-]{32,256}", secret)
    assert "4242001" not in secret
