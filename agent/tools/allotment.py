"""What several sub-agents may take together, counted while they work. Pure."""

from __future__ import annotations

from gateway.contracts.errors import TrivetError


class AllotmentSpent(TrivetError):
    """The sub-agents that work together have taken all that they may, so the model was not asked."""


class Allotment:
    """One budget of tokens and, unless `usd_max` is None, of dollars, for all that works under it.

    What is taken counts at once, and for those `above`, too: a part of a larger work has no more than is left of
    that. Each model call is asked for before it is made, so what is taken beyond it is at most the call that each of
    them has open.
    """

    def __init__(self, tokens_max: int, usd_max: float | None, *, above: Allotment | None) -> None:
        self._tokens_max = tokens_max
        self._usd_max = usd_max
        self._above = above
        self.tokens = 0
        self.cost_usd = 0.0

    def take(self, tokens: int, cost_usd: float) -> None:
        """Count what a model call took."""
        self.tokens += tokens
        self.cost_usd += cost_usd
        if self._above is not None:
            self._above.take(tokens, cost_usd)

    @property
    def problem(self) -> str:
        """Why no more may be taken, as a clause; "" if it may."""
        if self.tokens >= self._tokens_max:
            return f"the budget of {self._tokens_max} tokens was spent"
        if self._usd_max is not None and self.cost_usd >= self._usd_max:
            return f"the budget of ${self._usd_max:g} was spent"
        return self._above.problem if self._above is not None else ""

    def check(self) -> None:
        """Before each model call. Raises `AllotmentSpent`."""
        if problem := self.problem:
            raise AllotmentSpent(problem)
