"""The system prompt of a turn (agent.md section 3).

    our ground rules · the agent profile · identity files · tools · skills · active tasks · runtime facts

It has no clock and no counter in it: as long as nobody edits a file, changes a task or may use other tools, it is the
same byte for byte, and providers charge a fraction for what they have read before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from agent.profiles import Profile
from agent.prompting.identity import IdentityFiles, user_folder
from agent.prompting.sections import RuntimeFacts, runtime_section, skills_section, tasks_section, tools_section
from agent.prompts.library import PROMPTS
from agent.skills import BUILT_IN, FOLDER, Layer, Skill, SkillFiles
from agent.tools.skills import LOAD_SKILL
from agent.tools.tool import ToolContext
from gateway.contracts.entries import Todo
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Scrubber

WORKSPACE: Final = "workspace"
"""The folder inside `data_dir` with the operator's identity files and skills."""

USERS: Final = "users"
"""The folder inside `data_dir` with a folder for each user whom the operator has something to say about."""

PROMPTS_KEPT: Final = 256  # the prompt of a session seldom changes, so each is scrubbed once; about 4 kB each

Overview = Callable[[ToolContext], Mapping[str, Sequence[str]]]
"""Tool names by category, of those that a context may use."""


class SkillLayers:
    """The skills of each owner: built-in ones, the user's, the operator's; the later wins."""

    def __init__(self, data_dir: Path, scrubber: Scrubber) -> None:
        self._users = data_dir / USERS
        self._operators = Layer(data_dir / WORKSPACE / FOLDER)
        self._files = SkillFiles(scrubber)
        self._built_in = self._files.read([Layer(BUILT_IN)])

    def of(self, owner: SessionKey) -> Mapping[str, Skill]:
        """By name, in a fixed order. Nobody edits the built-in ones: they are read once."""
        folder = user_folder(self._users, owner)
        own = self._files.read((Layer(folder / FOLDER, within=folder), self._operators))
        return dict(sorted((self._built_in | own).items()))


class SystemPrompts:
    """Makes system prompts. Files are looked at each time: an edit is seen at the next turn."""

    def __init__(
        self, data_dir: Path, facts: RuntimeFacts, tools: Overview, skills: SkillLayers, scrubber: Scrubber
    ) -> None:
        self._identity = IdentityFiles(data_dir / WORKSPACE, data_dir / USERS, scrubber)
        self._facts = facts
        self._tools = tools
        self._skills = skills
        self._clean = lru_cache(maxsize=PROMPTS_KEPT)(scrubber.scrub)

    def system_prompt(self, context: ToolContext, profile: Profile, todos: Sequence[Todo]) -> CleanText:
        """What the model is told before everything else in a turn of `context`."""
        tools = self._tools(context)
        can_load = any(LOAD_SKILL in names for names in tools.values())
        sections = (
            PROMPTS.system,
            PROMPTS.vault if self._facts.has_vault else "",
            profile.prompt,
            *self._identity.texts(context.owner),
            tools_section(tools),
            skills_section(self._skills.of(context.owner).values(), can_load=can_load),
            tasks_section(todos),
            runtime_section(self._facts, context.key),
        )
        return self._clean("\n\n".join(filter(None, sections)))
