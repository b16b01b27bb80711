"""System prompts: what is in them, in which order, and whose."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent.limits import IDENTITY_FILE_CHARS_MAX
from agent.models.requests import RequestedCall
from agent.prompts.library import DEFAULT_PROFILE, PROFILES
from agent.prompts.skills import LOAD_SKILL
from agent.tools.tool import ToolResult
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import GrantRole, Todo, TodoState
from tests.parts.prompting import Writer
from tests.parts.tooling import context


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


def skill(description: str, text: str, **more: str) -> str:
    fields = {"description": description, **more}
    return "---\n" + "".join(f"{name}: {value}\n" for name, value in fields.items()) + f"---\n{text}\n"


VENDORS = {
    "the standard": (
        'name: pdf-forms\ndescription: "Fills PDF forms. Use when: a form"\nlicense: Apache-2.0\n'
        'compatibility: Requires python3\nmetadata:\n  author: example\n  version: "1.0"\n'
        "allowed-tools: Bash(git:*) Read"
    ),
    "folded, with a list": (
        "name: pdf-forms\ndescription: >-\n  Fills PDF forms.\n  Use when: a form\nallowed-tools:\n  - Read\n  - Bash"
    ),
    "a colon without quotes": "name: pdf-forms\ndescription: Fills PDF forms. Use when: a form\nuser-invocable: no",
    "named by its folder": "description: |\n  Fills PDF forms.\n  Use when: a form\n# a comment",
    "Windows": 'name: "pdf-forms"\r\ndescription: Fills PDF forms. Use when: a form\r\nversion: 2.1.0\r',
}
"""Front matter of one skill as several vendors' tools write it."""


def allowed_in(prompt: str) -> str:
    """The prompt without the line of what is denied."""
    return "\n".join(line for line in prompt.splitlines() if not line.startswith("Not permitted here: "))


class TestIdentityFiles:
    def test_they_stand_in_their_order_and_missing_and_empty_ones_are_left_out(self, writer: Writer) -> None:
        for name in ("SHIELD", "USER", "AGENT", "AGENTS", "IDENTITY"):
            writer.file(f"workspace/{name}.md", f"I am {name}.\n")
        writer.file("workspace/SOUL.md", " \n")
        prompt = writer.prompt()
        assert "I am AGENTS.\n\nI am AGENT.\n\nI am IDENTITY.\n\nI am USER.\n\nI am SHIELD.\n\n# Tools" in prompt

    def test_an_edit_is_seen_even_if_the_time_of_the_file_stays(self, writer: Writer) -> None:
        path = writer.file("workspace/SOUL.md", "Be brief.")
        assert "Be brief." in writer.prompt()
        before = path.stat()
        path.write_text("Be brief, please.", "utf-8")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert "Be brief, please." in writer.prompt()
        draft = writer.file("workspace/draft", "Be long, I insist!"[:17])
        os.utime(draft, ns=(before.st_atime_ns, before.st_mtime_ns))
        draft.replace(path)
        assert "Be long" in writer.prompt()
        path.unlink()
        assert "Be long" not in writer.prompt()

    def test_an_unreadable_file_is_logged_once_and_left_out(self, writer: Writer) -> None:
        (writer.data_dir / "workspace").mkdir()
        (writer.data_dir / "workspace/SOUL.md").write_bytes(b"\xff\xfe\xfa")
        os.mkfifo(writer.data_dir / "workspace/AGENT.md")
        with capture_logs() as logs:
            prompts = {writer.prompt() for _ in range(3)}
        assert len(prompts) == 1
        read = [Path(line["file"]).name for line in logs if line["event"] == "file.unreadable"]
        assert read.count("SOUL.md") == 1

    def test_a_byte_order_mark_is_no_text_and_a_giant_is_cut(self, writer: Writer) -> None:
        writer.file("workspace/SOUL.md", "\ufeffBe brief.")
        writer.file("workspace/USER.md", "y" * (IDENTITY_FILE_CHARS_MAX + 5))
        prompt = writer.prompt()
        assert "\ufeff" not in prompt
        assert "y" * IDENTITY_FILE_CHARS_MAX in prompt
        assert "y" * (IDENTITY_FILE_CHARS_MAX + 1) not in prompt

    def test_a_secret_in_a_file_does_not_reach_the_model(self, writer: Writer) -> None:
        token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
        writer.file("workspace/AGENT.md", f"Push with {token}.")
        writer.file("workspace/skills/push.md", skill(f"Push with {token}", "text"))
        assert token not in writer.prompt()


