"""A child as its parent holds it: what it may say, how long, how much, and how it ends."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from agent.limits import SUBAGENT_CALLS_OPEN_MAX
from agent.subagents.confinement import Confinement
from agent.subagents.protocol import ProcessLimits, ToolCallFrame, ToolOutcome
from agent.subagents.sandbox import ENVIRONMENT, ChildSandbox, SandboxedProcess
from agent.subagents.supervisor import ChildEnding, ChildOrder, Spoken, Supervisor
from agent.tools.files.quota import DiskLimits, DiskUsage
from agent.tools.files.workspace import Workspace, Workspaces
from agent.tools.tool import AllotmentSpent
from gateway.clock import SystemClock
from gateway.contracts.budgets import Measure
from gateway.contracts.errors import BudgetSpent, StoreUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.subagents import TaskState
from gateway.scrub.scrubber import Scrubber
from gateway.tasks import while_asking
from tests.parts.children import PRELUDE, RecordingHost, alive, command, order
from tests.parts.waiting import until

PLAIN = ChildSandbox(Confinement.PLAIN)

MODEL_CALL = """
say("model_call", id="1", messages=[{"role": "user", "text": "hello"}], tools=[])
while (frame := hear())["type"] == "model_delta":
    say("chunk", delta=frame["delta"])
done(frame["text"])
"""
TWO_TOOLS = """
for number in ("1", "2"):
    say("tool_call", id=number, name="tool" + number, arguments="{}")
results = {frame["id"]: frame["text"] for frame in (hear(), hear())}
done(results["1"] + ", " + results["2"])
"""


async def run(
    script: str, host: RecordingHost | None = None, work: ChildOrder | None = None, *, prelude: str = PRELUDE
) -> ChildEnding:
    """What becomes of a child that does this."""
    supervisor = Supervisor(PLAIN, Scrubber(), SystemClock(), command=command(script, prelude=prelude))
    return await supervisor.supervise(work or order(), host or RecordingHost())


class TestTalking:
    async def test_a_child_asks_the_model_and_is_done(self) -> None:
        host = RecordingHost(answers=("Hel", "lo"))
        ending = await run(MODEL_CALL, host)
        assert (ending.state, ending.reason, ending.response) == (TaskState.COMPLETED, None, "Hello")
        assert ending.confinement == "plain"
        assert ending.ready_ms is not None
        assert 0 < ending.ready_ms <= ending.duration_ms

    async def test_tools_are_run_at_the_same_time(self) -> None:
        host = RecordingHost(gate=asyncio.Event())
        running = asyncio.create_task(run(TWO_TOOLS, host))
        await until(lambda: host.tools_running == 2)
        assert host.gate is not None
        host.gate.set()
        assert (await running).response == "did tool1, did tool2"

    async def test_what_it_says_on_standard_error_is_logged_and_clean(self) -> None:
        secret = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"
        with capture_logs() as logs:
            await run(f'sys.stderr.write("it knows {secret}, and goes"); sys.exit(3)')
        (line,) = [line for line in logs if line["event"] == "subagent.stderr"]
        assert line["text"].startswith("it knows [redacted")
        assert line["text"].endswith(", and goes")

    async def test_a_child_that_asks_for_everything_at_once_is_heard_step_by_step(self) -> None:
        script = """
for number in range(100):
    say("tool_call", id=str(number), name="tool", arguments="{}")
