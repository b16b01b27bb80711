"""Brings the catalogues up to date with the sources. Babel reads and writes them; what is translated stays so."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Final

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from gateway.i18n import CATALOGUES, Language
from tests.words.extraction import Found

TRANSLATED: Final = tuple(language for language in Language if language is not Language.EN)
_ONCE: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Nobody asks a catalogue when it was written: the same sentences are the same bytes."""


def po_path(language: Language) -> Path:
    """What people edit."""
    return CATALOGUES / f"{language.value}.po"


def mo_path(language: Language) -> Path:
    """What the product reads."""
    return CATALOGUES / f"{language.value}.mo"


def catalogue(language: Language) -> Catalog:
    """As it stands on the disk; empty for a language that has none yet."""
    path = po_path(language)
    if not path.exists():
        return _empty(language)
    with path.open("rb") as written:
        return read_po(written, locale=language.value, abort_invalid=True)


def updated(language: Language, found: Iterable[Found]) -> Catalog:
    """The catalogue with exactly the sentences of the sources: new ones without a translation, old ones gone."""
    known, fresh = catalogue(language), _empty(language)
    for each in found:
        message = known.get(each.one)
        is_alike = message is not None and message.pluralizable == bool(each.many)
        key = (each.one, each.many) if each.many else each.one
        string = message.string if message is not None and is_alike else None
        fresh.add(key, string)
    return fresh


def po_bytes(written: Catalog) -> bytes:
    """Write a catalogue as a `.po`, sorted by its sentences: a sentence that moves to another file changes nothing."""
    into = BytesIO()
    write_po(into, written, width=120, no_location=True, ignore_obsolete=True, sort_output=True)
    return into.getvalue()


def mo_bytes(written: Catalog) -> bytes:
    """As a `.mo`."""
    into = BytesIO()
    write_mo(into, written)
    return into.getvalue()


def _empty(language: Language) -> Catalog:
    return Catalog(
        locale=language.value,
        domain="trivet",
        project="Trivet",
        version="1",
        header_comment=f"# What Trivet says, in {language.name}. `make words` adds and removes; people translate.",
        msgid_bugs_address="",
        last_translator="",
        language_team=language.value,
        creation_date=_ONCE,
        revision_date=_ONCE,
        fuzzy=False,
    )
