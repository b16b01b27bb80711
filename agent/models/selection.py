"""Estimates how hard a message is, to choose a model by its price. Pure, and no model is asked (agent.md section 4).

The first rule that matches decides; a request to destroy something never goes to the cheapest model."""

from __future__ import annotations

import difflib
import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from typing import Final

import structlog

from agent import limits
from agent.models.requests import ModelFacts, ModelProvider
from agent.models.transcript import PromptBudget, budget_of, reports_failure, said_in, summary_of
from gateway.config import NO_MODEL, SCRIPTED_MODEL, Settings
from gateway.contracts.errors import ConfigError
from gateway.contracts.profiles import CHEAP
from gateway.contracts.sessions import Entry, Role, Session


class Tier(StrEnum):
    """The class of model for a message."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Depth:
    """The length of a session so far."""

    messages: int = 0
    tool_calls: int = 0

    @classmethod
    def of(cls, view: Sequence[Entry]) -> Depth:
        """Measure the depth of what the model has in view; a summary counts by the entries that it replaces."""
        spoken = sum(entry.role is not Role.TOOL for entry in said_in(view))
        summed_up = view[0].tail_start_seq - 1 if summary_of(view) is not None else 0
        return cls(spoken + summed_up, sum(len(entry.tool_calls) for entry in view))


def tier_of(said: str, depth: Depth) -> Tier:
    """Choose the tier for a message that is said at that depth of a session."""
    text = " ".join(unicodedata.normalize("NFKC", said).casefold().split())
    tier = _tier(said, text, depth)
    return Tier.MEDIUM if tier is Tier.LOW and _DESTRUCTIVE.search(text) else tier


def _tier(said: str, text: str, depth: Depth) -> Tier:
    is_work = _is_work(said, text)
    if _is_look_up(text) and not is_work:
        return Tier.LOW
    if _BIG.search(text):
        return Tier.HIGH
    if not is_work and (_is_plain_question(text) or _is_greeting(text)):
        return Tier.LOW
    if not is_work and _weight(text) < limits.ROUTING_SHORT_CHARS and (_ONE_STEP.match(text) or _asks(text)):
        return Tier.LOW
    if depth.tool_calls > limits.ROUTING_TOOL_CALLS_MAX or depth.messages > limits.ROUTING_MESSAGES_MAX:
        return Tier.HIGH
    if _weight(text) > limits.ROUTING_LONG_CHARS:
        return Tier.HIGH
    if "```" in said or said.count("\n") > limits.ROUTING_LINES_MAX:
        return Tier.MEDIUM
    return Tier.LOW if _weight(text) < limits.ROUTING_TINY_CHARS and not is_work else Tier.MEDIUM


def _is_work(said: str, text: str) -> bool:
    """Recognize a request for code, a fault to be found or a proof, however short: it holds words of these, or code.
    A question for a fact about them is none."""
    if _asks(text) and not _WHY.match(text) and not _CODE.search(said):
        return False
    return bool(_WORK.search(text) or _CODE.search(said)) or reports_failure(said)


def _is_look_up(text: str) -> bool:
    """Recognize a short question *about* something, however big the word; one about our own things is a task."""
    return _weight(text) <= limits.ROUTING_LOOK_UP_CHARS and _asks(text) and not _BEYOND.search(text)


def _is_plain_question(text: str) -> bool:
    """Recognize a short question for a fact by its mark; one for a way or a cause may take work."""
    is_short = _weight(text) <= limits.ROUTING_LOOK_UP_CHARS and text.endswith(("?", "？"))
    return is_short and not _WHY.match(text) and not _BEYOND.search(text)


def _is_greeting(text: str) -> bool:
    """Recognize a greeting, thanks, a yes or a no with little after it."""
    return _weight(text) <= limits.ROUTING_LOOK_UP_CHARS and bool(_GREETING.match(text))


def _asks(text: str) -> bool:
    return bool(_ASKING.match(text))


def _weight(text: str) -> int:
    """Return the length in letters of an alphabet: a Chinese or Japanese character counts as about three."""
    return len(text) + 2 * len(_IDEOGRAPH.findall(text))


_IDEOGRAPH: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_POLITE: Final = r"\W*(?:(?:please|bitte|por favor|s'il te plaît|пожалуйста|can you|could you|and|so|请|請)\W+)*"


_WORDS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = tomllib.loads(
    resources.files(__package__).joinpath("selection.toml").read_text("utf-8")
)


def _anywhere(kind: str) -> re.Pattern[str]:
    words = _WORDS[kind]
    return re.compile(rf"\b(?:{'|'.join(words['spaced'])})(?!\w)|{'|'.join(words['unspaced'])}")


def _opening(kind: str, *, before_unspaced: str = ".*") -> re.Pattern[str]:
    """Compile a pattern that finds the words at the beginning, after a polite opening; in a script without spaces they
    may be anywhere."""
    words = _WORDS[kind]
    spaced, unspaced = "|".join(words["spaced"]), "|".join(words["unspaced"])
    return re.compile(rf"{_POLITE}(?:{spaced})(?!\w)|{before_unspaced}(?:{unspaced})")


_BIG: Final = _anywhere("big")
_WORK: Final = _anywhere("work")
_CODE: Final = re.compile(
    r"[A-Z]\w*(?:Error|Exception)\b|\w\([^()\s]*\)|=>|[=!]=|::|\+=|;\s*$"
    r"|\b(?:def|const|let|var|func) \w+|[\w)]\^[\w(]|`[^`]+[`']"
)
"""Signs that only programs, their errors and formulas hold."""
_BEYOND: Final = _anywhere("beyond_a_look_up")
_DESTRUCTIVE: Final = _anywhere("destructive")
_ASKING: Final = _opening("asking")
_WHY: Final = _opening("why")
_ONE_STEP: Final = _opening("one_step")
_GREETING: Final = _opening("greeting", before_unspaced=r"\W*")


# Which model does what: the one that answers, and a cheap one of the same provider for small work.


_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The model that answers one turn, and how much its prompt may fill."""

    model: str
    budget: PromptBudget


