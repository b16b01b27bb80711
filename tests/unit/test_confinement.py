"""What a child can reach from inside of each confinement, tried for real; and which confinement is chosen."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from agent.subagents.cage import landlock
from agent.subagents.cage.cages import Cage, InBubblewrap
from agent.subagents.cage.confinement import ROOT, Confinement, readable_places
from agent.subagents.cage.orders import ChildEnding
from agent.subagents.cage.probing import AUTO, find_confinement, python_prefixes
from agent.subagents.supervisor import Supervisor
from gateway.clock import SystemClock
from gateway.contracts.errors import ConfigError
from gateway.scrub import Scrubber
from tests.parts.children import PRELUDE, Desk, command, order

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
tries = {
    "own file": lambda: open(home + "/files/mine").read(),
    "write own": lambda: open(home + "/files/new", "w").write("x"),
    "rename own": lambda: os.rename(home + "/files/new", home + "/files/newer"),
    "thread": thread,
    "shadow": lambda: open("/etc/shadow").read(),
    "data dir": lambda: os.listdir(DATA),
    "other conversation": lambda: open(DATA + "/workspaces/other/files/secret").read(),
    "by the way up": lambda: open(home + "/../other/files/secret").read(),
    "project": lambda: open(PROJECT + "/pyproject.toml").read(),
    "write tmp": lambda: open("/tmp/trivet-was-here", "w"),
    "write python": lambda: open(os.__file__ + ".new", "w"),
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
MAY = ("own file", "write own", "rename own", "thread")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Two conversations: one that a child works in, and another's."""
    for name in ("mine", "other"):
        for folder in ("files", "journal"):
            (tmp_path / "data" / "workspaces" / name / folder).mkdir(parents=True)
    (tmp_path / "data/workspaces/mine/files/mine").write_text("mine")
    (tmp_path / "data/workspaces/other/files/secret").write_text("canary")
    return tmp_path / "data"


async def cage_of(confinement: Confinement, data_dir: Path) -> Cage:
    try:
        return await find_confinement(confinement, hidden=[data_dir, Path.home()])
    except ConfigError:
        pytest.skip(f"no {confinement} here")


async def tries(cage: Cage, data_dir: Path, *, writes: bool = True) -> dict[str, str]:
    """What a child in this cage finds when it tries everything; nothing of it arrives here."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(type=socket.SOCK_DGRAM) as post:
        post.bind(server.getsockname())
        names = {
            "PORT": server.getsockname()[1],
            "DATA": str(data_dir),
            "PROJECT": str(ROOT),
            "PARENT": os.getpid(),
        }
        script = "".join(f"{name} = {value!r}\n" for name, value in names.items()) + TRIES
        ending = await held(cage, script, data_dir / "workspaces" / "mine", writes=writes)
        for arrival in (server, post):
            arrival.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
        with pytest.raises(BlockingIOError):
            post.recv(1)
    assert (ending.reason, "canary" in ending.response) == ("", False)
    found: dict[str, str] = json.loads(ending.response)
    return found


async def held(
    cage: Cage, script: str, home: Path | None, *, prelude: str = PRELUDE, writes: bool = True
) -> ChildEnding:
    """What becomes of a child that does this in a cage."""
    program = command(script, prelude=prelude, writes=writes)
    supervisor = Supervisor(cage, Scrubber(), SystemClock(), command=program)
    return await supervisor.run(order(home, writes=writes), Desk())


@pytest.mark.parametrize("confinement", HELD)
class TestHeld:
    async def test_reaches_its_own_files_and_nothing_else(self, confinement: Confinement, data_dir: Path) -> None:
        found = await tries(await cage_of(confinement, data_dir), data_dir)
        assert {name for name, outcome in found.items() if not outcome.endswith("Error")} == set(MAY)
        assert found["own file"] == "'mine'"
        assert (data_dir / "workspaces/mine/files/newer").read_text() == "x"

    async def test_who_may_only_read_writes_nothing(self, confinement: Confinement, data_dir: Path) -> None:
        found = await tries(await cage_of(confinement, data_dir), data_dir, writes=False)
        assert {name for name, outcome in found.items() if not outcome.endswith("Error")} == {"own file", "thread"}

    async def test_who_has_no_home_sees_none(self, confinement: Confinement, data_dir: Path) -> None:
        script = f"done(tried(lambda: os.listdir({str(data_dir / 'workspaces')!r})))"
        ending = await held(await cage_of(confinement, data_dir), script, None)
        assert ending.response in ("FileNotFoundError", "PermissionError")


async def test_a_child_that_does_not_confine_itself_where_it_has_to_is_ended(data_dir: Path) -> None:
    cage = await cage_of(Confinement.LANDLOCK, data_dir)
    prelude = PRELUDE.replace("held = confine_this_process", "confine_this_process")
    assert (await held(cage, "time.sleep(60)", data_dir / "workspaces/mine", prelude=prelude)).reason == "not_confined"


async def test_a_data_directory_inside_of_what_is_shown_is_hidden(data_dir: Path, tmp_path: Path) -> None:
    """As in an installation below a prefix of Python: the innermost word holds."""
    await cage_of(Confinement.BUBBLEWRAP, data_dir)
    prefix = tmp_path / "prefix"
    (prefix / "lib").mkdir(parents=True)
    inside = data_dir.rename(prefix / "lib" / "data")  # noqa: ASYNC240 - a test
    (inside / "python" / "lib").mkdir(parents=True)
    (inside / "python" / "lib" / "module").touch()
    python = (*python_prefixes(), prefix, inside / "python")
    cage = InBubblewrap(shutil.which("bwrap") or "", (), python=python, hidden=[inside])
    script = f"""
inside = {str(inside)!r}
seen = [os.listdir(place) for place in (home + "/files", inside, inside + "/python/lib")]
done([*seen, tried(lambda: os.mkdir(inside + "/x"))])
"""
    ending = await held(cage, script, inside / "workspaces" / "mine")
    assert ending.response == "[['mine'], ['python'], ['module'], 'OSError']"


def test_landlock_shows_no_place_in_which_conversations_lie() -> None:
    library = readable_places(None)[0]
    assert library not in readable_places(library / "data" / "workspaces" / "mine")


class TestChoice:
    async def test_without_bubblewrap_landlock_holds(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        wanted = Confinement.LANDLOCK if landlock.version() else Confinement.PLAIN
        assert (await find_confinement(AUTO, hidden=[])).confinement is wanted

    async def test_where_neither_works_a_child_is_a_plain_process_that_does_what_it_can(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """As on a machine that forbids user namespaces and whose kernel is old."""
        (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
        (tmp_path / "bwrap").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(landlock, "version", lambda: 0)
        cage = await find_confinement(AUTO, hidden=[])
        assert (cage.confinement, cage.confines_itself) == (Confinement.PLAIN, True)

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
