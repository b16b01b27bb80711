"""A sub-agent's process, driven over its pipes as a parent does it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agent.limits import SUBAGENT_NOTES_MAX, TOOL_RAW_CHARS_MAX
from agent.subagents.protocol import (
    LINE_BYTES_MAX,
    CalledTool,
    CancelFrame,
    ChildMessage,
    ChunkFrame,
    DoneFrame,
    FailedFrame,
    ModelCall,
    ModelDelta,
    ModelResult,
    ProcessLimits,
    ReadyFrame,
    ToolCallFrame,
    ToolOutcome,
    encoded,
)
from agent.subagents.sandbox import ENVIRONMENT
from agent.subagents.supervisor import COMMAND
from agent.tools.files.workspace import Workspace
from tests.parts.child_talk import HERE, THERE, a_call, an_init, changes_held_up, child_talk, with_rounds
from tests.parts.waiting import until

HEAVY = {"asyncio", "concurrent", "logging", "multiprocessing", "socket", "ssl", "subprocess"}
"""What a child does without, of the standard library."""

ROOMS = (
    *("agent.tokens", "agent.limits", "agent.schema", "agent.subagents.child"),
    *("agent.subagents.confinement", "agent.subagents.protocol", "agent.subagents.rounds", "agent.tokens"),
    *("agent.tools.exec.restrictions", "agent.tools.exec.restrictions", "agent.tools.exec.restrictions"),
    *("agent.tools.files", "agent.tokens", "gateway.contracts.errors", "gateway.contracts.ids"),
    *("gateway.contracts.errors", "gateway.contracts.ids", "gateway.dumpable", "gateway.scrub.raw_text"),
)
"""Of what is ours, all that a child is made of."""


async def test_a_child_asks_its_model_through_its_parent_and_says_what_it_heard() -> None:
    async with child_talk() as child:
        await child.send(an_init("hello", tools=THERE))
        assert await child.hear(ReadyFrame) == ReadyFrame(child.process.pid, "plain")
        asked = await child.hear(ModelCall)
        assert asked == ModelCall("m1", (ChildMessage("user", "hello"),), ("web_search", "shell"), "You look around.")
        await child.send(ModelDelta("m1", "good "), ModelDelta("m1", "day 👋"))
        assert [await child.hear(ChunkFrame), await child.hear(ChunkFrame)] == [
            ChunkFrame("good "),
            ChunkFrame("day 👋"),
        ]
        await child.answer(asked, text="good day 👋")
        done = await child.hear(DoneFrame)
        assert done == DoneFrame(True, "good day 👋", 10, 2, 0.5, done.duration_ms)
        assert await child.end() == []
        assert child.process.returncode == 0
        assert await child.notes() == ""


async def test_a_tool_that_runs_here_works_on_the_workspace(tmp_path: Path) -> None:
    async with child_talk() as child:
        asked = await child.begin(an_init(tools=HERE, home=tmp_path))
        await child.answer(asked, a_call("file_write", path="notes/a.txt", content="grüß dich"), text="Writing.")
        asked = await child.hear(ModelCall)
        assert asked.messages[1:] == (
            ChildMessage("assistant", "Writing.", (a_call("file_write", path="notes/a.txt", content="grüß dich"),)),
            ChildMessage("tool", "Wrote notes/a.txt (11 bytes).", call_id="c1"),
        )
        assert (tmp_path / "files" / "notes" / "a.txt").read_text("utf-8") == "grüß dich"
        await child.answer(asked, a_call("file_undo"))
        asked = await child.hear(ModelCall)
        assert asked.messages[-1].text == "Took back: file_write notes/a.txt"
        assert not (tmp_path / "files" / "notes").exists()


async def test_a_tool_that_runs_there_is_asked_of_the_parent() -> None:
    async with child_talk() as child:
        await child.answer(await child.begin(an_init(tools=THERE)), CalledTool("c1", "web_search", '{"query": "broken'))
        assert await child.hear(ToolCallFrame) == ToolCallFrame("c1", "web_search", '{"query": "broken')
        await child.send(ToolOutcome("c1", "nothing found", is_error=False))
        asked = await child.hear(ModelCall)
        assert asked.messages[-1] == ChildMessage("tool", "nothing found", call_id="c1")
        await child.answer(asked, text="There is nothing.")
        done = await child.hear(DoneFrame)
        assert (done.response, done.tokens_in, done.tokens_out, done.cost_usd) == ("There is nothing.", 20, 4, 1.0)


async def test_the_calls_of_a_round_run_side_by_side_and_their_results_stand_in_call_order(tmp_path: Path) -> None:
    """Also where the model gives all of them the same id."""
    async with child_talk() as child:
        asked = await child.begin(an_init(tools=(*HERE, *THERE), home=tmp_path))
        calls = [a_call("web_search", "x", n=1), a_call("file_list", "x"), a_call("shell", "x"), a_call("shell", "")]
        await child.answer(asked, *calls)
        there = [await child.hear(ToolCallFrame) for _ in range(3)]
        assert [(call.id, call.name) for call in there] == [("x", "web_search"), ("x-3", "shell"), ("call-2", "shell")]
        for call in reversed(there):
            await child.send(ToolOutcome(call.id, f"{call.name} {call.id}", is_error=False))
        said = (await child.hear(ModelCall)).messages[1:]
        assert [call.id for call in said[0].calls] == ["x", "x-2", "x-3", "call-2"]
        assert [(each.call_id, each.text) for each in said[1:]] == [
            ("x", "web_search x"),
            ("x-2", "The folder is empty."),
            ("x-3", "shell x-3"),
            ("call-2", "shell call-2"),
        ]


async def test_what_touches_one_file_in_one_round_happens_in_call_order(tmp_path: Path) -> None:
    async with child_talk() as child:
        asked = await child.begin(an_init(tools=HERE, home=tmp_path))
        writes = [a_call("file_write", f"c{n}", path="a.txt", content=str(n)) for n in range(20)]
        await child.answer(asked, *writes, a_call("file_read", "last", path="./a.txt"))
        assert (await child.hear(ModelCall)).messages[-1].text == "     1  19"


async def test_what_is_wrong_with_a_call_is_an_error_result_and_a_note(tmp_path: Path) -> None:
    wrong = {
        "there is no tool 'web_search'; there are: file_read, file_list,": a_call("web_search"),
        "a.txt does not exist": a_call("file_read", path="a.txt"),
        "../x is outside of the workspace": a_call("file_read", path="../x"),
        "the arguments are no JSON object": CalledTool("", "file_read", "[1]"),
        "file_edit failed: KeyError": a_call("file_edit"),
        "file_patch failed: AttributeError": a_call("file_patch", patch=7),
    }
    async with child_talk() as child:
        asked = await child.begin(an_init(tools=HERE, home=tmp_path))
        await child.answer(asked, *wrong.values())
        _, _, *results, note = (await child.hear(ModelCall)).messages
        assert all(result.is_error for result in results)
        for said, result in zip(wrong, results, strict=True):
            assert said in result.text
        assert note.role == "user"
        assert "- file_read: a.txt does not exist\n" in note.text


async def test_what_the_parent_has_refused_is_not_run_and_fails_in_its_words(tmp_path: Path) -> None:
    calls = (
        a_call("file_write", "c1", path="env", content="KEY=[redacted:openai#1a2b3c]"),
        a_call("web_search", "c2"),
        a_call("file_list", "c3"),
    )
    refused = (
        ToolOutcome("c1", "what stands for a secret is not written", is_error=True),
        ToolOutcome("c2", "not today", is_error=True),
        ToolOutcome("c9", "nobody asked", is_error=True),
    )
    async with child_talk() as child:
        asked = await child.begin(an_init(tools=(*HERE, *THERE), home=tmp_path))
        await child.send(ModelResult(asked.id, calls=calls, outcomes=refused))
        _, _, *results, note = (await child.hear(ModelCall)).messages
        assert results == [
            ChildMessage("tool", "what stands for a secret is not written", call_id="c1", is_error=True),
            ChildMessage("tool", "not today", call_id="c2", is_error=True),
            ChildMessage("tool", "The folder is empty.", call_id="c3"),
        ]
        assert "- file_write: what stands for a secret is not written\n" in note.text


async def test_a_result_longer_than_anybody_reads_is_cut(tmp_path: Path) -> None:
    Workspace(tmp_path).write("long.txt", b"word " * 200_000)
    async with child_talk() as child:
        await child.answer(await child.begin(an_init(tools=HERE, home=tmp_path)), a_call("file_read", path="long.txt"))
        text = (await child.hear(ModelCall)).messages[-1].text
        assert text.endswith("characters is lost: ask for less at once …]")
        assert len(text) < TOOL_RAW_CHARS_MAX + 200


async def test_a_tool_of_here_that_cannot_run_here_is_asked_of_the_parent() -> None:
    """There is no workspace."""
    async with child_talk() as child:
        await child.answer(await child.begin(an_init(tools=HERE)), a_call("file_list"))
        assert await child.hear(ToolCallFrame) == ToolCallFrame("c1", "file_list", "{}")


async def test_after_its_rounds_a_child_is_asked_once_more_without_tools() -> None:
    async with child_talk() as child:
        asked = await child.begin(with_rounds(an_init(tools=THERE), 2))
        for _ in range(2):
            assert asked.tools
            await child.answer(asked, a_call("shell"))
            await child.hear(ToolCallFrame)
            await child.send(ToolOutcome("c1", "no such file", is_error=True))
            asked = await child.hear(ModelCall)
        assert asked.tools == ()
        assert asked.messages[-1].role == "user"
        assert asked.messages[-1].text.startswith("<tool-failures>\n- shell: no such file\n")
        assert asked.messages[-1].text.endswith("</tool-failures>\n\nAnswer now.")
        await child.answer(asked, a_call("shell"), text="That is all.")
        assert (await child.hear(DoneFrame)).response == "That is all."


async def test_an_answer_without_a_word_is_no_success() -> None:
    async with child_talk() as child:
        await child.answer(await child.begin(an_init()), text=" \n")
        assert not (await child.hear(DoneFrame)).success


async def test_a_model_that_fails_is_the_end() -> None:
    async with child_talk() as child:
        asked = await child.begin(an_init())
        await child.send(ModelResult(asked.id, error="Today's tokens are spent."))
        assert await child.hear(FailedFrame) == FailedFrame("Today's tokens are spent.")
        assert await child.end() == []
        assert child.process.returncode == 1


async def test_a_prompt_that_is_too_long_loses_its_old_results_and_then_the_new_ones() -> None:
    async with child_talk() as child:
        asked = await child.begin(with_rounds(an_init(tools=THERE), 9))
        for _ in range(7):
            await child.answer(asked, a_call("shell"))
            await child.hear(ToolCallFrame)
            await child.send(ToolOutcome("c1", "word " * 200, is_error=False))
            asked = await child.hear(ModelCall)
        pruned = "<output pruned, ~251 tokens>"
        for count in (2, 7):
            await child.send(ModelResult(asked.id, error="It is too long.", is_too_long=True))
            asked = await child.hear(ModelCall)
            results = [said.text for said in asked.messages if said.role == "tool"]
            assert [text == pruned for text in results] == [True] * count + [False] * (7 - count)
        await child.send(ModelResult(asked.id, error="It is too long.", is_too_long=True))
        assert await child.hear(FailedFrame) == FailedFrame("It is too long.")


async def test_what_is_too_long_for_a_frame_is_too_long_for_the_model() -> None:
    """Nothing is sent that no parent could read."""
    async with child_talk() as child:
        asked = await child.begin(an_init(tools=THERE))
        await child.answer(asked, *(a_call("shell", f"c{n}") for n in range(3)))
        for _ in range(3):
            call = await child.hear(ToolCallFrame)
            await child.send(ToolOutcome(call.id, "x" * (3 * 1024 * 1024), is_error=False))
        said = (await child.hear(ModelCall)).messages[-3:]
        assert [each.text for each in said] == ["<output pruned, ~786433 tokens>"] * 3


async def test_an_answer_as_long_as_a_line_may_be_comes_back() -> None:
    async with child_talk() as child:
        asked = await child.begin(an_init())
        room = LINE_BYTES_MAX + 1 - len(encoded(ModelResult(asked.id)))
        await child.send(ModelResult(asked.id, text="x" * room))
        assert (await child.hear(DoneFrame)).response == "x" * room


async def test_noise_and_unknown_frames_are_passed_over_with_a_note_that_quotes_nothing() -> None:
    secret = "correct-horse"
    async with child_talk() as child:
        await child.send(secret.encode() + b"\n", b"\xff\n", encoded(ToolOutcome("c9", secret, is_error=False)))
        asked = await child.begin(an_init())
        await child.send(json.dumps({"type": "tomorrow", "field": secret}).encode() + b"\n")
        await child.send(b"x" * (LINE_BYTES_MAX + 1) + b"\n", ModelDelta("m9", secret), ModelResult("m9", secret))
        await child.send(an_init(secret))
        await child.answer(asked, text="still here")
        assert (await child.hear(DoneFrame)).response == "still here"
        await child.end()
        assert (await child.notes()).splitlines() == [
            f"sub-agent: passed over {what}"
            for what in (
                "a line that is no JSON",
                "a line that is no UTF-8",
                "a ToolOutcome that answers nothing",
                "a frame of the unknown type tomorrow",
                "a line of more than 8388608 bytes",
                "a ModelDelta that answers nothing",
                "a ModelResult that answers nothing",
                "a InitFrame that answers nothing",
            )
        ]


async def test_no_noise_fills_a_pipe_that_nobody_reads() -> None:
    async with child_talk() as child:
        asked = await child.begin(an_init())
        await child.send(b"noise\n" * 3_000)
        await child.answer(asked, text="still here")
        assert (await child.hear(DoneFrame)).response == "still here"
        await child.end()
        assert len((await child.notes()).splitlines()) == SUBAGENT_NOTES_MAX


async def test_an_init_of_another_protocol_is_refused() -> None:
    async with child_talk() as child:
        await child.send(replace(an_init(), protocol=2))
        assert await child.hear(FailedFrame) == FailedFrame("protocol_1")


async def test_a_child_that_is_told_no_more_than_its_order_says_that_it_was_ready() -> None:
    async with child_talk() as child:
        await child.send(an_init(), CancelFrame("no longer wanted"))
        assert isinstance((await child.end())[0], ReadyFrame)
        assert child.process.returncode == 0


async def test_a_child_without_memory_for_what_it_hears_says_so() -> None:
    """One wide character makes all of a text as wide."""
    async with child_talk() as child:
        asked = await child.begin(replace(an_init(), limits=ProcessLimits(memory_bytes=120 * 1024 * 1024)))
        await child.send(ModelResult(asked.id, text="👋" + "x" * (LINE_BYTES_MAX - 1_000)))
        assert await child.hear(FailedFrame) == FailedFrame("raised_MemoryError")
        await child.end()
        assert child.process.returncode == 1


@pytest.mark.parametrize("ending", ["cancel", "closed"])
@pytest.mark.parametrize(
    "moment", ["before init", "while the model thinks", "while a tool runs", "while one runs there"]
)
async def test_a_parent_that_says_so_or_is_gone_ends_its_child_at_any_moment(
    tmp_path: Path, moment: str, ending: str
) -> None:
    with changes_held_up(tmp_path):
        async with child_talk() as child:
            if moment != "before init":
                asked = await child.begin(an_init(tools=(*HERE, *THERE), home=tmp_path))
                if moment == "while a tool runs":
                    # Both begin before the parent hears of the second.
                    await child.answer(asked, a_call("file_write", path="a", content="a"), a_call("shell", "c2"))
                    await child.hear(ToolCallFrame)
                if moment == "while one runs there":
                    await child.answer(asked, a_call("shell"))
                    await child.hear(ToolCallFrame)
            if ending == "cancel":
                await child.send(CancelFrame("stopped"), ModelResult("m1", "too late"))
            else:
                child.close()
            assert await child.end() == []
            assert child.process.returncode == 0
    assert not (tmp_path / "files" / "a").exists()


async def test_a_parent_that_is_killed_takes_its_child_along() -> None:
    """Even where somebody else still holds the pipe open."""
    middle = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'agent.subagents.child'], env={})"
    async with child_talk(program=("-c", middle)) as parent:
        await parent.send(an_init())
        child = await parent.hear(ReadyFrame)
        assert child.pid != parent.process.pid
        parent.process.kill()
        await until(lambda: not _lives(child.pid))


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def test_a_child_takes_no_more_of_the_machine_than_it_was_given() -> None:
    limits = ProcessLimits(cpu_s=77, memory_bytes=777_777_777, file_bytes=77_777, descriptors=77, processes=7)
    async with child_talk() as child:
        await child.begin(replace(an_init(), limits=limits))
        most = _limits_of(child.process.pid)
        assert most["Max cpu time"] == ["77", "77"]
        assert most["Max address space"] == ["777777777", "777777777"]
        assert most["Max file size"] == ["77777", "77777"]
        assert most["Max open files"] == ["77", "77"]
        assert most["Max processes"] == ["7", "7"]
        assert most["Max core file size"] == ["0", "0"]


async def test_what_a_child_was_put_into_is_what_it_names() -> None:
    async with child_talk() as child:
        await child.send(replace(an_init(), confinement="bubblewrap"))
        assert (await child.hear(ReadyFrame)).confinement == "bubblewrap"


def _limits_of(pid: int) -> dict[str, list[str]]:
    """Soft and hard, as the kernel tells it."""
    told = Path(f"/proc/{pid}/limits").read_text()
    return {line[:25].strip(): line[26:].split()[:2] for line in told.splitlines()[1:]}


MISBEHAVING = """
import os
from agent.subagents import child
def begin(self, call, tell):
    print("noise on stdout", flush=True)
    os.write(1, b"noise on 1")
    os.write(1, b"noise " + os.read(0, 100))
    raise ZeroDivisionError(call.arguments)
