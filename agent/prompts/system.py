"""The system prompt of a turn (agent.md section 3).

    our ground rules · the agent profile · identity files · tools · skills · active tasks · runtime facts

It has no clock and no counter in it: as long as nobody edits a file, changes a task or may use other tools, it is the
same byte for byte, and providers charge a fraction for what they have read before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from agent.limits import IDENTITY_FILE_CHARS_MAX
from agent.prompts.library import PROMPTS, RENDERING, Profile
from agent.prompts.skills import BUILT_IN, FOLDER, LOAD_SKILL, EditableFiles, Layer, Skill, SkillFiles, default_name
from agent.prompts.workspace import WorkspaceFiles
from agent.tools.registry import ToolRegistry
from agent.tools.todo import todo_line
from agent.tools.tool import ToolContext
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Todo, TodoState
from gateway.scrub import Scrubber

# Who the agent is and whom it talks to, as the operator wrote it into files of the workspace.


ABOUT_THE_USER: Final = "USER.md"
FOLDERS_KEPT: Final = 1_000  # the names of users' folders; two of each are needed in every turn
IDENTITY_FILES: Final = ("AGENTS.md", "AGENT.md", "IDENTITY.md", "SOUL.md", ABOUT_THE_USER, "SHIELD.md")


class IdentityFiles:
    """Reads the files in their order; text about one user is in that user's prompts only."""

    def __init__(self, workspace: Path, users: Path, scrubber: Scrubber) -> None:
        self._paths = {name: workspace / name for name in IDENTITY_FILES}
        self._users = users
        self._files = EditableFiles(lambda _path, text: scrubber.scrub(text.strip()), chars_max=IDENTITY_FILE_CHARS_MAX)

    def texts(self, owner: SessionKey) -> Iterator[CleanText]:
        """Yield what the files say to `owner`; missing and empty ones are left out. The user's own `USER.md` follows
        the operator's, and the shield has the last word."""
        for name, path in self._paths.items():
            yield from filter(None, (self._files.read(path),))
            if name == ABOUT_THE_USER:
                folder = user_folder(self._users, owner)
                yield from filter(None, (self._files.read(folder / name, within=folder),))


@lru_cache(maxsize=FOLDERS_KEPT)
def user_folder(users: Path, owner: SessionKey) -> Path:
    """Return the folder where the operator keeps the files of one user: `users/telegram:123`. It is one folder name,
    whatever the key holds: it begins with the channel, and a slash is written %2F."""
    return users / quote(str(owner), safe=":@")


# The sections of a system prompt, as text. Pure.


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """Facts that do not change while the process lives. `channels` are names, never who may use them. With a
    vault tools can be given secrets. `zone`: the time zone of everybody who named none."""

    product: str
    python: str
    system: str
    channels: tuple[str, ...]
    has_vault: bool = False
    zone: str = "UTC"


def tools_section(tools: Mapping[str, Sequence[str]], denied: Sequence[str] = ()) -> str:
    """List the tool names by category, then those that are denied here."""
    lines = [f"- {category}: {', '.join(names)}" for category, names in tools.items()]
    refused = [f"Not permitted here: {', '.join(denied)}."] if denied else []
    return "\n".join(["# Tools", *(lines or ["None in this place."]), *refused])


def skills_section(skills: Iterable[Skill], *, can_load: bool) -> str:
    """List names and descriptions of the skills that can be loaded, then the text of those that are always loaded."""
    whole = [f"## {skill.name}\n{skill.text}" for skill in skills if skill.is_always_loaded]
    offered = [f"- {skill.name}: {skill.description}" for skill in skills if not skill.is_always_loaded]
    parts = []
    if offered and can_load:
        parts.append("\n".join(["Before work of such a kind, read how with load_skill.", *offered]))
    parts += whole
    return "# Skills\n" + "\n\n".join(parts) if parts else ""


def tasks_section(todos: Iterable[Todo]) -> str:
    """List what is still to be done; nothing once all is done."""
    active = [todo_line(todo) for todo in todos if todo.state is not TodoState.DONE]
    return "\n".join(["# Active tasks", *active]) if active else ""


