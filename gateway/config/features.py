"""The settings of features: attachments, memory, models, routing, schedules, scrubber, vault, traces."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from pydantic import AfterValidator, Field, SecretStr, StringConstraints

from gateway import limits
from gateway.config import section
from gateway.contracts.errors import ConfigError

SHOWN_TOKENS_MAX: Final = 12_000  # some twenty pages; each is paid for again in every round
SHOWN_TOKENS_LEAST: Final = 100
RECEIVING_S: Final = 120.0  # twenty megabytes over a poor line, and an hour of talk to be written down
RECEIVING_S_MAX: Final = 300.0  # half of a turn


class AttachmentSettings(section.Section):
    """Files that people send: how large, how many."""

    file_bytes_max: int = Field(default=limits.ATTACHMENT_BYTES_MAX, ge=1, le=limits.ATTACHMENT_BYTES_CEILING)
    """Of a document or a video that somebody sends; larger ones are not fetched, and their author is told. Telegram
    itself hands out 20 MB, a Bot API server of one's own, run with --local, any size."""
    image_bytes_max: int = Field(default=limits.ATTACHMENT_BYTES_MAX, ge=1, le=limits.ATTACHMENT_BYTES_MAX)
    """The same for an image."""
    audio_bytes_max: int = Field(default=limits.ATTACHMENT_BYTES_MAX, ge=1, le=limits.ATTACHMENT_BYTES_MAX)
    """The same for a voice message and other audio."""
    text_tokens_max: int = Field(default=SHOWN_TOKENS_MAX, ge=SHOWN_TOKENS_LEAST)
    """Tokens that the texts of all files of one turn may take of a prompt; never more than a quarter of it. The file
    tools read the rest."""
    timeout_s: float = Field(default=RECEIVING_S, gt=0, le=RECEIVING_S_MAX)
    """Seconds for fetching and reading all files of one turn. What is not there by then is left out."""
    per_message_max: int = Field(default=limits.ATTACHMENTS_MAX, ge=0, le=limits.ATTACHMENTS_MAX)
    """Files of one message that are fetched, those of what it quotes included; 0: none."""


# The settings of memory.


class MemorySettings(section.Section):
    """The agent's memory of a person beyond one conversation."""

    enabled: bool = True
    """Whether facts are kept and put before the model, with pieces of earlier conversations. Off: nothing new is kept
    or used; /memory, /forget and /export still work."""
    auto_consolidate: bool | None = None
    """Whether a cheap model looks for lasting facts in what a compaction condensed and in a conversation that /new
    closed. Empty: yes, unless the model is the demo model."""


# The settings of cost-aware routing: which model answers an easy, a usual, a hard message.