child.OwnTools.begin = begin
child.main()
"""


async def test_nothing_but_frames_comes_out_and_no_exception_is_quoted(tmp_path: Path) -> None:
    """Whatever prints or reads in the process finds neither pipe; what nobody has foreseen is an `error` with the name
    of its class."""
    async with child_talk(program=("-c", MISBEHAVING)) as child:
        asked = await child.begin(an_init(tools=HERE, home=tmp_path))
        await child.answer(asked, a_call("file_list", path="correct-horse"))
        assert await child.hear(FailedFrame) == FailedFrame("raised_ZeroDivisionError")
        assert await child.end() == []
        assert child.process.returncode == 1
        notes = await child.notes()
        assert notes.count("noise") == 3
        assert "correct-horse" not in notes
        assert "Traceback" not in notes


TELLING = """
import os, sys
from agent.subagents import child
leave = os._exit
def tell_and_leave(code):
    os.write(2, "\\n".join(sys.modules).encode())
    leave(code)
os._exit = tell_and_leave
child.main()
"""


async def test_a_child_has_all_it_needs_and_imports_little_from_its_start_to_its_end(tmp_path: Path) -> None:
    """Once it is confined it may read nothing but the standard library, us and its workspace; and what it imports is
    waited for at every start."""
    Workspace(tmp_path).write("long", b"word " * 200_000)
    patch = "--- a\n+++ a\n@@ -1 +1 @@\n-b\n+c\n"
    calls = [
        a_call("file_write", path="a", content="a"),
        a_call("file_edit", path="a", old="a", new="b"),
        a_call("file_patch", patch=patch),
        a_call("file_rename", path="a", to="b"),
        a_call("file_delete", path="b"),
        a_call("file_undo"),
        a_call("file_redo"),
        a_call("file_read", path="long"),
        a_call("file_list"),
        a_call("file_tree"),
        a_call("file_info", path="long"),
        a_call("file_search", text="nobody", ignore_case=True),
    ]
    assert {call.name for call in calls} == {tool.name for tool in HERE}
    async with child_talk(*COMMAND[1:-2], program=("-c", TELLING), environment=ENVIRONMENT) as child:
        init = replace(an_init(tools=HERE, home=tmp_path), rounds_max=len(calls) + 1, confinement="landlock")
        asked = await child.begin(init)
        for call in calls:
            await child.answer(asked, call)
            asked = await child.hear(ModelCall)
            assert not asked.messages[-1].is_error, asked.messages[-1]
        await child.answer(asked, text="done")
        await child.hear(DoneFrame)
        await child.end()
        imported = set((await child.notes()).splitlines())
    assert "agent.tools.files.tools" in imported
    roots = {name.partition(".")[0] for name in imported}
    assert roots & HEAVY == set()
    assert roots - sys.stdlib_module_names - {"__main__", "agent", "gateway"} == set()
    ours = {name for name in imported if name.startswith(("agent.", "gateway."))}
    assert {name for name in ours if not any(room.startswith(name) or name.startswith(room) for room in ROOMS)} == set()