def runtime_section(facts: RuntimeFacts, key: SessionKey) -> str:
    """Describe where all this runs."""
    lines = [
        "# Runtime",
        f"- Trivet {facts.product}, Python {facts.python} on {facts.system}",
        f"- this conversation: {key}",
        f"- connected channels: {', '.join(facts.channels) or 'none'}",
        f"- time zone of people who named no other: {facts.zone}",
    ]
    if key.platform in RENDERING:
        lines.append(f"- your answers are shown in {RENDERING[key.platform]}")
    return "\n".join(lines)


WORKSPACE: Final = "workspace"
"""The folder inside `data_dir` with the operator's identity files and skills."""

USERS: Final = "users"
"""The folder inside `data_dir` with a folder for each user whom the operator has something to say about."""

PROMPTS_KEPT: Final = 256  # the prompt of a session seldom changes, so each is scrubbed once; about 8 kB each


_BUILT_IN: Final = "built in"
_OF_PERSON: Final = "a person"
_OF_OPERATOR: Final = "the operator"


class SkillLayers:
    """The skills of each owner: built-in ones, the user's, the operator's; the later wins."""

    def __init__(self, data_dir: Path, scrubber: Scrubber) -> None:
        self._users = data_dir / USERS
        self._operators = Layer(data_dir / WORKSPACE / FOLDER)
        self._files = SkillFiles(scrubber)
        self._built_in = self._files.read([Layer(BUILT_IN)])

    def of(self, owner: SessionKey) -> Mapping[str, Skill]:
        """Return the owner's skills by name, in a fixed order. The built-in ones are read once, since nobody edits
        them."""
        folder = user_folder(self._users, owner)
        own = self._files.read((Layer(folder / FOLDER, within=folder), self._operators))
        return dict(sorted((self._built_in | own).items()))

    def listing(self) -> list[Mapping[str, object]]:
        """List every file of every layer with what became of it: for operators, as rows of JSON."""
        people = sorted(self._users.iterdir()) if self._users.is_dir() else []
        layers = [
            (_BUILT_IN, "", Layer(BUILT_IN)),
            *((_OF_PERSON, unquote(folder.name), Layer(folder / FOLDER, within=folder)) for folder in people),
            (_OF_OPERATOR, "", self._operators),
        ]
        operators = self._files.read([self._operators])
        rows: list[Mapping[str, object]] = []
        for source, person, layer in layers:
            for path, skill in self._files.found(layer):
                row = {"source": source, "person": person, "file": str(path)}
                if isinstance(skill, str):
                    rows.append(row | {"name": default_name(path), "mistake": skill})
                    continue
                is_enabled = source == _OF_OPERATOR or skill.name not in operators
                about = {"name": skill.name, "description": skill.description, "is_enabled": is_enabled}
                rows.append(row | about | {"is_always_loaded": skill.is_always_loaded})
        return rows

    def folders(self, owner: SessionKey) -> Mapping[str, Path]:
        """Return the folders of those of the owner's skills that have one."""
        return {name: skill.folder for name, skill in self.of(owner).items() if skill.folder is not None}


class SystemPrompts:
    """Makes system prompts. Files are looked at each time: an edit is seen at the next turn."""

    def __init__(
        self,
        data_dir: Path,
        facts: RuntimeFacts,
        tools: ToolRegistry,
        skills: SkillLayers,
        own: WorkspaceFiles,
        scrubber: Scrubber,
    ) -> None:
        self.profile_named = own.profile_named
        self._identity = IdentityFiles(data_dir / WORKSPACE, data_dir / USERS, scrubber)
        self._facts = facts
        self._tools = tools
        self._skills = skills
        self._clean = lru_cache(maxsize=PROMPTS_KEPT)(scrubber.scrub)

    def system_prompt(self, context: ToolContext, profile: Profile, todos: Sequence[Todo]) -> CleanText:
        """Build what the model is told before everything else in a turn of `context`."""
        tools = self._tools.overview(context)
        usable = frozenset(chain.from_iterable(tools.values()))
        sections = (
            PROMPTS.system,
            PROMPTS.vault if self._facts.has_vault else "",
            PROMPTS.remember if "remember" in usable else "",
            PROMPTS.hand_over if "sub_agent" in usable else "",
            profile.prompt,
            *self._identity.texts(context.owner),
            tools_section(tools, self._tools.denied(context)),
            skills_section(self._skills.of(context.owner).values(), can_load=LOAD_SKILL in usable),
            tasks_section(todos),
            runtime_section(self._facts, context.key),
        )
        return self._clean("\n\n".join(filter(None, sections)))
