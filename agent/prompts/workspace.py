"""The operator's own slash commands, types of sub-agents and profiles: Markdown files with front matter.

    workspace/commands/review.md            workspace/agents/translator.md
    ---                                     ---
    description: Look through a change      description: Translates texts and keeps their form.
    argument: number                        tools: [file_read, file_write]
    role: member                            rounds_max: 8
    ---                                     ---
    Look through change $1: …               You translate. …

They are looked at again for each use, so an edit counts at once. A wrong file is left out: the log says why, with the
line, and so does `trivet doctor`. They grant nothing: a command is said by the person who wrote it, with that person's
rights, and a type or a profile (`workspace/profiles/*.md`: description, tools) is one more row under every ceiling that
ours are under."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, NamedTuple, NoReturn, TypeVar

import yaml
from pydantic import ValidationError

from agent.limits import OWN_FILE_CHARS_MAX, OWN_FILES_MAX
from agent.prompts.library import DEFAULT_PROFILE, PROFILES, Profile, ceiling_for
from agent.prompts.skills import FRONT_MATTER, EditableFiles
from gateway.config.subagents import SubTypeSetting
from gateway.contracts.access import RANKS
from gateway.contracts.commands import COMMANDS, OWN_NAME
from gateway.contracts.messages import CleanText
from gateway.contracts.profiles import SUB_TYPE_ROWS, TALKING, SubTypeRow
from gateway.contracts.sessions import GrantRole
from gateway.scrub import Scrubber

COMMANDS_FOLDER: Final = "commands"
AGENTS_FOLDER: Final = "agents"
PROFILES_FOLDER: Final = "profiles"

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_SLOT: Final = re.compile(r"\$(ARGUMENTS|[1-9])(?![A-Za-z0-9_])")
_ABOUT_CHARS_MAX: Final = 100
_ROUNDS: Final = 10  # of a type that says nothing of them
_ROLES: Final = {role.value: role for role in RANKS if role is not GrantRole.BLOCKED}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """One command: its line in /help, who may use it, and the template of what it says."""

    name: str
    about: CleanText
    argument: CleanText
    role: GrantRole
    template: CleanText

    def is_for(self, role: GrantRole) -> bool:
        """Tell whether a person of `role` may use it."""
        return role is not GrantRole.BLOCKED and RANKS.index(role) >= RANKS.index(self.role)

    def said(self, arguments: str) -> str:
        """Fill the template: `$ARGUMENTS` is all that follows the command, `$1` to `$9` its words. Without any of
        these the arguments follow below."""
        words = arguments.split()

        def fill(slot: re.Match[str]) -> str:
            if slot[1] == "ARGUMENTS":
                return arguments
            return words[int(slot[1]) - 1] if int(slot[1]) <= len(words) else ""

        filled, slots = _SLOT.subn(fill, self.template)
        return filled if slots or not arguments else f"{filled}\n\n{arguments}"


class _Field(NamedTuple):
    value: str | list[str]
    line: int


class _Page(NamedTuple):
    """A file, taken apart."""

    fields: Mapping[str, _Field]
    text: str
    text_line: int


class MarkdownFolder(Generic[T]):
    """The files of one folder as values by name."""

    def __init__(self, folder: Path, make: Callable[[str, str], T]) -> None:
        self._folder = folder
        self._files = EditableFiles(lambda path, text: make(path.stem, text), chars_max=OWN_FILE_CHARS_MAX)

    def read(self) -> dict[str, T]:
        """Read what is right, by name."""
        found = ((path.stem, self._files.read(path)) for path in self._paths())
        return {name.replace("-", "_"): made for name, made in found if made is not None}

    def mistakes(self) -> Iterator[str]:
        """Yield what is wrong: `agents/x.md line 3: …`."""
        for path in self._paths():
            try:
                self._files.made(path, None)
            except (OSError, ValueError) as error:
                yield f"{self._folder.name}/{path.name} {error}"

    def _paths(self) -> list[Path]:
        try:
            return sorted(path for path in self._folder.iterdir() if path.suffix == ".md")[:OWN_FILES_MAX]
        except OSError:
            return []


class WorkspaceFiles:
    """The operator's own commands, types and profiles, as the files say now. `commands` and `sub_types` are read for
    each use."""

    def __init__(self, workspace: Path, scrubber: Scrubber) -> None:
        clean = scrubber.scrub
        self.commands = MarkdownFolder(workspace / COMMANDS_FOLDER, lambda name, text: parse_command(name, text, clean))
        self.sub_types = MarkdownFolder(workspace / AGENTS_FOLDER, lambda name, text: parse_sub_type(name, text, clean))
        self._profiles = MarkdownFolder(
            workspace / PROFILES_FOLDER, lambda name, text: parse_profile(name, text, clean)
        )

    def profiles(self) -> Mapping[str, Profile]:
        """Return the profiles by name: ours, then the operator's."""
        return PROFILES | self._profiles.read()

    def profile_named(self, name: str) -> Profile:
        """Return the profile of a session; the default for no name, and for one that is not there any more."""
        return PROFILES.get(name) or (self._profiles.read().get(name) if name else None) or DEFAULT_PROFILE

    def mistakes(self) -> list[str]:
        """Return what is wrong in which file and line."""
        return [*self.commands.mistakes(), *self.sub_types.mistakes(), *self._profiles.mistakes()]


