"""Every setting Trivet knows: its name, type, default and meaning, spelled once.

The path to an attribute is the key in `trivet.toml` (`settings.http.port` is `http.port`); in the environment
it is `TRIVET_HTTP__PORT`. All values are frozen. What follows from several of them is in `derived.py`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, SecretStr

from gateway.config import features
from gateway.config.access import AccessSettings
from gateway.config.channels import ChannelSettings
from gateway.config.limits import LimitSettings
from gateway.config.presets import Preset
from gateway.config.section import BareUrlOrEmpty, Secret, Section, UrlOrEmpty, resolved, setting, url_with
from gateway.config.subagents import SubagentSettings
from gateway.config.tools import ToolSettings
from gateway.contracts.ids import SessionScope
from gateway.limits import (
    ADMIN_TOKEN_CHARS_MIN,
    IDLE_HOURS_MAX,
    LANE_MESSAGES_MAX,
    QUEUE_MESSAGES_MAX,
    REDIS_MEMORY_MB,
    REDIS_MEMORY_MB_MIN,
    TURNS_MAX,
    USER_TURNS_MAX,
    WEBHOOK_SECRET_CHARS_MIN,
)

REDIS_SCHEMES: Final = (
    "redis://",
    "rediss://",
    "unix://",
    "redis+sentinel://",
    "rediss+sentinel://",
    "redis+cluster://",
    "rediss+cluster://",
)
DATABASE_SCHEMES: Final = ("sqlite+aiosqlite://", "postgresql+asyncpg://")
SCRIPTED_MODEL: Final = "demo/scripted"
NO_MODEL: Final = "none"
REPLICAS_MAX: Final = 5  # more copies of a message than any set of servers is run with
PROCESSES_MAX: Final = 64  # more than one machine can feed; a typing mistake starts no thousand processes
CONCURRENCY_MAX: Final = 1024  # turns of one process; beyond it the event loop is the bottleneck
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,253}")
SETTLE_MS_MAX: Final = 10_000  # longer, and a person takes the bot for dead


class QueueMode(StrEnum):
    """The treatment of a message that arrives while a turn of its lane runs."""

    COLLECT = "collect"
    STEER = "steer"
    INTERRUPT = "interrupt"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def _long_enough(token: SecretStr | None) -> SecretStr | None:
    if token is not None and len(token.get_secret_value().strip()) < ADMIN_TOKEN_CHARS_MIN:
        raise ValueError("too short")
    return token


def _host_name(name: str) -> str:
    if not _HOST_NAME.fullmatch(name):
        raise ValueError("not such a name")
    return name.lower()


Port = Annotated[int, Field(ge=1, le=65_535)]
HostName = Annotated[str, AfterValidator(_host_name)]


class RedisSettings(Section):
    """The bus."""

    url: Annotated[str, url_with(*REDIS_SCHEMES)] = setting(
        "", f"empty or a URL that starts with one of {', '.join(REDIS_SCHEMES)}"
    )
    """Redis or Valkey, 6.2 or newer. Empty: Trivet starts its own Valkey inside data_dir."""
    wait_replicas: int = Field(default=0, ge=0, le=REPLICAS_MAX)
    """How many replicas must have a message before the platform is told that it was received. Trivet's own Valkey has
    none."""
    memory_mb: int = Field(default=REDIS_MEMORY_MB, ge=REDIS_MEMORY_MB_MIN)
    """Megabytes that Trivet's own Valkey may take. What is said while it is full waits on its platform."""


class DatabaseSettings(Section):
    """The truth: sessions, transcripts, replies not yet sent."""

    url: Annotated[str, url_with(*DATABASE_SCHEMES)] = setting(
        "", f"empty or a URL that starts with one of {', '.join(DATABASE_SCHEMES)}"
    )
    """SQLAlchemy URL. Empty: SQLite in data_dir/trivet.db. Several machines need postgresql+asyncpg://."""


