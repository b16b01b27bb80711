"""The settings of our connections to the platforms: one account of each, and further accounts by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, SecretStr, StringConstraints, ValidationError

from gateway.config.access import Ids
from gateway.config.section import Secret, Section, WebUrl, bare, setting, url_with
from gateway.contracts.errors import ConfigError

WEBSOCKET_SCHEMES: Final = ("wss://", "ws://")
PROXY_SCHEMES: Final = ("http://", "https://")
SOCKS_SCHEMES: Final = ("socks5://", "socks5h://")
SOCKETS_MAX: Final = 10  # Slack refuses an eleventh connection of one app
SHARDS_MAX: Final = 16_384  # of one bot; the number that large bots are given is a power of two below it

_A_NAME: Final = "tables named in lower case letters, digits and single underscores, 32 at most"
_A_KEY: Final = "the public key of the application, 64 hexadecimal digits"


class UnknownSends(StrEnum):
    """The treatment of a message of ours that may have arrived, when nobody can say whether it did."""

    MARK = "mark"
    RESEND = "resend"
    DROP = "drop"


class PlaceholderUse(StrEnum):
    """The answers that go out as a placeholder that is then edited: an edit can be repeated, a send cannot."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def _slashed(url: str) -> str:
    return url.rstrip("/") + "/"


def _proxy(*schemes: str) -> str:
    return f"empty or a URL that starts with one of {', '.join(schemes)}"


AccountName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=32)]
"""Fit for a table, for a variable of the environment and, behind the platform and a dot, for a session key."""

Threads = Literal["off", "mention"]
ProxyUrl = Annotated[str, url_with(*PROXY_SCHEMES)]
TelegramProxyUrl = Annotated[str, url_with(*PROXY_SCHEMES, *SOCKS_SCHEMES)]
PublicKey = Annotated[str, StringConstraints(pattern=r"^([0-9a-fA-F]{64})?$")]


class ChannelAccount(Section):
    """The settings that all accounts of all platforms share."""

    enabled: bool | None = None
    """Whether the channel is connected. Empty: true if all its tokens are there."""
    unknown_sends: UnknownSends = UnknownSends.MARK
    """A message that may have arrived and cannot be looked up: send it again under a line that says so (mark), send it
    again as it is (resend), or leave it (drop)."""
    streaming: Literal["auto", "off"] = "auto"
    """Show an answer while it is being made (auto), as fast as the platform likes it, or only when it is whole
    (off)."""

    bots: Ids = setting((), "a list of ids of bots")
    """Ids of other bots that are heard when they speak to Trivet; they have to be let in like people. Until a person
    speaks again, a place hears a few messages of theirs only. All other bots are ignored."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the keys that must be filled before the channel can connect."""
        return tuple(name for name in self._needed() if not getattr(self, name))

    @property
    def is_enabled(self) -> bool:
        """Return `enabled`, else whether the channel has what it needs to connect."""
        return not self.missing if self.enabled is None else self.enabled

    @property
    def called_by(self) -> str:
        """Return the key because of which the platform calls us by HTTP, so that the webhook port is needed; empty if
        it does not."""
        return ""

    def _needed(self) -> tuple[str, ...]:
        return ("token",)


class TelegramAccount(ChannelAccount):
    """One bot of Telegram, by its Bot API."""

    token: Secret = None
    """The token that @BotFather gave."""
    api_base: Annotated[WebUrl, AfterValidator(bare)] = "https://api.telegram.org"
    """Address of the Bot API, without /bot. To move a bot to a server of your own, call logOut on the old one first."""
    mode: Literal["polling", "webhook"] = "polling"
    """How updates come in; webhook needs http.public_url."""
    placeholder: PlaceholderUse = PlaceholderUse.AUTO
    """Send a placeholder and edit it, which a lost acknowledgement cannot double: for ten minutes after one was lost
    (auto), always, or never."""
    proxy: TelegramProxyUrl = setting("", _proxy(*PROXY_SCHEMES, *SOCKS_SCHEMES))
    """Proxy for all calls to Telegram; socks5 needs the package socksio. Empty: what the environment says, except for
    this machine."""
    local_files: Path | None = None
    """Folder in which a self-hosted Bot API server that runs with --local keeps what people send, as it names it;
    nothing outside of it is read. Empty: files are fetched from api_base."""

    @property
    def called_by(self) -> str:
        return "mode" if self.mode == "webhook" else ""


