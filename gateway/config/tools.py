"""The settings of the agent's tools: policy, web, MCP servers, databases.

Lists hold one line each, so that they can be in a variable, too; each kind of line has one parser here."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError

from gateway.config.section import HTTP_SCHEMES, Secret, Section, UrlOrEmpty, resolved, setting
from gateway.contracts.errors import ConfigError
from gateway.contracts.sessions import GrantRole

_NAME: Final = r"[a-z][a-z0-9-]{0,19}"
_ROLES: Final = "|".join(role.value for role in GrantRole)
_POLICY: Final = re.compile(
    rf"(?P<word>allow|ask-self|ask|deny) (?P<subject>[A-Za-z0-9_-]{{1,64}})"
    rf"(?: for (?P<roles>(?:{_ROLES})(?:\+(?:{_ROLES}))*))?(?: in (?P<place>dm|group))?"
)
_NAMED: Final = re.compile(rf"(?P<name>{_NAME})=(?P<rest>\S.*)", re.DOTALL)
_GIVEN: Final = re.compile(rf"(?P<name>{_NAME})\.(?P<variable>[A-Za-z][A-Za-z0-9_-]*)=(?P<value>.+)", re.DOTALL)
_ACCESS: Final = re.compile(
    rf"(?P<name>{_NAME})\.(?:(?P<off>confined|network)=off|(?P<way>read|write)=(?P<place>/.+))", re.DOTALL
)


_NAME_CHARS_MAX: Final = 20
_OTHER_SIGNS: Final = re.compile(r"[^a-z0-9]+")
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
"""As Claude Code has it, with a default, and as VS Code has it."""
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PolicySetting:
    """`allow shell for admin in dm`, taken apart. No roles: all of them; no place: both."""

    word: str
    subject: str
    roles: tuple[str, ...]
    place: str


@dataclass(frozen=True, slots=True)
class McpSetting:
    """`time=mcp-server-time` or `docs=https://…/mcp`, with what was given to it by `mcp_secrets`: variables of
    a program's environment, headers of an address. What `mcp_access` says of a program is below."""

    name: str
    command: tuple[str, ...]
    url: str
    given: Mapping[str, str] = field(repr=False)
    is_confined: bool = True
    has_network: bool = True
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()


def _matching(pattern: re.Pattern[str]) -> Callable[[str], str]:
    def check(line: str) -> str:
        if not pattern.fullmatch(line):
            raise ValueError("not such a line")
        return line

    return check


def _checked_server(line: str) -> str:
    found = _NAMED.fullmatch(line)
    if not found or not (found["rest"].startswith(HTTP_SCHEMES) or shlex.split(found["rest"])):
        raise ValueError("not such a line")
    return line


def _checked_secret(pattern: re.Pattern[str]) -> Callable[[SecretStr], SecretStr]:
    def check(line: SecretStr) -> SecretStr:
        _matching(pattern)(line.get_secret_value())
        return line

    return check


def _without_twins(lines: tuple[str, ...]) -> tuple[str, ...]:
    names = [line.partition("=")[0] for line in lines]
    if len(set(names)) != len(names):
        raise ValueError("two of one name")
    return lines


PolicyText = Annotated[str, AfterValidator(_matching(_POLICY))]
ServerText = Annotated[str, AfterValidator(_checked_server)]
AccessText = Annotated[str, AfterValidator(_matching(_ACCESS))]
GivenText = Annotated[SecretStr, AfterValidator(_checked_secret(_GIVEN))]
DatabaseText = Annotated[SecretStr, AfterValidator(_checked_secret(_NAMED))]