class HttpSettings(Section):
    """The operator's side."""

    host: str = Field(default="127.0.0.1", min_length=1)
    """Address that the API, the dashboard and metrics listen on."""
    port: Port = 8420
    """Port of the API, the dashboard and metrics."""
    admin_on_demand: bool = True
    """`trivet up` starts the admin role when somebody asks at its port, and ends it when nobody has asked for 15
    minutes. false: it always runs."""
    webhook_host: str = ""
    """Address that webhooks are listened for on. Empty: the same as http.host."""
    webhook_port: Port = 8421
    """Port the channels role listens on when a channel's mode needs webhooks."""
    public_url: BareUrlOrEmpty = ""
    """How the platforms reach the webhook port from the internet; needed by webhook modes."""
    hosts: tuple[HostName, ...] = setting((), 'a list of names without scheme and port, such as ["trivet.example.org"]')
    """Names under which both ports may be asked, besides those of public_url, host and webhook_host. localhost and
    addresses always may."""
    admin_token: Annotated[Secret, AfterValidator(_long_enough)] = setting(
        None, f"empty or a text of at least {ADMIN_TOKEN_CHARS_MIN} characters"
    )
    """Bearer token of the API. Empty: generated into data_dir/admin-token, readable by its owner only."""


class AgentSettings(Section):
    """The agent and its models."""

    model: str = Field(
        default="",
        description=f"Any litellm model name. Empty: a model of the provider whose key is in the environment, "
        f"or {SCRIPTED_MODEL}, which is offline and says so.",
    )
    utility_model: str = ""
    """Model for small work: titles, summaries, facts, and sub-agents that look things up. Empty: the cheapest that can
    do it of the same provider, by litellm's prices; the model itself where it has an address or a key of its own, or
    where none is known."""
    titles: bool = True
    """Give each conversation a title, by one small call of the utility model. false: only where the platform shows it,
    as a topic or a thread does."""
    summary_tokens_max: int = Field(default=1_024, ge=128, le=16_384)
    """Tokens of a summary of a long conversation at most; models that think first get some more."""
    embedding_model: str = Field(
        default="",
        description="Any litellm embedding model: facts and earlier conversations are then found by meaning, too, not "
        "by their words alone. Empty: the cheapest of the same provider and key as the model, by litellm's prices, "
        f"where there is one. {NO_MODEL}: off.",
    )
    vision_model: str = ""
    """A model that describes images in words to a model that cannot see. Empty: such a model is told only that an image
    came."""
    transcription_model: str = ""
    """Any litellm transcription model, such as openai/whisper-1: it writes down what is said in voice messages. Empty:
    people are asked to write."""
    speech_model: str = ""
    """Any litellm speech model, such as openai/gpt-4o-mini-tts: with /voice people have answers spoken, too. Empty:
    nobody can."""
    speech_voice: str = "alloy"
    """One of the voices that the speech model has."""
    sees_images: bool | None = None
    """Whether the configured model understands images. Empty: what litellm knows of it."""
    fallback_models: tuple[str, ...] = setting((), 'a list of model names such as ["openai/gpt-5.4-mini"]')
    """Models that are asked, in this order, when the one that was chosen fails for good."""
    models: tuple[str, ...] = setting((), 'a list of model names such as ["openai/gpt-5.4-mini"]')
    """What everybody may choose with /model, besides the configured model. Empty: the models of routing, the fall-backs
    and the entries of models. An admin may choose any."""
    engine: Literal["litellm", "claude_sdk"] = "litellm"
    """What takes the steps of a turn: our own loop over litellm, or the Claude Agent SDK, which is installed with the
    extra `claude`."""
    tool_rounds_max: int = Field(default=25, ge=0)
    """Rounds of tools in one turn; then the model is asked to wrap up. 0: no limit."""
    api_base: UrlOrEmpty = ""
    """Address of the API of the model's provider; models of other providers do not go there. Empty: the provider's
    own."""
    api_key: Secret = None
    """Key of the model's provider; no other provider gets it. Empty: the provider's variable, such as
    ANTHROPIC_API_KEY."""
    context_window: Annotated[int, Field(ge=1024)] | None = None
    """Tokens that the model reads at most. Empty: what litellm knows of the model, else 8,192."""
    context_budget: int = Field(default=0, ge=0)
    """Tokens that a prompt and its answer are kept within: a conversation that grows beyond them is summarised. 0:
    100,000 or 60 % of the model's window, the smaller; windows of up to 32,000 whole."""
    processes: int = Field(default=1, ge=0, le=PROCESSES_MAX)
    """Agent processes that `trivet up` starts on this machine."""
    concurrency: int = Field(default=512, ge=1, le=CONCURRENCY_MAX)
    """Turns at once in each agent process, one per session key. One that waits for its model holds some 60 kB of
    memory, its conversation apart."""