class TestOverlays:
    def test_what_is_said_of_a_user_stands_in_that_users_prompts_only(self, writer: Writer) -> None:
        writer.file("workspace/USER.md", "They are colleagues.")
        writer.file("workspace/SHIELD.md", "Tell no secrets.")
        writer.file("users/telegram:1/USER.md", "Anna likes tea.")
        assert "They are colleagues.\n\nAnna likes tea.\n\nTell no secrets." in writer.prompt("telegram:1")
        assert "Anna likes tea." in writer.prompt("telegram:1/-100")
        for other in ("telegram:2", "slack:1", "telegram:/-100", "telegram:2/1", "telegram:11"):
            assert "Anna" not in writer.prompt(other)
            assert "colleagues" in writer.prompt(other)

    @pytest.mark.parametrize(
        "key", ["telegram:..", "telegram:.", "telegram:/../..", "telegram:/..", "slack:..%2F..", "cli:" + "x" * 128]
    )
    def test_no_key_leads_out_of_the_folder_of_the_users(self, writer: Writer, key: str) -> None:
        writer.file("USER.md", "outside")
        writer.file("users/USER.md", "outside")
        writer.file("workspace/skills/x.md", "outside")
        assert "outside" not in writer.prompt(key)

    def test_no_link_leads_to_what_belongs_to_another(self, writer: Writer) -> None:
        writer.file("users/telegram:1/USER.md", "Anna likes tea.")
        writer.file("users/telegram:1/skills/tea.md", skill("Tea for Anna", "text"))
        users = writer.data_dir / "users"
        (users / "telegram:2").mkdir()
        (users / "telegram:2/USER.md").symlink_to(users / "telegram:1/USER.md")
        (users / "telegram:2/skills").symlink_to(users / "telegram:1/skills")
        (users / "telegram:3").symlink_to(users / "telegram:1")
        assert "Anna" in writer.prompt("telegram:1")
        assert "Anna" not in writer.prompt("telegram:2")
        assert "Anna" not in writer.prompt("telegram:3")