class RoutingSettings(section.Section):
    """Three tiers of models. A session with a model of its own is never routed."""

    enabled: bool = False
    """Choose the model by how hard a message looks."""
    low: str = ""
    """Model for greetings, look-ups, single steps. Empty: agent.model."""
    medium: str = ""
    """Model for what is neither easy nor hard. Empty: agent.model."""
    high: str = ""
    """Model for big tasks and long conversations. Empty: agent.model."""

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models of the tiers, if there is routing."""
        return tuple(filter(None, (self.low, self.medium, self.high))) if self.enabled else ()


# The settings of what happens by the clock.


HEARTBEAT_MINUTES_MIN: Final = 5
"""A turn every few minutes, day and night, is a mistake and not a heartbeat."""


@cache
def _zones() -> Set[str]:
    return available_timezones()  # reads a hundred files


def _known(zone: str) -> str:
    if zone not in _zones():
        raise ValueError("not a time zone")
    return zone


def _rare(minutes: int) -> int:
    if 0 < minutes < HEARTBEAT_MINUTES_MIN:
        raise ValueError("too often")
    return minutes


class ScheduleSettings(section.Section):
    """Reminders, scheduled tasks, the heartbeat."""

    time_zone: Annotated[str, AfterValidator(_known)] = section.setting(
        "UTC", "the name of a time zone such as Europe/Berlin"
    )
    """Time zone of everybody who has not said /remind zone."""
    heartbeat_minutes: Annotated[int, AfterValidator(_rare)] = section.setting(
        0, f"0, or {HEARTBEAT_MINUTES_MIN} and more", ge=0
    )
    """How often /heartbeat on has the agent look, unasked, whether something is to be done; each look is a turn that
    the admin who switched it on pays for. 0: nobody can switch it on."""


# The settings of plug-ins.


PackageName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$")]


class PluginSettings(section.Section):
    """Packages of other people, which may do all that Trivet may."""

    enabled: tuple[PackageName, ...] = section.setting((), 'a list of names of packages such as ["trivet-matrix"]')
    """Installed packages whose tools, commands, hooks and channels are loaded, in this order; nothing else of them is
    imported. `trivet plugins` lists what is installed."""


# The settings of the scrubber and of the vault.


VAULT_TTL_S_MAX: Final = 900  # what is needed later than a quarter of an hour after it was said is said again
VAULT_USES_MAX: Final = 20  # a task that needs a secret more often needs a person who looks at it
KEY_CHARS_MIN: Final = 32  # of a key that shall not be guessed; `openssl rand -hex 32` gives twice as many


def _unguessable(secret: SecretStr | None) -> SecretStr | None:
    if secret is not None and len(secret.get_secret_value()) < KEY_CHARS_MIN:
        raise ValueError("too short")
    return secret


def _origin(text: str) -> str:
    """Read an origin: `api.example.com` and `https://api.example.com/` are one place; so are `:443` and nothing, as in
    browsers."""
    scheme, _, rest = text.strip().lower().rpartition("://")
    scheme, place = scheme or "https", rest.rstrip("/")
    if f"{scheme}://" not in section.HTTP_SCHEMES or not place or set(place) & set("/?#@ *"):
        raise ValueError("not a host")
    return f"{scheme}://{place.removesuffix(':443' if scheme == 'https' else ':80')}"


UnguessableKey = Annotated[section.Secret, AfterValidator(_unguessable)]
Origin = Annotated[str, AfterValidator(_origin)]
_KEY = section.expecting(f"a text of at least {KEY_CHARS_MIN} characters, such as `openssl rand -hex 32` prints")


class VaultSettings(section.Section):
    """Secrets that a person sent, for tools, for a short while."""

    enabled: bool = False
    """Whether a secret in a person's message is kept, encrypted and for a short while, so that a tool can be given it
    once a person approved that. The model never sees it. Off: what was removed is gone."""
    ttl_s: int = Field(default=600, ge=30, le=VAULT_TTL_S_MAX)
    """Seconds after which a kept secret is forgotten."""
    uses_max: int = Field(default=3, ge=1, le=VAULT_USES_MAX)
    """Calls of a tool that one kept secret may be given to."""
    hosts: tuple[Origin, ...] = section.setting(
        (), 'a list of hosts such as ["api.example.com", "http://10.0.0.5:8080"]'
    )
    """Where web_fetch may send a kept secret as a header: hosts, by https on port 443, or origins such as
    http://10.0.0.5:8080, which calls with such a secret, and no others, reach also where they are not on the public
    web. Empty: nowhere."""
    key: UnguessableKey = Field(default=None, json_schema_extra=_KEY)
    """What kept secrets are encrypted with; the same on all machines. Empty: generated into data_dir/vault-key,
    readable by its owner only. Another key makes everything that was kept unreadable."""


class ScrubSettings(section.Section):
    """The stand-ins for secrets, and the treatment of the messages that held them."""

    delete_inbound: bool = False
    """Delete a message that held a secret on its platform, once it is taken in without the secret. Telegram: in private
    chats, and in groups where the bot may delete messages. Discord: in servers where it has Manage Messages, never in
    direct messages. Slack lets an app delete its own messages only. Where it cannot be done, the author is asked to do
    it."""

    placeholder_key: UnguessableKey = Field(default=None, json_schema_extra=_KEY)
    """What makes equal secrets of one chat equal placeholders; the same on all machines. Empty: generated into
    data_dir/placeholder-key, readable by its owner only."""
    rules_file: Annotated[Path, AfterValidator(section.resolved)] | None = section.setting(None, "empty or a path")
    """TOML file with your own secret formats, in Trivet's format or in gitleaks'; the same on all machines. Needs the
    extra `rules`. `trivet scrub --check FILE` tries one."""
    allowed_values: tuple[str, ...] = section.setting((), 'a list of texts such as ["AKIAIOSFODNN7EXAMPLE"]')
    """Texts that look like secrets and are none, such as the key of a test account: they stay. What is a secret of
    Trivet's own goes all the same."""
    allowed_places: tuple[str, ...] = section.setting(
        (), 'a list of session keys or their beginnings such as ["telegram:123"]'
    )
    """Where the rules of rules_file remove nothing: session keys as /where shows them, or their beginnings, such as
    discord or slack:U1. Trivet's own rules apply everywhere."""
    vault: VaultSettings = VaultSettings()


# The settings of traces.


