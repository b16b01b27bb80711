"""The sandbox, for real where bubblewrap works; and without it, off and saying so."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agent.limits import SANDBOX_PROCESSES_MAX, SANDBOX_TMP_BYTES, TOOL_OUTPUT_BYTES_MAX, TOOL_RESULT_CHARS_MAX
from agent.models.requests import RequestedCall
from agent.tools.exec.processes import NOTHING, footprint, unnamed
from agent.tools.exec.sandbox import NoSandbox, Output, Sandbox, find_sandbox
from agent.tools.exec.tools import execution_tools
from agent.tools.files.quota import DiskUsage
from agent.tools.files.workspace import Workspace, Workspaces
from agent.tools.registry import ToolRegistry
from gateway.bus.embedded import EmbeddedValkey
from gateway.contracts.ids import SessionKey, folder_name
from gateway.key_files import REDIS_PASSWORD_FILE
from tests.parts.tooling import call, context, registry, run
from tests.parts.waiting import until

KEY = SessionKey.parse("telegram:1")

OF_THE_KERNEL = """
import concurrent.futures, ctypes, fcntl, json, multiprocessing, os, resource, signal, socket, subprocess, sys, termios
import threading

libc = ctypes.CDLL(None, use_errno=True)
def by_number(number, *arguments):
    if libc.syscall(number, *arguments) < 0: raise OSError(ctypes.get_errno(), "refused")
def by_name(name, *arguments):
    if getattr(libc, name)(*arguments) < 0: raise OSError(ctypes.get_errno(), "refused")
def clone(flags):
    if (found := libc.syscall(CLONE, flags | signal.SIGCHLD, 0, 0, 0, 0)) < 0: raise OSError(ctypes.get_errno(), "no")
    if found == 0: os._exit(0)
    os.waitpid(found, 0)
def fork():
    if (found := os.fork()) == 0: os._exit(0)
    os.kill(found, 0); os.waitpid(found, 0)
def thread():
    (worker := threading.Thread(target=len, args=["x"])).start(); worker.join()
def loopback():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as line:
        line.sendall(b"x")
def processes():
    with multiprocessing.Pool(2) as pool: pool.map(len, ["a", "b"])
    with concurrent.futures.ProcessPoolExecutor(2) as pool: list(pool.map(len, ["a", "b"]))
def handed_on():
    ours, theirs = socket.socketpair(); socket.send_fds(ours, [b"x"], [0]); socket.recv_fds(theirs, 1, 1)
def tried(what):
    try: return str(what())
    except BaseException as error: return type(error).__name__
