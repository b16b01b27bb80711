"""Agent profiles: ten of them, each with words of its own and a ceiling that only narrows."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.prompts.library import DEFAULT_PROFILE, PROFILES, Profile
from agent.prompts.workspace import WorkspaceFiles
from agent.tools.policy import EVERYTHING, Permission, Policy, PolicyLine, Risk, Visibility
from gateway.contracts.sessions import GrantRole
from gateway.scrub import Scrubber

TOOLS = (
    *("file_read", "file_write", "file_edit", "file_patch", "file_delete", "file_rename", "file_list", "file_tree"),
    *("file_info", "file_search", "file_undo", "file_redo", "shell", "code_exec", "web_search", "web_fetch"),
    *(
        "browser",
        "db_query",
        "todo_read",
        "todo_write",
        "remember",
        "recall",
        "correct_fact",
        "load_skill",
        "send_file",
        "schedule",
    ),
    *("read_more", "plan"),
    *("sub_agent", "sub_agent_spawn", "sub_agent_wait", "sub_agent_cancel", "orchestrate"),
)
STRICTNESS = {Permission.ALLOW: 0, Permission.ASK_SELF: 1, Permission.ASK: 2, Permission.DENY: 3}
profiles = st.sampled_from(list(PROFILES.values()))


def test_there_are_ten_and_each_has_a_file_of_its_own() -> None:
    files = {file.name for file in resources.files("agent.prompts").joinpath("profiles").iterdir()}
    assert files == {f"{name}.md" for name in PROFILES}
    assert len({profile.prompt for profile in PROFILES.values()}) == len(PROFILES) == 10
    assert list(PROFILES) == [profile.name for profile in PROFILES.values()]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_a_profile_names_tools_that_there_are(profile: Profile) -> None:
    """A name with a slip of the pen would be a tool that nobody can have."""
    named = {name for rule in profile.ceiling.rules for name, _ in rule.tools}
    assert named <= set(TOOLS)
    assert (profile.ceiling == EVERYTHING) == (profile.name == "assistant")


def test_what_is_called_read_only_is() -> None:
    for name in ("architect", "reviewer", "security"):
        assert PROFILES[name].ceiling.of("file_read", Risk.READ) is Permission.ALLOW
        for tool in ("file_write", "file_edit", "file_patch", "file_delete", "shell", "code_exec", "mcp_x_y"):
            assert PROFILES[name].ceiling.of(tool, Risk.READ) is Permission.DENY


def test_a_name_that_nobody_knows_is_the_default() -> None:
    named = WorkspaceFiles(Path("nowhere"), Scrubber()).profile_named
    assert named("") is named("gone in this release") is DEFAULT_PROFILE
    assert DEFAULT_PROFILE.ceiling == EVERYTHING


@given(
    profiles,
    st.sampled_from(TOOLS),
    st.sampled_from(list(Risk)),
    st.sampled_from(list(GrantRole)),
    st.sampled_from(list(Visibility)),
)
def test_a_profile_never_grants_more_than_the_policy(
    profile: Profile, tool: str, risk: Risk, role: GrantRole, place: Visibility
) -> None:
    policy = Policy((PolicyLine("execute", Permission.ASK), PolicyLine("web_fetch", Permission.ALLOW)))
    granted = policy.permissions(role, place)
    assert STRICTNESS[(granted & profile.ceiling).of(tool, risk)] >= STRICTNESS[granted.of(tool, risk)]
