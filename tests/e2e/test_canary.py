"""Canaries: secrets of many kinds fly through the running product; none may settle anywhere.

Every kind goes in by every door: said by a person, answered by the model (in small deltas), put into a tool's
arguments, worn as a display name, quoted by an error of the model's provider. Then everything that Trivet
wrote or sent is searched: Redis, the database, every file of the data directory, the logs (at their most
talkative), what the model was asked, what people were shown. The same for its own credentials.

How many kinds of secrets are recognised is the business of the property tests; here only such are used as the
scrubber does recognise, so that what is found was let through by a door that did not ask it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from gateway.bus.embedded import embedded_url
from gateway.scrub import scrub
from tests.parts.model_server import Body, Failure, ModelServer, call, echo, last_user_text, serve_model
from tests.parts.product import PLATFORMS, Chat, Product, running_product
from tests.scrubbing import TOKENS, Planted, Sample, fill, positives

KINDS = 20  # of some 150, others in each run
IN_THE_AIR = 24  # conversations at once
TALKATIVE = {"TRIVET_LOG__LEVEL": "debug"}
TAIL_CHARS = 16
"""The end of a secret is as good as the whole: no rule leaves it."""


def canaries(rng: random.Random) -> Iterator[Sample]:
    """One secret of each kind, those that stand by themselves and those known by their surroundings, shuffled."""
    drawn = {kind: fill(template, rng) for kind, template in TOKENS.items()}
    bare = (Sample(kind, "any", "{}", secret, (Planted(kind, secret),)) for kind, secret in drawn.items())
    told = {sample.kind: sample for sample in positives(rng.randrange(2**32)) if sample.kind not in TOKENS}
    every = [*bare, *told.values()]
    rng.shuffle(every)
    for sample in every:
        if not hits(sample.secrets, scrub(sample.text)) and not hits(sample.secrets, scrub(f"canary 1: {sample.text}")):
            yield sample


def hits(secrets: Sequence[str], haystack: str) -> list[str]:
    """The secrets that stand in a text, whole or with their end."""
    return [secret for secret in secrets if secret[-TAIL_CHARS:] in haystack]


class Parrot:
    """A model that says what it should not: the canary of the number it is asked for."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples

    def answer(self, body: Body) -> Body:
        newest = body["messages"][-1]
        if newest["role"] == "tool":
            return {"content": f"noted: {newest['content']}"}
        asked = re.search(r"(recite|keep) canary (\d+)", last_user_text(body))
        if asked is None:
            return echo(body)
        text = f"canary {asked[2]}: {self._samples[int(asked[2])].text}"
        if asked[1] == "keep" and body.get("tools"):
            return call("todo_write", json.dumps({"todos": [{"text": text, "state": "pending"}]}))
        return {"content": text}


@dataclass(frozen=True, slots=True)
class Flight:
    """Somebody says something; the answer has `expecting` in it."""

    chat: Chat
    text: str
    expecting: str

    async def fly(self, sky: asyncio.Semaphore) -> None:
        """Take a place in the sky, say it, hear the answer."""
        async with sky:
            await self.chat.ask(self.text, self.expecting)


def flights(product: Product, samples: Sequence[Sample]) -> Iterator[Flight]:
    """Every canary by every door, the platforms in turn."""
    platforms = itertools.cycle(PLATFORMS)
    for number, sample in enumerate(samples):
        token = f"canary {number}"
        yield Flight(product.chat(next(platforms), "Ann"), f"{token}: {sample.text}", token)
        yield Flight(product.chat(next(platforms), "Ben"), f"recite {token}", token)
        yield Flight(product.chat(next(platforms), "Cleo"), f"keep {token}", token)
        if sample.kind in TOKENS:
            yield Flight(product.chat(next(platforms), sample.text), f"my name is {token}", token)


@pytest.mark.timeout(300)  # processes start slowly on a busy machine
async def test_no_canary_settles_anywhere(tmp_path: Path) -> None:
    """Not one raw hit, whatever the kind, the door and the platform."""
    seed = random.SystemRandom().randrange(2**32)
    samples = list(itertools.islice(canaries(random.Random(seed)), KINDS))
    print(f"seed {seed}: {', '.join(sample.kind for sample in samples)}")
    assert len(samples) == KINDS
    sky = asyncio.Semaphore(IN_THE_AIR)
    async with serve_model() as model:
        model.answer = Parrot(samples).answer
        async with running_product(tmp_path, model=model, settings=TALKATIVE) as product:
            await asyncio.gather(*(flight.fly(sky) for flight in flights(product, samples)))
            for secret in product.channel_tokens:
                await product.chat("slack", "Dora").ask(f"is {secret} one of yours?", "one of yours")
            await complain(product, model, samples[0])
            await product.until_settled()
            places = written(product, model)
        places["logs"] = product.log
        places |= {f"file {path.name}": text for path, text in files(product.data_dir)}
    secrets = [secret for sample in samples for secret in sample.secrets]
    found = {place: hits([*secrets, *product.secrets], text) for place, text in places.items()}
    assert {place: raw for place, raw in found.items() if raw} == {}
    assert "[redacted:" in places["shown to people"]
    assert "[redacted:" in places["model requests"]
    assert "canary 1" in places["database"]


async def complain(product: Product, model: ModelServer, sample: Sample) -> None:
    """The provider's refusal quotes a secret."""
    model.failures.append(Failure(400, message=f"cannot make sense of {sample.text}"))
    await product.chat("telegram", "Emil").ask("/title Complaints", "Complaints")
    model.failures.append(Failure(400, message=f"cannot make sense of {sample.text}"))
    await product.chat("telegram", "Emil").ask("hello")


def written(product: Product, model: ModelServer) -> dict[str, str]:
    """All that a running Trivet holds and has sent, as text by place."""
    with closing(product.database()) as database:
        rows = "\n".join(database.iterdump())
    return {
        "redis": "\n".join(redis_contents(product)),
        "database": rows,
        "model requests": json.dumps(model.requests, ensure_ascii=False),
        "shown to people": "\n".join(
            f"{said.text}\n{said.html}"
            for stage in product.stages.values()
            for place in stage.places()
            for said in stage.said(place.id)
            if said.author.is_bot
        ),
    }


def redis_contents(product: Product) -> Iterator[str]:
    """Every key and value, read past the bus."""
    url = embedded_url(product.data_dir)
    client: Any = Redis.from_url(url, protocol=2, decode_responses=True, encoding_errors="replace")
    readers = {
        "string": client.get,
        "list": lambda key: client.lrange(key, 0, -1),
        "set": client.smembers,
        "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        "hash": client.hgetall,
        "stream": client.xrange,
    }
    with closing(client):
        for key in client.scan_iter(count=1000):
            kind = client.type(key)
            yield f"{key}: {readers[kind](key) if kind in readers else ''}"


def files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every file that Trivet left, append-only and write-ahead logs included."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield path, path.read_bytes().decode("utf-8", "replace")
