"""The scrubber's promises: known values, stable placeholders, no raw text whatever happens."""

from __future__ import annotations

import base64
import itertools
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contracts.messages import Finding, RemovedSecrets
from gateway.scrub import Scrubber, StreamScrubber, findings, removed_secrets, scrub
from gateway.scrub.known import PLACEHOLDER, WHOLE_TEXT
from tests.scrubbing import draw
from tests.scrubbing.work import attempts_of

TOKEN = draw("ghp_<base62:36>", seed=1)
OTHER = draw("ghp_<base62:36>", seed=2)
OWN = 'p@ss "w/ö\\rd" 7'


def scrubber(*values: str) -> Scrubber:
    return Scrubber(values, placeholder_key=b"test")


class TestPlaceholders:
    def test_equal_secrets_are_recognisable_and_different_ones_differ(self) -> None:
        first, second, third = scrubber().scrub(f"{TOKEN} {OTHER} {TOKEN}").split()
        assert first == third != second
        assert first.startswith("[redacted:github#")

    def test_another_key_gives_another_placeholder(self) -> None:
        assert Scrubber(placeholder_key=b"a").scrub(TOKEN) != Scrubber(placeholder_key=b"b").scrub(TOKEN)

    def test_the_default_key_is_random(self) -> None:
        assert Scrubber().scrub(TOKEN) != Scrubber().scrub(TOKEN)

    def test_the_words_around_a_secret_do_not_change_its_placeholder(self) -> None:
        alone = scrubber().scrub(TOKEN)
        assert scrubber().scrub(f"password={TOKEN}") == f"password={alone}"
        assert scrubber().scrub(f"мой токен: {TOKEN}.") == f"мой токен: {alone}."


class TestOneChat:
    def test_a_chat_has_placeholders_of_its_own(self) -> None:
        one, other = scrubber().for_chat("telegram:1"), scrubber().for_chat("telegram:2")
        assert one.scrub(f"{TOKEN} and {TOKEN}").split(" and ")[0] == one.scrub(TOKEN)
        assert len({scrubber().scrub(TOKEN), one.scrub(TOKEN), other.scrub(TOKEN)}) == 3

    def test_they_are_the_same_in_every_process_that_has_the_key(self) -> None:
        assert scrubber().for_chat("slack:U1").scrub(TOKEN) == scrubber().for_chat("slack:U1").scrub(TOKEN)

    def test_whole_text_stream_and_findings_agree(self) -> None:
        chat = scrubber().for_chat("telegram:1")
        stream = chat.stream()
        assert stream.feed(f"key {TOKEN[:9]}") + stream.feed(TOKEN[9:]) + stream.flush() == chat.scrub(f"key {TOKEN}")
        assert chat.findings(TOKEN) == scrubber().findings(TOKEN)

    def test_known_values_are_known_in_every_chat(self) -> None:
        assert scrubber(OWN).for_chat("telegram:1").scrub(OWN).startswith("[redacted:known#")

    @given(chat=st.text(), again=st.text())
    def test_whatever_a_chat_is_called_its_placeholders_are_left_alone_by_every_other_scrubber(
        self, chat: str, again: str
    ) -> None:
        clean = scrubber().for_chat(chat).scrub(f"password: {TOKEN}")
        assert PLACEHOLDER.search(clean)
        assert scrubber(OWN).scrub(clean) == scrubber().for_chat(again).scrub(clean) == clean


class TestKnownValues:
    @pytest.mark.parametrize(
        "form",
        [
            OWN,
            json.dumps(OWN),
            json.dumps(OWN, ensure_ascii=False),
            json.dumps(json.dumps(OWN)),
            quote(OWN),
            quote(OWN, safe=""),
            quote(OWN, safe="").lower(),
            OWN.encode().hex(),
            "".join(char + "\u200b" for char in OWN),
        ],
    )
    def test_every_form_is_hidden(self, form: str) -> None:
        clean = scrubber(OWN).scrub(f"<<{form}>>")
        assert clean.startswith("<<")
        assert "[redacted:known#" in clean
        assert form.strip('"') not in clean

    @pytest.mark.parametrize("lead", ["", "a", "ab", "abc"])
    def test_base64_at_each_alignment(self, lead: str) -> None:
        value = "a value nobody would guess"
        wrapped = base64.b64encode(f"{lead}{value}xyz".encode()).decode()
        clean = scrubber(value).scrub(f"see {wrapped} there")
        assert "[redacted:known#" in clean
        kept = clean.replace("see ", "").replace(" there", "")
        assert not any(piece in kept for piece in (wrapped[at : at + 12] for at in range(4, len(wrapped) - 16)))

    def test_a_value_with_spaces_is_found_in_any_stream(self) -> None:
        whole = scrubber("open the red door").scrub("say open the open the red door now")
        assert "red door" not in whole
        for cut in range(34):
            stream = scrubber("open the red door").stream()
            text = "say open the open the red door now"
            assert stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.flush() == whole

    def test_lines_of_a_key_file_are_known_one_by_one(self) -> None:
        lines = [draw("<base64:64>", seed=seed) for seed in range(3)]
        clean = scrubber("\n".join(lines)).scrub(f"the second is {lines[1]}")
        assert lines[1] not in clean

    def test_a_value_too_short_to_be_told_from_a_word_is_not_searched(self) -> None:
        assert scrubber("cat").scrub("concatenate") == "concatenate"

    def test_a_known_value_wins_over_the_rule_for_its_looks(self) -> None:
        assert scrubber(TOKEN).scrub(TOKEN).startswith("[redacted:known#")


