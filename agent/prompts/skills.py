"""Skills: instructions for one kind of work, which the model sees by name and loads when it needs them.

A skill is a folder as the Agent Skills standard has it (https://agentskills.io/specification): `<name>/SKILL.md`, a
Markdown file with YAML front matter, and what its text names beside it, such as scripts/, references/ and assets/. One
that is a text alone may be a file `<name>.md`:

    ---
    name: web-research
    description: How to answer a question from the web, and when to do it so.
    always_loaded: false
    ---
    The text.

`always_loaded` is ours; what else the standard or a vendor knows is left unread: `allowed-tools` allows nothing, since
that is the policy's. The model is told name and description, loads the text when it is to work so, and each file when
the text sends it there. Skills come in three layers: built in, of one user, of the operator's workspace. Of two of one
name the later wins."""

from __future__ import annotations

import asyncio
import errno
import json
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import structlog
import yaml

from agent import limits
from agent.models.requests import ToolSpec
from agent.schema import object_schema, text_schema
from agent.tools.files.paths import SKILLS_MOUNT
from agent.tools.policy import Risk
from agent.tools.tool import Tool, ToolContext
from gateway.contracts.errors import ToolError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, clipped
from gateway.scrub import Scrubber

# Text files that people edit while we run. Each is read again when it has changed, and only then.


_log = structlog.get_logger(__name__)
_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})

T = TypeVar("T")
Version = tuple[int, int, int]
"""Time of change, size, inode: an editor that keeps the time still changes one of the others."""


@dataclass(frozen=True, slots=True)
class _Read(Generic[T]):
    version: Version
    made: T | None


class EditableFiles(Generic[T]):
    """Keeps the value that `make` makes of the text of each file. A file that cannot be read, or for which
    `make` raises `ValueError`, counts as missing; the log tells it once for each version of the file."""

    def __init__(self, make: Callable[[Path, str], T], *, chars_max: int) -> None:
        """Keep the function that makes a value of a file's text. At most `chars_max` characters of a file are read."""
        self._make = make
        self._chars_max = chars_max
        self._known: dict[Path, _Read[T]] = {}

    def read(self, path: Path, *, within: Path | None = None) -> T | None:
        """Read the current content of the file; None for a missing one, or for one that lies outside of the folder
        `within` once its links have been followed."""
        try:
            version = _version(path)
        except OSError as error:
            self._known.pop(path, None)
            if error.errno not in _NOT_THERE:
                _log.warning("file.unreadable", file=str(path), reason=type(error).__name__)
            return None
        known = self._known.get(path)
        if known is None or known.version != version:
            known = self._known[path] = _Read(version, self._read(path, within))
        return known.made

    def made(self, path: Path, within: Path | None) -> T:
        """Make the value anew. Raises `OSError`, and `ValueError` with what is wrong."""
        if within is not None and not path.resolve().is_relative_to(within.parent.resolve() / within.name):
            raise ValueError("it leads out of its folder")
        with path.open(encoding="utf-8-sig") as file:
            return self._make(path, file.read(self._chars_max))

    def _read(self, path: Path, within: Path | None) -> T | None:
        try:
            return self.made(path, within)
        except (OSError, ValueError) as error:
            _log.warning("file.unreadable", file=str(path), reason=f"{type(error).__name__}: {error}"[:200])
            return None


def _version(path: Path) -> Version:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a plain file")  # a pipe would be waited for
    return found.st_mtime_ns, found.st_size, found.st_ino


