"""`make bench-memory`, or `python -m tests.bench.memory [--facts 5 20 60]`: pairs of a fact and a later question.

They meet memory as in a turn. Each question is asked by a person of its own who has told so many facts: the one that
matters, somewhere among others that have nothing to do with the question. None of them was of use before. Everything is
the product's own, down to SQLite; an embedding model is a real, small one, which runs here.

- `pairs.tsv`: language, matter, fact, question, and words of later questions, as a model writes them with a fact that
  it keeps; here a person wrote them. What memory was tuned on. Few questions share a word with their fact.
- `pairs_apart.tsv`: others, by the same hand; no limit was chosen by them alone.
- `pairs_blind.tsv`: more, written when all limits stood, each with its words before its question: in the other two the
  words flatter, since their author knew the questions.
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


async def measure(desk: Desk, counts: Sequence[int], table: Table) -> None:
    """Add the rows of one way to find facts."""
    found_by = MODELS[desk.embedder.model if desk.embedder else ""]
    for count in counts:
        unrelated = await desk.ask_unrelated(count)
        for name, pairs in (("pairs", desk.sets.pairs), ("apart", desk.sets.apart), ("blind", desk.sets.blind)):
            told = await desk.ask(pairs, count)
            sys.stderr.write(f"bench-memory: {found_by}, {count} facts, {name}\n")
            table.add_row(found_by, "yes" if desk.has_words else "no", str(count), name, *_columns(told, unrelated))


async def measure_all(
    embedders: Sequence[KnownVectors | None], sets: Sets, counts: Sequence[int], table: Table
) -> None:
    """Add the rows of each way to find facts, in a database of its own."""
    for embedder in embedders:
        for has_words in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                url = f"sqlite+aiosqlite:///{folder}/memory.db"
                await migrate(url)
                store = open_store(url)
                try:
                    await measure(Desk(store, sets, embedder, has_words), counts, table)
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
        *("found by", "words", "facts", "set", "pairs", "tokens always", "always told", "fact told", "another beside"),
        *LANGUAGES,
        title="The fact that a question needs (goal: 95 % with embeddings, 90 % without), and another (goal: 10 %)",
    )
    embedders: list[KnownVectors | None] = [None]
    try:
        embedders += embedded(sets.texts).values()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"the embedding models cannot be had here: {error}\n")
    asyncio.run(measure_all(embedders, sets, counts, table))
    Console(width=max(console.width, 150)).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