class WebSettings(Section):
    """The web tools."""

    engine: Literal["", "ddgs", "searxng", "brave", "tavily"] = setting(
        "", "empty or one of ddgs, searxng, brave, tavily"
    )
    """The search engine behind web_search. ddgs needs no key: it asks DuckDuckGo, Brave, Mojeek and Startpage as a
    browser would, for a few searches a minute. Empty: web_search is off."""
    url: UrlOrEmpty = ""
    """Address of the search engine; SearXNG needs one. Empty: the engine's own. With ddgs, an HTTP proxy to ask
    through."""
    key: Secret = None
    """Key of the search engine's API; Brave and Tavily need one."""

    @property
    def lacks(self) -> str:
        """Return the key without which the engine cannot be asked, "" if nothing is missing."""
        if self.engine == "searxng" and not self.url:
            return "tools.web.url"
        return "tools.web.key" if self.engine in ("brave", "tavily") and self.key is None else ""


class BrowserSettings(Section):
    """The browser tool."""

    mode: Literal["auto", "unsandboxed", "off"] = setting("auto", "one of auto, unsandboxed, off")
    """auto: on where the extra `browser`, a Chromium and Chromium's own sandbox are to be had. unsandboxed: also
    without that sandbox (as root, in most containers). off: never."""


class ToolSettings(Section):
    """The agent's tools."""

    policy: tuple[PolicyText, ...] = setting((), 'a list of lines such as ["allow shell for admin in dm"]')
    """Lines such as `allow shell for admin in dm` or `deny network`: allow, ask-self, ask or deny; a tool or a risk
    (read, write, execute, network, spend); roles joined by +; dm or group. ask wants the approval of an admin, who is
    asked in private, and may approve a tool for the turn or always in that place, too; with ask-self whoever asked may
    approve the one call. Without a line: read is allowed, an admin is asked about everything else, everybody else is
    denied it."""
    approval_ttl_s: Annotated[int, Field(ge=1, le=24 * 3600)] = 15 * 60
    """How long a question to a person (a policy of ask or ask-self) waits for its answer, in seconds; then it is taken
    for a no."""
    web: WebSettings = WebSettings()
    browser: BrowserSettings = BrowserSettings()
    mcp: Annotated[tuple[ServerText, ...], AfterValidator(_without_twins)] = setting(
        (), 'a list of lines such as ["time=mcp-server-time", "docs=https://host/mcp"]'
    )
    """MCP servers: a name, =, and the command that starts one or the address of one."""
    mcp_file: Annotated[Path, AfterValidator(resolved)] | None = setting(None, "a path")
    """A JSON file with further MCP servers as other clients write it: mcpServers, with command, args and env or with
    url and headers. ${NAME} stands for a variable of the agent role, which reads the file when it starts. Names become
    lower case with hyphens, of 20 characters at most."""
    mcp_secrets: tuple[GivenText, ...] = setting((), 'a list of lines such as ["docs.Authorization=Bearer …"]')
    """What an MCP server is given: its name, a dot, a variable (or a header, for an address), =, value."""
    mcp_access: tuple[AccessText, ...] = setting(
        (), 'a list of lines such as ["docs.read=/srv/docs", "time.network=off"]'
    )
    """What the program of an MCP server reaches: its name, a dot, and read=PATH, write=PATH, network=off or
    confined=off. Without a line it is held by bubblewrap or Landlock, reads the system, itself and the paths that its
    command names, writes in its own folder below the data directory, and has the network. Where nothing holds it, it is
    started with confined=off only."""
    databases: tuple[DatabaseText, ...] = setting(
        (), 'a list of lines such as ["shop=postgresql+asyncpg://user:password@host/shop"]'
    )
    """Databases that db_query may read: a name, =, an SQLAlchemy URL of a user who may only read."""

    @property
    def policy_lines(self) -> tuple[PolicySetting, ...]:
        """Return `policy`, taken apart."""
        found = filter(None, map(_POLICY.fullmatch, self.policy))
        return tuple(
            PolicySetting(
                line["word"],
                line["subject"],
                tuple(filter(None, (line["roles"] or "").split("+"))),
                line["place"] or "",
            )
            for line in found
        )

    @property
    def mcp_servers(self) -> tuple[McpSetting, ...]:
        """Return `mcp`, taken apart, each with its own of `mcp_secrets`."""
        found = []
        for line in self.mcp:
            name, rest = line.split("=", 1)
            is_address = rest.startswith(HTTP_SCHEMES)
            found.append(self._server(name, () if is_address else tuple(shlex.split(rest)), rest if is_address else ""))
        return tuple(found)

    def every_mcp_server(self, environ: Mapping[str, str]) -> tuple[McpSetting, ...]:
        """Return `mcp_servers`, and those of `mcp_file`. Raises `ConfigError`."""
        found = {server.name: server for server in self.mcp_servers}
        for written, entry in _entries(self.mcp_file, environ).items():
            name = _OTHER_SIGNS.sub("-", written.lower()).strip("-")[:_NAME_CHARS_MAX].rstrip("-")
            where = f"tools.mcp_file: {self.mcp_file}: mcpServers.{written}"
            if not re.fullmatch(_NAME, name):
                raise ConfigError(f"{where} has a name that begins with no letter: give it another")
            if name in found:
                raise ConfigError(f"{where} is called {name} here, and so is another server: rename one of them")
            if bool(entry.command) == entry.url.startswith(HTTP_SCHEMES):
                raise ConfigError(f"{where} needs either a command or an http(s) url")
            command = (entry.command, *entry.args) if entry.command else ()
            found[name] = self._server(name, command, entry.url, entry.env if command else entry.headers)
        return tuple(found.values())

    @property
    def database_urls(self) -> dict[str, str]:
        """Return `databases` by name."""
        return dict(line.get_secret_value().split("=", 1) for line in self.databases)

    def _server(self, name: str, command: tuple[str, ...], url: str, given: Mapping[str, str] = _NOTHING) -> McpSetting:
        lines = filter(None, (_GIVEN.fullmatch(line.get_secret_value()) for line in self.mcp_secrets))
        mine = {**given, **{line["variable"]: line["value"] for line in lines if line["name"] == name}}
        if not command:
            return McpSetting(name, (), url, mine)
        found = filter(None, map(_ACCESS.fullmatch, self.mcp_access))
        said = [(line["off"] or line["way"], Path(line["place"] or "/")) for line in found if line["name"] == name]
        off = {word for word, _ in said}
        return McpSetting(
            name,
            command,
            "",
            mine,
            is_confined="confined" not in off,
            has_network="network" not in off,
            readable=tuple(place for word, place in said if word == "read"),
            writable=tuple(place for word, place in said if word == "write"),
        )