done(sorted(int(hear()["id"]) for _ in range(100)) == list(range(100)))
"""
        host = RecordingHost(gate=asyncio.Event())
        running = asyncio.create_task(run(script, host))
        await until(lambda: host.tools_running == SUBAGENT_CALLS_OPEN_MAX)
        assert host.gate is not None
        host.gate.set()
        assert (await running).response == "True"
        assert host.most_running == SUBAGENT_CALLS_OPEN_MAX

    async def test_lines_that_nobody_knows_are_passed_over(self) -> None:
        assert (await run('print("hm?"); say("weather", is_fine=True); done("still here")')).response == "still here"

    async def test_where_the_child_lives_is_said_by_the_supervisor(self, tmp_path: Path) -> None:
        Workspace(tmp_path)
        assert (await run("done(home)", work=order(tmp_path))).response == str(tmp_path)
        assert (await run("done(home)", work=order(None))).response == ""

    async def test_whoever_watches_the_machine_knows_its_process_by_its_task(self) -> None:
        """`pgrep -f ID`, with an id from the board."""
        work = order(None)
        assert work.init.task_id
        ending = await run("done(sys.argv[-1])", work=work)
        assert ending.response == work.init.task_id

    async def test_nothing_of_ours_is_in_its_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TRIVET_AGENT__API_KEY", "canary")
        ending = await run("done(sorted(os.environ))")
        assert ending.response == str(sorted([*ENVIRONMENT, "FAMILY"]))


class TestEndings:
    @pytest.mark.parametrize(
        ("script", "reason"),
        [
            ("sys.exit(3)", "exit_3"),
            ("sys.exit(0)", "exit_0"),
            ("os.kill(os.getpid(), signal.SIGKILL)", "killed_by_signal_9"),
            ("os.close(1); os.close(2); time.sleep(60)", "closed_its_output"),
            ('say("error", error="model_failed")', "model_failed"),
            ('say("error", error="raised_OSError")', "raised_OSError"),
            ('say("ready", protocol=2)\ndone("never")', None),
            ('done("I could not", success=False)', "gave_up"),
        ],
    )
    async def test_says_why_it_failed(self, script: str, reason: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("agent.limits.SUBAGENT_LAST_WORDS_S", 0.1)
        ending = await run(script)
        assert (ending.state is TaskState.COMPLETED, ending.reason) == (not reason, reason)

    async def test_what_it_said_last_is_kept(self) -> None:
        script = 'say("chunk", delta="half "); say("chunk", delta="an answer"); sys.exit(1)'
        assert (await run(script)).response == "half an answer"

    async def test_one_that_speaks_another_protocol_is_ended(self) -> None:
        prelude = PRELUDE.replace("protocol=1", "protocol=2")
        assert (await run("time.sleep(60)", prelude=prelude)).reason == "protocol_2"

    async def test_one_that_is_never_ready_is_ended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("agent.limits.SUBAGENT_READY_S", 0.1)
        ending = await run("import time; time.sleep(60)", prelude="")
        assert (ending.state, ending.reason, ending.ready_ms) == (TaskState.FAILED, "not_ready", None)

    async def test_a_program_that_is_not_there_is_a_failure(self) -> None:
        supervisor = Supervisor(PLAIN, Scrubber(), SystemClock(), command=("/nowhere/python",))
        assert (await supervisor.supervise(order(), RecordingHost())).reason == "not_started"

    @pytest.mark.parametrize("said", ["the disk is full", "budget_spent", "worker_lost", ""])
    async def test_a_reason_that_is_not_its_own_to_give_stands_among_its_words(self, said: str) -> None:
        ending = await run(f'say("chunk", delta="so far"); say("error", error={said!r})')
        assert (ending.state, ending.reason) == (TaskState.FAILED, "broke_down")
        assert ending.response == (f"{said}\n\nso far" if said else "so far")

    async def test_the_parents_timer_ends_it_whether_or_not_it_speaks_reads_or_runs(self) -> None:
        """One is silent, one talks all the time, one is stopped, and for one megabytes wait that it does not read."""
        scripts = (
            "time.sleep(60)",
            'while True: say("chunk", delta="x")',
            "os.kill(os.getpid(), signal.SIGSTOP)",
            'say("model_call", id="1"); time.sleep(60)',
        )
        host = RecordingHost(answers=["x" * 100_000] * 1_000)
        endings = await asyncio.gather(*(run(script, host, order(limit_s=0.6)) for script in scripts))
        assert [(each.state, each.reason) for each in endings] == 4 * [(TaskState.TIMED_OUT, "limit_0.6_s")]

    async def test_the_timer_stands_still_while_a_person_is_asked(self) -> None:
        class Slow(RecordingHost):
            async def tool(self, call: ToolCallFrame) -> ToolOutcome:
                with while_asking():
                    await asyncio.sleep(1.6)
                return await super().tool(call)

        ending = await run(TWO_TOOLS, Slow(), order(limit_s=1.5))
        assert ending.response == "did tool1, did tool2"

    async def test_a_cancelled_child_may_say_goodbye_and_is_gone(self, tmp_path: Path) -> None:
        script = f'open({str(tmp_path / "up")!r}, "w"); open({str(tmp_path / "said")!r}, "w").write(hear()["type"])'
        running = asyncio.create_task(run(script))
        await until((tmp_path / "up").exists)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (tmp_path / "said").read_text() == "cancel"


class TestFloods:
    @pytest.mark.parametrize(
        ("script", "limit", "most", "reason"),
        [
            ('while True: say("chunk", delta="x")', "HEARD_FRAMES_MAX", 100, "too_many_frames"),
            ("while True: os.write(1, b'\\n' * 65536)", "HEARD_BYTES_MAX", 64_000_000, "too_many_frames"),
            ("while True: os.write(1, b'x' * 65536)", "HEARD_BYTES_MAX", 20_000_000, "too_many_bytes"),
            ("while True: print('garbage')", "UNREAD_MAX", 100, "too_many_lines_that_are_no_frame"),
        ],
    )
    async def test_one_that_floods_is_ended(
        self, script: str, limit: str, most: int, reason: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(f"agent.limits.SUBAGENT_{limit}", most)
        ending = await run(script)
        assert (ending.state, ending.reason) == (TaskState.FAILED, reason)

    async def test_a_hundred_megabytes_of_errors_block_nobody(self) -> None:
        script = "for _ in range(100): os.write(2, b'x' * 1_000_000)\ndone('written')"
        assert (await run(script)).response == "written"

    async def test_too_much_memory_ends_it(self) -> None:
        """Of all its processes together; one alone gets no more than that from the kernel."""
        limits = ProcessLimits(memory_bytes=150 * 1024 * 1024)
        script = """