class DiscordAccount(ChannelAccount):
    """One bot of Discord, by its gateway and REST API."""

    token: Secret = None
    """The bot token of the application."""
    api_base: Annotated[WebUrl, AfterValidator(bare)] = "https://discord.com/api/v10"
    """Address of the REST API, with its version; the same for all accounts of a process."""
    gateway_url: Annotated[str, url_with(*WEBSOCKET_SCHEMES)] = setting("", "empty or a ws(s) URL")
    """Address of the gateway's websocket. Empty: ask the API."""
    shards: int = Field(default=0, ge=0, le=SHARDS_MAX)
    """Connections to the gateway over which the bot's servers are spread. 0: as many as Discord recommends."""
    interactions: Literal["gateway", "http"] = "gateway"
    """How slash commands and presses of buttons come in: over the gateway, or by HTTP to
    <http.public_url>/webhooks/discord, which has to be the application's Interactions Endpoint URL."""
    public_key: PublicKey = setting("", _A_KEY)
    """Public key of the application (General Information page); needed by interactions http."""
    proxy: ProxyUrl = setting("", _proxy(*PROXY_SCHEMES))
    """Proxy for all calls to Discord and for its gateway. Empty: none; the environment is not asked."""

    threads: Threads = "off"
    """Whether a mention in a channel of a server begins a thread, in which the conversation goes on without further
    mentions (mention), or is answered where it is (off)."""

    @property
    def called_by(self) -> str:
        return "interactions" if self.interactions == "http" else ""

    def _needed(self) -> tuple[str, ...]:
        return ("token", "public_key") if self.interactions == "http" else ("token",)


class SlackAccount(ChannelAccount):
    """One app in one workspace of Slack, by Socket Mode or the Events API."""

    bot_token: Secret = None
    """Bot token (xoxb-…)."""
    app_token: Secret = None
    """App-level token (xapp-…) for Socket Mode."""
    signing_secret: Secret = None
    """Signing secret; needed by mode events."""
    api_base: Annotated[WebUrl, AfterValidator(_slashed)] = "https://slack.com/api/"
    """Address of the Web API."""
    mode: Literal["socket", "events"] = "socket"
    """How events come in; events (HTTP) needs http.public_url."""
    threads: Threads = "off"
    """Whether a mention in a channel is answered in its own thread, in which the conversation goes on without further
    mentions (mention), or in the channel (off)."""
    connections: int = Field(default=2, ge=1, le=SOCKETS_MAX)
    """Sockets in mode socket. With two, one listens while Slack renews the other."""
    proxy: ProxyUrl = setting("", _proxy(*PROXY_SCHEMES))
    """Proxy for all calls to Slack and for its sockets. Empty: what the environment says, except for this machine and
    what NO_PROXY names."""

    @property
    def called_by(self) -> str:
        return "mode" if self.mode == "events" else ""

    def _needed(self) -> tuple[str, ...]:
        return "bot_token", "app_token" if self.mode == "socket" else "signing_secret"


class ApiAccount(ChannelAccount):
    """Programs that talk to the agent over HTTP: `trivet clients add` lets one in and prints its token."""

    enabled: bool | None = False
    """Whether programs may talk to the agent over HTTP."""
    port: Annotated[int, Field(ge=1, le=65_535)] = 8422
    """Port of /api/v1/messages, the OpenAI-compatible /v1 and the MCP server /mcp, on the address of
    http.webhook_host."""
    key: Secret = None
    """Key by which clients' tokens are recognised; all machines need the same. Empty: made in data_dir/client-key,
    readable by its owner only."""
    webhooks: tuple[WebUrl, ...] = setting((), 'a list of URLs such as ["https://example.org/hooks/trivet"]')
    """Addresses that answers may be sent to, where a client asks for it. Empty: none."""

    def _needed(self) -> tuple[str, ...]:
        return ()