def parse_command(name: str, text: str, clean: Callable[[str], CleanText]) -> OwnCommand:
    """Parse the file of the command `name`. Raises `ValueError` with the line of the first mistake."""
    page = _page(name, text, {"description", "argument", "role"})
    if name.replace("-", "_") in {OWN_NAME, *(spec.name for spec in COMMANDS)}:
        _wrong(1, f"/{name} is a command of Trivet's own: give the file another name")
    about, argument, role = _line(page, "description"), _line(page, "argument"), page.fields.get("role")
    if not about or len(about) > _ABOUT_CHARS_MAX:
        _wrong(_line_of(page, "description"), f"description must be one line of 1 to {_ABOUT_CHARS_MAX} characters")
    if role is not None and role.value not in _ROLES:
        _wrong(role.line, f"role must be one of {', '.join(_ROLES)}")
    least = _ROLES[str(role.value)] if role is not None else GrantRole.GUEST
    return OwnCommand(name.replace("-", "_"), clean(about), clean(argument), least, clean(page.text))


def parse_sub_type(name: str, text: str, clean: Callable[[str], CleanText]) -> SubTypeRow:
    """Parse the file of the type `name`. Raises as `parse_command` does; what a field may hold is what the settings of
    Trivet's own types may."""
    page = _page(name, text, {"label", "description", "tools", "rounds_max", "model"})
    if name.replace("-", "_") in SUB_TYPE_ROWS:
        _wrong(1, f"{name} is a type of Trivet's own: change it by subagents.types, or give the file another name")
    setting = _setting(page)
    label = setting.label or name.replace("-", " ").replace("_", " ").capitalize()
    return SubTypeRow(
        name.replace("-", "_"),
        clean(label),
        clean(setting.description or ""),
        setting.tools or (),
        setting.rounds_max or _ROUNDS,
        clean(setting.prompt or ""),
        setting.model or "",
    )


def parse_profile(name: str, text: str, clean: Callable[[str], CleanText]) -> Profile:
    """Parse the file of the profile `name`. Raises as `parse_command` does."""
    page = _page(name, text, {"description", "tools"})
    if name.replace("-", "_") in {*PROFILES, "default", "none", "reset"}:
        _wrong(1, f"{name} is a profile of Trivet's own: give the file another name")
    setting = _setting(page)
    about, prompt = clean(setting.description or ""), clean(setting.prompt or "")
    return Profile(name.replace("-", "_"), about, prompt, ceiling_for((*TALKING, *(setting.tools or ()))))


def _setting(page: _Page) -> SubTypeSetting:
    """Check description, tools, text and what else there is as the settings of Trivet's own types are checked."""
    for needed in ("description", "tools"):
        if needed not in page.fields:
            _wrong(1, f"it has no {needed}")
    given: dict[str, object] = {field: found.value for field, found in page.fields.items()}
    rounds = given.get("rounds_max")
    if isinstance(rounds, str) and rounds.isdecimal():
        given["rounds_max"] = int(rounds)
    try:
        return SubTypeSetting.model_validate({**given, "prompt": page.text})
    except ValidationError as error:
        problem = error.errors()[0]
        field = str(problem["loc"][0])
        line = page.text_line if field == "prompt" else _line_of(page, field)
        _wrong(line, f"{field} {problem['msg'].removeprefix('Value error, ')}")


def _page(name: str, raw: str, known: set[str]) -> _Page:
    text = raw.replace("\r\n", "\n")
    front = FRONT_MATTER.match(text)
    if not _NAME.fullmatch(name):
        _wrong(1, "the file's name must begin with a letter and have only a-z, 0-9, - and _, 32 at most")
    if front is None:
        _wrong(1, "there is no front matter between two lines of ---")
    try:
        node = yaml.compose(front[1], Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        _wrong(
            error.problem_mark.line + 2 if error.problem_mark else 1, f"the front matter is no YAML: {error.problem}"
        )
    except (yaml.YAMLError, RecursionError):
        _wrong(1, "the front matter is no YAML")
    if not isinstance(node, yaml.MappingNode):
        _wrong(2, "the front matter is no list of names and values")
    fields: dict[str, _Field] = {}
    for key, value in node.value:
        field, line = str(key.value), key.start_mark.line + 2
        if field not in known:
            _wrong(line, f"{field} is unknown: there are {', '.join(sorted(known))}")
        if isinstance(value, yaml.SequenceNode) and all(isinstance(each, yaml.ScalarNode) for each in value.value):
            fields[field] = _Field([each.value for each in value.value], line)
        elif isinstance(value, yaml.ScalarNode):
            fields[field] = _Field(value.value, line)
        else:
            _wrong(line, f"{field} is neither a text nor a list of texts")
    body = text[front.end() :]
    if not body.strip():
        _wrong(text[: front.end()].count("\n") + 1, "there is no text below the front matter")
    return _Page(fields, body.strip(), text[: front.end()].count("\n") + 1)


def _line(page: _Page, field: str) -> str:
    """Return the text of a field on one line; empty if it has none."""
    found = page.fields.get(field)
    if found is not None and not isinstance(found.value, str):
        _wrong(found.line, f"{field} must be one line")
    return " ".join(str(found.value).split()) if found is not None else ""


def _line_of(page: _Page, field: str) -> int:
    return page.fields[field].line if field in page.fields else 1


def _wrong(line: int, reason: str) -> NoReturn:
    raise ValueError(f"line {line}: {reason}")
