"""Which files are looked through for secrets: whatever people can read as text, however its letters are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.scrub import Scrubber
from gateway.scrub.raw_text import decoded, is_text
from gateway.scrub.scrubber import without_secrets
from tests.scrubbing import draw

TOKEN = draw("ghp_<base62:36>", seed=47)
ENCODINGS = ("utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32")
LETTERS = st.characters(exclude_categories=["Cc", "Cs"])


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_secrets_are_found_in_every_encoding_of_a_text(encoding: str) -> None:
    """Also in those that Windows writes; all else in the file stays as it was, and so does its encoding."""
    before, after = "A key to keep: ", "\r\nThe end.\r\n"
    content = f"{before}{TOKEN}{after}".encode(encoding)
    assert is_text(content)
    clean = await without_secrets(content, Scrubber(placeholder_key=b"readable"))
    assert clean is not None
    text = clean.decode(encoding)
    assert TOKEN[:12] not in text
    assert text.startswith(f"{before}[redacted:")
    assert text.endswith(after)


@given(st.text(LETTERS), st.sampled_from(ENCODINGS[:1] + ENCODINGS[3:]))
def test_a_text_is_the_same_when_it_is_encoded_again(text: str, encoding: str) -> None:
    content = text.encode(encoding)
    if is_text(content):
        read, known_as = decoded(content)
        assert read.encode(known_as) == content


@given(st.binary())
def test_nothing_is_lost_of_what_only_looks_like_text(content: bytes) -> None:
    if is_text(content):
        read, encoding = decoded(content)
        assert read.encode(encoding) == content


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\x00", b"PK\x03\x04", b"\xff\xfe\x00", b"a\x00\x01\x00" * 20])
def test_what_nobody_reads_is_no_text(content: bytes) -> None:
    assert not is_text(content)