class Models:
    """The models of the configuration and of each session. Explicit /model > cost router > default."""

    def __init__(self, client: ModelProvider, settings: Settings) -> None:
        """Warn when the window of a model is unknown and a small one has to be assumed."""
        self.client = client
        self._settings = settings
        self._tiers = {
            Tier.LOW: settings.routing.low,
            Tier.MEDIUM: settings.routing.medium,
            Tier.HIGH: settings.routing.high,
        }
        self._budgets: dict[str, PromptBudget] = {}
        self.budget(self.default)

    @property
    def default(self) -> str:
        """Return the configured model."""
        return self._settings.agent.model

    @property
    def choosable(self) -> tuple[str, ...]:
        """Return the models that everybody may choose, the configured one first."""
        return choosable(self._settings)

    def is_callable(self, model: str) -> bool:
        """Tell whether a model of that name can be called at all."""
        try:
            self.client.check_name(model)
        except ConfigError:
            return False
        return True

    def of_session(self, session: Session) -> str:
        """Return the model of a session before any routing: its own if it has one that can still be called."""
        return session.model if session.model and self.is_callable(session.model) else self.default

    def choose(self, session: Session, said: str, depth: Depth, *, prompt_tokens: int) -> Chosen:
        """Choose the model for a turn in which the user said `said`.

        A routed model that could not read the conversation as it is now is passed over: a short "thanks" must not cost
        a long conversation its memory."""
        model = self.of_session(session)
        if self._settings.routing.enabled and model != session.model:
            routed = self._tiers[tier_of(said, depth)]
            if routed and prompt_tokens < self.budget(routed).usable:
                model = routed
        return Chosen(model, self.budget(model))

    def utility(self, session: Session) -> str:
        """Return the model for small work about a session: cheap, and always of the same provider as the session's
        model."""
        return utility_model(self._settings, self.client.facts, self.of_session(session))

    def named(self, name: str, otherwise: str) -> str:
        """Return the model that a setting or a call names: for `CHEAP`, unless an entry has that name, the model for
        small work of a conversation with the model `otherwise`; for "" `otherwise` itself."""
        if name == CHEAP and name not in self._settings.models:
            return utility_model(self._settings, self.client.facts, otherwise)
        return name or otherwise

    def sees(self, model: str) -> bool:
        """Tell whether images are shown to a model."""
        return self.client.facts(model).sees

    def learns_of_images(self, model: str) -> bool:
        """Tell whether a model sees images, or gets descriptions of them from another."""
        return self.sees(model) or bool(self._settings.agent.vision_model)

    @property
    def seeing(self) -> str | None:
        """Return a model that sees images, among those that everybody may choose."""
        return next(filter(self.sees, self.choosable), None)

    def budget(self, model: str) -> PromptBudget:
        """Return how much a prompt for `model` may fill. `agent.context_window` applies to the configured model, and to
        those without known facts; `agent.context_budget` to all whose entry has none of its own."""
        if model not in self._budgets:
            facts = self.client.facts(model)
            configured = self._settings.agent.context_window or 0
            entry = self._settings.models.get(model)
            budget = budget_of(
                facts,
                window_override=configured if model == self.default or not facts.context_window else 0,
                context_budget=(entry.context_budget if entry else 0) or self._settings.agent.context_budget,
            )
            if not configured and not facts.context_window:
                _log.warning("model.window_unknown", model=model, assumed=budget.window)
            self._budgets[model] = budget
        return self._budgets[model]


