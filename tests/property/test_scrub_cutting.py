"""Raw texts that are cut before they are scrubbed: wherever the cut goes through a secret, no half of it stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.limits import TOOL_OUTPUT_BYTES_MAX
from agent.tools.exec.sandbox import Output
from gateway.scrub import scrub
from gateway.scrub.raw_text import EDGE_CHARS_MAX, head, without_broken_end, without_broken_start
from tests.scrubbing import draw

TOKEN = draw("ghp_<base62:36>", seed=31)
PIECE_CHARS = 12
"""No piece of a secret of this size may be left."""

KEY = draw("-----BEGIN PRIVATE KEY-----\n<base64:64>\n<base64:64>\n<base64:40>\n-----END PRIVATE KEY-----", seed=32)
TEXTS = {
    "a token in a sentence": f"the key is {TOKEN} and it works",
    "a token in quotes": f'{{"key": "{TOKEN}", "other": 1}}',
    "a token behind Chinese": f"密钥是{TOKEN}。谢谢",
    "a token that was wrapped": f"key: {TOKEN[:20]}\\\n    {TOKEN[20:]} and so on",
    "a token that was wrapped in a quotation": f"> key: {TOKEN[:20]}\n> {TOKEN[20:]}\n> and so on",
    "a wrapped token with an invisible character": f"key: {TOKEN[:9]}\u200b{TOKEN[9:20]}\n{TOKEN[20:]} and so on",
    "a wrapped token behind Russian": f"ключ:{TOKEN[:20]}\n{TOKEN[20:]} и всё",
    "a key file": f"here it is:\n{KEY}\nthat is all",
}
SECRETS = [TOKEN, *KEY.splitlines()[1:-1]]


def pieces_left(clean: str) -> list[str]:
    """Pieces of a secret that can still be read."""
    return [
        secret[at : at + PIECE_CHARS]
        for secret in SECRETS
        for at in range(len(secret) - PIECE_CHARS + 1)
        if secret[at : at + PIECE_CHARS] in clean
    ]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_head_has_no_half_of_a_secret_wherever_it_ends(text: str) -> None:
    unseen = pieces_left(scrub(text))
    for chars_max in range(len(text)):
        assert set(pieces_left(scrub(head(text, chars_max)))) <= set(unseen), chars_max


@pytest.mark.parametrize("name", [name for name in TEXTS if "wrapped" not in name])
def test_a_tail_has_no_half_of_a_secret_wherever_it_begins(name: str) -> None:
    text = TEXTS[name]
    for start in range(1, len(text)):
        assert pieces_left(scrub(without_broken_start(text[start:]))) == [], start


@given(st.text(max_size=200), st.integers(0, 250))
def test_a_head_is_a_beginning_within_its_bound_and_all_of_what_is_short(text: str, chars_max: int) -> None:
    found = head(text, chars_max)
    assert text.startswith(found)
    assert len(found) <= chars_max
    assert found == text or len(text) > chars_max


def test_a_page_without_spaces_loses_its_edge_only() -> None:
    assert len(without_broken_end("x" * 10_000)) == 10_000 - EDGE_CHARS_MAX
    assert len(without_broken_start("x" * 10_000)) == 10_000 - EDGE_CHARS_MAX


def of_output(text: str) -> str:
    output = Output()
    output.add(text.encode())
    return output.text()


@pytest.mark.parametrize("place", [lambda half: half - 20, lambda half: half + 1_000])
def test_what_a_program_prints_too_much_of_has_no_half_of_a_secret(place: Callable[[int], int]) -> None:
    half = TOOL_OUTPUT_BYTES_MAX // 2
    filler = "some words\n" * half
    text = f"{filler[: place(half)]} {TOKEN} {filler}{TOKEN} {filler[: half - 20]}"
    assert pieces_left(scrub(of_output(text))) == []


def test_a_page_without_spaces_is_cut_in_linear_work() -> None:
    """One look at its edge: to try at every character would take minutes."""
    page = "x" * 4_000_000
    assert without_broken_end(page) == page[:-EDGE_CHARS_MAX]
