"""The vault's seal, what is worth keeping, and how what a tool says is rid of the secrets that it was given."""

from __future__ import annotations

import base64
import json
import textwrap
from dataclasses import replace
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import SealedSecret, SecretName
from gateway.scrub import Scrubber
from gateway.scrub.known import GRAM_CHARS, without_injected
from gateway.scrub.vault import SECRET_CHARS_MAX, Seal, Unreadable, worth_keeping
from tests.scrubbing import draw

NAME = SecretName(SessionKey.parse("telegram:1/-100"), SessionKey.parse("telegram:1"), "[redacted:github#a1b2c3]")
UNTIL_MS = 1_700_000_000_000
SEAL = Seal("a key of this installation, as text")
SECRET = draw("ghp_<base62:36>", seed=11)
OTHER = draw("glpat-<base64url:20>", seed=12)


def sealed(secret: str = SECRET) -> SealedSecret:
    return SEAL.sealed(NAME, secret, expires_at_ms=UNTIL_MS)


class TestSeal:
    @given(secret=st.text())
    def test_what_was_sealed_is_opened_under_the_same_key_name_and_time(self, secret: str) -> None:
        kept = sealed(secret)
        assert Seal("a key of this installation, as text").opened(kept) == secret
        assert secret.encode() not in kept.sealed or len(secret) < 4

    def test_equal_secrets_are_sealed_differently(self) -> None:
        assert sealed().sealed != sealed().sealed

    @given(at=st.integers(0, 27 + len(SECRET)), by=st.integers(1, 255))
    def test_a_single_bit_that_was_changed_makes_it_unreadable(self, at: int, by: int) -> None:
        kept = bytearray(sealed().sealed)
        kept[at] ^= by
        with pytest.raises(Unreadable):
            SEAL.opened(SealedSecret(NAME, UNTIL_MS, bytes(kept)))

    @given(length=st.integers(0, 27 + len(SECRET)))
    def test_what_is_cut_short_is_unreadable(self, length: int) -> None:
        with pytest.raises(Unreadable):
            SEAL.opened(SealedSecret(NAME, UNTIL_MS, sealed().sealed[:length]))

    @pytest.mark.parametrize(
        "name",
        [
            replace(NAME, key=SessionKey.parse("telegram:1")),
            replace(NAME, key=SessionKey.parse("telegram:2/-100")),
            replace(NAME, sent_by=SessionKey.parse("telegram:2")),
            replace(NAME, placeholder="[redacted:github#a1b2c4]"),
        ],
    )
    def test_it_is_unreadable_for_another_lane_person_or_placeholder(self, name: SecretName) -> None:
        with pytest.raises(Unreadable):
            SEAL.opened(replace(sealed(), name=name))

    def test_its_time_cannot_be_put_off(self) -> None:
        with pytest.raises(Unreadable):
            SEAL.opened(replace(sealed(), expires_at_ms=UNTIL_MS + 1))

    def test_under_another_key_it_is_unreadable(self) -> None:
        with pytest.raises(Unreadable):
            Seal("another key of this installation!").opened(sealed())


class TestWorthKeeping:
    def test_what_was_removed_is_known_by_the_placeholder_that_the_text_has(self) -> None:
        scrubber = Scrubber(placeholder_key=b"test").for_chat("telegram:1")
        text = f"use {SECRET}, not {OTHER}; the password is hunter-2-Ab! and {SECRET} again"
        removed = scrubber.removed(text)
        clean = scrubber.scrub(text)
        assert set(removed.values()) >= {SECRET, OTHER}
        assert worth_keeping(removed) == removed
        for placeholder, secret in removed.items():
            clean = clean.replace(placeholder, secret)  # type: ignore[assignment]
        assert clean == text

    def test_our_own_secrets_are_never_kept(self) -> None:
        scrubber = Scrubber([SECRET])
        assert scrubber.removed(SECRET)
        assert not worth_keeping(scrubber.removed(f"{SECRET} {SECRET}"))

    def test_what_could_not_be_looked_through_is_not_kept(self) -> None:
        assert not Scrubber(budget_s=-1.0).removed(SECRET)

    @pytest.mark.parametrize("secret", ["short", "x" * (SECRET_CHARS_MAX + 1)])
    def test_words_and_files_are_not_kept(self, secret: str) -> None:
        assert not worth_keeping({"[redacted:named#a1b2c3]": secret})


class TestWithout:
    LENT = {"[redacted:github#a1b2c3]": SECRET}  # noqa: RUF012 - read only

    @pytest.mark.parametrize(
        "form",
        [
            SECRET,
            json.dumps({"Authorization": f"Bearer {SECRET}"}),
            quote(f"token {SECRET}"),
            base64.b64encode(f"user:{SECRET}".encode()).decode(),
            "\n".join(textwrap.wrap(base64.b64encode(SECRET.encode() * 9).decode(), 76)),
            "\n".join(textwrap.wrap(SECRET, 10)),
            SECRET.encode().hex(),
            SECRET.encode().hex().upper(),
            SECRET[:12],
            SECRET[-12:],
            f"x{SECRET[5:30]}y",
        ],
    )
    def test_no_piece_comes_back_whatever_form_it_has(self, form: str) -> None:
        told = without_injected(f"it says: {form} (that was it)", self.LENT)
        assert told.startswith("it says: ")
        assert told.endswith(" (that was it)")
        assert "[redacted:github#a1b2c3]" in told
        plain = told.replace("[redacted:github#a1b2c3]", " ")
        assert not any(SECRET[at : at + GRAM_CHARS] in plain for at in range(len(SECRET) - GRAM_CHARS + 1))

    def test_each_secret_has_its_own_placeholder(self) -> None:
        lent = {**self.LENT, "[redacted:gitlab#d4e5f6]": OTHER}
        told = without_injected(f"{OTHER}{SECRET} {OTHER}", lent)
        assert told.split()[1] == "[redacted:gitlab#d4e5f6]"
        assert SECRET not in told

    @given(text=st.text(alphabet="ab \n", max_size=200))
    def test_other_text_is_left_alone(self, text: str) -> None:
        assert without_injected(text, self.LENT) == text

    @given(before=st.text(max_size=30), after=st.text(max_size=30), secret=st.text(min_size=6, max_size=40))
    def test_no_secret_of_any_letters_is_left_whole(self, before: str, after: str, secret: str) -> None:
        placeholder = "[redacted:named#0a0b0c]"
        if secret not in placeholder:
            assert secret not in without_injected(before + secret + after, {placeholder: secret}).replace(
                placeholder, ""
            )
