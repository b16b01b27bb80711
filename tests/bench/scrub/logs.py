"""A log as programs write it, as long as anybody wants; in one of a hundred lines somebody wrote a secret."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from tests.bench.scrub.mix import messages

_SECRET_SHARE: Final = 0.01
_LINES_DRAWN: Final = 20_000
_STAMP: Final = "2026-0{d}-1{d}T1{d}:{n}:{n}.{n}{d}Z"
_LINES: Final = (
    _STAMP + " INFO  http  GET /api/v2/orders/{n}{n}?page={d} 200 {n}ms id={hex}",
    _STAMP + " INFO  worker-{d} job {hex} finished in {n}{d} ms, {n} rows",
    _STAMP + " WARN  pool  connection to 10.{d}.0.{n}:5432 was slow, waiting",
    '{"time":"' + _STAMP + '","level":"info","msg":"user signed in","user":{n}{n},"trace":"{hex}"}',
    "10.0.{n}.7 - - [" + _STAMP + '] "POST /chat HTTP/1.1" 201 {n}{n} "https://example.org/app" "Mozilla/5.0"',
    _STAMP + " DEBUG cache  hit ratio 0.{n}{d}, {n}{n}{d} keys, evicted {n}",
    _STAMP + " ERROR app   ValueError: invalid literal for int() with base 10: 'x{n}'",
    "    at com.example.orders.Service.place(Service.java:{n}{d})",
)
_LEAKS: Final = (" token={}", " Authorization: Bearer {}", ' "key": "{}"', " using {}")


def log_lines(seed: int) -> Iterator[str]:
    """Its lines, without end; the same ones again after the first 20,000."""
    rng = random.Random(seed)
    secrets = [message.secret for message in messages(4000, seed=seed) if message.secret]
    drawn = [_line(rng, secrets) for _ in range(_LINES_DRAWN)]
    while True:
        yield from drawn


def _line(rng: random.Random, secrets: list[str]) -> str:
    line = rng.choice(_LINES)
    for slot in ("{n}", "{d}", "{hex}"):
        while slot in line:
            drawn = {"{n}": rng.randrange(10, 60), "{d}": rng.randrange(1, 10), "{hex}": f"{rng.getrandbits(64):016x}"}
            line = line.replace(slot, str(drawn[slot]), 1)
    if rng.random() < _SECRET_SHARE:
        line += rng.choice(_LEAKS).format(rng.choice(secrets))
    return line + "\n"