BUILT_IN: Final = Path(__file__).parent / "skills"
FOLDER: Final = "skills"
_FILE: Final = "SKILL.md"
FRONT_MATTER: Final = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_NAME: Final = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")
_PLAIN: Final = re.compile(r"^([A-Za-z_-]+): +([^\s\"'|>&*!%#\[{].*: .*)$", re.MULTILINE)
"""A value with a colon in it that should be in quotes, as other readers take it, too."""
_YES: Final = frozenset({"true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill, clean. An `is_always_loaded` one is whole in every prompt. `folder` holds its files; None for one
    that is a text alone."""

    name: str
    description: CleanText
    text: CleanText
    is_always_loaded: bool = False
    folder: Path | None = None

    def read(self, name: str) -> str:
        """Read a file of the skill; `name` is its path in the folder. Blocks. Raises `ToolError`."""
        try:
            if self.folder is not None:
                file = (self.folder / name).resolve()
                if file.is_relative_to(self.folder.resolve()) and file.is_file():
                    with file.open(encoding="utf-8-sig") as opened:
                        return opened.read(limits.SKILL_FILE_CHARS_MAX)
        except (OSError, ValueError) as error:
            raise ToolError(f"{name} cannot be read as text") from error
        raise ToolError(f"the skill {self.name} has no file {name!r}; it has: {', '.join(self.files()) or 'none'}")

    def files(self) -> Sequence[str]:
        """List the files besides `SKILL.md`, by their paths in the folder. Blocks."""
        if self.folder is None:
            return ()
        inside = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        shown = (str(path) for path in inside if path.name != _FILE and not any(part[0] == "." for part in path.parts))
        return sorted(islice(shown, limits.SKILL_FILES_LISTED_MAX))


@dataclass(frozen=True, slots=True)
class Layer:
    """A folder with skills. With `within`, no link leads out of that folder."""

    folder: Path
    within: Path | None = None


class SkillFiles:
    """Reads layers of skills; an edit is seen at once, a broken skill is logged and left out."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._files = EditableFiles(
            lambda path, text: parse_skill(path, text, scrubber), chars_max=limits.SKILL_CHARS_MAX
        )

    def read(self, layers: Sequence[Layer]) -> dict[str, Skill]:
        """Read the skills by name, in a fixed order; those of later layers win."""
        found: dict[str, Skill] = {}
        for layer in layers:
            for path in _skill_paths(layer.folder):
                skill = self._files.read(path, within=layer.within)
                if skill is not None:
                    found[skill.name] = skill
        return dict(sorted(found.items()))

    def found(self, layer: Layer) -> Iterator[tuple[Path, Skill | str]]:
        """Yield each file of a layer with its skill, or with what is wrong in it."""
        for path in _skill_paths(layer.folder):
            try:
                yield path, self._files.made(path, layer.within)
            except (OSError, ValueError) as error:
                yield path, str(error) if isinstance(error, ValueError) else f"it cannot be read: {error.strerror}"


def parse_skill(path: Path, raw: str, scrubber: Scrubber) -> Skill:
    """Parse the skill in the text of a file, which names it if the text does not. Raises `ValueError`, with the line if
    there is one to mend."""
    raw = raw.replace("\r\n", "\n")
    front = FRONT_MATTER.match(raw)
    if front is None:
        raise ValueError("line 1: it does not begin with front matter between two lines of ---")
    fields = _fields(front[1])
    named = str(fields.get("name") or default_name(path))
    description = " ".join(str(fields.get("description") or "").split())
    text = raw[front.end() :].strip()
    if not _NAME.fullmatch(named):
        raise ValueError(f"{_line_of('name', raw)}: a name is 1 to 64 of a-z and 0-9, with single hyphens between them")
    if not description:
        raise ValueError(f"{_line_of('description', raw)}: it has no description")
    if not text:
        raise ValueError(f"line {len(raw[: front.end()].splitlines()) + 1}: it has no text")
    return Skill(
        named,
        clipped(scrubber.scrub(description), limits.SKILL_DESCRIPTION_CHARS_MAX),
        scrubber.scrub(text),
        str(fields.get("always_loaded", "")).lower() in _YES,
        path.parent if path.name == _FILE else None,
    )


def _fields(front_matter: str) -> Mapping[str, Any]:
    """Parse the front matter with every value as the text that was written: a skill called `on` is not called True."""
    try:
        fields = _yaml(front_matter)
    except ValueError:
        fields = _yaml(_PLAIN.sub(lambda line: f"{line[1]}: {json.dumps(line[2])}", front_matter))
    if not isinstance(fields, dict):
        raise ValueError("line 2: its front matter is no list of names and values")  # noqa: TRY004 - a file of its author's
    return fields


def _yaml(text: str) -> object:
    try:
        return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - makes nothing but text
    except yaml.MarkedYAMLError as error:
        mark = error.context_mark or error.problem_mark
        line = 2 + (mark.line if mark is not None else 0)
        raise ValueError(f"line {line}: its front matter is no YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"line 2: its front matter is no YAML: {type(error).__name__}") from error


def _line_of(field: str, raw: str) -> str:
    """Name the line of a field, the first one where it is missing."""
    lines = (at for at, line in enumerate(raw.split("\n"), 1) if line.startswith(f"{field}:"))
    return f"line {next(lines, 1)}"


def _skill_paths(folder: Path) -> Iterator[Path]:
    """Find the files of a layer, by name; the first `SKILLS_MAX` of them."""
    try:
        entries = sorted(folder.iterdir())[: limits.SKILLS_MAX]
    except OSError:
        return
    for entry in entries:
        if entry.suffix == ".md":
            yield entry
        elif not entry.name.startswith(".") and not entry.suffix:
            yield entry / _FILE


def default_name(path: Path) -> str:
    return (path.parent.name if path.name == _FILE else path.stem).lower()


# `load_skill`: the whole text of a skill, or one of its files, when the model needs it.


LOAD_SKILL: Final = "load_skill"
_SPEC: Final = ToolSpec(
    LOAD_SKILL,
    "Read the whole text of one of the skills that are listed in your instructions, or one of the files it names.",
    object_schema({"name": text_schema(64), "file": text_schema(limits.SKILL_PATH_CHARS_MAX)}, "name"),
)


def skill_tools(skills_of: Callable[[SessionKey], Mapping[str, Skill]]) -> tuple[Tool]:
    """Build the tool on the skills that each owner has."""

    async def load(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        skills, name = skills_of(context.owner), str(arguments["name"]).strip().lower()
        if name not in skills:
            near = get_close_matches(name, skills, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(skills)}"
            raise ToolError(f"there is no skill {name!r}; {hint}")
        skill = skills[name]
        if wanted := str(arguments.get("file", "")):
            return await asyncio.to_thread(skill.read, wanted)
        files = await asyncio.to_thread(skill.files)
        told = f"Files of this skill, for {LOAD_SKILL}; in commands they are in {SKILLS_MOUNT}/{name}:"
        return "\n".join((skill.text, *(("", told, *files) if files else ())))

    return (Tool(_SPEC, "skills", Risk.READ, load, protected=True),)
