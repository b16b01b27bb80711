"""Skills: instructions for one kind of work, which the model sees by name and loads when it needs them.

A skill is a Markdown file with YAML front matter, `<name>.md` or `<name>/SKILL.md`:

    ---
    name: web-research
    description: How to answer a question from the web. One line.
    always_loaded: false
    ---
    The text.

They come in three layers: built in, of one user, of the operator's workspace. Of two of one name the later wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from agent.editable import EditableFiles
from agent.limits import SKILL_CHARS_MAX, SKILL_DESCRIPTION_CHARS_MAX, SKILLS_MAX
from gateway.contracts.messages import CleanText, clipped
from gateway.contracts.ports import Scrubber

BUILT_IN: Final = Path(__file__).parent / "prompts" / "skills"
FOLDER: Final = "skills"
_FILE: Final = "SKILL.md"
_FRONT_MATTER: Final = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_YES: Final = frozenset({"true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill, clean. An `is_always_loaded` one stands whole in every prompt."""

    name: str
    description: CleanText
    text: CleanText
    is_always_loaded: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """A folder with skills. With `within`, no link leads out of that folder."""

    folder: Path
    within: Path | None = None


class SkillFiles:
    """Reads layers of skills; an edit is seen at once, a broken skill is logged and left out."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._files = EditableFiles(
            lambda path, text: parse_skill(_default_name(path), text, scrubber), chars_max=SKILL_CHARS_MAX
        )

    def read(self, layers: Sequence[Layer]) -> dict[str, Skill]:
        """The skills by name, in a fixed order; those of later layers win."""
        found: dict[str, Skill] = {}
        for layer in layers:
            for path in _skill_paths(layer.folder):
                skill = self._files.read(path, within=layer.within)
                if skill is not None:
                    found[skill.name] = skill
        return dict(sorted(found.items()))


def parse_skill(name: str, raw: str, scrubber: Scrubber) -> Skill:
    """The skill in the text of a file; `name` is what it is called if it does not say. Raises `ValueError`."""
    front = _FRONT_MATTER.match(raw.replace("\r\n", "\n"))
    if front is None:
        raise ValueError("it has no front matter between two lines of ---")
    fields = _fields(front[1])
    named = str(fields.get("name") or name)
    description = " ".join(str(fields.get("description") or "").split())
    text = raw.replace("\r\n", "\n")[front.end() :].strip()
    if not _NAME.fullmatch(named):
        raise ValueError("its name has other characters than a-z, 0-9, - and _")
    if not description or not text:
        raise ValueError("it has no description" if text else "it has no text")
    return Skill(
        named,
        clipped(scrubber.scrub(description), SKILL_DESCRIPTION_CHARS_MAX),
        scrubber.scrub(text),
        str(fields.get("always_loaded", "")).lower() in _YES,
    )


def _fields(front_matter: str) -> Mapping[str, Any]:
    """Every value as the text that was written: a skill called `on` is not called True."""
    try:
        fields = yaml.load(front_matter, Loader=yaml.BaseLoader)  # noqa: S506 - makes nothing but text
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"its front matter is no YAML: {type(error).__name__}") from error
    if not isinstance(fields, dict):
        raise ValueError("its front matter is no list of names and values")  # noqa: TRY004 - a file of its author's
    return fields


def _skill_paths(folder: Path) -> Iterator[Path]:
    """The files of a layer, by name; the first `SKILLS_MAX` of them."""
    try:
        entries = sorted(folder.iterdir())[:SKILLS_MAX]
    except OSError:
        return
    for entry in entries:
        if entry.suffix == ".md":
            yield entry
        elif not entry.name.startswith(".") and not entry.suffix:
            yield entry / _FILE


def _default_name(path: Path) -> str:
    return (path.parent.name if path.name == _FILE else path.stem).lower()
