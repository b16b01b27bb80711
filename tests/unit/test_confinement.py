"""What a child can reach from inside of each confinement, tried for real; and which confinement is chosen."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.limits import SUBAGENT_SIGNALS
from agent.subagents.confinement import ROOT, Confinement, readable_places
from agent.subagents.protocol import ProcessLimits
from agent.subagents.sandbox import AUTO, ChildSandbox, find_confinement, python_prefixes
from agent.subagents.supervisor import ChildEnding, Supervisor
from agent.tools.exec import processes, restrictions
from gateway.clock import SystemClock
from gateway.contracts.errors import ConfigError
from gateway.key_files import REDIS_PASSWORD_FILE
from gateway.scrub import Scrubber
from tests.parts.children import PRELUDE, RecordingHost, command, order
from tests.parts.waiting import until

HELD = (Confinement.BUBBLEWRAP, Confinement.LANDLOCK)
"""Those that hold files, network and processes."""
TRIES = """
def connect():
    with socket.socket() as line: line.connect(("127.0.0.1", PORT))
def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line: line.sendto(b"x", ("127.0.0.1", PORT))
def thread():
    import threading
    (worker := threading.Thread(target=len, args=["x"])).start(); worker.join()
def linked():
    os.symlink(DATA + "/workspaces/other/files/secret", home + "/files/link"); return open(home + "/files/link").read()
tries = {
    "own file": lambda: open(home + "/files/mine").read(),
    "write own": lambda: open(home + "/files/new", "w").write("x"),
    "rename own": lambda: os.rename(home + "/files/new", home + "/files/newer"),
    "thread": thread,
    "shadow": lambda: open("/etc/shadow").read(),
    "data dir": lambda: os.listdir(DATA),
    "other conversation": lambda: open(DATA + "/workspaces/other/files/secret").read(),
    "password of the bus": lambda: open(DATA + "/redis-password").read(),
    "by a link": linked,
    "by the process": lambda: open("/proc/self/root" + DATA + "/workspaces/other/files/secret").read(),
    "folder put away": lambda: os.rename(home + "/files", home + "/away"),
    "journal put away": lambda: os.rename(home + "/journal", home + "/files/away"),
    "link beside": lambda: os.symlink("../other/files", home + "/more"),
    "by the way up": lambda: open(home + "/../other/files/secret").read(),
    "project": lambda: open(PROJECT + "/pyproject.toml").read(),
    "write tmp": lambda: open("/tmp/trivet-was-here", "w"),
    "write python": lambda: open(os.__file__ + ".new", "w"),
    "write memory": lambda: open("/dev/shm/" + NAME, "w"),
    "write devices": lambda: open("/dev/" + NAME, "w"),
    "write us": lambda: open(PROJECT + "/agent/new.py", "w"),
    "connect": connect,
    "mode of others": lambda: os.chmod(DATA, 0o700),
    "time of others": lambda: os.utime(DATA),
    "parent's environment": lambda: open(f"/proc/{PARENT}/environ").read(),
    "signal to parent": lambda: os.kill(PARENT, 0),
    "program": lambda: subprocess.run(["/bin/true"], check=True),
}
tried(datagram)  # where there is a network of its own, it goes there
done(json.dumps({name: tried(what) for name, what in tries.items()}))
"""
OF_THE_KERNEL = """
import ctypes, fcntl
library = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    if getattr(library, name)(*arguments) < 0: raise OSError(ctypes.get_errno(), "refused")
def by_number(number, *arguments):
    if library.syscall(number, *arguments) < 0: raise OSError(ctypes.get_errno(), "refused")
def line(family, kind=socket.SOCK_STREAM):
    return lambda: socket.socket(family, kind).close()