class TestSkills:
    def test_each_is_named_with_one_line_and_its_text_is_not_there(self, writer: Writer) -> None:
        writer.file("workspace/skills/tea.md", skill("How to  make\n  tea.", "Boil water."))
        prompt = writer.prompt()
        assert "- tea: How to make tea." in prompt
        assert "Boil water." not in prompt

    def test_one_that_is_always_loaded_stands_whole(self, writer: Writer) -> None:
        writer.file("workspace/skills/tea/SKILL.md", skill("Tea", "Boil water.", always_loaded="yes"))
        assert "## tea\nBoil water." in writer.prompt()
        assert "- tea:" not in writer.prompt()

    def test_of_two_of_one_name_the_later_layer_wins(self, writer: Writer) -> None:
        assert "- web-research: How to answer" in writer.prompt()
        writer.file("users/telegram:1/skills/web-research.md", skill("Anna's way", "text"))
        assert "- web-research: Anna's way" in writer.prompt("telegram:1")
        assert "- web-research: How to answer" in writer.prompt("telegram:2")
        writer.file("workspace/skills/other.md", skill("Our way", "text", name="web-research"))
        assert "- web-research: Our way" in writer.prompt("telegram:1")
        assert writer.prompt().count("web-research") == 1

    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("no front matter", 1),
            ("---\ndescription: never closed\n", 1),
            ("---\n- a\n- list\n---\ntext", 2),
            ("---\nname: x\ndescription: [unclosed\n---\ntext", 3),
            ("---\ndescription: " + "[" * 3_000 + "\n---\ntext", 2),
            ("---\ndescription: x\x01\n---\ntext", 2),
            ("---\ndescription: x\nname: a b\n---\ntext", 3),
            ("---\nname: ../../x\ndescription: x\n---\ntext", 2),
            ("---\nname: Tea\ndescription: x\n---\ntext", 2),
            ("---\nname: green--tea\ndescription: x\n---\ntext", 2),
            ("---\nname: tea-\ndescription: x\n---\ntext", 2),
            (f"---\nname: {'t' * 65}\ndescription: x\n---\ntext", 2),
            ("---\nname: none\n---\ntext", 1),
            ("---\nname: none\ndescription:\n---\ntext", 3),
            ("---\ndescription: no text\n---\n \n", 4),
        ],
    )
    def test_a_broken_one_is_logged_once_with_file_and_line_and_left_out(
        self, writer: Writer, text: str, line: int
    ) -> None:
        before = writer.prompt()
        file = writer.file("workspace/skills/broken.md", text)
        with capture_logs() as logs:
            assert [writer.prompt(), writer.prompt()] == [before, before]
        (told,) = [told for told in logs if told["event"] == "file.unreadable"]
        assert told["file"] == str(file)
        assert f" line {line}: " in told["reason"]

    @pytest.mark.parametrize("front", VENDORS.values(), ids=VENDORS)
    def test_those_of_others_load_unchanged(self, writer: Writer, front: str) -> None:
        writer.file("workspace/skills/pdf-forms/SKILL.md", f"---\n{front}\n---\n# Forms\nRead references/fields.md.\n")
        assert "- pdf-forms: Fills PDF forms. Use when: a form" in writer.prompt()

    def test_a_description_may_have_as_many_characters_as_the_standard_gives_it(self, writer: Writer) -> None:
        writer.file("workspace/skills/tea.md", skill("t" * 1_024, "Boil water."))
        assert f"- tea: {'t' * 1_024}\n" in writer.prompt()

    def test_values_are_the_text_that_was_written(self, writer: Writer) -> None:
        writer.file("workspace/skills/x.md", skill("2027-13-45", "text", name="on"))
        assert "- on: 2027-13-45" in writer.prompt()

    def test_whoever_may_not_load_them_is_not_told_of_them(self, writer: Writer) -> None:
        writer.file("workspace/skills/rule.md", skill("Rule", "Be kind.", always_loaded="true"))
        prompt = writer.prompt(role=GrantRole.BLOCKED)
        assert "load_skill" not in allowed_in(prompt)
        assert "Be kind." in prompt


async def load(writer: Writer, name: str, key: str = "telegram:1", **more: str) -> ToolResult:
    call = RequestedCall("c1", LOAD_SKILL, json.dumps({"name": name, **more}))
    (result,) = await writer.tools.run_round(context(key), [call])
    return result


