"""The prompt of one turn, kept inside its model's window from the first round to the last.

    before the first round   old tool outputs pruned from 60 % of usable; a stored compaction when it is full
    between two rounds       the outputs of this turn pruned; then a stored compaction of what came before it;
                             then a summary of its first rounds, which lives as long as the turn
    after a refusal          the same, for a smaller budget: the provider knows better than our estimate

What a turn itself was asked is always verbatim. Where nothing helps, `ContextTooLong` tells the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Final

from agent.limits import OUTPUTS_KEPT, PRUNE_SHARE, ROUNDS_MESSAGES_MAX, VIEW_CHARS_PER_TOKEN
from agent.models.requests import Permit, PromptMessage
from agent.models.selection import Models
from agent.models.transcript import PromptBudget, build_prompt, next_prompt_tokens, shown_images
from agent.runtime.compaction import Compactor, SummaryOrder
from agent.runtime.compaction_plan import Pruned, plan_rounds, prune_pass, pruned
from agent.tokens import entries_tokens, estimate_tokens
from agent.tools.registry import ToolRegistry
from agent.tools.tool import ToolContext
from gateway.contracts.errors import ContextTooLong
from gateway.contracts.messages import CleanText, joined, literal_text
from gateway.contracts.sessions import Entry, EntryKind, PromptQuery, PromptStart, Role, Session, Todo
from gateway.store import Store

_REFUSED_SHARE: Final = 0.75
"""Of a prompt that the provider found too long: what we make of it for the second try."""


class TurnWindows:
    """Opens a window for each turn."""

    def __init__(self, compactor: Compactor, models: Models, tools: ToolRegistry, store: Store) -> None:
        self._compactor = compactor
        self._models = models
        self._tools = tools
        self._store = store

    async def open(
        self,
        session: Session,
        context: ToolContext,
        *,
        system: Callable[[Sequence[Todo]], CleanText],
        fence: int,
        start: PromptStart | None = None,
    ) -> TurnWindow:
        """Open the window of a turn in `session`, with all that was said so far, after what `system` makes of the task
        list. `start` is what was already read of both, for a model that may be another one. Raises
        `StoreUnavailable`."""
        model = self._models.of_session(session)
        budget, query = self._models.budget(model), self.query(model)
        if start is None or start.query.chars_max != query.chars_max:
            start = await self._store.transcript.prompt_start(session.id, context.key, query)
        newest = start.view
        view = newest.entries if newest.is_whole else tuple(await self._store.transcript.view(session.id))
        prompt = system(start.todos)
        return TurnWindow(
            self._compactor,
            session,
            view,
            budget,
            system=prompt,
            fixed_tokens=estimate_tokens(prompt) + sum(spec.tokens for spec in self._tools.specs_for(context)),
            protected=self._tools.protected_names,
            fence=fence,
            permit=context.permit,
            zone=start.zone,
        )

    def query(self, model: str) -> PromptQuery:
        """Return what has to be read to open the window of a turn for `model`."""
        return PromptQuery(self._models.budget(model).usable * VIEW_CHARS_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class _Rounds:
    """The shown form of the running turn: `progress` replaces what it added before index `kept_from`, except
    the `requests` in it; before index `pruned_to` its outputs are pruned."""

    progress: CleanText | None = None
    requests: tuple[Entry, ...] = ()
    kept_from: int = 0
    pruned_to: int = 0

    @property
    def progress_note(self) -> tuple[Entry, ...]:
        """Return the note that tells the model about the progress."""
        if self.progress is None:
            return ()
        text = joined(literal_text("<progress>\n"), self.progress, literal_text("\n</progress>"))
        return (Entry(Role.USER, text, kind=EntryKind.NOTE),)


@dataclass(eq=False, repr=False)
class TurnWindow:
    """The window of one turn: `agent.engine.PromptWindow`."""

    compactor: Compactor
    session: Session
    view: tuple[Entry, ...]
    """The summary, if there is one, and all that was said since."""
    budget: PromptBudget
    _: KW_ONLY
    system: CleanText
    fixed_tokens: int
    protected: Set[str]
    fence: int
    permit: Permit
    zone: str
    _rounds: _Rounds = field(init=False, default_factory=_Rounds)
    _may_compact: bool = field(init=False, default=True)
    _may_condense: bool = field(init=False, default=True)

    @property
    def tokens(self) -> int:
        """Estimate the size of a prompt with the whole view, in tokens."""
        return next_prompt_tokens(self.fixed_tokens, self.view, self.session, an_image=self.budget.an_image)

    @property
    def is_abridged(self) -> bool:
        """Tell whether the last prompt lacked some of what the turn has said: then its count says little about the next
        one."""
        return self._rounds != _Rounds()

    # --- the first round

    async def fit(self, budget: PromptBudget) -> None:
        """Compact what was said so far, if a prompt with it would not fit into `budget`.

        Raises `ContextTooLong` if it does not fit then either, `Fenced` and `StoreUnavailable`."""
        self.budget = budget
        used = self.tokens - self._pruned().saved_tokens
        if used >= budget.usable and await self._compact():
            used = self._estimated(())
        self._check(used)

    def prompt(self, in_flight: Sequence[Entry]) -> tuple[PromptMessage, ...]:
        """Build the prompt from what was said so far and what the turn has added to it."""
        return build_prompt(self._shown(in_flight))

    # --- between rounds

    async def condensed(
        self, in_flight: Sequence[Entry], *, counted: int, is_refused: bool = False
    ) -> tuple[PromptMessage, ...] | None:
        """Build the prompt anew, if what the turn has gathered does not fit any more; None while it may stay as it is.

        `in_flight` is all that the turn has added so far; `counted` is the provider's count of the last prompt (0:
        unknown). Raises `ContextTooLong` when nothing helps."""
        used = self._used(in_flight, counted)
        if is_refused:
            self._may_compact = self._may_condense = True
            self.budget = replace(self.budget, usable=min(self.budget.usable, int(used * _REFUSED_SHARE)))
        is_long = len(in_flight) - self._rounds.kept_from > ROUNDS_MESSAGES_MAX and self._may_condense
        if used < self.budget.usable and not is_long and not is_refused:
            return None
        before = (self.view, self._rounds)
        await self._make_room(in_flight, used)
        if (self.view, self._rounds) == before:
            self._check(used)
            return None
        self._check(self._estimated(in_flight))
        return self.prompt(in_flight)

    async def _make_room(self, in_flight: Sequence[Entry], used: int) -> None:
        """Make room step by step until the prompt fits, the cheap steps first."""
        is_over = used >= self.budget.usable
        if is_over and in_flight:
            self._rounds = replace(self._rounds, pruned_to=self._outputs_start(in_flight, OUTPUTS_KEPT))
            is_over = self._is_over(in_flight)
        if is_over and await self._compact():
            is_over = self._is_over(in_flight)
        if is_over or len(in_flight) - self._rounds.kept_from > ROUNDS_MESSAGES_MAX:
            await self._condense(in_flight)
        kept = OUTPUTS_KEPT
        while kept and is_over and self._is_over(in_flight):
            kept -= 1
            self._rounds = replace(self._rounds, pruned_to=self._outputs_start(in_flight, kept))

    async def _compact(self) -> bool:
        """Condense what was said before this turn. Tried once: what failed a minute ago fails again."""
        if not self._may_compact:
            return False
        done = await self.compactor.compact(
            self.session, self.view, fence=self.fence, budget=self.budget, permit=self.permit
        )
        self._may_compact = False
        self.view = done.view
        return done.messages > 0

    async def _condense(self, in_flight: Sequence[Entry]) -> None:
        """Condense the first rounds of this turn, for as long as it runs."""
        plan = plan_rounds(in_flight[self._rounds.kept_from :])
        if plan is None or not self._may_condense:
            return
        wanted = SummaryOrder(self.session, plan.head, self._rounds.progress, None, self.permit)
        progress = await self.compactor.summarise(wanted, fence=self.fence)
        if progress is None:
            self._may_condense = False
            return
        self._rounds = replace(
            self._rounds,
            progress=progress,
            requests=(*self._rounds.requests, *plan.requests),
            kept_from=self._rounds.kept_from + plan.kept_from,
        )

    def _outputs_start(self, in_flight: Sequence[Entry], kept: int) -> int:
        """Find the index in front of the newest `kept` tool outputs; never before where we have pruned already."""
        outputs = [index for index, entry in enumerate(in_flight) if entry.role is Role.TOOL]
        old = outputs[: max(len(outputs) - kept, 0)]
        return max(old[-1] + 1 if old else 0, self._rounds.pruned_to)

    # --- sizes

    def _used(self, in_flight: Sequence[Entry], counted: int) -> int:
        """Estimate what the next round would send: the count of the last prompt and what came since."""
        if not counted:
            return self._estimated(in_flight)
        spoken = max((index for index, entry in enumerate(in_flight) if entry.role is Role.ASSISTANT), default=0)
        return counted + self._size(in_flight[spoken:])

    def _estimated(self, in_flight: Sequence[Entry]) -> int:
        return self.fixed_tokens + self._size(self._shown(in_flight))

    def _size(self, entries: Sequence[Entry]) -> int:
        return entries_tokens(entries) + self.budget.an_image * len(shown_images(entries))

    def _is_over(self, in_flight: Sequence[Entry]) -> bool:
        return self._estimated(in_flight) >= self.budget.usable

    def _check(self, used: int) -> None:
        if used > self.budget.window:
            raise ContextTooLong(f"the prompt has about {used} tokens, the window {self.budget.window}")

    # --- what is shown

    def _pruned(self) -> Pruned:
        return prune_pass(
            self.view,
            fixed_tokens=self.fixed_tokens,
            threshold_tokens=self.budget.usable * PRUNE_SHARE,
            protected=self.protected,
            counted_seq=self.session.prompt_seq,
        )

    def _shown(self, in_flight: Sequence[Entry]) -> tuple[Entry, ...]:
        """Return the view and what the turn has added, as its next round sees them."""
        rounds = self._rounds
        old = pruned(in_flight[: rounds.pruned_to], kept=0, protected=self.protected)
        newest = (*old, *in_flight[rounds.pruned_to :])[rounds.kept_from :]
        return (*self._pruned().view, *rounds.requests, *rounds.progress_note, *newest)