AccountT = TypeVar("AccountT", bound=ChannelAccount)


class PluginAccount(ChannelAccount):
    """The channel of a plug-in. Its own keys are read by the plug-in's class, where the channel runs."""

    model_config = ConfigDict(extra="allow")

    @property
    def is_enabled(self) -> bool:
        return self.enabled is not False

    def read_as(self, kind: type[AccountT], table: str) -> AccountT:
        """Return the same as the plug-in's own class has it. Raises `ConfigError`."""
        given = {key: each.get_secret_value() if isinstance(each, SecretStr) else each for key, each in self}
        try:
            account = kind.model_validate(given)
        except ValidationError as error:
            said = "; ".join(f"{table}.{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise ConfigError(said) from None
        if account.missing:
            raise ConfigError(" and ".join(f"{table}.{key}" for key in account.missing) + " is empty: set it")
        return account

    def _needed(self) -> tuple[str, ...]:
        return ()


class Telegram(TelegramAccount):
    """The first bot of Telegram, and further ones."""

    accounts: Mapping[AccountName, TelegramAccount] = setting({}, _A_NAME)
    """Further bots: tables such as [channels.telegram.accounts.support] with the same keys. Their channel is called
    telegram.support, and so begin the session keys of their people."""


class Discord(DiscordAccount):
    """The first bot of Discord, and further ones."""

    accounts: Mapping[AccountName, DiscordAccount] = setting({}, _A_NAME)
    """Further bots: tables such as [channels.discord.accounts.support] with the same keys."""


class Slack(SlackAccount):
    """The first workspace of Slack, and further ones."""

    accounts: Mapping[AccountName, SlackAccount] = setting({}, _A_NAME)
    """Further workspaces: tables such as [channels.slack.accounts.sales] with the same keys."""


class ChannelSettings(Section):
    """Our connections to the platforms; those of plug-ins are next to ours, by the names of their channels."""

    model_config = ConfigDict(extra="allow")  # the loader lets nothing in but channels of plug-ins
    __pydantic_extra__: dict[str, PluginAccount] = Field(init=False)

    telegram: Telegram = Telegram()
    discord: Discord = Discord()
    slack: Slack = Slack()
    api: ApiAccount = ApiAccount()

    def each(self) -> dict[str, TelegramAccount | DiscordAccount | SlackAccount | ApiAccount | PluginAccount]:
        """Return every account by the name of its channel: `telegram`, `telegram.support`."""
        return {**self.telegrams(), **self.discords(), **self.slacks(), "api": self.api, **self.of_plugins()}

    def of_plugins(self) -> dict[str, PluginAccount]:
        return dict(self.__pydantic_extra__)

    def telegrams(self) -> dict[str, TelegramAccount]:
        return {"telegram": self.telegram, **_named("telegram", self.telegram.accounts)}

    def discords(self) -> dict[str, DiscordAccount]:
        return {"discord": self.discord, **_named("discord", self.discord.accounts)}

    def slacks(self) -> dict[str, SlackAccount]:
        return {"slack": self.slack, **_named("slack", self.slack.accounts)}

    @property
    def enabled_names(self) -> tuple[str, ...]:
        """Return the channels to be connected."""
        return tuple(name for name, channel in self.each().items() if channel.is_enabled)

    def called(self) -> Iterator[str]:
        """Return the keys because of which the webhook port is needed, of enabled channels, in full."""
        for name, channel in self.each().items():
            if channel.is_enabled and channel.called_by:
                yield f"{table_of(name)}.{channel.called_by}"


def _named(platform: str, accounts: Mapping[str, AccountT]) -> dict[str, AccountT]:
    return {f"{platform}.{name}": account for name, account in accounts.items()}


def table_of(channel: str) -> str:
    """Return the table with the settings of a channel: `channels.telegram.accounts.support` for `telegram.support`."""
    platform, _, account = channel.partition(".")
    return f"channels.{platform}.accounts.{account}" if account else f"channels.{platform}"
