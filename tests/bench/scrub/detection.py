"""Measure goals 1, 2, 4 and 9: recall, false alarms, words lost, stability, values announced one message before."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.scrub import Scrubber
from gateway.scrub.scrubber import open_ending, scrub_after
from tests.bench.scrub.goal import Goal, Measured, by_seed, percent, shortened
from tests.scrubbing import (
    PLACEHOLDERS,
    Sample,
    announced_pairs,
    is_left,
    leaked,
    look_alikes,
    natural,
    positives,
    words_lost,
)

RECALL_MIN: Final = 0.995
RECALL_OF_A_KIND_MIN: Final = 0.95
RECALL_OF_A_LANGUAGE_MIN: Final = 0.99
LANGUAGES_ASKED_FOR: Final = ("ru", "zh")
FALSE_ALARMS_MAX: Final = 0.005
FALSE_ALARMS_WITH_PLACEHOLDERS_MAX: Final = 0.01
FALSE_ALARMS_IN_TALK_MAX: Final = 0.003
LOST_WORDS_MAX: Final = 0.025
EXAMPLES: Final = 2
ANNOUNCED_OF_A_SEED: Final = 50


@dataclass(slots=True)
class Tally:
    """How many there were of each group, and which of them went wrong."""

    seen: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    examples: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, group: str, *, is_wrong: bool, example: str = "") -> None:
        """Count one; keep it as an example if it went wrong."""
        self.seen[group] += 1
        if is_wrong:
            self.wrong[group] += 1
            if example:
                self.examples[group].append(example)

    def share_wrong(self, *groups: str) -> float:
        """Of these groups together, or of all."""
        chosen = groups or tuple(self.seen)
        return sum(self.wrong[group] for group in chosen) / max(1, sum(self.seen[group] for group in chosen))

    def worst(self, above: float = 0.0) -> list[str]:
        """The groups that go wrong more often than that, worst first, with examples."""
        shares = sorted(((self.wrong[group] / self.seen[group], group) for group in self.wrong), reverse=True)
        return [
            f"{percent(share, 0):>6} of {group}: {'  ⏎  '.join(map(shortened, self.examples[group][:EXAMPLES]))}"
            for share, group in shares
            if share > above
        ]


def found(scrubber: Scrubber, seeds: Sequence[int], rows: int) -> Measured:
    """Goals 1 and 4."""
    kinds, languages, again = Tally(), Tally(), Tally()
    recalls: list[float] = []
    words = lost = 0
    for seed in seeds:
        of_seed = Tally()
        for sample in positives(seed, rows):
            clean = scrubber.scrub(sample.text)
            left = set(leaked(sample, clean))
            for planted in sample.planted:
                kinds.add(planted.kind, is_wrong=planted in left, example=sample.text)
                of_seed.add("all", is_wrong=planted in left)
            languages.add(sample.language, is_wrong=bool(left))
            again.add(sample.kind, is_wrong=scrubber.scrub(clean) != clean, example=sample.text)
            beside, gone = words_lost(sample, clean)
            words, lost = words + beside, lost + gone
        recalls.append(1 - of_seed.share_wrong())
    short = [kind for kind in kinds.seen if kinds.share_wrong(kind) > 1 - RECALL_OF_A_KIND_MIN]
    spoken = {language: 1 - languages.share_wrong(language) for language in languages.seen}
    asked = {language: spoken[language] for language in LANGUAGES_ASKED_FOR}
    others = ", ".join(f"{name} {percent(share, 1)}" for name, share in spoken.items() if name not in asked)
    goals = [
        Goal(1, f"recall, {len(kinds.seen)} kinds", "≥ 99.5 %", by_seed(recalls), min(recalls) >= RECALL_MIN),
        Goal(1, "every kind", "≥ 95 %", f"{len(short)} kinds below" if short else "every one", not short),
        Goal(
            1,
            "Russian, Chinese",
            "≥ 99 %",
            f"{' / '.join(map(percent, asked.values()))} ({others})",
            min(asked.values()) >= RECALL_OF_A_LANGUAGE_MIN,
        ),
        Goal(4, "words lost beside secrets", "≤ 2.5 %", percent(lost / words), lost <= LOST_WORDS_MAX * words),
        _idempotence("rows with secrets", again),
    ]
    worst = {"kinds below 95 %": kinds.worst(1 - RECALL_OF_A_KIND_MIN), "rows that change again": again.worst()}
    return Measured(goals, worst)


def spoiled(scrubber: Scrubber, seeds: Sequence[int], rows: int) -> Measured:
    """Goal 2, and goal 4 for rows without a secret."""
    classes, again = _changed(scrubber, (each for seed in seeds for each in look_alikes(seed, rows)))
    talk, talk_again = _changed(scrubber, (each for seed in seeds for each in natural(seed, rows * 12)))
    others = [name for name in classes.seen if name != PLACEHOLDERS]
    without, total, talking = classes.share_wrong(*others), classes.share_wrong(), talk.share_wrong()
    again.seen += talk_again.seen
    again.wrong += talk_again.wrong
    goals = [
        Goal(
            2, f"look-alikes changed, {len(others)} classes", "≤ 0.5 %", percent(without), without <= FALSE_ALARMS_MAX
        ),
        Goal(2, "with placeholders", "≤ 1 %", percent(total), total <= FALSE_ALARMS_WITH_PLACEHOLDERS_MAX),
        Goal(2, "talk changed, 8 languages", "≤ 0.3 %", percent(talking), talking <= FALSE_ALARMS_IN_TALK_MAX),
        _idempotence("rows without", again),
    ]
    return Measured(goals, {"look-alikes changed": classes.worst(), "talk changed": talk.worst()})


def _changed(scrubber: Scrubber, samples: Iterable[Sample]) -> tuple[Tally, Tally]:
    changed, again = Tally(), Tally()
    for sample in samples:
        clean = scrubber.scrub(sample.text)
        changed.add(sample.kind, is_wrong=clean != sample.text, example=sample.text)
        again.add(sample.kind, is_wrong=scrubber.scrub(clean) != clean, example=sample.text)
    return changed, again


def _idempotence(of: str, again: Tally) -> Goal:
    stable = 1 - again.share_wrong()
    return Goal(4, f"a second scrub changes nothing, {of}", "100 %", percent(stable), stable == 1)


def announced(scrubber: Scrubber, seeds: Sequence[int]) -> Measured:
    """Measure how many values are left whose announcement is a message of its own."""
    tally = Tally()
    for seed in seeds:
        for pair in announced_pairs(seed, ANNOUNCED_OF_A_SEED):
            clean, _ = scrub_after(scrubber, open_ending(pair.first), pair.second)
            example = f"{pair.first} ⏎ {pair.second}"
            tally.add(pair.planted.kind, is_wrong=is_left(pair.planted.value, clean), example=example)
    wrong = tally.wrong.total()
    goal = Goal(9, "values left that were announced before", "0", f"{wrong} of {tally.seen.total()}", wrong == 0)
    return Measured([goal], {"secrets in two messages": list(tally.worst())})
