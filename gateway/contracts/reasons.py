"""Why a sub-agent did not complete or was not to be had, and why what several did together came to nothing: all codes.

Their words stand in `gateway.words.reasons`, one row for each. Light: this is loaded in sub-agents.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NewType

Code = NewType("Code", str)
"""A reason with its figure filled in, such as `killed_by_signal_9`: of `Reason.of`, or read in what a child said."""


class Reason(StrEnum):
    """How a sub-agent ends that does not complete, as its row says it; in the place of `{number}` or `{name}` stands
    what `of` is given."""

    ALLOTMENT_SPENT = "allotment_spent"
    BUDGET_SPENT = "budget_spent"
    CANCELLED = "cancelled"
    CRASHED = "crashed"
    NOT_ALLOWED = "not_allowed"
    PARENT_ENDED = "parent_ended"
    STORE_AWAY = "store_unavailable"
    TURN_ENDED = "turn_ended"
    WORKER_LOST = "worker_lost"
    TOO_LONG = "limit_{number}_s"
    NOT_STARTED = "not_started"
    NOT_READY = "not_ready"
    NOT_CONFINED = "not_confined"
    KILLED = "killed_by_signal_{number}"
    EXITED = "exit_{number}"
    SILENT = "closed_its_output"
    GAVE_UP = "gave_up"
    MEMORY = "memory_over_{number}_mb"
    PROCESSES = "processes_over_{number}"
    THREADS = "threads_over_{number}"
    WORKSPACE_FULL = "workspace_full"
    TOO_MANY_FRAMES = "too_many_frames"
    TOO_MANY_BYTES = "too_many_bytes"
    NOT_UNDERSTOOD = "too_many_lines_that_are_no_frame"
    BROKE_DOWN = "broke_down"
    # By its own account, as its last frame says it:
    FRAME_TOO_LONG = "frame_too_long"
    MODEL_FAILED = "model_failed"
    OUT_OF_MEMORY = "raised_MemoryError"
    PROMPT_TOO_LONG = "prompt_too_long"
    PROTOCOL = "protocol_{number}"
    RAISED = "raised_{name}"
    ROUNDS_SPENT = "rounds_spent"

    def of(self, figure: str | int) -> Code:
        """The code with its figure: a number, or the name of a class."""
        return Code(self.value.format(number=figure, name=figure))


OF_CHILDREN: Final = frozenset(
    {
        Reason.FRAME_TOO_LONG,
        Reason.MODEL_FAILED,
        Reason.OUT_OF_MEMORY,
        Reason.PROMPT_TOO_LONG,
        Reason.PROTOCOL,
        Reason.RAISED,
        Reason.ROUNDS_SPENT,
    }
)
"""What a child may say of itself. Anything else is its parent's to say."""


class NoSubAgent(StrEnum):
    """Why a sub-agent is not to be had."""

    CROWDED = "crowded"
    FORGOTTEN = "forgotten"
    NO_CONVERSATION = "no_conversation"
    NO_TASK = "no_task"
    NOBODY_TO_WAKE = "nobody_to_wake"
    SWITCHED_OFF = "switched_off"
    TASK_TOO_LONG = "task_too_long"
    TOO_DEEP = "too_deep"
    TYPE_OFF = "type_off"
    TYPE_UNKNOWN = "type_unknown"
    WOKEN_OFTEN = "woken_often"


class Shortfall(StrEnum):
    """Why what several sub-agents did together came to nothing."""

    ALL_FAILED = "all_failed"
    LAST_FAILED = "last_failed"
    NOT_APPROVED = "not_approved"
    NOT_SPLIT = "not_split"
    SOME_FAILED = "some_failed"
    STEP_FAILED = "step_failed"
    TIME_UP = "time_up"
    TOO_FEW_SIDES = "too_few_sides"
