"""Programs that talk to the agent over HTTP: their names, their tokens, and the signature on what is sent to them.

A token proves a client's name by a signature of this installation: every process that knows the key recognises it, and
none of them keeps it. What a client may do is its role (`AccessService`): a client that was removed has none, and no
other one is ever given its name. Standard library only."""

from __future__ import annotations

import hmac
import re
import secrets
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Final

from gateway.contracts.errors import Declined
from gateway.contracts.ids import SessionKey

CHANNEL: Final = "api"
NAME_CHARS_MAX: Final = 32
_NAME: Final = re.compile(rf"[a-z][a-z0-9_]{{0,{NAME_CHARS_MAX - 1}}}")
_FACE: Final = "trivet_client_token_"
_TOKEN: Final = re.compile(rf"{_FACE}[A-Za-z0-9_-]{{43}}\.([a-z][a-z0-9_]*-[0-9a-f]{{6}})")
_SERIAL_BYTES: Final = 3


class BadClientName(Declined):
    """A name that no client can have."""


def new_client(name: str) -> SessionKey:
    """Return the key of a new client, `api:<name>-<six hexadecimal digits>`. Raises `BadClientName`."""
    if not _NAME.fullmatch(name):
        raise BadClientName(
            "a client's name is lower case letters, digits and underscores, begins with a letter and has at most "
            "{most} of them",
            most=NAME_CHARS_MAX,
        )
    return SessionKey(CHANNEL, f"{name}-{secrets.token_hex(_SERIAL_BYTES)}")


def token_of(key: str, client: SessionKey) -> str:
    """Return the token of a client, always the same."""
    mac = hmac.digest(key.encode(), f"token {client.user}".encode(), sha256)
    return f"{_FACE}{urlsafe_b64encode(mac).decode().rstrip('=')}.{client.user}"


def client_of(key: str, token: str) -> SessionKey | None:
    """Return the client whose token this is; None for any other text."""
    found = _TOKEN.fullmatch(token)
    if found is None:
        return None
    client = SessionKey(CHANNEL, found[1])
    return client if hmac.compare_digest(token_of(key, client), token) else None


def signature(token: str, body: bytes, at_s: int) -> str:
    """Sign what is sent to a client's webhook, `t=<unix seconds>,v1=<hexadecimal HMAC-SHA-256 of "<t>.<body>">`, with
    the client's own token, which it knows."""
    signed = hmac.new(token.encode(), b"%d." % at_s + body, sha256).hexdigest()
    return f"t={at_s},v1={signed}"
