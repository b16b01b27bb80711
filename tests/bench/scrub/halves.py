"""Goal 9: a secret in two messages leaves no piece in either once the second is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from channels.inbound.cleaning import Cleaner
from gateway.clock import SystemClock
from gateway.contracts.ids import SessionScope
from gateway.scrub import Scrubber
from tests.bench.scrub.detection import Tally
from tests.bench.scrub.goal import Goal, Measured
from tests.parts.incoming import private_message
from tests.scrubbing import Pair, announced_pairs, is_left, pairs

PAIRS_OF_A_SEED: Final = 50


def joined(scrubber: Scrubber, seeds: Sequence[int]) -> Measured:
    """Through the memory of a channel: tokens cut in two, and values whose announcement is a message of its own."""
    cleaner = Cleaner(scrubber, SystemClock(), SessionScope.PLACE)
    cut, announced = Tally(), Tally()
    for seed in seeds:
        for tally, drawn in ((cut, pairs(seed, PAIRS_OF_A_SEED)), (announced, announced_pairs(seed, PAIRS_OF_A_SEED))):
            for pair in drawn:
                shown = _stored(cleaner, pair)
                is_wrong = any(is_left(pair.planted.value, text) for text in (*shown, "".join(shown)))
                tally.add(pair.planted.kind, is_wrong=is_wrong, example=f"{pair.first} ⏎ {pair.second}")
    goals = [
        _none("tokens left in two messages", cut),
        _none("values left that were announced before", announced),
    ]
    return Measured(goals, {"secrets in two messages": [*cut.worst(), *announced.worst()]})


def _stored(cleaner: Cleaner, pair: Pair) -> tuple[str, str]:
    """Both messages as they stand on their lane after the second came."""
    first = cleaner.clean(replace(private_message(pair.first), id="telegram:1:7:1"))
    second = cleaner.clean(replace(private_message(pair.second), id="telegram:1:7:2"), first.parts)
    mended = {message.id: message.text for message in second.mended}
    return mended.get(first.message.id, first.message.text), second.message.text


def _none(what: str, tally: Tally) -> Goal:
    wrong = tally.wrong.total()
    return Goal(9, what, "0", f"{wrong} of {tally.seen.total()}", wrong == 0)