class TelemetrySettings(section.Section):
    """Traces for a collector."""

    otlp_endpoint: section.BareUrlOrEmpty = ""
    """Collector that gets one trace for each turn, by OTLP over HTTP, such as http://127.0.0.1:4318; /v1/traces is
    appended. Ids, names, counts and times, never a text. Needs the extra `otel`. Empty: off."""
    otlp_headers: tuple[section.HeaderLine, ...] = section.setting(
        (), 'a list of lines such as ["Authorization=Bearer …"]'
    )
    """Headers of each call of the collector: a name, =, a value."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Return `otlp_headers` by name."""
        return section.headers_of(self.otlp_headers)


# The table of models: how a model is called that needs more than a name. Settings name an entry of it, or a model.


_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_NOT_NAMES: Final = frozenset({"default"})
"""Words after `/model` that name no model."""

ENTRIES: Final = "tables with names of small letters, digits, - and _, such as [models.fast]"


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name) or name in _NOT_NAMES:
        raise ValueError("no such name")
    return name


EntryName = Annotated[str, AfterValidator(_checked_name)]


class ModelEntry(section.Section):
    """One entry. A key goes to the address of its entry and nowhere else."""

    model: str = ""
    """Any litellm model name."""
    api_base: section.BareUrlOrEmpty = ""
    """Address of the model's API. Empty: that of its provider."""
    api_key: section.Secret = None
    """Key of the model's API. Empty: with an api_base none is sent, else that of its provider."""
    api_key_file: Annotated[Path, AfterValidator(section.resolved)] | None = section.setting(None, "a path")
    """File that holds the key instead; the agent role reads it when it starts."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = section.setting(None, "a number from 0 to 2")
    """Temperature of its answers; small work such as titles has its own. claude_sdk takes none."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens of one answer and the thinking before it, at most. Claude thinks less where they are few, and not at all
    up to 1024. Empty: what the model allows."""
    reasoning_effort: Literal["", "none", "minimal", "low", "medium", "high"] = section.setting(
        "", "empty or one of none, minimal, low, medium, high"
    )
    """How long it thinks before an answer; about small work never longer than low."""
    context_budget: Annotated[int, Field(ge=0)] = 0
    """Tokens that a prompt of this model and its answer are kept within. 0: as agent has it."""
    extra_headers: tuple[section.HeaderLine, ...] = section.setting((), 'a list of lines such as ["X-Tenant=…"]')
    """Headers of each call: a name, =, a value."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Return `extra_headers` by name."""
        return section.headers_of(self.extra_headers)

    @property
    def has_key(self) -> bool:
        """Tell whether it has a key of its own, in whichever way."""
        return self.api_key is not None or self.api_key_file is not None

    def key(self, name: str) -> str:
        """Return the key, from its file if it is in one; "" if it has none. Raises `ConfigError`, which calls the entry
        `name`."""
        if self.api_key is not None:
            return self.api_key.get_secret_value()
        if self.api_key_file is None:
            return ""
        where = f"models.{name}.api_key_file: {self.api_key_file}"
        try:
            key = self.api_key_file.read_text("utf-8").strip()
        except UnicodeDecodeError as error:
            raise ConfigError(f"{where} is not a text: write the key alone into it") from error
        except OSError as error:
            raise ConfigError(f"{where} cannot be read ({error.strerror}): correct the path or its rights") from error
        if not key:
            raise ConfigError(f"{where} is empty: write the key into it")
        return key


# The webhooks that are told what happens.


class WebhookEvent(StrEnum):
    """Something that happens here and that a webhook may be told of."""

    TURN_ANSWERED = "turn_answered"
    TURN_FAILED = "turn_failed"
    APPROVAL_WANTED = "approval_wanted"
    STRANGER_ASKS = "stranger_asks"
    BUDGET_LOW = "budget_low"
    DEAD_LETTER = "dead_letter"


def _of_a_host(url: str) -> str:
    parts = urlsplit(url)
    if not parts.hostname or parts.port == 0:  # to ask for the port raises for one that is none
        raise ValueError("not the address of a host")
    return url


class Webhook(section.Section):
    """An address that is called when something happens."""

    url: Annotated[section.WebUrl, AfterValidator(_of_a_host)]
    """Where to."""
    secret: SecretStr = Field(min_length=limits.WEBHOOK_SECRET_CHARS_MIN)
    """What calls are signed with."""
    events: tuple[WebhookEvent, ...] = Field(default=tuple(WebhookEvent), min_length=1)
    """What it is told."""
    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9._-]{0,64}$")] = ""
    """What it is called. Empty: the host of its address."""
    private: bool = False
    """Whether the address may be in a private network."""

    @property
    def called(self) -> str:
        """Return its name, else its host."""
        return self.name or urlsplit(self.url).hostname or ""
