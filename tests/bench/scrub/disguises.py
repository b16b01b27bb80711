"""Goal 5: how many disguised tokens are seen through, by attack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.scrub import Scrubber
from tests.bench.scrub.detection import Tally
from tests.bench.scrub.goal import Goal, Measured, percent, shortened
from tests.scrubbing import ATTACKS, Attack

MUST_MIN: Final = 0.95
OVERALL_MIN: Final = 0.75


def seen_through(scrubber: Scrubber, seeds: Sequence[int]) -> Measured:
    """Every attack on every kind of token."""
    shares: dict[Attack, float] = {}
    worst: list[str] = []
    again = Tally()
    for attack in ATTACKS:
        tally = Tally()
        for seed in seeds:
            for sample in attack.rows(seed):
                clean = scrubber.scrub(sample.text)
                tally.add(sample.kind, is_wrong=attack.leaks(sample, clean), example=sample.text)
                again.add(attack.name, is_wrong=scrubber.scrub(clean) != clean, example=sample.text)
        shares[attack] = 1 - tally.share_wrong()
        kinds = [kind for kind, _ in tally.wrong.most_common(6)]
        example = f", e.g. {shortened(tally.examples[kinds[0]][0], 90)}" if kinds else ""
        mark = "must" if attack.is_must else "tried"
        worst.append(f"{percent(shares[attack], 1):>7} {mark:<5} {attack.name}: leaks {', '.join(kinds)}{example}")
    musts = [share for attack, share in shares.items() if attack.is_must]
    short = [share for share in musts if share < MUST_MIN]
    overall = sum(shares.values()) / len(shares)
    lowest = f"{percent(min(musts), 1)} the lowest, {len(short)} of {len(musts)} below"
    stable = 1 - again.share_wrong()
    goals = [
        Goal(5, f"attacks that must fail, {len(musts)} kinds", "≥ 95 % each", lowest, not short),
        Goal(5, f"attacks, all {len(shares)} kinds", "≥ 75 %", percent(overall, 1), overall >= OVERALL_MIN),
        Goal(4, "a second scrub changes nothing, disguised rows", "100 %", percent(stable), stable == 1),
    ]
    return Measured(goals, {"attacks": sorted(worst), "disguised rows that change again": again.worst()})