room = ctypes.create_string_buffer(256)
tries = {
    "tcp": line(socket.AF_INET), "udp": line(socket.AF_INET, socket.SOCK_DGRAM), "unix": line(socket.AF_UNIX),
    "netlink": line(socket.AF_NETLINK, socket.SOCK_RAW), "vsock": line(socket.AF_VSOCK), "kernel's": line(38),
    "packets": line(socket.AF_PACKET, socket.SOCK_RAW), "raw": line(socket.AF_INET, socket.SOCK_RAW),
    "io_uring": lambda: by_number(425, 4, room),
    "fork": lambda: os.fork() or os._exit(0), "program": lambda: os.execv(sys.executable, [sys.executable]),
    "signal": lambda: os.kill(VICTIM, 0), "signal to all": lambda: os.kill(-1, 0),
    "signal to a group": lambda: os.killpg(VICTIM, 0), "pidfd": lambda: os.pidfd_open(VICTIM),
    "signal by the kernel": lambda: fcntl.fcntl(0, fcntl.F_SETOWN, VICTIM),
    "trace": lambda: call("ptrace", 16, VICTIM, 0, 0),
    "memory": lambda: call("process_vm_readv", VICTIM, 0, 0, 0, 0, 0),
    "nice": lambda: os.setpriority(os.PRIO_PROCESS, VICTIM, 1), "cores": lambda: os.sched_setaffinity(VICTIM, {0}),
    "limits": lambda: resource.prlimit(VICTIM, resource.RLIMIT_NOFILE),
    "kept memory": lambda: call("shmget", 0, 4096, 0o1600), "kept messages": lambda: call("msgget", 0, 0o1600),
    "hidden memory": lambda: os.memfd_create("x"),
    "namespace": lambda: call("unshare", 0x10000000), "mount": lambda: call("mount", b"x", b"/", b"tmpfs", 0, 0),
    "mount anew": lambda: by_number(430, b"tmpfs", 0), "root": lambda: os.chroot("/"),
    "host name": lambda: call("sethostname", os.uname().nodename.encode(), len(os.uname().nodename)),
    "clock": lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()),
    "faults": lambda: by_number(FAULTS, 0),
    "pair": socket.socketpair, "watch files": lambda: call("inotify_init1", 0),
    "queue of others": lambda: by_number(QUEUE, 1, bytes(8)),
    "lease": lambda: fcntl.fcntl(os.open(os.__file__, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK),
    "watch folder": lambda: fcntl.fcntl(os.open("/", os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_CREATE),
    "larger pipe": lambda: fcntl.fcntl(os.pipe()[0], 1031, 2**20),
    "mode": lambda: os.fchmod(os.open(os.__file__, os.O_RDONLY), 0o644),
    "owner": lambda: os.fchown(os.open(os.__file__, os.O_RDONLY), -1, -1),
    "attributes": lambda: os.listxattr("/"), "attribute of an open file": lambda: os.setxattr(0, "user.x", b""),
    "cut": lambda: os.truncate(FILE, 0), "cut by reading": lambda: os.open(FILE, os.O_RDONLY | os.O_TRUNC),
    "cut by neither": lambda: os.open(FILE, 3 | os.O_TRUNC),
    "outlive its parent": lambda: call("prctl", 1, 0, 0, 0, 0),
}
done(json.dumps({name: tried(what) for name, what in tries.items()}))
"""
"""What needs no file. Of what a process may do to another, the victim is a bystander."""
MAY = ("own file", "write own", "rename own", "thread")


OF_A_SOCKET = """
import os, socket
from agent.tools.exec.restrictions import give_up_processes_and_sockets
ours, theirs = socket.socketpair()
give_up_processes_and_sockets()
tries = {
    "bytes": lambda: os.write(ours.fileno(), b"x"), "bytes back": lambda: os.read(theirs.fileno(), 1),
    "descriptor": lambda: socket.send_fds(ours, [b"x"], [0]), "urgent": lambda: ours.send(b"x", socket.MSG_OOB),
    "option": lambda: ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20), "who": ours.getpeername,
}
for name, what in tries.items():
    try: what()
    except PermissionError: continue
    print(name)
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Two conversations: one that a child works in, and another's."""
    for name in ("mine", "other"):
        for folder in ("files", "journal"):
            (tmp_path / "data" / "workspaces" / name / folder).mkdir(parents=True)
    (tmp_path / "data" / REDIS_PASSWORD_FILE).write_text("canary")
    (tmp_path / "data/workspaces/mine/files/mine").write_text("mine")
    (tmp_path / "data/workspaces/other/files/secret").write_text("canary")
    return tmp_path / "data"


