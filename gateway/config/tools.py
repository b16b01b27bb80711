"""The settings of the agent's tools: policy, web, MCP servers, databases.

Lists hold one line each, so that they can stand in a variable, too; each kind of line has one parser here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, SecretStr

from gateway.config.section import HTTP_SCHEMES, Secret, Section, expecting, url_with
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
    a program's environment, headers of an address. What `mcp_access` says of a program stands below."""

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

    engine: Literal["", "ddgs", "searxng", "brave", "tavily"] = Field(
        default="",
        description="The search engine behind web_search. ddgs needs no key: it asks DuckDuckGo, Brave, Mojeek and "
        "Startpage as a browser would, for a few searches a minute. Empty: web_search is off.",
        json_schema_extra=expecting("empty or one of ddgs, searxng, brave, tavily"),
    )
    url: Annotated[str, url_with(*HTTP_SCHEMES)] = Field(
        default="",
        description="Address of the search engine; SearXNG needs one. Empty: the engine's own. With ddgs, an HTTP "
        "proxy to ask through.",
        json_schema_extra=expecting("empty or an http(s) URL"),
    )
    key: Secret = Field(default=None, description="Key of the search engine's API; Brave and Tavily need one.")

    @property
    def lacks(self) -> str:
        """The key without which the engine cannot be asked, "" if nothing is missing."""
        if self.engine == "searxng" and not self.url:
            return "tools.web.url"
        return "tools.web.key" if self.engine in ("brave", "tavily") and self.key is None else ""


class BrowserSettings(Section):
    """The browser tool."""

    mode: Literal["auto", "unsandboxed", "off"] = Field(
        default="auto",
        description="auto: on where the extra `browser`, a Chromium and Chromium's own sandbox are to be had. "
        "unsandboxed: also without that sandbox (as root, in most containers). off: never.",
        json_schema_extra=expecting("one of auto, unsandboxed, off"),
    )


class ToolSettings(Section):
    """What the agent may do besides talking."""

    policy: tuple[PolicyText, ...] = Field(
        default=(),
        description="Lines such as `allow shell for admin in dm` or `deny network`: allow, ask-self, ask or deny; a "
        "tool or a risk (read, write, execute, network, spend); roles joined by +; dm or group. ask wants the approval "
        "of an admin, who is asked in private, and may approve a tool for the turn or always in that place, too; with "
        "ask-self whoever asked may approve the one call. Without a line: read is allowed, an admin is asked about "
        "everything else, everybody else is denied it.",
        json_schema_extra=expecting('a list of lines such as ["allow shell for admin in dm"]'),
    )
    approval_ttl_s: Annotated[int, Field(ge=1, le=24 * 3600)] = Field(
        default=15 * 60,
        description="How long a question to a person (a policy of ask or ask-self) waits for its answer, in seconds; "
        "then it is taken for a no.",
    )
    web: WebSettings = WebSettings()
    browser: BrowserSettings = BrowserSettings()
    mcp: Annotated[tuple[ServerText, ...], AfterValidator(_without_twins)] = Field(
        default=(),
        description="MCP servers: a name, =, and the command that starts one or the address of one.",
        json_schema_extra=expecting('a list of lines such as ["time=mcp-server-time", "docs=https://host/mcp"]'),
    )
    mcp_secrets: tuple[GivenText, ...] = Field(
        default=(),
        description="What an MCP server is given: its name, a dot, a variable (or a header, for an address), =, value.",
        json_schema_extra=expecting('a list of lines such as ["docs.Authorization=Bearer …"]'),
    )
    mcp_access: tuple[AccessText, ...] = Field(
        default=(),
        description="What the program of an MCP server reaches: its name, a dot, and read=PATH, write=PATH, "
        "network=off or confined=off. Without a line it is held by bubblewrap or Landlock, reads the system, itself "
        "and the paths that its command names, writes in its own folder below the data directory, and has the network. "
        "Where nothing holds it, it is started with confined=off only.",
        json_schema_extra=expecting('a list of lines such as ["docs.read=/srv/docs", "time.network=off"]'),
    )
    databases: tuple[DatabaseText, ...] = Field(
        default=(),
        description="Databases that db_query may read: a name, =, an SQLAlchemy URL of a user who may only read.",
        json_schema_extra=expecting('a list of lines such as ["shop=postgresql+asyncpg://user:password@host/shop"]'),
    )

    @property
    def policy_lines(self) -> tuple[PolicySetting, ...]:
        """`policy`, taken apart."""
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
        """`mcp`, taken apart, each with its own of `mcp_secrets`."""
        return tuple(self._server(*line.split("=", 1)) for line in self.mcp)

    @property
    def database_urls(self) -> dict[str, str]:
        """`databases` by name."""
        return dict(line.get_secret_value().split("=", 1) for line in self.databases)

    def _server(self, name: str, rest: str) -> McpSetting:
        lines = filter(None, (_GIVEN.fullmatch(line.get_secret_value()) for line in self.mcp_secrets))
        mine = {line["variable"]: line["value"] for line in lines if line["name"] == name}
        if rest.startswith(HTTP_SCHEMES):
            return McpSetting(name, (), rest, mine)
        found = filter(None, map(_ACCESS.fullmatch, self.mcp_access))
        said = [(line["off"] or line["way"], Path(line["place"] or "/")) for line in found if line["name"] == name]
        off = {word for word, _ in said}
        return McpSetting(
            name,
            tuple(shlex.split(rest)),
            "",
            mine,
            is_confined="confined" not in off,
            has_network="network" not in off,
            readable=tuple(place for word, place in said if word == "read"),
            writable=tuple(place for word, place in said if word == "write"),
        )
