"""How sentences are said: forms of numbers, values that are put in, and which language is whose."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from string import Formatter
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.features.schedules.texts import list_text
from agent.features.schedules.times import read_request
from gateway.contracts.messages import CleanText
from gateway.i18n import ENGLISH, Language, Words, language_named, language_written, words_for
from tests.words.extraction import sentences

ALL = [Words(language) for language in Language]
SINGLE = st.deferred(lambda: st.sampled_from(sorted({each.one for each in sentences() if not each.many})))
COUNTED = st.deferred(lambda: st.sampled_from(sorted({(each.one, each.many) for each in sentences() if each.many})))
ZONE = ZoneInfo("Europe/Berlin")


def names(*texts: str) -> set[str]:
    return {name for text in texts for _, name, _, _ in Formatter().parse(text) if name}


@given(st.data())
def test_every_sentence_takes_any_values_in_every_language(data: st.DataObject) -> None:
    """Whatever is put in stands there as it is, braces and all: nothing of it is looked up or filled in."""
    own, words = data.draw(SINGLE), data.draw(st.sampled_from(ALL))
    values = {name: data.draw(st.text(max_size=20)) for name in names(own)}
    said = words.say(own, **values)
    assert all(value in said for value in values.values())


@given(COUNTED, st.sampled_from(ALL), st.integers(0, 10**7))
def test_every_number_has_a_form_in_every_language(forms: tuple[str, str], words: Words, count: int) -> None:
    values = dict.fromkeys(names(*forms) - {"count"}, "{x}")
    said = words.count(*forms, count, **values)
    assert words.number(count) in said or "{count}" not in forms[0]


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 токенов"), (1, "1 токен"), (2, "2 токена"), (5, "5 токенов"), (11, "11 токенов"), (21, "21 токен")],
)
def test_russian_has_three_forms(count: int, said: str) -> None:
    assert Words(Language.RU).count("{count} token", "{count} tokens", count) == said


def test_numbers_are_written_as_they_are_read_there() -> None:
    assert [Words(language).number(1234.5, 2) for language in (Language.EN, Language.DE, Language.ZH)] == [
        "1,234.50",
        "1.234,50",
        "1,234.50",
    ]
    assert Words(Language.RU).number(1234) == "1\u00a0234"


def test_lists_end_as_they_do_there() -> None:
    assert ENGLISH.listed("a") == "a"
    assert ENGLISH.listed("a", "b", "c") == "a, b and c"
    assert Words(Language.ZH).listed("甲", "乙", "丙") == "甲、乙和丙"


def test_what_is_no_sentence_of_ours_stays_as_it_is() -> None:
    assert Words(Language.DE).known("it is empty") == "sie ist leer"
    assert Words(Language.DE).known("{what} else") == "{what} else"
    assert Words(Language.DE).known("") == ""


@pytest.mark.parametrize(
    ("tag", "language"),
    [
        ("", None),
        ("en", Language.EN),
        ("ru", Language.RU),
        ("zh-Hans-CN", Language.ZH),
        ("zh-TW", Language.ZH),
        ("es-419", Language.ES),
        ("de_AT", Language.DE),
        ("pt-BR", Language.EN),
        ("RU", Language.RU),
    ],
)
def test_a_tag_names_a_language_that_we_speak_or_english(tag: str, language: Language | None) -> None:
    assert language_named(tag) is language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("", None),
        ("hello", None),
        ("привет, как дела?", Language.RU),
        ("/remind завтра в 8 позвонить", Language.RU),
        ("почини `def f(argument, another): return` пожалуйста", Language.RU),
        ("привіт, як справи? їжак", None),
        ("你好，今天天气怎么样？", Language.ZH),
        ("今日は天気がいいですね", None),
        ("안녕하세요 漢字", None),
        ("what does 你好 mean in English?", None),
        ("/help", None),
        ("👋", None),
    ],
)
def test_a_script_tells_a_language_only_where_it_is_certain(text: str, language: Language | None) -> None:
    assert language_written(text) is language


def test_the_platform_comes_first_then_the_script_then_what_was_known() -> None:
    assert words_for("de", "привет", known="es").language is Language.DE
    assert words_for("", "привет", known="es").language is Language.RU
    assert words_for("", "hola", known="es").language is Language.ES
    assert words_for("", "hola").language is Language.EN


@pytest.mark.parametrize("language", Language)
def test_the_examples_of_reminders_are_understood_whatever_language_they_are_in(language: Language) -> None:
    told = list_text([], ZONE, Words(language), is_zone_known=True)
    examples = re.findall(r"`/remind ([^`]+)`", told)
    assert len(examples) == 5
    for example in examples:
        understood = read_request(example, now=datetime(2026, 11, 22, 12, tzinfo=UTC), zone=ZONE)
        assert understood.text


def test_a_sentence_with_clean_values_is_clean() -> None:
    """The types say so; with anything else in it, it is text to be scrubbed."""
    clean: CleanText = ENGLISH.say("I do not know /{name}. /help lists what I understand.", name=CleanText("x"))
    assert clean.startswith("I do not know /x.")
