"""Our own secrets are found in every form, every mixture of forms, and however the text arrives: all of them."""

from __future__ import annotations

import base64
import html
import json
import random
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.scrub import Scrubber
from tests.scrubbing import draw
from tests.scrubbing.work import attempts_of

VALUES = (
    draw("<base62:32>", seed=1),
    draw("<base64:44>", seed=2),
    draw("<letters:4>-<hex:8>.<digits:6>~<base64url:9>", seed=3),
    draw("<letters:4>@<base62:3>/<base62:3>:<base62:3>#<base62:4>", seed=4),
    'p@ss "w/ö\\rd" 7 &x=1',
    "correct horse battery staple",
    "пароль-Ключ-2024",
)
SCRUBBER = Scrubber(VALUES, placeholder_key=b"known")
BREAKS = ("\n", "\r\n", "\n    ", "\\\n", "=\n> ")

SPELLINGS: tuple[Callable[[str], str], ...] = (
    str,
    str,
    lambda char: json.dumps(char)[1:-1],
    lambda char: json.dumps(json.dumps(char)[1:-1])[1:-1],
    lambda char: quote(char, safe=""),
    lambda char: quote(quote(char, safe=""), safe=""),
    lambda char: "".join(f"%{octet:02x}" for octet in char.encode()),
    lambda char: "".join(f"\\u{unit:04X}" for unit in char.encode("utf-16-be")[1::2]) if char < "\x7f" else char,
    lambda char: f"&#{ord(char)};",
    lambda char: f"&#x{ord(char):x};",
    html.escape,
    lambda char: f"{char}\u200b",
    lambda char: f"\x1b[1m{char}",
)


def in_pieces(text: str, rng: random.Random) -> str:
    stream = SCRUBBER.stream()
    clean = ""
    while text:
        size = rng.randint(1, 9)
        clean += stream.feed(text[:size])
        text = text[size:]
    return clean + stream.flush()


def check(form: str, rng: random.Random) -> None:
    for text in (f"<<{form}>>", f"see {form} there", form, f"x://u:{form}@h"):
        clean = SCRUBBER.scrub(text)
        assert clean.count("[redacted:") == 1, text
        assert "[redacted:known#" in clean, text
        assert len(clean) - clean.index("]") + clean.index("[redacted:") <= len(text) - len(form) + 6, clean
        assert in_pieces(text, rng) == clean


@settings(max_examples=150)
@given(st.sampled_from(VALUES), st.randoms(use_true_random=False))
def test_any_mixture_of_spellings(value: str, rng: random.Random) -> None:
    if "\\" in value:  # before a sign it is an escape itself, whatever the sign is spelled like
        spelling = rng.choice(SPELLINGS)
        check("".join(map(spelling, value)), rng)
    else:
        check("".join(rng.choice(SPELLINGS)(char) for char in value), rng)


@settings(max_examples=60)
@given(st.sampled_from(VALUES), st.sampled_from(BREAKS), st.randoms(use_true_random=False))
def test_a_line_break_anywhere(value: str, line_break: str, rng: random.Random) -> None:
    # Beside a backslash of its own, that of the break cannot be told from it.
    at = rng.choice([at for at in range(1, len(value)) if "\\" not in value[at - 1 : at + 1]])
    check(value[:at] + line_break + value[at:], rng)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("lead", ["", "a", "ab"])
def test_base64_at_every_position(value: str, lead: str) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        encoded = encode(f"{lead}{value}, and more of it".encode()).decode()
        clean = SCRUBBER.scrub(f"see {encoded} there")
        assert "[redacted:" in clean
        assert in_pieces(f"see {encoded} there", random.Random(1)) == clean
        inside = encoded[4 : 4 + len(value)]
        assert not any(inside[at : at + 12] in clean for at in range(len(inside) - 11))


@pytest.mark.parametrize("value", VALUES)
def test_hex_in_either_case(value: str) -> None:
    for form in (value.encode().hex(), value.encode().hex().upper()):
        check(form, random.Random(2))


def test_a_long_row_of_them_is_linear_work() -> None:
    text = f"{VALUES[0]} {VALUES[5]}\n" * 4_000
    assert SCRUBBER.scrub(text).count("[redacted:known#") == 8_000
    assert attempts_of(SCRUBBER.machine(), text) <= len(text)
