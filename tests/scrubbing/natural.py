"""Chat messages of several sentences with no secret in them: `natural.toml`, shuffled and joined."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.scrubbing.samples import Sample, language
from tests.scrubbing.slots import fill

CHUNKS: Final = 400
_SENTENCES: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(sentences)
    for name, sentences in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}
_WITHOUT_SPACES: Final = frozenset({"zh", "ja"})


def natural(seed: int, chunks: int = CHUNKS) -> Iterator[Sample]:
    """`chunks` messages of three to seven sentences; some in two languages, as people write."""
    rng = random.Random(seed)
    for _ in range(chunks):
        tongue = language(rng)
        sentences = rng.sample(_SENTENCES[tongue], rng.randint(3, 7))
        if rng.random() < 0.1:
            sentences.append(rng.choice(_SENTENCES["en"]))
        joint = rng.choice((" ", "\n", "\n\n")) if tongue not in _WITHOUT_SPACES else rng.choice(("", "\n"))
        yield Sample("natural", tongue, "sentences", fill(joint.join(sentences), rng))


def chat_text(rng: random.Random, chars: int) -> str:
    """About so many characters of talk, for measures that need a length."""
    parts: list[str] = []
    while sum(map(len, parts)) < chars:
        parts.append(fill(rng.choice(_SENTENCES[language(rng)]), rng))
    return " ".join(parts)[:chars]
