"""What was found once is hidden again: later in the text, in other spellings, and in the later messages of its chat.

In one text the values themselves are remembered, as long as it is read. From message to message only their keyed
hashes are, for some hours, in memory: whoever reads that learns nothing.
"""

from __future__ import annotations

import base64
import hmac
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from gateway.limits import MET_SECRETS_CHATS_MAX, MET_SECRETS_MAX, MET_SECRETS_TTL_S
from gateway.scrub.known import in_base64
from gateway.scrub.placeholder import PLACEHOLDER
from gateway.scrub.rules import SecretSpan

VALUE_CHARS_MIN: Final = 8
VALUE_CHARS_MAX: Final = 256
_DIGEST_BYTES: Final = 16
_RUN: Final = re.compile(rf"[!-~]{{{VALUE_CHARS_MIN},}}")
_STAYS_ENCODED: Final = frozenset("\\%`'<>")
"""Of what is percent-encoded, the view leaves these as they are."""

_EDGE: Final = re.compile(r"[^A-Za-z0-9]")
_RUN_CHARS_MAX: Final = 2_048
"""Of a longer run only the beginning is compared with the hashes."""


def is_worth_meeting(value: str) -> bool:
    """Tell whether a value is no word that a text may hold by chance, and stands in one unit of the text (view.py)."""
    return (
        VALUE_CHARS_MIN <= len(value) <= VALUE_CHARS_MAX
        and value.isascii()
        and not value.isalpha()
        and not value.isdigit()
        and value.isprintable()
        and " " not in value
        and not PLACEHOLDER.search(value)
    )


def _spellings(value: str) -> set[str]:
    """Return how a value may be written again, each as the view shows it."""
    percent = "".join(f"%{ord(char):02X}" if char in _STAYS_ENCODED else char for char in value)
    return {value, percent, value.replace("\\", "\\\\").replace('"', '\\"'), value.encode().hex()}


class FoundValues:
    """The values that one text has shown so far: the first of them, in the order of the text."""

    __slots__ = ("_forms", "_values")

    def __init__(self) -> None:
        self._forms: dict[str, str] = {}
        self._values: set[str] = set()

    def add(self, value: str, rule: str) -> FoundValues | None:
        """Remember a value that `rule` found; return what is to be looked for on its account, None if nothing new."""
        if value in self._values or len(self._values) >= MET_SECRETS_MAX or not is_worth_meeting(value):
            return None
        self._values.add(value)
        added = FoundValues()
        added._forms = dict.fromkeys((*_spellings(value), *in_base64(value.encode())), rule)
        self._forms |= added._forms
        return added

    def spans(self, text: str, start: int, end: int) -> list[SecretSpan]:
        """Return every place of every value in `text[start:end]`, in order, none overlapping another."""
        if not self._forms:
            return []
        found: list[SecretSpan] = []
        for form, rule in self._forms.items():
            at = text.find(form, start, end)
            while at >= 0:
                found.append(SecretSpan(at, at + len(form), rule))
                at = text.find(form, at + len(form), end)
        found.sort(key=lambda span: (span.start, -span.end))
        return [span for place, span in enumerate(found) if not place or span.start >= found[place - 1].end]


class MetSecrets:
    """The hashes of what was found in each chat, for `MET_SECRETS_TTL_S` after it was last met. In memory only."""

    def __init__(self, key: bytes, now_s: Callable[[], float] = time.monotonic) -> None:
        self._key = key
        self._now_s = now_s
        self._chats: OrderedDict[str, MetInChat] = OrderedDict()

    def of(self, chat: str) -> MetInChat:
        """Return what was met in one chat, a session key's text."""
        met = self._chats.get(chat)
        if met is None:
            of_chat = MetInChat(hmac.digest(self._key, chat.encode(), "sha256"), self._now_s)
            met = self._chats.setdefault(chat, of_chat)
        self._chats.move_to_end(chat)
        while len(self._chats) > MET_SECRETS_CHATS_MAX:
            self._chats.popitem(last=False)
        return met


class MetInChat:
    """The hashes of one chat, by the length of what they were made of."""

    __slots__ = ("_key", "_met", "_now_s")

    def __init__(self, key: bytes, now_s: Callable[[], float]) -> None:
        self._key = key
        self._now_s = now_s
        self._met: OrderedDict[tuple[int, bytes], tuple[str, float]] = OrderedDict()

    def add(self, value: str, rule: str) -> None:
        """Remember a value that `rule` found, in the spellings that can be told from their neighbours."""
        if not is_worth_meeting(value):
            return
        encoded = base64.b64encode(value.encode()).decode().rstrip("=")
        until_s = self._now_s() + MET_SECRETS_TTL_S
        for form in {*_spellings(value), encoded, encoded.translate(_TO_URL)}:
            self._met[len(form), self._digest(form)] = rule, until_s
            self._met.move_to_end((len(form), self._digest(form)))
        while len(self._met) > MET_SECRETS_MAX:
            self._met.popitem(last=False)

    def spans(self, text: str, start: int, end: int) -> list[SecretSpan]:
        """Return the places in `text[start:end]` where one stands between signs, in order, none overlapping another."""
        now_s = self._now_s()
        while self._met and next(iter(self._met.values()))[1] <= now_s:
            self._met.popitem(last=False)
        if not self._met:
            return []
        lengths = sorted({length for length, _ in list(self._met)}, reverse=True)
        return [span for run in _RUN.finditer(text, start, end) for span in self._in_run(text, *run.span(), lengths)]

    def _in_run(self, text: str, start: int, end: int, lengths: list[int]) -> Iterator[SecretSpan]:
        end = min(end, start + _RUN_CHARS_MAX)
        edges = {start, end}
        for sign in _EDGE.finditer(text, start, end):
            edges |= {sign.start(), sign.end()}
        done = start
        for at in sorted(edges):
            for length in lengths:
                if at < done or at + length not in edges:
                    continue
                met = self._met.get((length, self._digest(text[at : at + length])))
                if met is not None:
                    done = at + length
                    yield SecretSpan(at, done, met[0])

    def _digest(self, form: str) -> bytes:
        return hmac.digest(self._key, form.encode(), "sha256")[:_DIGEST_BYTES]


_TO_URL: Final = str.maketrans("+/", "-_")