async def sandbox_of(confinement: Confinement, data_dir: Path) -> ChildSandbox:
    try:
        return await find_confinement(confinement, hidden=[data_dir, Path.home()])
    except ConfigError:
        pytest.skip(f"no {confinement} here")


async def tries(sandbox: ChildSandbox, data_dir: Path, *, writes: bool = True) -> dict[str, str]:
    """What a child in this cage finds when it tries everything; nothing of it arrives here."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(type=socket.SOCK_DGRAM) as post:
        post.bind(server.getsockname())
        names = {
            "PORT": server.getsockname()[1],
            "DATA": str(data_dir),
            "PROJECT": str(ROOT),
            "PARENT": os.getpid(),
            "NAME": f"trivet-{secrets.token_hex(8)}",
        }
        script = "".join(f"{name} = {value!r}\n" for name, value in names.items()) + TRIES
        ending = await held(sandbox, script, data_dir / "workspaces" / "mine", writes=writes)
        for arrival in (server, post):
            arrival.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
        with pytest.raises(BlockingIOError):
            post.recv(1)
    assert (ending.reason, "canary" in ending.response) == (None, False)
    found: dict[str, str] = json.loads(ending.response)
    return found


async def held(
    sandbox: ChildSandbox,
    script: str,
    home: Path | None,
    *,
    prelude: str = PRELUDE,
    writes: bool = True,
    does_its_part: bool = False,
) -> ChildEnding:
    """What becomes of a child that does this in a cage."""
    program = command(script, prelude=prelude, writes=writes, does_its_part=does_its_part)
    supervisor = Supervisor(sandbox, Scrubber(), SystemClock(), command=program)
    return await supervisor.supervise(order(home, writes=writes), RecordingHost())


@pytest.mark.parametrize("confinement", list(Confinement))
async def test_no_child_reaches_other_processes_the_network_or_the_system(
    confinement: Confinement, data_dir: Path
) -> None:
    """A plain one neither, of whatever user it is."""
    bystander = await asyncio.create_subprocess_exec("/bin/sleep", "60")
    try:
        numbers = "282, 0" if os.uname().machine == "aarch64" else "323, 206"
        file = data_dir / "workspaces/other/files/secret"
        names = f"VICTIM, (FAULTS, QUEUE), FILE = {bystander.pid}, ({numbers}), {str(file)!r}\n"
        sandbox = await sandbox_of(confinement, data_dir)
        ending = await held(sandbox, names + OF_THE_KERNEL, None, does_its_part=True)
    finally:
        bystander.kill()
        await bystander.wait()
    assert file.read_text() == "canary"
    found: dict[str, str] = json.loads(ending.response)
    assert {name: outcome for name, outcome in found.items() if not outcome.endswith("Error")} == {}


def test_a_pipe_that_is_a_socket_carries_bytes_and_nothing_else() -> None:
    """uvloop makes such pipes: out of them come no descriptors and nothing urgent."""
    said = subprocess.run([sys.executable, "-c", OF_A_SOCKET], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    assert said == b"bytes\nbytes back\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's child has no more rights than we")
async def test_a_plain_child_of_root_has_none_of_its_rights(data_dir: Path) -> None:
    """So it reads neither the environment nor the memory of whoever has them."""
    script = f"""
