"""The catalogues: one `<language>.po` to be read and written by people, and the `.mo` beside it that is made of it.

`make words` brings both up to date with the sentences of the source; a test pins that they are. English has none.
"""

from __future__ import annotations

from functools import cache
from gettext import GNUTranslations, NullTranslations
from pathlib import Path
from typing import Final

from gateway.words.languages import Language

CATALOGUES: Final = Path(__file__).parent


@cache
def catalogue_of(language: Language) -> NullTranslations:
    """Read once, when it is needed first."""
    if language is Language.EN:
        return NullTranslations()
    with (CATALOGUES / f"{language.value}.mo").open("rb") as compiled:
        return GNUTranslations(compiled)
