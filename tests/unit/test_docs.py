"""What README.md and `docs` tell people to do can be done: commands, settings, routes and files are there.

`make docs` adds what needs mkdocs: no dead link, no picture missing, nothing fetched from elsewhere.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from unittest.mock import Mock

import pytest
import typer
from starlette.routing import Mount, Route

from agent.features.schedules.times import read_request
from channels.api.server import ApiServer
from gateway.config.catalog import catalog, variables
from gateway.config.loader import load_settings
from gateway.contracts.commands import COMMANDS
from gateway.ops.cli.start import app
from tests.architecture.test_document import A_SETTING, is_named
from tests.docs.openapi import document
from tests.docs.references import ROOT, pages

LINES_MAX: Final = 100
WRITTEN: Final = ("README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")))
FENCE: Final = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
A_VARIABLE: Final = re.compile(r"\bTRIVET_[A-Z0-9_]+\b")
A_ROUTE: Final = re.compile(r"(?:GET|POST|PUT|DELETE) (/api/[^` ]*)")
A_LINK: Final = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
IN_CHAT: Final = re.compile(r"`/([a-z]+)(?: [^`]*)?`")
OF_OTHERS: Final = {"newbot", "setprivacy", "revoke", "token", "invite", "trivet"}
"""Commands of BotFather and of Slack, and ours in Slack."""
PATHS: Final = {"healthz", "readyz", "metrics", "tmp"}
PROGRAMS: Final = {"trivet", ".venv/bin/trivet", "/opt/trivet/bin/trivet"}
INCOMPLETE: Final = {"MissingParameter", "NoArgsIsHelpError"}
"""Errors of the command line (typer keeps their classes to itself) that say only that something is left out."""
NOT_SETTINGS: Final = {"TRIVET_CONFIG", "TRIVET_PLUGIN_API"}


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def fences(page: str, language: str) -> Iterator[str]:
    for indent, name, text in FENCE.findall(text_of(page)):
        if name == language:
            yield re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)


def inline(page: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", FENCE.sub("", text_of(page)))


def terminal_commands(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words that follow `trivet` in every command among the texts."""
    for text in texts:
        for part in re.split(r"&& | \| | > | exec admin ", text.partition("  #")[0]):
            program, _, words = part.removeprefix("$ ").removeprefix("sudo -u trivet ").strip().partition(" ")
            if words and program in PROGRAMS:
                yield shlex.split(words)


def copied(page: str) -> list[list[str]]:
    """Return the commands that somebody may copy, whole."""
    blocks = (*fences(page, "console"), *fences(page, "sh"))
    return [*terminal_commands(line for block in blocks for line in block.splitlines())]


def named(page: str) -> list[list[str]]:
    """Return the commands that the prose names; arguments may be left out."""
    return [*terminal_commands(inline(page))]


def parse(words: Sequence[str], *, is_whole: bool = True) -> None:
    """Parse the words as the command line would; raises its usage error. An option of `trivet` itself is looked up and
    not parsed: it would act."""
    command: Any = typer.main.get_command(app)
    if words[0].startswith("-"):
        assert words[0] in {option for each in command.params for option in each.opts}
        return
    context = command.make_context("trivet", list(words))
    try:
        while getattr(command, "commands", None) and (rest := [*context._protected_args, *context.args]):
            name, command, arguments = command.resolve_command(context, rest)
            context = command.make_context(name, arguments, parent=context)
    except Exception as error:
        if is_whole or type(error).__name__ not in INCOMPLETE:
            raise


def test_the_readme_fits_a_screen() -> None:
    assert len(text_of("README.md").splitlines()) <= LINES_MAX


def test_the_references_are_made_of_this_source() -> None:
    """After a change: `make docs`, or `.venv/bin/python -m tests.docs.references`, which needs no mkdocs."""
    for name, text in pages().items():
        assert text_of(f"docs/reference/{name}") == text, name


@pytest.mark.parametrize("page", WRITTEN)
def test_every_command_of_the_terminal_parses(page: str) -> None:
    for words in copied(page):
        parse(words)
    for words in named(page):
        parse(words, is_whole=False)


def test_the_parser_of_this_test_refuses_what_is_not_there() -> None:
    for wrong in ("frobnicate", "access frobnicate", "backup --frobnicate", "trace"):
        with pytest.raises(Exception, match=r"(?i)no such|missing"):
            parse(wrong.split())
    with pytest.raises(Exception, match=r"(?i)no such"):
        parse(["trace", "--frobnicate"], is_whole=False)
    parse(["trace"], is_whole=False)


