"""Goal 6: streams say what wholes say, nothing early, and hold back little."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Sequence
from typing import Final

from gateway.scrub import Scrubber
from tests.bench.scrub.detection import Tally
from tests.bench.scrub.goal import Goal, Measured
from tests.scrubbing import ATTACKS, SPLITS, Sample, fill, is_left, look_alikes, natural, positives, streamed

HOLD_MEAN_MAX: Final = 24
HOLD_RARE_MAX: Final = 128
FEED_RARE_MAX_US: Final = 100
MEGABYTE_MAX_S: Final = 3.0
ENCODED_LINES: Final = 60
_RARE: Final = 0.99
_ATTACKED: Final = 8


def in_pieces(scrubber: Scrubber, seeds: Sequence[int], rows: int) -> Measured:
    """Equality and early leaks over all seeds and splits; what is held back, and how long a feed takes, on talk."""
    differing, early = Tally(), Tally()
    for seed, (name, split) in itertools.product(seeds, SPLITS.items()):
        rng = random.Random(f"{seed} {name}")
        for sample in _rows(seed, rows):
            whole = scrubber.scrub(sample.text)
            given = streamed(scrubber, split(sample.text, rng))
            differing.add(name, is_wrong="".join(given) != whole, example=sample.text)
            early.add(name, is_wrong=_leaks_early(sample, given, whole), example=sample.text)
    talk = [each.text for seed in seeds for each in (*look_alikes(seed, rows), *natural(seed, rows * 20))]
    mean, rare, feed_us = _held(scrubber, talk)
    encoded_mean, encoded_rare, _ = _held(scrubber, [fill("<base64:76>\n" * ENCODED_LINES, random.Random(1))])
    megabyte_s = _megabyte_of_one_letter(scrubber)
    goals = [
        _none(f"streams that differ from the whole, {len(SPLITS)} splits", differing),
        _none("streams that say a secret early", early),
        Goal(6, "held back on average", f"≤ {HOLD_MEAN_MAX} characters", f"{mean:.1f}", mean <= HOLD_MEAN_MAX),
        Goal(6, "held back, p99", f"≤ {HOLD_RARE_MAX} characters", f"{rare}", rare <= HOLD_RARE_MAX),
        Goal(
            6,
            "on lines of base64, on average",
            f"≤ {HOLD_MEAN_MAX}",
            f"{encoded_mean:.1f}",
            encoded_mean <= HOLD_MEAN_MAX,
        ),
        Goal(6, "on lines of base64, p99", f"≤ {HOLD_RARE_MAX}", f"{encoded_rare}", encoded_rare <= HOLD_RARE_MAX),
        Goal(6, "one feed, p99", f"≤ {FEED_RARE_MAX_US} µs", f"{feed_us:.0f} µs", feed_us <= FEED_RARE_MAX_US),
        Goal(6, "1 MB of one letter, by 8", "≤ 3 s", f"{megabyte_s:.2f} s", megabyte_s <= MEGABYTE_MAX_S),
    ]
    return Measured(goals, {"streams that differ": differing.worst(), "early leaks": early.worst()})


def _rows(seed: int, rows: int) -> Iterator[Sample]:
    yield from positives(seed, rows)
    yield from look_alikes(seed, rows * 2)
    for attack in ATTACKS:
        yield from itertools.islice(attack.rows(seed), _ATTACKED)


def _leaks_early(sample: Sample, given: Sequence[str], whole: str) -> bool:
    """Was a piece said at any time that the whole text hides? What was said stays said, so the end tells."""
    said = "".join(given)
    return any(is_left(secret, said) and not is_left(secret, whole) for secret in sample.secrets)


def _held(scrubber: Scrubber, texts: Sequence[str]) -> tuple[float, int, float]:
    """Characters held back after each piece (mean, p99), and what a feed takes (p99, in microseconds)."""
    held: list[int] = []
    took_ns: list[int] = []
    for split in SPLITS.values():
        rng = random.Random(len(texts))
        for text in texts:
            stream, back = scrubber.stream(), 0
            for piece in split(text, rng):
                began_ns = time.thread_time_ns()
                given = stream.feed(piece)
                took_ns.append(time.thread_time_ns() - began_ns)
                back += len(piece) - len(given)
                held.append(back)
    held.sort()
    took_ns.sort()
    return sum(held) / len(held), held[int(len(held) * _RARE)], took_ns[int(len(took_ns) * _RARE)] / 1000


def _megabyte_of_one_letter(scrubber: Scrubber) -> float:
    began_s = time.thread_time()
    stream = scrubber.stream()
    for _ in range(125_000):
        stream.feed("aaaaaaaa")
    stream.flush()
    return time.thread_time() - began_s


def _none(what: str, tally: Tally) -> Goal:
    wrong = tally.wrong.total()
    return Goal(6, what, "0", f"{wrong} of {tally.seen.total():,}", wrong == 0)