done([tried(lambda name=name: open("/proc/{os.getpid()}/" + name).read(1)) for name in ("environ", "mem", "maps")])
"""
    ending = await held(await sandbox_of(Confinement.PLAIN, data_dir), script, None, does_its_part=True)
    assert ending.response == str(3 * ["PermissionError"])


@pytest.mark.parametrize("confinement", HELD)
class TestHeld:
    async def test_reaches_its_own_files_and_nothing_else(self, confinement: Confinement, data_dir: Path) -> None:
        found = await tries(await sandbox_of(confinement, data_dir), data_dir)
        assert {name for name, outcome in found.items() if not outcome.endswith("Error")} == set(MAY)
        assert found["own file"] == "'mine'"
        assert (data_dir / "workspaces/mine/files/newer").read_text() == "x"

    async def test_finds_no_key_of_ours(
        self, confinement: Confinement, data_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither in its environment nor in that of whoever started it."""
        sandbox = await sandbox_of(confinement, data_dir)
        monkeypatch.setenv("OPENAI_API_KEY", "the key to it all")
        looks = """
seen = [tried(lambda: open(f"/proc/{who}/environ").read()) for who in ("self", os.getppid(), 1)]
done(json.dumps([dict(os.environ), *seen]))
"""
        ending = await held(sandbox, looks, data_dir / "workspaces" / "mine")
        assert (ending.reason, "the key to it all" in ending.response) == (None, False)
        assert "PATH" in ending.response

    async def test_who_may_only_read_writes_nothing(self, confinement: Confinement, data_dir: Path) -> None:
        found = await tries(await sandbox_of(confinement, data_dir), data_dir, writes=False)
        assert {name for name, outcome in found.items() if not outcome.endswith("Error")} == {"own file", "thread"}

    async def test_who_has_no_home_sees_none(self, confinement: Confinement, data_dir: Path) -> None:
        script = f"done(tried(lambda: os.listdir({str(data_dir / 'workspaces')!r})))"
        ending = await held(await sandbox_of(confinement, data_dir), script, None)
        assert ending.response in ("FileNotFoundError", "PermissionError")


@pytest.mark.parametrize("confinement", list(Confinement))
async def test_children_are_closed_to_each_other_and_find_nothing_open(
    confinement: Confinement, data_dir: Path
) -> None:
    """Also plain ones of an ordinary user, who would read each other's memory. What is open are the pipes to the
    parent."""
    script = """
import ctypes
is_open = [number for number in range(4096) if tried(lambda: os.fstat(number)) != "OSError"]
done([ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), is_open])
"""
    ending = await held(
        await sandbox_of(confinement, data_dir), script, data_dir / "workspaces/mine", does_its_part=True
    )
    assert ending.response == "[0, [0, 1, 2]]"


@pytest.mark.parametrize("confinement", list(Confinement))
async def test_what_a_child_writes_again_keeps_its_mode(confinement: Confinement, data_dir: Path) -> None:
    """Though it may change that of no file, and whatever the umask takes."""
    (program := data_dir / "workspaces/mine/files/mine").chmod(0o777)
    script = """
from agent.tools.files.workspace import Workspace
Workspace(Path(home)).write("mine", b"new")
done("written")
"""
    ending = await held(
        await sandbox_of(confinement, data_dir), script, data_dir / "workspaces/mine", does_its_part=True
    )
    assert ending.response == "written"
    assert (program.read_text(), stat.S_IMODE(program.stat().st_mode)) == ("new", 0o777)


@pytest.mark.parametrize("confinement", list(Confinement))
async def test_limits_hold_also_who_sets_none(confinement: Confinement, data_dir: Path) -> None:
    """Its parent has set them before it says the first word, and nobody takes them back."""
    names = ("CORE", "CPU", "AS", "FSIZE", "NOFILE", "SIGPENDING")
    script = f"""
limits = [resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in {names}]
done([limits, tried(lambda: resource.setrlimit(resource.RLIMIT_CPU, (999, 999)))])
"""
    ending = await held(await sandbox_of(confinement, data_dir), script, None)
    own = ProcessLimits()
    most = [
        (each, each) for each in (0, own.cpu_s, own.memory_bytes, own.file_bytes, own.descriptors, SUBAGENT_SIGNALS)
    ]
    assert ending.response in (f"[{most}, 'ValueError']", f"[{most}, 'None']" if os.geteuid() == 0 else "")


