"""What processes count: added up over them, and told as Prometheus has it."""

from __future__ import annotations

from collections import Counter

from gateway.ops.admin.health import tally_families
from gateway.telemetry.metrics import DELIVERY_SECONDS, MODEL_OUTCOMES, Tally


def told(counts: dict[str, int]) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in tally_families(counts, (), clean=str.upper)
        for sample in family.samples
    }


def test_counts_of_two_processes_are_one_count_and_durations_fall_into_buckets() -> None:
    one, two = Tally(), Tally()
    for tally in (one, two):
        tally.add(MODEL_OUTCOMES, "openai/x", "answered")
    for ms in (-5, 100, 101, 1_000_000):
        two.time(DELIVERY_SECONDS, ms)
    found = told(Counter(one.take()) + Counter(two.take()))
    assert found["trivet_model_outcomes_total", "OPENAI/X", "ANSWERED"] == 2
    buckets = [found["trivet_delivery_seconds_bucket", le] for le in ("0.1", "0.25", "600.0", "+Inf")]
    assert buckets == [2, 3, 3, 4], "a bound belongs to its bucket; clocks that disagree cost no time"
    assert found["trivet_delivery_seconds_sum",] == 1000.201


def test_what_nobody_took_is_told_the_next_time_and_what_is_not_known_here_is_not() -> None:
    tally = Tally()
    tally.add(MODEL_OUTCOMES, "x", "key")
    taken = tally.take()
    assert not tally.take()
    tally.add(MODEL_OUTCOMES, "x", "key")
    tally.give_back(taken)
    found = told({**tally.take(), "trivet_of_tomorrow\x1fx": 1})
    assert found == {("trivet_model_outcomes_total", "X", "KEY"): 2}
