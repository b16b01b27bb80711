"""`make words`: brings every catalogue up to date with the sources, and says what still has no translation."""

from __future__ import annotations

from tests.words.catalogues import TRANSLATED, mo_bytes, mo_path, po_bytes, po_path, updated
from tests.words.extraction import sentences


def main() -> None:
    """Write what is to be written."""
    found = sentences()
    for language in TRANSLATED:
        fresh = updated(language, found)
        po_path(language).write_bytes(po_bytes(fresh))
        mo_path(language).write_bytes(mo_bytes(fresh))
        missing = [message.id for message in fresh if message.id and not all(_strings(message.string))]
        print(f"{language.value}: {len(fresh)} sentences, {len(missing)} without a translation")


def _strings(string: str | tuple[str, ...] | list[str] | None) -> tuple[str, ...]:
    return (string or "",) if isinstance(string, str | None) else tuple(string)


if __name__ == "__main__":
    main()