def test_commands_are_found_on_the_pages() -> None:
    assert ["pair", "CODE", "admin"] in copied("docs/start/telegram.md")
    assert ["installation", "--new"] in named("docs/operate/troubleshooting.md")
    assert sum(len(copied(page)) for page in WRITTEN) > 40


@pytest.mark.parametrize("page", WRITTEN)
def test_every_setting_that_is_named_exists(page: str) -> None:
    tables = {key.partition(".")[0] for key in catalog()}
    named = [name for name in A_SETTING.findall(text_of(page)) if name.partition(".")[0] in tables]
    assert [name for name in named if not any(is_named(name, each) for each in catalog().values())] == []
    assert {*A_VARIABLE.findall(text_of(page))} - {*variables()} - NOT_SETTINGS == set()


@pytest.mark.parametrize("page", WRITTEN)
def test_every_configuration_that_is_shown_is_read(page: str, tmp_path: Path) -> None:
    path = tmp_path / "trivet.toml"
    path.touch(0o600)
    for text in fences(page, "toml"):
        path.write_text(text, "utf-8")
        assert load_settings(path, {}).warnings == (), text


@pytest.mark.parametrize("page", WRITTEN)
def test_every_command_of_a_chat_exists(page: str) -> None:
    known = {spec.name for spec in COMMANDS} | OF_OTHERS | PATHS
    assert {*IN_CHAT.findall(FENCE.sub("", text_of(page)))} - known == set()


def test_every_reminder_that_is_shown_is_understood() -> None:
    now = datetime(2026, 11, 27, 12, tzinfo=UTC)
    shown = [text.removeprefix("/remind ") for page in WRITTEN for text in inline(page) if text.startswith("/remind ")]
    asked = [text for text in shown if not text.startswith(("zone ", "cancel ", "["))]
    assert len(asked) > 2
    for text in asked:
        assert read_request(text, now=now, zone=UTC).text


def test_every_route_that_is_named_exists() -> None:
    patterns = [re.sub(r"\{\w+\}", "[^/]+", path) for path in document()["paths"]]
    named = {path for page in WRITTEN for path in A_ROUTE.findall(text_of(page))}
    assert [path for path in named if not any(re.fullmatch(pattern, path) for pattern in patterns)] == []


def test_every_route_of_programs_is_documented() -> None:
    server = ApiServer(Mock(), Mock(), Mock(), hosts=())
    mounts = [each for each in server.routes if isinstance(each, Mount)]
    table = {f"{mount.path}{route.path}" for mount in mounts for route in mount.routes if isinstance(route, Route)}
    told = {path for path, methods in document()["paths"].items() if methods["servers"][0]["url"].endswith(":8422")}
    assert told < table
    assert {path.rpartition("v1/")[2] for path in table} == {path.rpartition("v1/")[2] for path in told}


@pytest.mark.parametrize("page", WRITTEN)
def test_every_link_and_picture_is_there(page: str) -> None:
    folder = (ROOT / page).parent
    assert [link for link in A_LINK.findall(text_of(page)) if not (folder / link).exists()] == []


def test_what_troubleshooting_quotes_is_said_somewhere() -> None:
    """Words in backticks that are no command, setting or path are a part of one of our sentences."""
    sources = [
        path.read_text("utf-8")
        for package in ("gateway", "channels", "agent")
        for path in (ROOT / package).rglob("*.py")
    ]

    def is_said(text: str) -> bool:
        likely = sorted(sources, key=lambda source: text not in source)  # a sentence may go on in the next line
        return any(text in sentence for source in likely for sentence in sentences(source))

    quoted = [text for text in inline("docs/operate/troubleshooting.md") if re.fullmatch(r"[\w, -]+ [\w, -]+", text)]
    quoted = [text for text in quoted if not text.startswith("trivet ")]
    assert len(quoted) > 12
    assert [text for text in quoted if not is_said(text)] == []


@cache
def sentences(source: str) -> frozenset[str]:
    """All texts in the source of a module."""
    nodes = ast.walk(ast.parse(source))
    return frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def test_every_target_of_make_exists() -> None:
    known = re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE)
    shown = [target for page in WRITTEN for target in re.findall(r"(?:^ *|[`$] ?)make ([a-z-]+)", text_of(page), re.M)]
    assert len(shown) > 5
    assert {*shown} - {*known} == set()


def test_every_file_of_deploy_that_is_named_exists() -> None:
    named = {path for page in WRITTEN for path in re.findall(r"\bdeploy/[\w./@-]*\w", text_of(page))}
    assert len(named) > 8
    assert [path for path in named if not (ROOT / path).exists() and path != "deploy/.env"] == []
