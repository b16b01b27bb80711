"""A private key whose lines carry marks: numbers, comment signs, names of containers, times."""

from __future__ import annotations

import itertools
import random

import pytest

from gateway.scrub import Scrubber, scrub
from tests.scrubbing import draw

ARMOUR = "-----BEGIN RSA PRIVATE KEY-----\n<base64:64>\n<base64:64>\n<base64:40>\n-----END RSA PRIVATE KEY-----"
KEY = draw(ARMOUR, seed=1)
MARKS = ["> ", "+ ", "| ", "# ", "// ", "12: ", "     3  ", "api-1  | ", "2026-01-01T00:00:00.123Z ", "-- ", " * "]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("line_end", ["\n", "\\n"])
def test_it_is_swallowed_whole_whatever_the_mark(mark: str, line_end: str) -> None:
    text = line_end.join(f"{mark}{line}" for line in (*KEY.split("\n"), "and the rest"))
    scrubber = Scrubber()
    clean = scrubber.scrub(text)
    assert not any(line[:12] in clean for line in KEY.split("\n")[1:-1])
    assert clean.endswith("and the rest")
    rng = random.Random(mark)
    for _ in range(20):
        cuts = (0, *sorted(rng.sample(range(len(text)), 8)), len(text))
        stream = scrubber.stream()
        pieces = [stream.feed(text[start:end]) for start, end in itertools.pairwise(cuts)]
        assert "".join((*pieces, stream.flush())) == clean


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("indent", ["", "    "])
def test_heads_in_front_of_it_are_a_part_of_it(mark: str, indent: str) -> None:
    """A key with a passphrase begins with them."""
    first, *body = KEY.split("\n")
    lines = (first, *(f"{indent}{line}" for line in ("Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,AA", "", *body)))
    clean = scrub("\n".join(f"{mark}{line}" for line in (*lines, "and the rest")))
    assert not any(line[:12] in clean for line in body[:-1])
    assert clean.endswith("and the rest")


@pytest.mark.parametrize("kind", ["PUBLIC KEY", "CERTIFICATE"])
def test_what_is_public_is_left_alone_with_marks_too(kind: str) -> None:
    text = "\n".join(f"# {line}" for line in KEY.replace("RSA PRIVATE KEY", kind).split("\n"))
    assert scrub(text) == text


def test_talk_about_the_armour_is_left_alone() -> None:
    text = "the file begins with\n-----BEGIN PRIVATE KEY-----\n# and then there are lines of base64, then an end\n"
    assert scrub(text) == text


def test_the_strings_below_its_end_need_no_mark() -> None:
    key = "\n".join(f"api-1  | {line}" for line in KEY.split("\n"))
    rows = [draw("<hex:32>", seed=seed) for seed in (1, 2)]
    below = "".join(f'\n  "{line}\\n",' for line in (*rows, "-----END OpenVPN Static key V1-----"))
    clean = scrub(f'say: {key}: ["-----BEGIN OpenVPN Static key V1-----\\n",{below}')
    assert not any(row in clean for row in rows)
    assert scrub(clean) == clean
