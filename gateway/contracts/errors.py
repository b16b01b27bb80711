"""Every error that crosses a room, drawn once.

    TrivetError
    ├── ConfigError                 the operator has to change something; message = one sentence with the remedy
    │   └── PluginBroken            a part of a plug-in cannot be used; everything else goes on without it
    ├── Declined                    what a person asked for is not done; the answer says why
    ├── BadSessionKey, BadEnvelope  malformed text from outside
    │   └── NewerEnvelope           of a later release: for those who can read it
    ├── BusError
    │   ├── BusUnavailable          retryable
    │   └── AlreadyRunning          another Trivet owns this data directory
    ├── StoreError
    │   ├── StoreUnavailable        retryable: locked, unreachable
    │   ├── SchemaMismatch          newer or missing schema
    │   ├── QueryRefused            a foreign database did not answer; the message may be shown to the model
    │   ├── MemoryFull              no room for one more fact of this owner
    │   └── Fenced                  a newer worker owns the lane; drop the turn
    ├── ModelError                  after retries; `user_sentence` is what the user may read
    │   ├── ModelUnavailable        retryable: rate limit, overload, 5xx, connect and read errors
    │   ├── ModelTooSlow            no answer in the time it had: trying again would take as long
    │   ├── ModelRejected           not found, invalid request
    │   │   ├── KeyRejected         the provider does not accept the key: the operator is told
    │   │   └── QuotaSpent          the provider's quota or credit is used up: likewise
    │   ├── ContextTooLong          compact and try once more
    │   ├── EmptyAnswer             the model said nothing at all
    │   └── BudgetSpent             today's allowance is spent: the call was not made
    ├── ToolError                   an error result for the model, never for the user
    └── DeliveryError
        ├── RateLimited             retryable after `retry_after_s`, the whole lane waits
        ├── SendFailed              retryable, certainly not delivered
        ├── OutcomeUnknown          may have been delivered: look up before sending again
        ├── Untraceable             the look-up cannot tell: `unknown_sends` says what follows
        ├── AddressDead             blocked, kicked, gone: never retry
        ├── AddressMoved            retry at `address`
        ├── FormatRefused           the same chunk goes out as plain text
        ├── FileRefused             a file of a person cannot be had; its reason is told in the turn
        └── CredentialsRejected     again and again: the account rests, or never begins; the operator is told

`needs_operator` is a fact of the class, not of the moment."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final, LiteralString, NewType

if TYPE_CHECKING:
    from gateway.contracts.budgets import Measure
    from gateway.contracts.ids import ReplyAddress


class TrivetError(Exception):
    """Base of the tree. `str(error)` is fit for the operator's log, never for a chat."""


class ConfigError(TrivetError):
    """Wrong or missing configuration. The message is one sentence that names the remedy."""


class PluginBroken(ConfigError):
    """A plug-in's addition that cannot be used: it is left out, and the operator is told."""


class Declined(TrivetError):
    """A person's wish that is not fulfilled. `own` says why, in English, as half a sentence with named places for
    `values`: a chat translates it."""

    def __init__(self, own: LiteralString, /, **values: str | int) -> None:
        super().__init__(own.format_map(values))
        self.own: LiteralString = own
        self.values = values


class BadSessionKey(TrivetError):
    """Text that is no session key."""

    def __init__(self, text: str) -> None:
        super().__init__(f"not a session key: {text[:80]!r}; one reads telegram:123456789")


class BadEnvelope(TrivetError):
    """Bytes from the bus that are no envelope of a version we read."""


class NewerEnvelope(BadEnvelope):
    """An envelope of a later release than this one. Nothing is wrong with it: leave it where it is."""


class BusError(TrivetError):
    """The bus refused."""


class BusUnavailable(BusError):
    """Redis cannot be reached, is loading, or lost its primary."""


class AlreadyRunning(BusError):
    """Another Trivet owns this data directory."""


class StoreError(TrivetError):
    """The database refused."""


class StoreUnavailable(StoreError):
    """The database is locked or cannot be reached."""


class SchemaMismatch(StoreError):
    """The database is newer than this Trivet, or was never migrated."""


class QueryRefused(StoreError):
    """A foreign database, or the guard before it, refused a statement. The message names no host and no password."""


class MemoryFull(StoreError):
    """An owner has as many facts as are kept, and none of them may make room."""


class Fenced(StoreError):
    """A newer fencing token owns the lane: this run must end without a trace."""