class TestLoading:
    async def test_a_skill_is_read_whole_under_any_spelling_of_its_name(self, writer: Writer) -> None:
        writer.file("workspace/skills/tea.md", skill("Tea", "Boil water."))
        result = await load(writer, " Tea ")
        assert (result.text, result.is_error) == ("Boil water.", False)
        assert LOAD_SKILL in writer.tools.protected_names

    async def test_of_an_unknown_one_the_nearest_is_named(self, writer: Writer) -> None:
        result = await load(writer, "web-reserch")
        assert result.is_error
        assert "did you mean web-research?" in result.text
        assert "find-a-bug, meeting-notes, web-research" in (await load(writer, "qq")).text

    async def test_nobody_loads_the_skill_of_another(self, writer: Writer) -> None:
        writer.file("users/telegram:1/skills/tea.md", skill("Tea for Anna", "Boil water."))
        assert (await load(writer, "tea", "telegram:1/-100")).text == "Boil water."
        theirs = await load(writer, "tea", "telegram:2")
        assert theirs.is_error
        assert "Boil" not in theirs.text

    async def test_its_files_are_listed_and_read_one_by_one(self, writer: Writer) -> None:
        token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
        writer.file("workspace/skills/tea/SKILL.md", skill("Tea", "Read references/kinds.md."))
        writer.file("workspace/skills/tea/references/kinds.md", f"Green, black, {token}.")
        writer.file("workspace/skills/tea/scripts/boil.py", "print('boils')")
        writer.file("workspace/skills/tea/.git/config", "hidden")
        told = (await load(writer, "tea")).text
        assert told.startswith("Read references/kinds.md.\n")
        assert told.endswith(" /skills/tea:\nreferences/kinds.md\nscripts/boil.py")
        read = await load(writer, "tea", file="references/kinds.md")
        assert read.text.startswith("Green, black, ")
        assert token not in read.text
        assert (await load(writer, "tea", file="scripts/boil.py")).text == "print('boils')"

    @pytest.mark.parametrize(
        "path",
        ["../tea.md", "../../SOUL.md", "/etc/hostname", "out", "up/SOUL.md", "references", "pipe", "a\0b", "x" * 256],
    )
    async def test_no_path_leads_out_of_the_folder_of_a_skill(self, writer: Writer, path: str) -> None:
        writer.file("workspace/SOUL.md", "Be brief.")
        writer.file("workspace/skills/tea.md", skill("Tea", "Boil water.", name="coffee"))
        folder = writer.file("workspace/skills/tea/SKILL.md", skill("Tea", "Boil water.")).parent
        (folder / "out").symlink_to(writer.data_dir / "workspace/SOUL.md")
        (folder / "up").symlink_to(writer.data_dir / "workspace")
        (folder / "references").mkdir()
        os.mkfifo(folder / "pipe")
        result = await load(writer, "tea", file=path)
        assert result.is_error
        assert "brief" not in result.text
        assert (await load(writer, "coffee", file=path)).is_error

    async def test_what_is_no_text_is_not_shown(self, writer: Writer) -> None:
        folder = writer.file("workspace/skills/tea/SKILL.md", skill("Tea", "Boil water.")).parent
        (folder / "cup.png").write_bytes(b"\x89PNG\xff\xfe")
        assert "cannot be read as text" in (await load(writer, "tea", file="cup.png")).text


class TestTheRest:
    def test_tools_that_are_denied_are_not_listed(self, writer: Writer) -> None:
        assert "file_write" in writer.prompt()
        assert "shell (off: bubblewrap is not installed)" in writer.prompt()
        guest = writer.prompt(role=GrantRole.GUEST)
        assert "file_read" in allowed_in(guest)
        for name in ("file_write", "web_fetch", "shell"):
            assert name not in allowed_in(guest)
            assert name in guest
        assert "file_write" not in allowed_in(writer.prompt(profile=PROFILES["reviewer"]))

    def test_tasks_are_shown_until_they_are_done(self, writer: Writer) -> None:
        todos = [
            Todo(1, CleanText("buy tea"), TodoState.DONE),
            Todo(2, CleanText("boil water"), TodoState.IN_PROGRESS),
            Todo(3, CleanText("pour"), TodoState.PENDING),
        ]
        assert "# Active tasks\n◑ 2. boil water\n○ 3. pour\n\n# Runtime" in writer.prompt(todos=todos)
        assert "# Active tasks" not in writer.prompt(todos=todos[:1])

    def test_the_order_is_rules_profile_identity_tools_skills_tasks_runtime(self, writer: Writer) -> None:
        writer.file("workspace/AGENT.md", "I am Ada.")
        prompt = writer.prompt(profile=PROFILES["writer"], todos=[Todo(1, CleanText("x"), TodoState.PENDING)])
        marks = [
            "You are Trivet",
            "You are a writer",
            "I am Ada.",
            "# Tools",
            "# Skills",
            "# Active tasks",
            "# Runtime",
        ]
        assert sorted(marks, key=prompt.index) == marks

    def test_it_is_the_same_byte_for_byte_until_something_changes(self, writer: Writer) -> None:
        writer.file("workspace/AGENT.md", "I am Ada.")
        assert writer.prompt() == writer.prompt() == Writer(writer.data_dir).prompt()
        assert writer.prompt(profile=DEFAULT_PROFILE) != writer.prompt(profile=PROFILES["tester"])
