"""`python -m tests.bench.memory [--facts 5 20 60]`: labelled pairs of a fact and a later question, as turns meet them.

Each question is asked by a person of its own who has told so many facts: the one that matters, somewhere among others
that have nothing to do with the question. None of them was of use before. Everything is the product's own, down to
SQLite; an embedding model is a real, small one, which runs here.

- `pairs.tsv`: language, matter, fact, question. What memory was tuned on. Few questions share a word with their fact.
- `pairs_apart.tsv`: others, which nothing was tuned on.
- `others.tsv`: facts that no question is about. `unrelated.tsv`: questions that no fact has to do with.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Final

from rich.console import Console
from rich.table import Table

from gateway.store import open_store
from gateway.store.migrations import migrate
from tests.bench.memory.questions import LANGUAGES, Desk, KnownVectors, Sets, Told, embedded

MODELS: Final = {"": "words alone", "e5": "multilingual-e5-small, 4 bits", "use": "Universal Sentence Encoder"}


async def measure(sets: Sets, embedder: KnownVectors | None, counts: Sequence[int], table: Table) -> None:
    """Add the rows of one embedding model."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite+aiosqlite:///{folder}/memory.db"
        await migrate(url)
        store = open_store(url)
        try:
            desk = Desk(store, sets, embedder)
            for count in counts:
                unrelated = await desk.ask_unrelated(count)
                for name, pairs in (("pairs", sets.pairs), ("apart", sets.apart)):
                    found_by = MODELS[embedder.model if embedder else ""]
                    table.add_row(found_by, str(count), name, *_columns(await desk.ask(pairs, count), unrelated))
        finally:
            await store.close()


def _columns(told: Sequence[Told], unrelated: Sequence[Told]) -> list[str]:
    by_language = (_share(each.has_fact for each in told if each.language == language) for language in LANGUAGES)
    return [
        str(len(told)),
        f"{fmean(each.tokens for each in told):.0f}",
        _share(each.wanted in each.always for each in told),
        _share(each.has_fact for each in told),
        _share(each.has_another for each in (*told, *unrelated)),
        *by_language,
    ]


def _share(of: Iterable[bool]) -> str:
    return f"{100 * fmean(of):.0f} %"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.memory", description=__doc__)
    parser.add_argument("--facts", type=int, nargs="+", default=[5, 20, 60], help="facts of each person")
    counts = parser.parse_args().facts
    console, sets = Console(), Sets.read()
    table = Table(
        *("found by", "facts", "set", "pairs", "tokens always", "always told", "fact in the prompt", "another beside"),
        *LANGUAGES,
        title="The fact that a question needs (goal: 95 % with embeddings, 90 % without), and another (goal: 10 %)",
    )
    embedders: list[KnownVectors | None] = [None]
    try:
        embedders += embedded(sets.texts).values()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"the embedding models cannot be had here: {error}\n")
    for embedder in embedders:
        asyncio.run(measure(sets, embedder, counts, table))
    Console(width=max(console.width, 150)).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
