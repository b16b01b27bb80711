"""What must stay as it is, by class: `look_alikes.toml` and `talk.toml`, drawn."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.scrubbing.samples import Sample
from tests.scrubbing.slots import fill

ROWS_OF_A_CLASS: Final = 32
PLACEHOLDERS: Final = "placeholder"
"""The class with a goal of its own: what stands in documents where a secret would stand."""

LOOK_ALIKES: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(forms)
    for table in ("look_alikes.toml", "talk.toml")
    for name, forms in tomllib.loads(Path(__file__).with_name(table).read_text(encoding="utf-8")).items()
}


def look_alikes(seed: int, rows: int = ROWS_OF_A_CLASS) -> Iterator[Sample]:
    """`rows` texts of every class."""
    rng = random.Random(seed)
    for kind, forms in LOOK_ALIKES.items():
        for _ in range(rows):
            form = rng.choice(forms)
            yield Sample(kind, "any", form, fill(form, rng))