def hold():
    x = b'x' * 80_000_000
    time.sleep(60)
detached(hold); detached(hold)
alone = tried(lambda: b'x' * 160_000_000)
if alone == "MemoryError": hold()
"""
        ending = await run(script, work=order(limits=limits))
        assert ending.reason == "memory_over_150_mb"

    async def test_too_many_threads_end_it(self) -> None:
        script = """
import threading
threading.stack_size(65536)
for _ in range(80): threading.Thread(target=time.sleep, args=[60]).start()
"""
        assert (await run(script)).reason == "threads_over_64"

    @pytest.mark.parametrize(("size", "count"), [(2_000_000, 4), (0, 50)])
    async def test_a_workspace_that_becomes_too_full_ends_it(
        self, size: int, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Too many bytes, too many files; its own tools would have refused that."""
        monkeypatch.setattr("agent.subagents.supervisor.HOME_QUOTA", DiskUsage(5_000_000, 40))
        monkeypatch.setattr("agent.limits.SANDBOX_QUOTA_EVERY_S", 0.1)
        Workspace(tmp_path)
        script = f"""
for number in range({count}):
    with open(f"{{home}}/files/{{number}}", "wb") as file: file.write(b"x" * {size})
time.sleep(60)
"""
        assert (await run(script, work=order(tmp_path))).reason == "workspace_full"

    async def test_what_it_writes_before_we_talk_to_it_counts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A child that was quicker than we was allowed all that it had written by then."""
        monkeypatch.setattr("agent.subagents.supervisor.HOME_QUOTA", DiskUsage(5_000_000, 40))
        monkeypatch.setattr("agent.limits.SANDBOX_QUOTA_EVERY_S", 0.1)
        files = Workspace(tmp_path).files

        class Slow(ChildSandbox):
            async def start(
                self, command: Sequence[str], home: Path | None, *, writes: bool, limits: ProcessLimits
            ) -> SandboxedProcess:
                held = await super().start(command, home, writes=writes, limits=limits)
                await until(lambda: len(list(files.iterdir())) == 50)
                return held

        script = f"""
