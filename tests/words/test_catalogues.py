"""Whatever we say can be said in every language, and what is said there is as well made as the English."""

from __future__ import annotations

import re
from string import Formatter

import pytest
from babel.messages.catalog import Message

from gateway.contracts.commands import COMMANDS
from gateway.i18n import Language, about_in, argument_in
from tests.words.catalogues import TRANSLATED, catalogue, mo_bytes, mo_path, po_bytes, po_path, updated
from tests.words.extraction import Found, Unreadable, said_in, sentences, unreadable

MENU_CHARS_MAX = 100
"""What Discord takes; Telegram takes more."""


def placeholders(text: str) -> set[str]:
    """The names in braces, each with how it is to be written."""
    return {f"{name}!{conversion}:{form}" for _, name, form, conversion in Formatter().parse(text) if name is not None}


def translations(message: Message) -> tuple[str, ...]:
    """All forms of one."""
    return message.string if isinstance(message.string, tuple) else (str(message.string or ""),)


def messages(language: Language) -> list[Message]:
    return [message for message in catalogue(language) if message.id]


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_sentence_of_the_sources_has_a_translation(language: Language) -> None:
    known = {message.id: message for message in messages(language)}
    for each in sentences():
        message = known.get((each.one, each.many) if each.many else each.one)
        assert message is not None, f"{language}: run `make words`: {each}"
        assert all(translations(message)), f"{language} has no words for: {each}"


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_catalogue_holds_nothing_but_sentences_of_the_sources(language: Language) -> None:
    assert po_bytes(updated(language, sentences())) == po_path(language).read_bytes(), "run `make words`"
    assert not catalogue(language).obsolete
    assert not [message.id for message in messages(language) if message.fuzzy]


@pytest.mark.parametrize("language", TRANSLATED)
def test_what_the_product_reads_is_made_of_what_people_wrote(language: Language) -> None:
    assert mo_path(language).read_bytes() == mo_bytes(catalogue(language)), "run `make words`"


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_translation_has_the_placeholders_and_the_markup_of_its_sentence(language: Language) -> None:
    for message in messages(language):
        ids = tuple(map(str, message.id)) if message.pluralizable else (str(message.id),)
        wanted = set().union(*map(placeholders, ids))
        for form in translations(message):
            assert placeholders(form) | {"count!None:"} == wanted | {"count!None:"}, (language, ids, form)
            assert form.count("**") == ids[0].count("**"), (language, form)
            assert form.count("`") == ids[0].count("`"), (language, form)
            assert form.startswith("> ") == ids[0].startswith("> "), (language, form)
            assert set(re.findall(r"(?<![\w<])/[a-z]+", form)) == set(re.findall(r"(?<![\w<])/[a-z]+", ids[0])), form


def test_whatever_is_said_is_a_literal() -> None:
    assert unreadable() == []


def test_the_law_sees_a_violation() -> None:
    assert list(said_in("words.say(f'{raw}')", "x.py")) == [Unreadable("x.py", 1, "f'{raw}'")]
    assert list(said_in("words.count('one', many, 3)", "x.py")) == [Unreadable("x.py", 1, "'one'")]
    assert list(said_in("words.count('one', 'many', 3)", "x.py")) == [Found("one", "many", "x.py")]
    assert list(said_in("words.say(NOTHING[kind], name=name)", "x.py")) == []


@pytest.mark.parametrize("language", Language)
def test_a_menu_takes_every_command_in_every_language(language: Language) -> None:
    for spec in COMMANDS:
        about = about_in(spec, language)
        assert 1 <= len(about) <= MENU_CHARS_MAX
        assert "\n" not in about + argument_in(spec, language)
    assert language is Language.EN or about_in(COMMANDS[0], language) != COMMANDS[0].about
