"""How much the bus takes, and how much of it may run at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gateway.limits import LANE_MESSAGES_MAX, QUEUE_MESSAGES_MAX, TURNS_MAX, USER_TURNS_MAX


@dataclass(frozen=True, slots=True)
class Caps:
    """`user_turns_max`: lanes of one user that run or are next, the others are parked; `turns_max`: turns
    at a time over all processes, 0 for any number."""

    lane_messages_max: int = LANE_MESSAGES_MAX
    queue_messages_max: int = QUEUE_MESSAGES_MAX
    user_turns_max: int = USER_TURNS_MAX
    turns_max: int = TURNS_MAX

    def of_each(self, shards: int) -> Caps:
        """The caps of one shard among `shards`: those over everybody are divided, rounded up.

        Those of a lane and of a user stay exact, for all lanes of a user share a shard.
        """
        return replace(
            self,
            queue_messages_max=-(-self.queue_messages_max // shards),
            turns_max=-(-self.turns_max // shards),
        )
