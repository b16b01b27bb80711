"""Our own corpus for the scrubber: secrets of 360 kinds in the texts they travel in, what only looks like one,
disguises, announcements, streams.

Written from vendors' formats and from how people write, by another hand than the rules, so that the two check each
other. Everything is drawn from a seed: a new seed is a corpus the rules have never seen. No line of it, and no line
of the repository, is anybody's secret.
"""

from tests.scrubbing.attacks import ATTACKS, Attack
from tests.scrubbing.look_alikes import LOOK_ALIKES, PLACEHOLDERS, look_alikes
from tests.scrubbing.natural import chat_text, natural
from tests.scrubbing.pairs import Pair, announced_pairs
from tests.scrubbing.samples import KINDS, Planted, Sample, is_left, leaked, leaks, positives, words_lost
from tests.scrubbing.slots import draw, fill
from tests.scrubbing.streams import SPLITS, streamed
from tests.scrubbing.tokens import TOKENS

__all__ = [
    "ATTACKS",
    "KINDS",
    "LOOK_ALIKES",
    "PLACEHOLDERS",
    "SPLITS",
    "TOKENS",
    "Attack",
    "Pair",
    "Planted",
    "Sample",
    "announced_pairs",
    "chat_text",
    "draw",
    "fill",
    "is_left",
    "leaked",
    "leaks",
    "look_alikes",
    "natural",
    "positives",
    "streamed",
    "words_lost",
]