class TestFailingClosed:
    def test_a_failure_inside_hides_the_whole_text(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError(TOKEN)

        monkeypatch.setattr("gateway.scrub.lookahead.LookaheadScanner.over", fail)
        assert scrub(TOKEN) == WHOLE_TEXT
        assert findings("abc") == (Finding("text", 0, 3),)
        stream = StreamScrubber()
        assert stream.feed("a b ") + stream.feed(f"{TOKEN} ") + stream.flush() == WHOLE_TEXT

    @pytest.mark.parametrize(
        "part", ["View.append", "WrappedTokens.settle", "LookaheadScanner.over", "AnnouncedValue.step"]
    )
    def test_after_a_failure_in_a_stream_nothing_raw_comes_until_flush(
        self, part: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        room, method = part.split(".")
        scrubber = Scrubber()
        stream = scrubber.stream()
        assert stream.feed("a b ") == "a b "
        modules = {
            "View": "view",
            "WrappedTokens": "wrapped",
            "LookaheadScanner": "lookahead",
            "AnnouncedValue": "announced",
        }
        with monkeypatch.context() as broken:
            broken.setattr(f"gateway.scrub.{modules[room]}.{room}.{method}", _fail)
            assert stream.feed("my password is hunter2x, is it not ") == WHOLE_TEXT
        assert stream.feed("and hunter2x again ") == ""
        assert stream.flush() == ""
        assert stream.feed("a b ") == "a b "

    def test_the_time_budget_of_a_stream_hides_what_follows(self) -> None:
        ticks = itertools.chain([0.0] * 3, itertools.count(3.0, 3.0))
        stream = Scrubber(budget_s=2.0, spent_s=lambda: next(ticks)).stream()
        clean = stream.feed("one two " * 2_000) + stream.feed("three ") + stream.feed("four " * 2_000) + stream.flush()
        assert clean.endswith(WHOLE_TEXT)
        assert "four" not in clean

    def test_the_time_budget_hides_the_whole_text(self) -> None:
        ticks = itertools.count()
        slow = Scrubber(budget_s=2.0, spent_s=lambda: next(ticks) * 3.0)
        assert slow.scrub(f"hello {TOKEN} {'and so on ' * 1_000}") == WHOLE_TEXT

    def test_a_list_that_is_longer_than_a_stream_looks_back_is_read_to_its_end(self) -> None:
        values = [draw("<base62:14>", seed=number) for number in range(400)]
        text = f"passwords = {json.dumps(values)}"
        stream = scrubber().stream()
        clean = "".join(stream.feed(text[at : at + 64]) for at in range(0, len(text), 64)) + stream.flush()
        assert clean == scrubber().scrub(text)

    def test_a_stream_can_begin_a_new_text_after_flush(self) -> None:
        stream = StreamScrubber(Scrubber())
        assert stream.feed("one ") + stream.flush() == "one "
        assert stream.feed("two ") + stream.flush() == "two "

    def test_lone_surrogates_do_no_harm(self) -> None:
        assert scrub("a \ud800 b") == "a \ud800 b"
        assert "\udfff2" not in scrub("password: x\udfff2yz!")


class TestReports:
    def test_findings_point_into_the_raw_text(self) -> None:
        text = f"\u200bkey {TOKEN[:9]}\u200b{TOKEN[9:]} and"
        (finding,) = findings(text)
        assert text[finding.start : finding.end].replace("\u200b", "") == TOKEN
        assert finding.rule == "github"

    def test_counts_per_kind(self) -> None:
        text = f"{TOKEN} {OTHER} password: hunter2"
        assert removed_secrets(findings(text)) == (RemovedSecrets("github", 2), RemovedSecrets("named", 1))

    def test_nothing_found(self) -> None:
        assert removed_secrets(findings("good morning")) == ()


def _fail(*_: object, **__: object) -> None:
    raise RuntimeError(TOKEN)


def test_a_token_with_thousands_of_anchors_behind_it_is_tried_a_few_times() -> None:
    text = draw("glpat-<base64url:20>", seed=3) + "sk-" * 5000
    assert attempts_of(Scrubber().machine(), text) < 100