works = {
    "fork": fork, "thread": thread, "pair": socket.socketpair, "loopback": loopback, "processes": processes,
    "handed on": handed_on, "program": lambda: subprocess.run(["true"], check=True), "plain clone": lambda: clone(0),
    "mode": lambda: (open("mine", "w").close(), os.chmod("mine", 0o700)), "priority": lambda: os.nice(1),
    "room": lambda: os.posix_fallocate(os.open("mine", os.O_RDWR), 0, 4096),
    "limits": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)), "interfaces": socket.if_nameindex,
}
refused = {
    "user namespace": lambda: clone(0x10000000), "mount namespace": lambda: clone(0x20000),
    "unshare": lambda: by_name("unshare", 0x10000000), "files of its own": lambda: clone(0x10000 | 0x800 | 0x100),
    "trace": lambda: by_name("ptrace", 16, os.getppid(), 0, 0), "faults": lambda: by_number(FAULTS, 0),
    "events": lambda: by_number(EVENTS, bytes(128), 0, -1, -1, 0), "programs": lambda: by_number(PROGRAMS, 0, 0, 0),
    "kept memory": lambda: by_name("shmget", 0, 4096, 0o1600), "hidden memory": lambda: os.memfd_create("x"),
    "kept messages": lambda: by_name("msgget", 0, 0o1600), "keys": lambda: by_number(KEYS, 0, 0, 0, 0, 0),
    "watch": lambda: by_name("inotify_init1", 0), "ring": lambda: by_number(425, 1, 0),
    "machine": lambda: socket.socket(40, socket.SOCK_STREAM), "packets": lambda: socket.socket(17, socket.SOCK_RAW),
    "cipher": lambda: socket.socket(38, socket.SOCK_SEQPACKET), "root": lambda: os.chroot("/"),
    "mount": lambda: by_name("mount", b"x", b"/", b"tmpfs", 0, 0),
    "lease": lambda: fcntl.fcntl(os.open("mine", os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK),
    "larger pipe": lambda: fcntl.fcntl(os.pipe()[0], 1031, 2**20),
    "typing": lambda: fcntl.ioctl(os.openpty()[1], termios.TIOCSTI, b"x"),
    "room behind the end": lambda: by_name("fallocate", os.open("mine", os.O_RDWR), 1, 0, 4096),
    "hide": lambda: by_name("prctl", 4, 0, 0, 0, 0),
}
print(json.dumps([{name: tried(what) for name, what in each.items()} for each in (works, refused)]))
"""


WITHOUT_A_NAME = """
import ctypes, mmap, os, socket, time
libc = ctypes.CDLL(None)
def unnamed(megabytes):
    held = os.open("unnamed", os.O_RDWR | os.O_CREAT | os.O_EXCL); os.unlink("unnamed")
    for _ in range(megabytes): os.write(held, bytes(2**20))
    return held
"""
KEPT_WITHOUT_A_NAME = {
    "open": "kept = [unnamed(8) for _ in range(9)]",
    "never named": "kept = [os.open('.', os.O_RDWR | os.O_TMPFILE) for _ in range(9)]\n"
    "for held in kept: os.write(held, bytes(2**23))",
    "mapped": "for _ in range(2): assert libc.mmap(None, 4096, 3, 1, held := unnamed(8), 0) != -1; os.close(held)",
    "on the way": "ours, theirs = socket.socketpair()\n"
    "for _ in range(2): socket.send_fds(ours, [b'x'], [held := unnamed(8)]); os.close(held)",
}
"""Of what is mapped or on its way the size cannot be seen: it counts as much as a file may have."""
KEPT_AS_NOBODYS = {
    "shared": "kept = mmap.mmap(-1, 2**28)\nkept.write(bytes(2**28)); kept.madvise(mmap.MADV_DONTNEED)",
    "of a device": "kept = mmap.mmap(os.open('/dev/zero', os.O_RDWR), 2**28)\nkept.write(bytes(2**28))",
    "in sockets": "for _ in range(3): os.fork()\npairs = [socket.socketpair() for _ in range(100)]",
}


@pytest.fixture
def workspaces(tmp_path: Path) -> Workspaces:
    return Workspaces(tmp_path / "workspaces")


@pytest.fixture
def workspace(workspaces: Workspaces) -> Workspace:
    return workspaces.of(KEY)


def processes_with(mark: str) -> list[int]:
    """Processes of this machine that carry `mark` in their command line."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (place / "cmdline").read_text(errors="replace") and place.name != "self":
                found.append(int(place.name))
        except OSError:
            continue
    return found


class TestWithoutSandbox:
    async def test_without_bubblewrap_there_is_none(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert await find_sandbox(hidden=[]) == NoSandbox("bubblewrap is not installed")

    async def test_a_bubblewrap_that_may_not_work_is_none(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """As on a machine that forbids user namespaces."""
        (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
        (tmp_path / "bwrap").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        found = await find_sandbox(hidden=[])
        assert isinstance(found, NoSandbox)
        assert "user namespaces" in found.reason

    async def test_the_tools_are_off_and_say_so(self, workspaces: Workspaces) -> None:
        tools, absent = execution_tools(NoSandbox("bubblewrap is not installed"), workspaces)
        offered = registry(*tools, absent=absent)
        assert offered.overview(context())["execution"] == (
            "code_exec (off: bubblewrap is not installed)",
            "shell (off: bubblewrap is not installed)",
        )
        result = await run(offered, "shell", command="id")
        assert (result.is_error, result.text) == (True, "shell is off here: bubblewrap is not installed")


def test_output_keeps_both_ends_of_a_stream_of_any_length() -> None:
    output = Output()
    lines = [f"line {number}\n" for number in range(200_000)]
    for line in lines:
        output.add(line.encode())
    text = output.text()
    assert len(text) < TOOL_OUTPUT_BYTES_MAX + 200
    assert text.startswith("line 0\nline 1\n")
    assert text.endswith("line 199998\nline 199999\n")
    assert f"of {sum(map(len, lines))} bytes" in text


def test_output_that_fits_is_whole_also_where_it_is_no_text() -> None:
    output = Output()
    for byte in "häßlich\n".encode() + b"\xff":
        output.add(bytes([byte]))
    assert output.text() == "häßlich\n\ufffd"


async def test_a_footprint_counts_children(tmp_path: Path) -> None:
    """No further than there may be: who has too many shall not hold up whoever counts."""
    program = (
        "import subprocess, sys; _ = [subprocess.Popen(['sleep', '60']) for _ in range(3)]; print('up', flush=True); "
        "sys.stdin.read()"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    try:
        found = footprint(process.pid, processes_max=4, threads_max=4)
        assert (found.processes, found.threads) == (4, 4)
        assert found.memory_bytes > 1_000_000
        assert footprint(process.pid, processes_max=2, threads_max=4).processes == 3
        assert footprint(process.pid, processes_max=4, threads_max=1).threads == 2
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    assert footprint(process.pid, processes_max=4, threads_max=4).processes == 0


def test_a_tree_that_grows_faster_than_it_is_read_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would watch it meanwhile: one bomb in many grew for a minute."""
    read: list[int] = []

    def children(pid: int) -> list[int]:
        assert len(read) <= SANDBOX_PROCESSES_MAX
        read.append(pid)
        return [2 * pid, 2 * pid + 1]

    monkeypatch.setattr("agent.tools.exec.processes.children", children)
    assert unnamed(2**40, "/workspace") == NOTHING


class TestSandbox:
    """Real runs."""

    @pytest.fixture
    async def sandbox(self) -> Sandbox:
        found = await find_sandbox(hidden=[])
        if isinstance(found, NoSandbox):
            pytest.skip(f"no sandbox here: {found.reason}")
        return found

    @pytest.fixture
    def tools(self, sandbox: Sandbox, workspaces: Workspaces) -> ToolRegistry:
        offered, absent = execution_tools(sandbox, workspaces)
        assert not absent
        return registry(*offered)

    async def test_a_command_works_in_the_workspace(self, tools: ToolRegistry, workspace: Workspace) -> None:
        (workspace.files / "a.txt").write_text("hello\n")
        assert (await run(tools, "shell", command="cat a.txt; pwd; echo new > b.txt")).text == "hello\n/workspace\n"
        assert (workspace.files / "b.txt").read_text() == "new\n"

    async def test_a_command_runs_the_scripts_of_its_owners_skills_and_changes_none(
        self, sandbox: Sandbox, workspaces: Workspaces, tmp_path: Path
    ) -> None:
        (tmp_path / "tea").mkdir()
        (tmp_path / "tea" / "boil.py").write_text("print('boils')")
        mine = {KEY.owner: {"tea": tmp_path / "tea", "gone": tmp_path / "gone"}}
        offered, _ = execution_tools(sandbox, workspaces, skills_of=lambda owner: mine.get(owner, {}))
        tools = registry(*offered)
        ran = await run(tools, "shell", command="python3 /skills/tea/boil.py; echo x > /skills/tea/x || ls /skills")
        assert ran.text.splitlines()[0] == "boils"
        assert ran.text.splitlines()[-1] == "tea"
        (other,) = await tools.run_round(context("telegram:2"), [call("shell", command="ls /skills")])
        assert other.is_error

    @pytest.mark.parametrize("ran", [call("shell", command="true"), call("code_exec", language="python", code="1")])
    async def test_what_a_command_prints_may_be_words_of_others(self, tools: ToolRegistry, ran: RequestedCall) -> None:
        """It may print a file that somebody sent."""
        turn = context()
        (result,) = await tools.run_round(turn, [ran])
        assert (result.is_error, turn.reading.is_foreign) == (False, True)

    async def test_programs_run_in_each_language_that_is_there(self, tools: ToolRegistry) -> None:
        programs = {
            "python": "print(6 * 7)",
            "bash": "echo $((6 * 7))",
            "perl": "print 6 * 7, qq(\\n)",
            "javascript": "console.log(6 * 7)",
            "ruby": "puts 6 * 7",
        }
        (spec,) = [spec for spec in tools.specs if spec.name == "code_exec"]
        for language in spec.schema["properties"]["language"]["enum"]:
            result = await run(tools, "code_exec", language=language, code=programs[language])
            assert result.text == "42\n", language

    async def test_a_failure_is_an_error_result_with_its_output(self, tools: ToolRegistry) -> None:
        result = await run(tools, "shell", command="echo before; echo oops >&2; exit 3")
        assert (result.is_error, result.text) == (True, "exit code 3\nbefore\noops")

    async def test_the_operators_files_environment_and_processes_cannot_be_seen(
        self, tools: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "secret").write_text("canary")
        (tmp_path / "workspaces" / "other").mkdir(parents=True)
        monkeypatch.setenv("CANARY_VARIABLE", "canary")
        script = (
            f"cat {tmp_path}/secret; ls {tmp_path} {Path.home()} /root /home /workspace/.. /proc/1/root/etc;"
            "env; cat /etc/shadow /etc/passwd /proc/1/environ /proc/1/cmdline; ps axe"
        )
        text = (await run(tools, "shell", command=script)).text
        assert "canary" not in text
        assert "PATH=" in text
        assert "root:" not in text
        assert folder_name(KEY) not in text

    async def test_the_system_is_read_only(self, tools: ToolRegistry) -> None:
        for target in ("/usr/x", "/usr/bin/x", "/etc/x", "/x", "/proc/sys/kernel/hostname", "/proc/self/comm"):
            assert (await run(tools, "shell", command=f"echo x > {target}")).is_error, target

    async def test_there_is_no_network(self, tools: ToolRegistry) -> None:
        """Not even the loopback of the machine."""
        accepted = asyncio.Event()
        server = await asyncio.start_server(lambda _reader, _writer: accepted.set(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            result = await run(tools, "shell", command=f"exec 3<>/dev/tcp/127.0.0.1/{port}")
        assert result.is_error
        assert not accepted.is_set()

    async def test_root_is_nobody_there(self, tools: ToolRegistry) -> None:
        text = (await run(tools, "shell", command="id -u; grep CapEff /proc/self/status; mount -t tmpfs x /mnt")).text
        assert "1000" in text
        assert "0000000000000000" in text
        assert "exit code" in text

    async def test_the_kernel_lends_a_command_what_programs_need_and_nothing_else(self, tools: ToolRegistry) -> None:
        """As the filter of sub-agents, but for processes, sockets of an empty network, and files of its own."""
        names = ("CLONE", "FAULTS", "EVENTS", "PROGRAMS", "KEYS")
        numbers = (220, 282, 241, 280, 219) if os.uname().machine == "aarch64" else (56, 323, 298, 321, 250)
        program = f"{', '.join(names)} = {numbers}\n{OF_THE_KERNEL}"
        result = await run(tools, "code_exec", language="python", code=program)
        works, refused = json.loads(result.text.splitlines()[-1])
        assert [name for name, outcome in works.items() if outcome.endswith("Error")] == []
        assert {name: outcome for name, outcome in refused.items() if not outcome.endswith("Error")} == {}

    async def test_too_slow_is_stopped_and_nothing_of_it_is_left(self, tools: ToolRegistry) -> None:
        mark = secrets.token_hex(8)
        command = f"(setsid bash -c 'sleep 300; echo {mark}' &) ; echo started; sleep 300; echo {mark}"
        result = await run(tools, "shell", command=command, timeout_s=1.5)
        assert result.is_error
        assert result.text == "stopped: it did not finish within 1.5 s\nstarted"
        assert processes_with(mark) == []

    async def test_cancelling_kills_every_process_before_it_returns(self, tools: ToolRegistry) -> None:
        mark = secrets.token_hex(8)
        command = f"(setsid bash -c 'exec >&- 2>&-; sleep 300; echo {mark}' &) ; sleep 300; echo {mark}"
        turn = asyncio.create_task(tools.run_round(context(), [call("shell", command=command)]))
        await until(lambda: len(processes_with(mark)) >= 3)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await until(lambda: processes_with(mark) == [])

    async def test_what_a_command_leaves_behind_dies_with_it(self, tools: ToolRegistry) -> None:
        mark = secrets.token_hex(8)
        result = await run(tools, "shell", command=f"(setsid bash -c 'sleep 300; echo {mark}' &); echo done")
        assert result.text == "done\n"
        assert processes_with(mark) == []

    async def test_too_many_processes_are_stopped(self, tools: ToolRegistry) -> None:
        command = f"for i in $(seq {4 * SANDBOX_PROCESSES_MAX}); do sleep 60 & done; wait"
        result = await run(tools, "shell", command=command)
        assert result.is_error
        assert "processes" in result.text

    @pytest.mark.parametrize("bomb", ["while True: os.fork()", "while True: os.fork() or (os.setsid(), time.sleep(9))"])
    async def test_processes_without_end_are_stopped_whoever_runs_them(self, tools: ToolRegistry, bomb: str) -> None:
        """The kernel counts none of root's."""
        result = await run(tools, "code_exec", language="python", code=f"import os, time\n{bomb}")
        assert result.is_error
        assert "processes" in result.text

    async def test_threads_without_end_are_stopped_whoever_runs_them(self, tools: ToolRegistry) -> None:
        program = """
import threading, time
threading.stack_size(32768)
while True:
    try:
        threading.Thread(target=time.sleep, args=[100], daemon=True).start()
    except RuntimeError:
        time.sleep(0.1)
"""
        result = await run(tools, "code_exec", language="python", code=program)
        assert result.is_error
        assert "threads" in result.text

    async def test_too_much_memory_is_stopped(self, tools: ToolRegistry) -> None:
        """Of one process by the kernel, of several by us."""
        assert (await run(tools, "code_exec", language="python", code="x = bytearray(6 * 2**30)")).is_error
        several = (
            "import os, time\nfor _ in range(3): os.fork() or (b'x' * 400_000_000, time.sleep(60))\ntime.sleep(60)"
        )
        result = await run(tools, "code_exec", language="python", code=several)
        assert "memory" in result.text

    @pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
    async def test_what_is_kept_in_memory_as_files_is_bounded(self, tools: ToolRegistry, place: str) -> None:
        """It is nobody's in the accounts of the kernel."""
        filling = f"for i in 1 2 3; do head -c 60000000 /dev/zero > {place}/$i; done; du -sm {place}; touch /dev/x"
        text = (await run(tools, "shell", command=filling)).text
        assert text.count("No space left on device") == 1
        assert f"\n{SANDBOX_TMP_BYTES // 1024**2}\t{place}" in text
        assert "Read-only file system" in text

    async def test_too_large_a_file_is_stopped(self, tools: ToolRegistry, workspace: Workspace) -> None:
        result = await run(tools, "shell", command="head -c 100000000 /dev/zero > big")
        assert result.is_error
        assert (workspace.files / "big").stat().st_size < 100_000_000

    async def test_output_without_end_is_bounded(self, tools: ToolRegistry) -> None:
        result = await run(tools, "shell", command="yes | head -c 50000000; echo the end")
        assert result.is_truncated
        assert len(result.text) <= TOOL_RESULT_CHARS_MAX
        assert result.text.endswith("the end\n")

    async def test_a_program_may_ignore_its_input(self, tools: ToolRegistry) -> None:
        """Many programs, at once."""
        calls = [call("code_exec", language="bash", code="exit 0;" + "#" * 30_000) for _ in range(6)]
        assert not any(result.is_error for result in await tools.run_round(context(), calls))

    async def test_a_place_below_usr_can_be_hidden(self, tmp_path: Path) -> None:
        hidden = await find_sandbox(hidden=[Path("/usr/share/doc")])
        assert isinstance(hidden, Sandbox)
        outcome = await hidden.execute(["ls", "/usr/share/doc"], workspace=tmp_path, timeout_s=10)
        assert (outcome.exit_code, outcome.output) == (0, "")

    async def test_the_bus_of_this_machine_is_out_of_reach(self, tools: ToolRegistry, tmp_path: Path) -> None:
        """Neither its password nor its socket is seen from inside."""
        server = EmbeddedValkey(tmp_path)
        url = urlsplit(await server.start())
        try:
            assert url.password
            looking = f"cat {tmp_path / REDIS_PASSWORD_FILE}; ls {url.path}; cat /proc/{server.pid}/cmdline"
            result = await run(tools, "shell", command=looking)
        finally:
            await server.stop()
        assert result.is_error
        assert result.text.count("No such file or directory") == 3
        assert url.password not in result.text

    @pytest.mark.parametrize("keep", KEPT_WITHOUT_A_NAME.values(), ids=KEPT_WITHOUT_A_NAME)
    async def test_files_without_a_name_are_counted(
        self, tools: ToolRegistry, monkeypatch: pytest.MonkeyPatch, keep: str
    ) -> None:
        """However they are held: they take of the disk what they take, and no folder shows them."""
        monkeypatch.setattr("agent.tools.exec.sandbox.QUOTA", DiskUsage(64 * 1024 * 1024, 1_000))
        monkeypatch.setattr("agent.limits.SANDBOX_QUOTA_EVERY_S", 0.05)
        result = await run(tools, "code_exec", language="python", code=f"{WITHOUT_A_NAME}\n{keep}\ntime.sleep(99)")
        assert result.is_error
        assert "the workspace is full: it may hold 64 MB" in result.text

    @pytest.mark.parametrize("keep", KEPT_AS_NOBODYS.values(), ids=KEPT_AS_NOBODYS)
    async def test_memory_that_the_kernel_counts_as_nobodys_is_counted(
        self, tools: ToolRegistry, monkeypatch: pytest.MonkeyPatch, keep: str
    ) -> None:
        monkeypatch.setattr("agent.limits.SANDBOX_MEMORY_BYTES", 128 * 1024 * 1024)
        monkeypatch.setattr("agent.limits.SANDBOX_QUOTA_EVERY_S", 0.05)
        result = await run(tools, "code_exec", language="python", code=f"{WITHOUT_A_NAME}\n{keep}\ntime.sleep(99)")
        assert result.is_error
        assert "memory" in result.text

    async def test_what_programs_hold_for_a_while_disturbs_nobody(
        self, tools: ToolRegistry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("agent.limits.SANDBOX_QUOTA_EVERY_S", 0.05)
        few = "[unnamed(1) for _ in range(9)], [socket.socketpair() for _ in range(50)], mmap.mmap(-1, 2**26)"
        code = f"{WITHOUT_A_NAME}\nkept = {few}\ntime.sleep(0.5); print('done')"
        assert (await run(tools, "code_exec", language="python", code=code)).text == "done\n"

    @pytest.mark.skipif(os.geteuid() == 0, reason="root looks into everything")
    async def test_who_cannot_be_looked_at_is_ended(self, tools: ToolRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
        """A program that may be run and not be read is closed to whoever counts what it holds."""
        monkeypatch.setattr("agent.limits.SANDBOX_QUOTA_EVERY_S", 0.05)
        result = await run(tools, "shell", command="cp $(command -v sleep) nap; chmod 111 nap; ./nap 99")
        assert result.is_error
        assert "cannot be looked at" in result.text

    async def test_a_command_that_fills_the_workspace_is_stopped(
        self, tools: ToolRegistry, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However small its files are; and one that makes room in a full workspace may run."""
        monkeypatch.setattr("agent.tools.exec.sandbox.QUOTA", DiskUsage(3 * 1024 * 1024, 1_000))
        monkeypatch.setattr("agent.limits.SANDBOX_QUOTA_EVERY_S", 0.05)
        filling = "for i in $(seq 100000); do head -c 100000 /dev/urandom > f$i; done"
        stopped = await run(tools, "shell", command=filling)
        assert stopped.is_error
        assert "the workspace is full: it may hold 3 MB" in stopped.text
        assert not (await run(tools, "shell", command="rm -f f1* && sleep 0.2 && echo done")).is_error
