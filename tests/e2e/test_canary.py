"""Canaries: secrets of every rule fly through the running product; none may settle anywhere.

Every one goes in by every door: said by a person, answered by the model (in small deltas), put into a tool's
arguments; and in packs by the others: edits, captions, names of people, groups, files and tools, results and errors
of tools, files of a workspace, titles, reminders, summaries, refusals of the model's provider. Then everything that
Trivet wrote, sent or shows is searched: Redis, the database, every file, the logs (at their most talkative), what the
model was asked, what people were shown, what the operator sees, what the command line prints. The same for its own
credentials.
"""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from sqlite3 import connect

import psutil
import pytest

from tests.canary.flights import Sky
from tests.canary.flock import Canary, Watch, of_the_corpus, of_the_rules, packed, text_of
from tests.canary.nests import held, left
from tests.canary.parrot import Parrot
from tests.parts.model_server import serve_model
from tests.parts.product import Product, running_product
from tests.parts.waiting import until


def talkative(shop: Path) -> dict[str, str]:
    """Settings under which everything happens that can leave a trace."""
    return {
        "TRIVET_LOG__LEVEL": "debug",
        "TRIVET_TOOLS__POLICY": json.dumps(["allow write", "allow execute", "allow network"]),
        "TRIVET_TOOLS__DATABASES": json.dumps([f"shop=sqlite+aiosqlite:///{shop}"]),
        "TRIVET_AGENT__CONTEXT_WINDOW": "16000",
        "TRIVET_AGENT__EMBEDDING_MODEL": "openai/text-embedding-3-small",
        "TRIVET_MEMORY__AUTO_CONSOLIDATE": "true",
    }


def shop_with(text: str, path: Path) -> Path:
    """A database of the operator's, with secrets in it."""
    with connect(path) as shop:
        shop.execute("CREATE TABLE notes (note TEXT)")
        shop.execute("INSERT INTO notes VALUES (?)", (text,))
    return path


def test_every_rule_knows_its_own_example() -> None:
    """Or it would fly past the test below."""
    rng = random.Random(7)
    assert [canary.kind for canary in of_the_rules(rng) if not canary.secrets] == []


@pytest.mark.timeout(400)  # processes start slowly on a busy machine
@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.long)])
async def test_no_canary_settles_anywhere(tmp_path: Path, every: int) -> None:
    """Not one raw hit, whatever the kind, the door and the platform: of every second kind, drawn anew in each run, and
    of all."""
    seed = random.SystemRandom().randrange(2**32)
    rng = random.Random(seed)
    known = [canary for canary in (*of_the_rules(rng), *of_the_corpus(rng)) if canary.secrets]
    rng.shuffle(known)
    packs = packed(known[::every])
    print(f"seed {seed}: {sum(map(len, packs))} canaries in {len(packs)} packs")
    shop = shop_with(text_of(packs[0]), tmp_path / "shop.db")
    async with serve_model() as model:
        model.answer = Parrot(packs).answer
        async with running_product(tmp_path, model=model, settings=talkative(shop)) as product:
            await Sky(product, model, packs, rng).fly()
            await tell_our_own(product)
            await crash(product)
            places = await held(product, model)
        places |= left(product)
    flock = [canary for pack in packs for canary in pack]
    watch = Watch([*flock, *(Canary("our own", secret, (secret,)) for secret in product.secrets)])
    seen = {place: found for place, text in places.items() if (found := watch.seen(text))}
    for place, found in seen.items():
        print(place, *(f"{kind}: {around!r}" for kind, around in found.items()), sep="\n    ")
    assert {place: sorted(found) for place, found in seen.items()} == {}
    # They were there: what is idle holds nothing in Redis, but its append-only file remembers.
    for place in ("shown to people", "model requests", "database", "transcripts", "exports"):
        assert "[redacted:" in places[place], place
    assert any("[redacted:" in text for place, text in places.items() if place.startswith("file redis/"))


async def tell_our_own(product: Product) -> None:
    """Somebody knows our credentials, and says them where they are known."""
    for secret in product.channel_tokens:
        await product.chat("slack", "Kim").ask(f"is {secret} one of yours?", "one of yours")
    await product.until_settled()


async def crash(product: Product) -> None:
    """A segmentation fault of an agent, whose last words are nobody's; another takes its place."""
    (agent,) = product.processes()["agent"]
    agent.send_signal(signal.SIGSEGV)
    await until(lambda: not psutil.pid_exists(agent.pid) and bool(product.processes()["agent"]))
    await product.until_ready()
    await product.chat("telegram", "Lea").ask("are you there?", "there")