def prices_of(client: ModelProvider, settings: Settings, session: Session) -> Mapping[str, float]:
    """Return the prices of a session's model per token, in US dollars; empty where none is known."""
    return client.facts(session.model or settings.agent.model).prices_usd


def utility_model(settings: Settings, facts: Callable[[str], ModelFacts], of: str = "") -> str:
    """Return the model for small work of a conversation with the model `of` (empty: the configured one): as configured,
    else the cheapest sufficient one of the same route. Never of another provider than the conversation's own."""
    agent = settings.agent
    model, configured = of or agent.model, agent.utility_model
    if configured and (model == agent.model or facts(model).provider == facts(configured).provider != ""):
        return configured
    return facts(model).cheap_sibling or model


def embedding_model(settings: Settings, facts: Callable[[str], ModelFacts]) -> str:
    """Return the model that embeds texts: as configured, else one that is called in the same way as the configured
    model; empty where there is none, or nothing to embed."""
    configured = settings.agent.embedding_model
    if configured == NO_MODEL or not settings.memory.enabled:
        return ""
    return configured or facts(settings.agent.model).embedding_sibling


def choosable(settings: Settings) -> tuple[str, ...]:
    """Return the models that everybody may choose, the configured one first. An entry for transcription, speech or
    embedding cannot chat and is left out."""
    agent = settings.agent
    silent = {agent.embedding_model, agent.transcription_model, agent.speech_model}
    entries = (name for name in settings.models if name not in silent)
    unlisted = (*settings.routing.models, *agent.fallback_models, *entries)
    return tuple(dict.fromkeys((agent.model, *(agent.models or unlisted))))


def check_models(client: ModelProvider, settings: Settings, *, known: Iterable[str] = ()) -> None:
    """Check the configured models. Raises `ConfigError`, which names the setting and the likely intended model, for one
    that cannot be called."""
    for name, entry in settings.models.items():
        if not entry.model or entry.model.startswith(SCRIPTED_MODEL):
            raise ConfigError(f"models.{name}.model: {entry.model!r} is no model of litellm: write <provider>/<model>")
    for name, call in (
        (settings.agent.transcription_model, "a transcription"),
        (settings.agent.speech_model, "speech"),
    ):
        sounding = settings.models.get(name)
        if sounding is not None and sounding.extra_headers:
            raise ConfigError(f"models.{name}.extra_headers: litellm gives none to {call}: take them out")
    for setting, models in named_models(settings).items():
        for model in models:
            try:
                client.check_name(model)
            except ConfigError as error:
                near = difflib.get_close_matches(model, (*settings.models, *known), n=1)
                raise ConfigError(f"{setting}: {error}" + (f"; did you mean {near[0]}?" if near else "")) from error


def named_models(settings: Settings) -> Mapping[str, Sequence[str]]:
    """List every setting that names models, and those that it names."""
    agent, routing = settings.agent, settings.routing
    named = {
        "agent.model": (agent.model,),
        "agent.utility_model": (agent.utility_model,),
        "agent.embedding_model": () if agent.embedding_model == NO_MODEL else (agent.embedding_model,),
        "agent.vision_model": (agent.vision_model,),
        "agent.transcription_model": (agent.transcription_model,),
        "agent.speech_model": (agent.speech_model,),
        "agent.fallback_models": agent.fallback_models,
        "agent.models": agent.models,
        "subagents.model": (settings.subagents.model,),
        **{
            f"subagents.types.{name}.model": (setting.model or "",)
            for name, setting in settings.subagents.types.items()
            if setting.model != CHEAP
        },
        "routing.low": (routing.low,),
        "routing.medium": (routing.medium,),
        "routing.high": (routing.high,),
        **{f"models.{name}.model": (name,) for name in settings.models},
    }
    return {setting: tuple(filter(None, models)) for setting, models in named.items()}
