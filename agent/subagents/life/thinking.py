"""Which model a sub-agent thinks with."""

from __future__ import annotations

from agent.models import Models
from agent.subagents.life.lives import Lives
from agent.tools.lineage import Lineage
from gateway.store import Store


class Thinking:
    """`model` is what all sub-agents think with; "": each with what its user's conversation has."""

    def __init__(self, models: Models, store: Store, lives: Lives, model: str) -> None:
        self._models = models
        self._store = store
        self._lives = lives
        self._model = model

    async def model_below(self, lineage: Lineage) -> str:
        """That of a sub-agent that is asked for there. A sub-agent's own ones think with what it thinks with. Raises
        `StoreUnavailable`."""
        if self._model:
            return self._model
        above = self._lives.of(lineage.task_id)
        if above is not None:
            return above.charge.model
        session = await self._store.sessions.by_id(lineage.session_id)
        return self._models.of_session(session) if session is not None else self._models.default
