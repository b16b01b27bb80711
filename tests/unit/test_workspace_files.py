"""The operator's own commands and types of sub-agents: what their files say, and what is told of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.features.commands import help_text
from agent.prompts.library import DEFAULT_PROFILE
from agent.prompts.workspace import OwnCommand, WorkspaceFiles, parse_command, parse_profile, parse_sub_type
from agent.subagents.catalog import child_context, sub_type_of
from agent.tools.policy import Permission, Permissions, Risk
from agent.tools.tool import CallOrigin, ToolContext
from gateway.contracts.commands import COMMANDS
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import GrantRole
from gateway.i18n import Language, Words
from gateway.scrub import Scrubber
from tests.scrubbing import draw

CLEAN = Scrubber().scrub
COMMAND = "---\ndescription: Look through a change\nargument: number\nrole: member\n---\nLook through change $1.\n"
AGENT = "---\ndescription: Translates.\ntools: [file_read, file_write]\nrounds_max: 8\n---\nYou translate.\n"


def command(front: str, text: str = "Say hello.") -> OwnCommand:
    return parse_command("review", f"---\n{front}\n---\n{text}\n", CLEAN)


@pytest.fixture
def files(tmp_path: Path) -> WorkspaceFiles:
    (tmp_path / "commands").mkdir()
    (tmp_path / "agents").mkdir()
    (tmp_path / "commands" / "review-change.md").write_text(COMMAND)
    (tmp_path / "agents" / "translator.md").write_text(AGENT)
    return WorkspaceFiles(tmp_path, Scrubber())


def test_a_command_says_what_its_file_says(files: WorkspaceFiles) -> None:
    (own,) = files.commands.read().values()
    assert (own.name, own.about, own.argument, own.role) == (
        "review_change",
        "Look through a change",
        "number",
        GrantRole.MEMBER,
    )
    assert own.said("12 and more") == "Look through change 12."


@pytest.mark.parametrize(
    ("template", "arguments", "said"),
    [
        ("Say hello.", "", "Say hello."),
        ("Say hello.", "to Ann", "Say hello.\n\nto Ann"),
        ("To $2 and $1, not $3!", "Ann Bob", "To Bob and Ann, not !"),
        ("All: $ARGUMENTS", "$1 costs $ARGUMENTS", "All: $1 costs $ARGUMENTS"),
        ("It costs $15 or $USD", "x", "It costs $15 or $USD\n\nx"),
    ],
)
def test_arguments_fill_the_template_once(template: str, arguments: str, said: str) -> None:
    assert command("description: d", template).said(arguments) == said


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("review", "Say hello.", "line 1: there is no front matter"),
        ("review", "---\ndescription: d\n---\n\n", "line 4: there is no text"),
        ("review", "---\ndescription: d\nrole: king\n---\nx", "line 3: role must be one of guest, member, admin"),
        ("review", "---\nargument: a\n---\nx", "line 1: description must be one line"),
        ("review", f"---\nargument: a\ndescription: {'d' * 101}\n---\nx", "line 3: description must be one line"),
        ("review", "---\ndescription: d\nmodel: m\n---\nx", "line 3: model is unknown: there are argument"),
        ("review", "---\ndescription: d\nargument:\n  a: b\n---\nx", "line 3: argument is neither"),
        ("review", "---\ndescription: d\nargument: [a, b]\n---\nx", "line 3: argument must be one line"),
        ("review", "---\ndescription: d\nargument: [\n---\nx", "the front matter is no YAML"),
        ("review", "---\n- description\n---\nx", "line 2: the front matter is no list"),
        ("Überblick", COMMAND, "line 1: the file's name"),
        ("stop", COMMAND, "line 1: /stop is a command of Trivet's own"),
        ("trivet", COMMAND, "line 1: /trivet is a command of Trivet's own"),
    ],
)
def test_a_wrong_command_is_told_with_its_line(name: str, text: str, said: str) -> None:
    with pytest.raises(ValueError, match="line") as raised:
        parse_command(name, text, CLEAN)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("name", "front", "said"),
    [
        ("code", "description: d\ntools: [file_read]", "line 1: code is a type of Trivet's own"),
        ("mine", "description: d", "line 1: it has no tools"),
        ("mine", "tools: [file_read]", "line 1: it has no description"),
        ("mine", "description: d\ntools: [file_read, format_disk]", "line 3: tools must be a list"),
        ("mine", "description: d\ntools: file_read", "line 3: tools"),
        ("mine", "description: d\ntools: [file_read]\nrounds_max: 51", "line 4: rounds_max must be a whole number"),
        ("mine", "description: d\ntools: [file_read]\nrounds_max: many", "line 4: rounds_max"),
        ("mine", "label: ''\ndescription: d\ntools: [file_read]", "line 2: label must be one line"),
        ("mine", "description: d\ntools: [file_read]\nbudget: 99", "line 4: budget is unknown"),
    ],
)
def test_a_wrong_type_is_told_with_its_line(name: str, front: str, said: str) -> None:
    with pytest.raises(ValueError, match="line") as raised:
        parse_sub_type(name, f"---\n{front}\n---\nYou are.\n", CLEAN)
    assert said in str(raised.value)


def test_an_edit_counts_at_once_and_a_wrong_file_is_left_out(files: WorkspaceFiles, tmp_path: Path) -> None:
    assert list(files.sub_types.read()) == ["translator"]
    assert files.mistakes() == []
    (tmp_path / "agents" / "translator.md").write_text(AGENT.replace("file_write", "format_disk"))
    assert files.sub_types.read() == {}
    assert files.mistakes()[0].startswith("agents/translator.md line 3: tools must be")
    (tmp_path / "agents" / "translator.md").unlink()
    (tmp_path / "agents" / "poet.md").write_text(AGENT)
    assert list(files.sub_types.read()) == ["poet"]


def test_a_type_of_a_file_is_under_the_ceilings_of_its_parent(files: WorkspaceFiles) -> None:
    row = files.sub_types.read()["translator"]
    assert (row.label, row.tools, row.rounds_max) == ("Translator", ("file_read", "file_write"), 8)
    parent = ToolContext(
        SessionKey("telegram", "1"), "t", call_origin=CallOrigin("s"), ceiling=Permissions.only(["file_read", "shell"])
    )
    child = child_context(parent, sub_type_of(row), session_id="c", task_id="k")
    allowed = {
        name
        for name in ("file_read", "file_write", "shell")
        if child.ceiling.of(name, Risk.READ) is not Permission.DENY
    }
    assert allowed == {"file_read"}


def test_a_profile_narrows_and_its_file_may_go(files: WorkspaceFiles, tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    page = tmp_path / "profiles" / "house-poet.md"
    page.write_text("---\ndescription: writes {verses}\ntools: [file_read]\n---\nYou are a poet.\n")
    poet = files.profile_named("house_poet")
    assert (poet.about, poet.prompt) == ("writes {verses}", "You are a poet.")
    ceiling = Permissions.only(["file_read", "shell"]) & poet.ceiling
    assert ceiling.of("file_read", Risk.READ) is Permission.ALLOW
    assert poet.ceiling.of("todo_read", Risk.READ) is Permission.ALLOW
    assert ceiling.of("shell", Risk.EXECUTE) is Permission.DENY
    assert list(files.profiles())[-1] == "house_poet"
    page.write_text("---\ndescription: writes verses\ntools: [file_reed]\n---\nYou are a poet.\n")
    assert files.mistakes()[0].startswith("profiles/house-poet.md line 3: tools must be")
    assert files.profile_named("house_poet") is DEFAULT_PROFILE
    with pytest.raises(ValueError, match="writer is a profile of Trivet's own"):
        parse_profile("writer", AGENT.replace("rounds_max: 8\n", ""), CLEAN)


def test_a_secret_in_a_file_reaches_nobody() -> None:
    secret = draw("ghp_<base62:36>", seed=1)
    assert secret not in command("description: d", f"Use {secret}.").said("")


def test_help_lists_a_command_to_those_who_may_use_it(files: WorkspaceFiles) -> None:
    def told(role: GrantRole) -> str:
        return help_text(role, Words(Language.EN), listed=COMMANDS, can_split=False, own=files.commands.read().values())

    line = "- /review_change [number]: Look through a change"
    assert line in told(GrantRole.MEMBER)
    assert line in told(GrantRole.ADMIN)
    assert line not in told(GrantRole.GUEST)
