"""The settings of cost-aware routing: which model answers an easy, a usual, a hard message."""

from __future__ import annotations

from pydantic import Field

from gateway.config.section import Section


class Routing(Section):
    """Three tiers of models. A session with a model of its own is never routed."""

    enabled: bool = Field(default=False, description="Choose the model by how hard a message looks.")
    low: str = Field(default="", description="Model for greetings, look-ups, single steps. Empty: agent.model.")
    medium: str = Field(default="", description="Model for what is neither easy nor hard. Empty: agent.model.")
    high: str = Field(default="", description="Model for big tasks and long conversations. Empty: agent.model.")

    @property
    def models(self) -> tuple[str, ...]:
        """The models of the tiers, if there is routing."""
        return tuple(filter(None, (self.low, self.medium, self.high))) if self.enabled else ()
