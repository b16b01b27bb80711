"""An upgrade and its way back, as docs/operate/backup.md tells it: the wheel in /opt/trivet under the unit of
`deploy/systemd`, replaced and restarted while people talk. Each message has exactly one answer.

The releases before are commits of this repository: the last that touched the schema, which knows the database, and
the one before the newest migration, which does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.process import EXIT_CONFIG
from tests.parts.ledger import Ledger
from tests.parts.ports import free_port
from tests.parts.product import Product, emulated_platforms
from tests.parts.systemd import Unit
from tests.parts.waiting import until
from tests.parts.wheels import ROOT, environment_at, install, wheel_of_commit, wheel_of_tree

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]
ANSWERED_WITHIN_S = 90.0
VERSIONS = "gateway/store/migrations/versions"
SETTINGS = """\
data_dir = "{root}/var/lib/trivet"
[http]
port = {port}
[access]
default = "open"
[limits]
messages_per_minute = 0
[limits.guest]
turns = 0
tokens = 0
[agent]
model = "demo/scripted@800ms"
"""


def commit(*words: str) -> str:
    """The newest commit that touched the migrations in a certain way."""
    command = ("git", "log", "-1", "--format=%H", *words, "--", VERSIONS)
    found = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    name = found.stdout.decode().strip()
    if not name:
        pytest.skip("no history here to build an earlier release of: this is no clone with all of its commits")
    return name


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This release."""
    return wheel_of_tree(tmp_path_factory.mktemp("new"))


@pytest.fixture(scope="module")
def same_schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An earlier release that knows today's database."""
    return wheel_of_commit(commit(), tmp_path_factory.mktemp("same"))


@pytest.fixture(scope="module")
def older_schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An earlier release that does not."""
    return wheel_of_commit(f"{commit('--diff-filter=A')}^", tmp_path_factory.mktemp("older"))


class Machine:
    """A machine with one Trivet on it, below a directory of the test."""

    def __init__(self, root: Path, product: Product, python: Path) -> None:
        self.unit = Unit(ROOT / "deploy" / "systemd" / "trivet.service", root)
        self.product = product
        self.root = root
        self._python = python

    async def install(self, wheel: Path) -> None:
        """Put a release in the place of the one that runs."""
        await asyncio.to_thread(install, wheel, self._python)

    async def restart(self, *, waits: bool = True) -> None:
        """`systemctl restart trivet`, until all is connected."""
        await self.unit.restart()
        self.product.process = self.unit.process
        if waits:
            await self.product.until_ready()

    async def trivet(self, *words: str) -> None:
        """A command of an operator."""
        config = ("--config", str(self.root / "etc/trivet/trivet.toml"))
        command = (str(self._python.with_name("trivet")), *words, *config)
        ended = await asyncio.to_thread(subprocess.run, command, cwd=self.root, capture_output=True, check=False)
        assert ended.returncode == 0, ended.stderr.decode()


@contextlib.asynccontextmanager
async def machine_with(wheel: Path, root: Path) -> AsyncIterator[Machine]:
    """A machine on which the wheel is installed and runs."""
    python = environment_at(root / "opt/trivet")
    settings, data_dir, port = root / "etc/trivet", root / "var/lib/trivet", free_port()
    settings.mkdir(parents=True)
    (settings / "trivet.toml").write_text(SETTINGS.format(root=root, port=port))
    async with emulated_platforms() as (stages, access):
        access["TRIVET_HTTP__ADMIN_TOKEN"] = token = secrets.token_urlsafe(24)
        (settings / "environment").write_text("".join(f"{name}={value}\n" for name, value in access.items()))
        product = Product(stages, access, data_dir, root / "journal", port, token)
        machine = Machine(root, product, python)
        await machine.install(wheel)
        try:
            await machine.restart()
            yield machine
        finally:
            await machine.unit.stop()


async def six_people(machine: Machine) -> Ledger:
    """Two on each platform, each known to the bot."""
    ledger = Ledger(
        [machine.product.chat(platform, name) for platform in machine.product.stages for name in ("A", "B")]
    )
    await ledger.say_everywhere()
    await answered(machine, ledger)
    return ledger


async def answered(machine: Machine, ledger: Ledger) -> None:
    """Wait until all is answered and nothing is left to do; each was answered once, in order."""
    assert await ledger.until_answered(within_s=ANSWERED_WITHIN_S), f"{ledger.open_words()}\n{machine.unit.log[-6000:]}"
    await machine.product.until_settled()
    assert ledger.verdict().is_clean, f"{ledger.verdict()}\n{machine.unit.log[-6000:]}"


async def replace(machine: Machine, wheel: Path, ledger: Ledger) -> None:
    """Install and restart while turns run: people write before, between and meanwhile."""
    await ledger.say_everywhere()
    await machine.product.until_running(3)
    await machine.install(wheel)
    await ledger.say_everywhere()
    restarting = asyncio.create_task(machine.restart())
    await until(lambda: machine.product.process is not machine.unit.process or restarting.done())
    await ledger.say_everywhere()
    await restarting


async def test_up_and_back_with_one_schema(same_schema: Path, new: Path, tmp_path: Path) -> None:
    async with machine_with(same_schema, tmp_path) as machine:
        ledger = await six_people(machine)
        await replace(machine, new, ledger)
        await answered(machine, ledger)
        await replace(machine, same_schema, ledger)
        await answered(machine, ledger)
        assert machine.unit.endings == [0, 0], "it ended as it was told"


async def test_up_over_a_migration_and_back_by_the_backup(older_schema: Path, new: Path, tmp_path: Path) -> None:
    """The earlier release refuses the database, and a wrong configuration is not tried again. What was said since the
    backup is forgotten, but nothing is answered again, and what is said while nobody is there is answered then."""
    async with machine_with(older_schema, tmp_path) as machine:
        ledger = await six_people(machine)
        archive = tmp_path / "before.tar.gz"
        await machine.trivet("backup", "--output", str(archive))
        await replace(machine, new, ledger)
        await answered(machine, ledger)
        await machine.install(older_schema)
        await machine.restart(waits=False)
        assert await machine.unit.ended() == EXIT_CONFIG
        assert "the database was made by a newer Trivet" in machine.unit.log
        await ledger.say_everywhere()
        data_dir, kept = machine.product.data_dir, tmp_path / "kept"
        await asyncio.to_thread(shutil.move, data_dir, kept)
        await machine.install(new)
        await machine.trivet("restore", str(archive))
        await asyncio.to_thread(shutil.copytree, kept / "redis", data_dir / "redis")
        await machine.install(older_schema)
        await machine.restart()
        await answered(machine, ledger)
        await ledger.say_everywhere()
        await answered(machine, ledger)