async def test_bubblewrap_has_started_nothing_when_its_limits_are_set(data_dir: Path) -> None:
    """Else some children in a hundred have none: a process that is just being cloned takes what its parent had."""
    started: list[int] = []

    def restrain(pid: int) -> None:
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            time.sleep(0.001)
        started.extend(processes.children(pid))

    sandbox = await sandbox_of(Confinement.BUBBLEWRAP, data_dir)
    arguments, program = sandbox._arguments(None, writes=False), (sys.executable, "-S", "-c", "input()")
    tree = await processes.start(sandbox._bwrap[0], arguments, program, stderr=subprocess.DEVNULL, restrain=restrain)
    try:
        await until(lambda: processes.children(tree.process.pid) != [])
    finally:
        await tree.kill()
    assert started == []


async def test_a_child_that_does_not_confine_itself_where_it_has_to_is_ended(data_dir: Path) -> None:
    sandbox = await sandbox_of(Confinement.LANDLOCK, data_dir)
    prelude = PRELUDE.replace("held = confine_this_process", "held = '' and confine_this_process")
    assert (
        await held(sandbox, "time.sleep(60)", data_dir / "workspaces/mine", prelude=prelude)
    ).reason == "not_confined"


@pytest.mark.parametrize("says", ['done("done")', 'say("tool_call", id="1", name="tool", arguments="{}"); hear()'])
async def test_a_child_that_asks_for_something_before_it_is_confined_is_ended(says: str, data_dir: Path) -> None:
    sandbox = await sandbox_of(Confinement.LANDLOCK, data_dir)
    prelude = PRELUDE.replace('say("ready"', f'{says}; say("ready"')
    assert (await held(sandbox, "", data_dir / "workspaces/mine", prelude=prelude)).reason == "not_confined"


async def test_a_data_directory_inside_of_what_is_shown_is_hidden(data_dir: Path, tmp_path: Path) -> None:
    """As in an installation below a prefix of Python: the innermost word holds."""
    await sandbox_of(Confinement.BUBBLEWRAP, data_dir)
    prefix = tmp_path / "prefix"
    (prefix / "lib").mkdir(parents=True)
    inside = data_dir.rename(prefix / "lib" / "data")  # noqa: ASYNC240 - a test
    (inside / "python" / "lib").mkdir(parents=True)
    (inside / "python" / "lib" / "module").touch()
    python = (*python_prefixes(), prefix, inside / "python")
    sandbox = ChildSandbox(Confinement.BUBBLEWRAP, bwrap=(shutil.which("bwrap") or "",), python=python, hidden=[inside])
    script = f"""
inside = {str(inside)!r}
seen = [os.listdir(place) for place in (home + "/files", inside, inside + "/python/lib")]
done([*seen, tried(lambda: os.mkdir(inside + "/x"))])
"""
    ending = await held(sandbox, script, inside / "workspaces" / "mine")
    assert ending.response == "[['mine'], ['python'], ['module'], 'OSError']"


def test_landlock_shows_no_place_in_which_conversations_lie() -> None:
    library = readable_places(None)[0]
    assert library not in readable_places(library / "data" / "workspaces" / "mine")


class TestChoice:
    async def test_without_bubblewrap_landlock_holds(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        wanted = Confinement.LANDLOCK if restrictions.landlock_version() else Confinement.PLAIN
        assert (await find_confinement(AUTO, hidden=[])).confinement is wanted

    async def test_where_neither_works_a_child_is_a_plain_process_that_does_what_it_can(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """As on a machine that forbids user namespaces and whose kernel is old."""
        (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
        (tmp_path / "bwrap").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(restrictions, "landlock_version", lambda: 0)
        sandbox = await find_confinement(AUTO, hidden=[])
        assert sandbox.confinement is Confinement.PLAIN

    async def test_an_insisted_one_that_cannot_be_had_is_a_mistake_of_the_configuration(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(ConfigError, match=r"subagents\.confinement"):
            await find_confinement(Confinement.BUBBLEWRAP, hidden=[])

    async def test_landlock_is_not_taken_where_it_would_show_the_data_directory(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        hidden = readable_places(None)[0] / "data"
        assert (await find_confinement(AUTO, hidden=[hidden])).confinement is Confinement.PLAIN
