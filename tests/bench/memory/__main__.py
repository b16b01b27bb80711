"""`make bench-memory`, or `python -m tests.bench.memory [--facts 20 60]`: pairs of a fact and a later question.

They meet memory as in a turn that begins a conversation. Each question is asked by a person who has told so many facts
over a year: the one that matters is somewhere among others that have nothing to do with the question, and none of them
was of use before. Everything is the product's own, down to SQLite; an embedding model is a real, small one, which runs
here.

The models are multilingual-e5-small in four bits and Google's multilingual Universal Sentence Encoder (USE). The goals
are in the table; `or recalled` adds what the tool `recall` finds by the words of the question.

- `pairs.tsv`: language, matter, fact, question, and words of later questions, as a model writes them with a fact that
  it keeps; here a person wrote them. What memory was tuned on. Few questions share a word with their fact.
- `pairs_apart.tsv`: others, by the same hand; no limit was chosen by them alone.
- `pairs_blind.tsv`: more, written when all limits stood, each with its words before its question: in the other two the
  words flatter, since their author knew the questions.
- `others.tsv`: facts that no question is about. `acquaintances.tsv`: people and what each may do, for those who tell
  hundreds of facts. `unrelated.tsv`: questions that no fact has to do with.
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
from tests.bench.memory.questions import LANGUAGES, SETS, Desk, KnownVectors, Sets, Told, embedded

MODELS: Final = {"": "words alone", "e5": "e5-small", "use": "USE"}
GOAL_WITHOUT, GOAL_WITH, ANOTHER_MAX = 0.90, 0.95, 0.10


async def measure(desk: Desk, embedders: Sequence[KnownVectors | None], facts_count: int, table: Table) -> None:
    """Add a row for each way to find the facts of these people."""
    for embedder in embedders:
        found_by = MODELS[embedder.model if embedder else ""]
        sys.stderr.write(f"bench-memory: {facts_count} facts, {found_by}\n")
        told = await desk.ask(embedder)
        goal = GOAL_WITHOUT if embedder is None else GOAL_WITH
        table.add_row(str(facts_count), found_by, "yes" if desk.has_words else "no", *_columns(told, goal))


async def measure_all(
    embedders: Sequence[KnownVectors | None], sets: Sets, counts: Sequence[int], table: Table
) -> None:
    """Add the rows of each number of facts, each time in a new database."""
    for facts_count in counts:
        for has_words in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                url = f"sqlite+aiosqlite:///{folder}/memory.db"
                await migrate(url)
                store = open_store(url)
                try:
                    desk = Desk(store, has_words)
                    await desk.tell(sets.people(facts_count))
                    await measure(desk, embedders, facts_count, table)
                finally:
                    await store.close()


def _columns(told: Sequence[Told], goal: float) -> list[str]:
    needing = [each for each in told if each.question.fact]
    share, another = _share(each.has_fact for each in needing), _share(each.has_another for each in told)
    by_set = (_share(each.has_fact for each in needing if each.question.set == name) for name in SETS)
    by_language = (_share(each.has_fact for each in needing if each.question.language == name) for name in LANGUAGES)
    return [
        f"{fmean(each.tokens[0] for each in told):.0f}",
        f"{fmean(each.tokens[1] for each in told):.0f}",
        _percent(_share(each.question.fact in each.always for each in needing)),
        f"{_percent(share)} {'≥' if share >= goal else '<'} {_percent(goal)}",
        f"{_percent(another)} {'≤' if another <= ANOTHER_MAX else '>'} {_percent(ANOTHER_MAX)}",
        _percent(_share(each.has_fact or each.question.fact in each.recalled for each in needing)),
        *map(_percent, (*by_set, *by_language)),
    ]


def _share(of: Iterable[bool]) -> float:
    return fmean(of)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.memory", description=__doc__)
    parser.add_argument("--facts", type=int, nargs="+", default=[20, 60, 120, 300], help="facts of each person")
    counts = parser.parse_args().facts
    console, sets = Console(), Sets.read()
    table = Table(
        *(
            "facts",
            "found by",
            "words",
            "tokens always",
            "in all",
            "always told",
            "fact told",
            "another beside",
            "or recalled",
        ),
        *SETS,
        *LANGUAGES,
        title="How often the fact that a question needs is told, and one of another matter beside those always told",
    )
    embedders: list[KnownVectors | None] = [None]
    try:
        embedders += embedded(sets.texts).values()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"the embedding models cannot be had here: {error}\n")
    asyncio.run(measure_all(embedders, sets, counts, table))
    Console(width=max(console.width, 190)).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