class SessionSettings(Section):
    """The settings of one conversation."""

    scope: SessionScope = SessionScope.PLACE
    """place: one session per person and place; user: one per person, so that what was said in private is known in
    groups; shared: one per place, for all who speak there."""
    idle_hours: int = Field(default=0, ge=0, le=IDLE_HOURS_MAX)
    """Hours without a word after which the next message begins a new conversation, as after /new; the one before stays
    in /sessions. 0: never."""


class QueueSettings(Section):
    """The lanes."""

    mode: QueueMode = QueueMode.COLLECT
    """A message that arrives during a turn waits (collect), joins it (steer) or restarts it."""
    settle_ms: int = Field(default=0, ge=0, le=SETTLE_MS_MAX)
    """Extra milliseconds to wait before an idle lane starts a turn."""
    user_turns_max: int = Field(default=USER_TURNS_MAX, ge=1)
    """Lanes of one person that may run or be next; the others take turns."""
    turns_max: int = Field(default=TURNS_MAX, ge=0)
    """Turns that may run at a time, over all agent processes. 0: no limit."""
    lane_messages_max: int = Field(default=LANE_MESSAGES_MAX, ge=1)
    """Messages that may wait in one lane; more are turned away."""
    messages_max: int = Field(default=QUEUE_MESSAGES_MAX, ge=1)
    """Messages that may wait in all lanes; more are turned away."""


class WordSettings(Section):
    """The words of the gateway itself: answers to commands, errors, notices."""

    language: Literal["auto", "en", "ru", "zh", "es", "de"] = "auto"
    """auto: everybody's own, as the platform or the script of the words tells it, else English. Any other: that one,
    for everybody."""


class LogSettings(Section):
    """The logs of the operator."""

    level: LogLevel = LogLevel.INFO
    """The least important lines that are written."""
    as_json: bool = False
    """One JSON object a line, for machines."""


class Settings(Section):
    """The whole configuration of one Trivet."""

    data_dir: Annotated[Path, AfterValidator(resolved)] = Path("~/.local/share/trivet")
    """SQLite file, embedded Valkey's data, workspaces. A local disk, never a network file system."""
    preset: Preset = setting(Preset.NONE, "empty or one of me, team, community")
    """Defaults for whom this Trivet is: me (a personal assistant), team (members search and read the web, write in
    their workspaces and run code in the sandbox) or community (members talk and read; small limits). It sets
    tools.policy, tools.web.engine, session.idle_hours and limits wherever they are not set."""
    redis: RedisSettings = RedisSettings()
    database: DatabaseSettings = DatabaseSettings()
    http: HttpSettings = HttpSettings()
    agent: AgentSettings = AgentSettings()
    models: Mapping[features.EntryName, features.ModelEntry] = setting({}, features.ENTRIES)
    """Models with an address, a key or parameters of their own: tables such as [models.fast] with model, api_base,
    api_key or api_key_file, temperature, max_tokens, reasoning_effort, context_budget, extra_headers. Wherever a
    setting names a model, the name of a table will do."""
    routing: features.RoutingSettings = features.RoutingSettings()
    channels: ChannelSettings = ChannelSettings()
    access: AccessSettings = AccessSettings()
    session: SessionSettings = SessionSettings()
    queue: QueueSettings = QueueSettings()
    tools: ToolSettings = ToolSettings()
    plugins: features.PluginSettings = features.PluginSettings()
    subagents: SubagentSettings = SubagentSettings()
    attachments: features.AttachmentSettings = features.AttachmentSettings()
    limits: LimitSettings = LimitSettings()
    memory: features.MemorySettings = features.MemorySettings()
    schedules: features.ScheduleSettings = features.ScheduleSettings()
    scrub: features.ScrubSettings = features.ScrubSettings()
    words: WordSettings = WordSettings()
    log: LogSettings = LogSettings()
    telemetry: features.TelemetrySettings = features.TelemetrySettings()
    webhooks: tuple[features.Webhook, ...] = setting(
        (), f"a list of tables with url, secret (at least {WEBHOOK_SECRET_CHARS_MIN} characters), events, name, private"
    )
    """Addresses that are called when something happens: tables [[webhooks]] with url, secret, events (of turn_answered,
    turn_failed, approval_wanted, stranger_asks, budget_low, dead_letter; all where it is left out), name (else the
    host), private (true: it may be in a private network). In the environment a JSON list."""