class ModelError(TrivetError):
    """A model call failed for good. With `needs_operator` it fails for everybody until an operator mends something."""

    needs_operator: ClassVar[bool] = False


class ModelUnavailable(ModelError):
    """Rate limit, overload, server or network error. `retry_after_s` when the provider named it."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ModelTooSlow(ModelError):
    """The call was given up when its time had passed."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"no answer within {timeout_s:g} s")


class ModelRejected(ModelError):
    """Key, quota, unknown model, invalid request: trying again changes nothing."""


class KeyRejected(ModelRejected):
    """The provider does not know the key, or does not let it use the model; or there is no key."""

    needs_operator = True


class QuotaSpent(ModelRejected):
    """The provider answers no more until its account has credit again. Our own caps are `BudgetSpent`."""

    needs_operator = True


class ContextTooLong(ModelError):
    """The provider says that the prompt does not fit."""


class EmptyAnswer(ModelError):
    """The model ended without a word and without a call."""

    def __init__(self, finish_reason: str) -> None:
        super().__init__(f"the model gave an empty answer (finish reason {finish_reason or 'none'})")


class BudgetSpent(ModelError):
    """A cap of the day is reached, so the model was not asked. `is_everybodys`: it is the pot that all share."""

    def __init__(self, measure: Measure, *, reset_at_ms: int, is_everybodys: bool = False) -> None:
        super().__init__(f"today's {measure.value} of {'all together' if is_everybodys else 'this user'} are spent")
        self.measure = measure
        self.reset_at_ms = reset_at_ms
        self.is_everybodys = is_everybodys


class FailureCause(StrEnum):
    """Why a tool failed, as far as that decides what its caller does next."""

    ARGUMENTS = "arguments"
    PREREQUISITE = "prerequisite"
    """Something is not as the call assumed: a file is missing, a step comes first."""
    BUSY = "busy"
    """Out of time, or a rate limit."""
    REFUSED = "refused"
    """Not permitted, off, unknown, or broken: another call of it fails as well."""


class ToolError(TrivetError):
    """A tool could not do what the model asked. The text becomes the tool's error result."""

    def __init__(self, said: str, cause: FailureCause = FailureCause.PREREQUISITE) -> None:
        """Hold the text and the cause."""
        super().__init__(said)
        self.cause = cause


class DeliveryError(TrivetError):
    """A platform did not take a message."""


class RateLimited(DeliveryError):
    """HTTP 429 or its like: nothing was sent, wait `retry_after_s`."""

    def __init__(self, retry_after_s: float, *, is_global: bool = False) -> None:
        """Hold the waiting time; `is_global`: the whole account has to wait, not only this place."""
        super().__init__(f"rate limited for {retry_after_s:g} s")
        self.retry_after_s = retry_after_s
        self.is_global = is_global


class SendFailed(DeliveryError):
    """The platform certainly did not take it; trying again is safe."""


class OutcomeUnknown(DeliveryError):
    """The request left, no answer came: it may have been delivered."""


class Untraceable(DeliveryError):
    """The platform was asked whether an earlier attempt arrived, and its answer does not tell."""


class AddressDead(DeliveryError):
    """Blocked, kicked, deleted, archived: this address takes nothing any more."""


class AddressMoved(DeliveryError):
    """The chat lives elsewhere now (Telegram supergroup migration)."""

    def __init__(self, address: ReplyAddress) -> None:
        super().__init__("the chat moved")
        self.address = address


class FormatRefused(DeliveryError):
    """The platform refused the formatting, not the message."""


class FileRefused(DeliveryError):
    """A file that came with a message cannot be had: gone, too large, not for us. The message is that reason, short
    and fit for people."""


class CredentialsRejected(DeliveryError):
    """The platform does not accept our token. The message names the channel, never the token."""


# Why a sub-agent did not complete or was not to be had, and why what several did together came to nothing: all
# codes.
#
# Their words stand in `gateway.i18n.reasons`, one row for each. Light: this is loaded in sub-agents.


Code = NewType("Code", str)
"""A reason with its figure filled in, such as `killed_by_signal_9`: of `Reason.of`, or read in what a child said."""


class Reason(StrEnum):
    """The ending of a sub-agent that does not complete, as its row says it; in the place of `{number}` or `{name}` is
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
        """Build the code with its figure: a number, or the name of a class."""
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
"""The reasons that a child may give itself. Anything else is its parent's to say."""


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