import time
for number in range(50): open("{files}/" + str(number), "wb").close()
time.sleep(60)
"""
        child = command(script, prelude="")
        supervisor = Supervisor(Slow(Confinement.PLAIN), Scrubber(), SystemClock(), command=child)
        assert (await supervisor.supervise(order(tmp_path), RecordingHost())).reason == "workspace_full"

    async def test_what_its_owner_has_elsewhere_counts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("agent.limits.SANDBOX_QUOTA_EVERY_S", 0.1)
        workspaces = Workspaces(tmp_path, disk=DiskLimits(owner_bytes=4_000_000))
        workspaces.of(SessionKey.parse("discord:1/1")).write("there", b"x" * 2_000_000)
        here = workspaces.of(SessionKey.parse("discord:1/2"))
        script = 'open(f"{home}/files/here", "wb").write(b"x" * 3_000_000); time.sleep(60)'
        work = replace(order(here.files.parent), share=here.share)
        assert (await run(script, work=work)).reason == "workspace_full"

    async def test_too_many_processes_end_it(self) -> None:
        ending = await run("[os.fork() or time.sleep(60) for _ in range(20)]; time.sleep(60)")
        assert ending.reason == "processes_over_16"


class TestTheHost:
    async def test_a_spent_budget_is_an_ending(self) -> None:
        host = RecordingHost(error=BudgetSpent(Measure.TOKENS, reset_at_ms=0))
        ending = await run(MODEL_CALL, host)
        assert (ending.state, ending.reason) == (TaskState.FAILED, "budget_spent")

    async def test_so_is_what_several_may_take_together_and_what_it_had_said_is_kept(self) -> None:
        host = RecordingHost(error=AllotmentSpent("the budget of 5 tokens was spent"))
        ending = await run('say("chunk", delta="half of it")' + MODEL_CALL, host)
        assert (ending.state, ending.reason) == (TaskState.FAILED, "allotment_spent")
        assert ending.response == "half of it"

    @pytest.mark.parametrize("error", [StoreUnavailable("away"), asyncio.CancelledError()])
    async def test_what_else_it_raises_ends_the_child_and_is_raised(self, error: BaseException) -> None:
        mark = secrets.token_hex(8)
        with pytest.raises(type(error)):
            await run(f"mark = {mark!r}" + MODEL_CALL, RecordingHost(error=error))
        assert alive(mark) == []

    async def test_its_work_for_a_child_that_is_gone_is_ended(self) -> None:
        host = RecordingHost(gate=asyncio.Event())
        script = 'say("tool_call", id="1", name="slow", arguments="{}"); time.sleep(0.2); sys.exit(1)'
        assert (await run(script, host)).reason == "exit_1"
        assert (len(host.calls), host.tools_running) == (1, 0)


class TestSpoken:
    def test_a_new_call_of_the_model_replaces_what_was_said_only_when_something_is_said_again(self) -> None:
        spoken = Spoken()
        spoken.add("let me ")
        spoken.add("see")
        spoken.begin_anew()
        assert spoken.text() == "let me see"
        spoken.add("it is")
        assert spoken.text() == "it is"

    @given(st.lists(st.text(st.sampled_from("ab "), max_size=9), max_size=30))
    @example(["", "aaaa", "aaaa", "aaaa", "aaaaaaaa"])
    def test_of_too_much_the_end_is_kept_without_its_first_broken_word(self, deltas: list[str]) -> None:
        spoken, whole = Spoken(20), "".join(deltas)
        for delta in deltas:
            spoken.add(delta)
        assert whole.endswith(spoken.text())
        assert len(spoken.text()) <= 20
        assert len(whole) > 20 or spoken.text() == whole
