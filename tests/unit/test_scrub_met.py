"""What was found once is hidden again: later in a text, in other spellings, in the later messages of its chat."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from urllib.parse import quote

import pytest

from gateway.limits import MET_SECRETS_CHATS_MAX, MET_SECRETS_MAX, MET_SECRETS_TTL_S
from gateway.scrub import Scrubber
from gateway.scrub.known import MetInChat, MetSecrets
from tests.scrubbing import draw

PASSWORD = "Trick#07x!z"
SPELLINGS = (
    PASSWORD,
    quote(PASSWORD, safe=""),
    base64.b64encode(PASSWORD.encode()).decode(),
    PASSWORD.encode().hex(),
    f'"{PASSWORD}"',
    f"x={PASSWORD}&y=2",
    f"ann:{PASSWORD}@host",
)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def shown(text: str) -> str:
    return re.sub(r"\[redacted:[^\]]*\]", "…", text)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_value_is_gone_later_in_the_text(spelling: str) -> None:
    text = f"my password is {PASSWORD} ok\nand then the log said {spelling} twice: {spelling}"
    clean = shown(Scrubber().scrub(text))
    assert PASSWORD not in clean
    assert spelling.rstrip("=") not in clean
    stream = Scrubber().stream()
    assert shown("".join(map(stream.feed, text)) + stream.flush()) == clean


def test_a_token_is_gone_in_base64_as_well() -> None:
    token = draw("ghp_<base62:36>", seed=1)
    encoded = base64.b64encode(f"user {token}".encode()).decode()
    assert encoded[12:40] not in Scrubber().scrub(f"{token}\n{encoded}")


def test_a_value_that_begins_as_another_is_met_in_a_stream_as_in_the_whole_text() -> None:
    text = (
        "password: kestrel77Brook\npassword: kestrel77Brook;x9\ntoday kestrel77Brook;x9 opened, kestrel77Brook did not"
    )
    stream = Scrubber(placeholder_key=b"met").stream()
    assert "".join(map(stream.feed, text)) + stream.flush() == Scrubber(placeholder_key=b"met").scrub(text)


def test_what_is_glued_to_a_value_that_is_met_again_is_looked_at_anew() -> None:
    token = draw("npm_<base62:36>", seed=2)
    scrubber = Scrubber()
    clean = scrubber.for_chat("a").scrub(f"my password is {PASSWORD}7 ok\nit said {PASSWORD}7{token} twice")
    assert shown(clean).endswith("ok\nit said …… twice")
    assert shown(scrubber.for_chat("a").scrub(f"again {PASSWORD}7{token}")) == "again ……"


def test_an_ordinary_word_is_not_looked_for_again() -> None:
    assert shown(Scrubber().scrub('password: "winter" and in winter it snows')).endswith(" and in winter it snows")


def test_no_more_values_are_looked_for_than_the_limit_says() -> None:
    values = [draw(f"<base62:12>x{at}", seed=at) for at in range(MET_SECRETS_MAX + 1)]
    text = "".join(f"password: {value}\n" for value in values)
    clean = Scrubber().scrub(f"{text}once more {values[0]} and {values[-1]}")
    assert values[0] not in clean
    assert values[-1] in clean


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_value_is_gone_in_a_later_message_of_its_chat_alone(spelling: str) -> None:
    scrubber = Scrubber()
    scrubber.for_chat("a").scrub(f"my password is {PASSWORD} ok")
    assert spelling.rstrip("=") not in scrubber.for_chat("a").scrub(f"it says {spelling} here")
    assert spelling in scrubber.for_chat("b").scrub(f"it says {spelling} here")
    assert spelling in scrubber.scrub(f"it says {spelling} here")


def test_a_later_message_says_in_a_stream_what_it_says_whole() -> None:
    scrubber = Scrubber()
    scrubber.for_chat("a").scrub(f"my password is {PASSWORD} ok")
    text = f"it says {PASSWORD}, and x={PASSWORD}&y"
    stream = scrubber.for_chat("a").stream()
    assert "".join(map(stream.feed, text)) + stream.flush() == scrubber.for_chat("a").scrub(text)


def test_the_memory_of_a_chat_holds_no_value_and_ends() -> None:
    clock = Clock()
    met = MetSecrets(b"key", clock)
    met.of("a").add(PASSWORD, "named")
    assert PASSWORD not in repr(met.of("a")._met)
    assert met.of("a").spans(f"say {PASSWORD}!", (0, 20)) != []
    clock.now_s = MET_SECRETS_TTL_S + 1
    assert met.of("a").spans(f"say {PASSWORD}!", (0, 20)) == []


def test_the_memory_is_bounded_in_chats_and_in_values() -> None:
    met = MetSecrets(b"key", time.monotonic)
    met.of("first").add(PASSWORD, "named")
    for at in range(MET_SECRETS_MAX):
        met.of("second").add(draw(f"<base62:12>x{at}", seed=at), "named")
    assert len(met.of("second")._met) <= MET_SECRETS_MAX
    for at in range(MET_SECRETS_CHATS_MAX):
        met.of(f"chat {at}")
    assert met.of("first").spans(PASSWORD, (0, len(PASSWORD))) == []


# --- what processes tell each other


def told(here: MetSecrets, there: MetSecrets, *, of: str = "a", to: str = "a") -> MetInChat:
    """Tell one process what another has found; what it knows of the chat then."""
    there.of(to).learn(here.of(of).unshared())
    return there.of(to)


def found(key: bytes = b"key") -> MetSecrets:
    """A process that has found the password in a chat."""
    met = MetSecrets(key, time.monotonic)
    met.of("a").add(PASSWORD, "named/password")
    return met


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_another_process_of_the_installation_finds_what_it_was_told(spelling: str) -> None:
    one, other = (Scrubber(placeholder_key=b"installation") for _ in range(2))
    clean = one.for_chat("a").scrub(f"my password is {PASSWORD} ok")
    assert spelling in other.for_chat("a").scrub(f"it says {spelling} here")
    other.met_by_chat.of("a").learn(one.met_by_chat.of("a").unshared())
    again = other.for_chat("a").scrub(f"it says {spelling} here")
    assert spelling.rstrip("=") not in again
    if spelling == PASSWORD:
        assert again.split()[2] == clean.split()[3]


def test_no_other_chat_and_no_other_installation_can_use_it() -> None:
    said = f"say {PASSWORD}!"
    assert told(found(), MetSecrets(b"key", time.monotonic)).spans(said, (0, len(said)))
    assert not told(found(), MetSecrets(b"key", time.monotonic), to="b").spans(said, (0, len(said)))
    assert not told(found(), MetSecrets(b"another", time.monotonic)).spans(said, (0, len(said)))


def test_what_is_told_says_nothing_without_the_key() -> None:
    """Not the value, and no hash that anybody could make of a guess; nor can two chats be compared."""
    rows = b"".join(found().of("a").unshared())
    forms = [PASSWORD.encode(), PASSWORD.encode().hex().encode(), base64.b64encode(PASSWORD.encode())]
    assert not any(form[:6] in rows for form in forms)
    for name in hashlib.algorithms_guaranteed - {"shake_128", "shake_256"}:
        assert not any(hashlib.new(name, form).digest()[:8] in rows for form in forms)
    elsewhere = MetSecrets(b"key", time.monotonic).of("b")
    elsewhere.add(PASSWORD, "named/password")
    assert not {row[:18] for row in found().of("a").unshared()} & {row[:18] for row in elsewhere.unshared()}


def test_each_is_told_once_and_again_when_it_is_met_again() -> None:
    met = found().of("a")
    rows = met.unshared()
    assert rows
    met.shared(rows)
    assert met.unshared() == ()
    met.add(PASSWORD, "named/password")
    assert met.unshared() == rows


def test_what_was_learned_and_what_every_process_knows_is_not_told() -> None:
    assert told(found(), MetSecrets(b"key", time.monotonic)).unshared() == ()
    ours = Scrubber([PASSWORD])
    assert PASSWORD not in ours.for_chat("a").scrub(f"say {PASSWORD}!")
    assert ours.met_by_chat.of("a").unshared() == ()


def test_what_is_learned_is_bounded_and_ends() -> None:
    clock = Clock()
    met = MetSecrets(b"key", clock).of("a")
    met.learn([number.to_bytes(18) + b"named" for number in range(MET_SECRETS_MAX + 5)])
    assert len(met._met) == MET_SECRETS_MAX
    clock.now_s = MET_SECRETS_TTL_S + 1
    assert met.spans(PASSWORD, (0, len(PASSWORD))) == []
    assert not met


@pytest.mark.parametrize(
    "example",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "sk-abcdefghijklmnopqrstuvwxyz012345",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ],
)
def test_a_key_of_documentation_stays_in_documents_and_goes_from_what_a_person_sends(example: str) -> None:
    text = f"Use {example} here."
    assert Scrubber().scrub(text) == text
    assert shown(Scrubber().for_person().scrub(text)) == "Use … here."
