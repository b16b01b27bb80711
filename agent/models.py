"""Which model does what: the one that answers, and a cheap one of the same provider for small work."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from agent.context import Budget, budget_of
from agent.model.client import ModelFacts, ModelProvider
from agent.routing import Depth, Tier, tier_of
from gateway.config import SCRIPTED_MODEL, Settings, utility_model
from gateway.contracts.entries import Session
from gateway.contracts.errors import ConfigError

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The model that answers one turn, and what its prompt may fill."""

    model: str
    budget: Budget


class Models:
    """The models of the configuration and of each session. Explicit /model > cost router > default."""

    def __init__(self, client: ModelProvider, settings: Settings) -> None:
        """Warns when the window of a model is unknown and a small one has to be assumed."""
        self._client = client
        self._settings = settings
        self._tiers = {
            Tier.LOW: settings.routing.low,
            Tier.MEDIUM: settings.routing.medium,
            Tier.HIGH: settings.routing.high,
        }
        self._budgets: dict[str, Budget] = {}
        self.budget(self.default)

    @property
    def default(self) -> str:
        """The configured model."""
        return self._settings.agent.model

    @property
    def choosable(self) -> tuple[str, ...]:
        """What everybody may choose, the configured one first."""
        return choosable(self._settings)

    def is_callable(self, model: str) -> bool:
        """Whether a model of that name can be called at all."""
        try:
            self._client.check_name(model)
        except ConfigError:
            return False
        return True

    def of_session(self, session: Session) -> str:
        """The model of a session before any routing: its own if it has one that can still be called."""
        return session.model if session.model and self.is_callable(session.model) else self.default

    def choose(self, session: Session, said: str, depth: Depth, *, prompt_tokens: int) -> Chosen:
        """The model for a turn in which the user said `said`.

        A routed model that could not read the conversation as it stands is passed over: a short "thanks" must
        not cost a long conversation its memory.
        """
        model = self.of_session(session)
        if self._settings.routing.enabled and model != session.model:
            routed = self._tiers[tier_of(said, depth)]
            if routed and prompt_tokens < self.budget(routed).usable:
                model = routed
        return Chosen(model, self.budget(model))

    def utility(self, session: Session) -> str:
        """The model for small work about a session: cheap, and never of another provider than its own model."""
        return utility_model(self._settings, self.of_session(session))

    def sees(self, model: str) -> bool:
        """Whether images are shown to a model."""
        return self._client.facts(model).sees

    def learns_of_images(self, model: str) -> bool:
        """Whether a model sees images, or another describes them to it."""
        return self.sees(model) or bool(self._settings.agent.vision_model)

    @property
    def seeing(self) -> str | None:
        """One that sees images, among those that everybody may choose."""
        return next(filter(self.sees, self.choosable), None)

    def facts(self, model: str) -> ModelFacts:
        """What is known of a model."""
        return self._client.facts(model)

    def budget(self, model: str) -> Budget:
        """What a prompt for `model` may fill. `agent.context_window` is about the configured model, and about
        those that nothing is known of."""
        if model not in self._budgets:
            self._budgets[model] = self._measured(model)
        return self._budgets[model]

    def _measured(self, model: str) -> Budget:
        facts = self._client.facts(model)
        configured = self._settings.agent.context_window or 0
        budget = budget_of(
            facts, window_override=configured if model == self.default or not facts.context_window else 0
        )
        if not configured and not facts.context_window:
            _log.warning("model.window_unknown", model=model, assumed=budget.window)
        return budget


def choosable(settings: Settings) -> tuple[str, ...]:
    """The models that everybody may choose, the configured one first. An entry that hears or embeds cannot talk."""
    agent = settings.agent
    silent = {agent.embedding_model, agent.transcription_model}
    entries = (name for name in settings.models if name not in silent)
    unlisted = (*settings.routing.models, *agent.fallback_models, *entries)
    return tuple(dict.fromkeys((agent.model, *(agent.models or unlisted))))


def check_models(client: ModelProvider, settings: Settings, *, known: Iterable[str] = ()) -> None:
    """Raises `ConfigError`, which names the setting and what may have been meant, for a configured model that nobody
    can call."""
    for name, entry in settings.models.items():
        if not entry.model or entry.model.startswith(SCRIPTED_MODEL):
            raise ConfigError(f"models.{name}.model: {entry.model!r} is no model of litellm: write <provider>/<model>")
    hearing = settings.models.get(settings.agent.transcription_model)
    if hearing is not None and hearing.extra_headers:
        name = settings.agent.transcription_model
        raise ConfigError(f"models.{name}.extra_headers: litellm gives none to a transcription: take them out")
    for setting, models in named_models(settings).items():
        for model in models:
            try:
                client.check_name(model)
            except ConfigError as error:
                near = difflib.get_close_matches(model, (*settings.models, *known), n=1)
                raise ConfigError(f"{setting}: {error}" + (f"; did you mean {near[0]}?" if near else "")) from error


def named_models(settings: Settings) -> Mapping[str, Sequence[str]]:
    """Every setting that names models, and those that it names."""
    agent, routing = settings.agent, settings.routing
    named = {
        "agent.model": (agent.model,),
        "agent.utility_model": (agent.utility_model,),
        "agent.embedding_model": (agent.embedding_model,),
        "agent.vision_model": (agent.vision_model,),
        "agent.transcription_model": (agent.transcription_model,),
        "agent.fallback_models": agent.fallback_models,
        "agent.models": agent.models,
        "subagents.model": (settings.subagents.model,),
        "routing.low": (routing.low,),
        "routing.medium": (routing.medium,),
        "routing.high": (routing.high,),
        **{f"models.{name}.model": (name,) for name in settings.models},
    }
    return {setting: tuple(filter(None, models)) for setting, models in named.items()}