class _ServerEntry(BaseModel):
    """One of `mcpServers`. What clients know besides is theirs, and left unread."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    type: Literal["", "stdio", "http", "streamable-http", "streamableHttp", "streamable_http"] = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    url: str = ""
    headers: Mapping[str, str] = {}
    disabled: bool = False


class _ServersFile(BaseModel):
    """A file with MCP servers."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    mcpServers: Mapping[str, _ServerEntry]  # noqa: N815 - the name that all clients know


def _entries(path: Path | None, environ: Mapping[str, str]) -> Mapping[str, _ServerEntry]:
    """Read the servers in a file that are not disabled. Raises `ConfigError`, in which no value is."""
    if path is None:
        return {}
    where = f"tools.mcp_file: {path}"

    def value_of(found: re.Match[str]) -> str:
        value = environ.get(found[1], found[2])
        if value is None:
            raise ConfigError(f"{where} names the variable {found[1]}, which is not set: set it, or write a default")
        return json.dumps(value)[1:-1]

    try:
        written = _ServersFile.model_validate_json(_VARIABLE.sub(value_of, path.read_text("utf-8-sig")))
    except OSError as error:
        raise ConfigError(f"{where} cannot be read ({error.strerror}): correct the path or its rights") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise ConfigError(f"{where}: {place} is wrong: {first['msg']}") from None
    except ValueError as error:
        raise ConfigError(f"{where} is no UTF-8: save it so") from error
    return {name: entry for name, entry in written.mcpServers.items() if not entry.disabled}
