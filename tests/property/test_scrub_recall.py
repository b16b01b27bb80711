"""How much the scrubber finds and how much it spoils, on made-up corpora it has never seen.

The goals, and how near they are, are printed by `make bench-scrub`; here stand the lines below which nobody may fall.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from gateway.scrub import scrub
from tests.scrubbing import ATTACKS, PLACEHOLDERS, Attack, leaked, leaks, look_alikes, natural, positives, words_lost

SEEDS = (101, 202, 303)
ROWS = 8
RECALL_MIN = 0.95
RECALL_OF_A_LANGUAGE_MIN = 0.93
FALSE_ALARMS_MAX = 0.01
FALSE_ALARMS_WITH_PLACEHOLDERS_MAX = 0.02
FALSE_ALARMS_IN_TALK_MAX = 0.003
CHANGING_AGAIN_MAX = 0.005
LOST_WORDS_MAX = 0.025
SEEN_THROUGH_MIN = 0.90
SELDOM_SEEN_THROUGH = {"wrong case": 0.2}
"""What the product only tries."""
scrubbed = cache(scrub)
"""Several tests look at what became of the same rows."""


@pytest.mark.parametrize("seed", SEEDS)
def test_secrets_of_every_kind_and_language_are_found(seed: int) -> None:
    seen: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for sample in positives(seed, ROWS):
        left = list(leaked(sample, scrubbed(sample.text)))
        seen.update(kind for kind, _ in sample.planted)
        missed.update(kind for kind, _ in left)
        seen[f"in {sample.language}"] += 1
        missed[f"in {sample.language}"] += bool(left)
    languages = {group: 1 - missed[group] / seen[group] for group in seen if group.startswith("in ")}
    kinds = seen.keys() - languages.keys()
    recall = 1 - sum(missed[kind] for kind in kinds) / sum(seen[kind] for kind in kinds)
    print(f"seed {seed}: {len(kinds)} kinds, recall {recall:.4f}, {languages}")
    print("worst:", [(kind, missed[kind], seen[kind]) for kind, _ in missed.most_common(20) if kind in kinds])
    assert recall >= RECALL_MIN
    assert min(languages.values()) >= RECALL_OF_A_LANGUAGE_MIN


@pytest.mark.parametrize("seed", SEEDS)
def test_look_alikes_stay(seed: int) -> None:
    rows = list(look_alikes(seed))
    changed = [sample for sample in rows if scrubbed(sample.text) != sample.text]
    others = [sample for sample in changed if sample.kind != PLACEHOLDERS]
    count = sum(sample.kind != PLACEHOLDERS for sample in rows)
    print(f"seed {seed}: {len(rows)} look-alikes, {len(changed)} changed: {[each.text[:80] for each in changed[:5]]}")
    assert len(others) <= FALSE_ALARMS_MAX * count
    assert len(changed) <= FALSE_ALARMS_WITH_PLACEHOLDERS_MAX * len(rows)


@pytest.mark.parametrize("seed", SEEDS)
def test_talk_stays(seed: int) -> None:
    rows = list(natural(seed))
    changed = [sample.text for sample in rows if scrubbed(sample.text) != sample.text]
    assert len(changed) <= FALSE_ALARMS_IN_TALK_MAX * len(rows), changed


@pytest.mark.parametrize("seed", SEEDS)
def test_words_beside_a_secret_stay(seed: int) -> None:
    beside = [words_lost(sample, scrubbed(sample.text)) for sample in positives(seed, ROWS)]
    words, lost = sum(count for count, _ in beside), sum(count for _, count in beside)
    print(f"seed {seed}: {lost} of {words} words beside a secret lost")
    assert lost <= LOST_WORDS_MAX * words


@pytest.mark.parametrize("seed", SEEDS)
def test_no_row_changes_when_scrubbed_again(seed: int) -> None:
    rows = [*positives(seed, ROWS), *look_alikes(seed), *natural(seed)]
    changing = [sample for sample in rows if scrub(once := scrubbed(sample.text)) != once]
    assert len(changing) <= CHANGING_AGAIN_MAX * len(rows), changing


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_a_disguise_helps_nobody(attack: Attack) -> None:
    rows = list(attack.rows(404))
    leaking = [sample for sample in rows if attack.leaks(sample, scrub(sample.text))]
    print(f"{attack.name}: {len(leaking)} of {len(rows)} leak")
    assert len(leaking) <= (1 - SELDOM_SEEN_THROUGH.get(attack.name, SEEN_THROUGH_MIN)) * len(rows)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_a_disguised_row_changes_once(attack: Attack) -> None:
    for sample in attack.rows(405):
        once = scrub(sample.text)
        assert scrub(once) == once, sample
        assert leaks(sample, sample.text) or attack.leaks(sample, sample.text), "the attack hides the secret for good"
