"""What packages of other people add: what is loaded, what a function becomes, and what a broken one costs."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from structlog.testing import capture_logs
from trivet_dice import keep_roll, roll_dice
from trivet_house_rules import sign
from trivet_oncall import oncall
from typer.testing import CliRunner

from agent.features.plugins import plugin_commands, plugin_tools
from agent.tools.policy import Policy, Risk
from channels.__main__ import open_channel
from channels.core.adapter import IntakeOutcome
from channels.core.intake import IntakeConfig, MessageIntake
from gateway.bus.bus import RedisBus
from gateway.config.loader import Loaded, load_settings
from gateway.config.show import rows
from gateway.contracts.access import AccessPolicy, StrangerRule
from gateway.contracts.errors import PluginBroken
from gateway.contracts.ids import SessionKey, SessionScope
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import GrantRole
from gateway.limits import HOOK_CHARS_MAX
from gateway.ops.cli.start import app
from gateway.ops.doctor import CheckState
from gateway.ops.doctor.checks import check_plugins
from gateway.packages import HookPoint, PluginKind, enabled_parts
from gateway.plugins import Caller, HookEvent, Hooks, RiskName, load_hooks, load_part, load_parts
from gateway.scrub import Scrubber
from tests.doubles import MemoryBus, door_rooms
from tests.parts.incoming import private_message
from tests.parts.plugins import DECLARED, Site, site
from tests.parts.tooling import call, context, registry
from tests.parts.towns import parts_on

__all__ = ["site"]

SECRET: Final = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"
ANN: Final = Caller(SessionKey("telegram", "1"), SessionKey("telegram", "1"), GrantRole.MEMBER, is_private=True)
TOOL: Final = {"trivet.tools": {"hello": "broken:hello"}}
HELLO: Final = (
    "from gateway.plugins import tool\n\n@tool(risk='read')\ndef hello():\n    'Say hello.'\n    return 'hello'\n"
)
DENYING: Final = Policy()


def loaded(text: str, tmp_path: Path, environ: dict[str, str] | None = None) -> Loaded:
    path = tmp_path / "trivet.toml"
    path.write_text(text)
    path.chmod(0o600)
    return load_settings(path, environ or {})


class TestPackages:
    def test_only_those_that_are_enabled_are_imported(self, site: Site, tmp_path: Path) -> None:
        for name in ("wanted", "unwanted"):
            site.install(name, {"trivet.tools": {name: f"{name}:{name}"}}, DECLARED + HELLO.replace("hello", name))
        assert [part.name for part, _ in load_parts(["wanted"], PluginKind.TOOLS)] == ["wanted"]
        listed = CliRunner().invoke(app, ["plugins", "--config", str(listing(tmp_path, "wanted"))])
        assert "unwanted 1.0  not enabled\n  tools     unwanted\n" in listed.output
        assert "wanted 1.0  enabled\n  tools     wanted  risk read\n" in listed.output
        assert ("wanted" in sys.modules, "unwanted" in sys.modules) == (True, False)

    @pytest.mark.parametrize(
        ("source", "problem"),
        [
            ("raise ValueError('no')", "cannot be imported (ValueError: no)"),
            ("import sys; sys.exit(3)", "cannot be imported (SystemExit: 3)"),
            (HELLO, "its top module lacks TRIVET_PLUGIN_API = 1"),
            (f"TRIVET_PLUGIN_API = 2\n{HELLO}", "was made for version 2 of the plug-in API, this Trivet has 1"),
            (DECLARED, "cannot be imported (AttributeError"),
            (f"{DECLARED}def hello():\n    'Say hello.'", "put @tool(risk=...) above its function"),
            (DECLARED + HELLO.replace("hello()", "hello(name)"), "the parameter name needs an annotation"),
            (DECLARED + HELLO.replace("'read'", "'harmless'"), "risk must be one of read, write"),
            (DECLARED + HELLO.replace("    'Say hello.'\n", ""), "hello needs a docstring"),
        ],
    )
    async def test_what_is_broken_is_told_and_left_out(
        self, site: Site, tmp_path: Path, source: str, problem: str
    ) -> None:
        site.install("broken", TOOL, source)
        site.install_example("trivet-dice")
        packages = ["broken", "missing", "trivet-dice"]
        assert [part.name for part, _ in load_parts(packages, PluginKind.TOOLS)] == ["roll_dice", "keep_roll"]
        found = await check_plugins(loaded(f"[plugins]\nenabled = {packages}", tmp_path).settings)
        assert [each.state for each in found] == [CheckState.WRONG, CheckState.WRONG, CheckState.OK, CheckState.OK]
        assert problem in found[0].seen
        assert "missing, which is not installed" in found[1].seen
        listed = CliRunner().invoke(app, ["plugins", "--json", "--config", str(listing(tmp_path, *packages))])
        assert listed.exit_code == 1
        assert problem.partition("'")[0] in listed.output

    def test_a_package_that_is_not_installed_is_told_of_when_a_process_starts(self) -> None:
        with capture_logs() as lines:
            assert not load_hooks(["gone"], HookPoint, lambda _name: None)
        assert [line["reason"].partition(":")[0] for line in lines] == [
            "plugins.enabled names gone, which is not installed"
        ]

    def test_no_two_have_one_name_and_none_has_ours(self, site: Site) -> None:
        source = f"{DECLARED}from gateway.plugins import command\n@command()\ndef hello(_a, _c):\n    'greet'\n"
        for name in ("one", "two"):
            site.install(name, {"trivet.commands": {"hello": f"{name}:hello"}}, source)
        site.install("three", {"trivet.commands": {"stop": "three:hello"}}, source)
        rows = plugin_commands(["one", "two", "three"])
        assert [(row.name, row.spec and row.spec.about) for row in rows] == [("hello", "greet")]
        with pytest.raises(PluginBroken, match="Trivet has a command of that name"):
            load_part(enabled_parts(["three"], PluginKind.COMMANDS)[0])


def listing(tmp_path: Path, *packages: str) -> Path:
    path = tmp_path / "listing.toml"
    path.write_text(f"[plugins]\nenabled = {list(packages)}")
    return path


class TestTools:
    def test_the_risks_are_those_of_the_policy(self) -> None:
        assert get_args(RiskName) == tuple(risk.value for risk in Risk)

    def test_annotations_and_docstring_are_what_the_model_reads(self) -> None:
        assert roll_dice.description == "Roll dice and add up what they show."
        assert roll_dice.schema["properties"] == {
            "sides": {
                "type": "integer",
                "default": 6,
                "minimum": 2,
                "maximum": 1000,
                "description": "How many sides each of them has.",
            },
            "dice": {"type": "integer", "default": 1, "minimum": 1, "maximum": 100},
        }
        assert keep_roll.schema["required"] == ["points"]
        assert roll_dice(sides=2, dice=3).startswith(("1 +", "2 +"))

    async def test_a_call_is_checked_and_told_who_asked(self, site: Site) -> None:
        site.install_example("trivet-dice")
        tools = registry(*plugin_tools(["trivet-dice"]))
        calls = [
            call("keep_roll", points=7),
            call("keep_roll", points=3),
            call("keep_roll", points=0),
            call("keep_roll", points="many"),
            call("keep_roll", caller="eve", points=1),
        ]
        results = await tools.run_round(context("telegram:77"), calls)
        assert [('{"best": 7}' in result.text, result.is_error) for result in results[:2]] == [(True, False)] * 2
        assert [result.is_error for result in results[2:]] == [True] * 3
        assert "roll first" in results[2].text

    async def test_policy_approval_limit_and_scrubber_apply(self, site: Site) -> None:
        """As to our own: a guest is denied what writes, an admin is asked, a secret is taken out, a hang is ended."""
        source = f"""{DECLARED}
import threading
from gateway.plugins import tool
@tool(risk="read")
def leak():
    "Tell a secret."
    return "the token is {SECRET}"
@tool(risk="read", timeout_s=0.05)
def hang():
    "Never return."
    threading.Event().wait(20)
@tool(risk="read")
def leave():
    "End the process."
    raise SystemExit(3)
"""
        names = {name: f"hostile:{name}" for name in ("leak", "hang", "leave")}
        site.install("hostile", {"trivet.tools": names}, source)
        site.install_example("trivet-dice")
        tools = registry(*plugin_tools(["hostile", "trivet-dice"]), policy=DENYING)
        guest = context(role=GrantRole.GUEST)
        assert "keep_roll" not in {spec.name for spec in tools.specs_for(guest)}
        [denied] = await tools.run_round(guest, [call("keep_roll", points=1)])
        assert "is not permitted" in denied.text
        [asked] = await tools.run_round(context(), [call("keep_roll", points=1)])  # nobody can be asked here
        assert "approv" in asked.text
        results = await tools.run_round(guest, [call(name) for name in names])
        assert SECRET not in results[0].text
        assert "the token is" in results[0].text
        assert "did not finish within 0.05 s" in results[1].text
        assert "leave failed: RuntimeError" in results[2].text

    async def test_our_own_kind_of_tool_may_be_given(self, site: Site) -> None:
        source = f"""{DECLARED}
from agent.models.requests import ToolSpec
from agent.tools.policy import Risk
from agent.tools.tool import Tool
async def run(context, arguments):
    return str(context.key)
whoami = Tool(ToolSpec("whoami", "Say who asks.", {{"type": "object"}}), "own", Risk.READ, run)
"""
        site.install("own_kind", {"trivet.tools": {"whoami": "own_kind:whoami"}}, source)
        [result] = await registry(*plugin_tools(["own-kind"])).run_round(context("telegram:5"), [call("whoami")])
        assert result.text == "telegram:5"


class TestCommands:
    def test_a_function_says_what_help_shows(self) -> None:
        spec = oncall.spec("oncall")
        assert (spec.about, spec.argument, spec.role) == ("who is on call", "week", GrantRole.MEMBER)
        assert oncall("3", ANN) == "In week 3 it is Ada."


def hooks(*functions: Callable[[HookEvent], Any], failed: Counter[str] | None = None, timeout_s: float = 5.0) -> Hooks:
    """Hooks of one point, by the names of their functions."""
    rows = [(each.__name__, HookPoint.AFTER_NORMALIZE, each) for each in functions]
    counter: Counter[str] = Counter() if failed is None else failed
    return Hooks(rows, lambda name: counter.update([name]), timeout_s=timeout_s)


def event(text: str = "hello") -> HookEvent:
    return HookEvent(HookPoint.AFTER_NORMALIZE, CleanText(text), SessionKey("telegram", "7"), "m1")


def loud(event: HookEvent) -> str:
    return event.text.upper()


async def raises(_event: HookEvent) -> str:
    raise ValueError("no")


async def cancels(_event: HookEvent) -> str:
    raise asyncio.CancelledError


def exits(_event: HookEvent) -> str:
    raise SystemExit(3)


def numbers(_event: HookEvent) -> int:
    return 3


def floods(_event: HookEvent) -> str:
    return "x" * (HOOK_CHARS_MAX + 1)


def blank(_event: HookEvent) -> str:
    return " \n"


async def hangs(_event: HookEvent) -> None:
    await asyncio.Event().wait()


def blocks(_event: HookEvent) -> None:
    threading.Event().wait(20)


def leaks(_event: HookEvent) -> str:
    return f"it is {SECRET}"


class TestHooks:
    @pytest.mark.parametrize("bad", [raises, cancels, exits, numbers, floods])
    async def test_one_that_fails_is_counted_and_skipped(self, bad: Callable[[HookEvent], Any]) -> None:
        failed: Counter[str] = Counter()
        asked = hooks(bad, loud, failed=failed)
        assert await asked.replaced(event(), Scrubber().scrub) == "HELLO"
        assert await asked.replaced(event(), Scrubber().scrub) == "HELLO"
        assert failed == {bad.__name__: 2}

    @pytest.mark.parametrize("bad", [hangs, blocks])
    async def test_one_that_hangs_is_waited_for_once_in_a_while(self, bad: Callable[[HookEvent], Any]) -> None:
        failed: Counter[str] = Counter()
        asked = hooks(bad, loud, failed=failed, timeout_s=0.05)
        for _ in range(3):
            assert await asked.replaced(event(), Scrubber().scrub) == "HELLO"
        assert failed == {bad.__name__: 1}

    async def test_who_waits_for_one_can_be_cancelled(self) -> None:
        asking = asyncio.create_task(hooks(hangs).replaced(event(), Scrubber().scrub))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    async def test_what_is_said_is_scrubbed_and_nothing_leaves_the_text(self) -> None:
        assert await hooks(blank).replaced(event(), Scrubber().scrub) == "hello"
        assert SECRET not in await hooks(leaks).replaced(event(), Scrubber().scrub)
        said = await hooks(blank, leaks, loud).gathered(event(), Scrubber().scrub)
        assert [SECRET in each for each in said] == [False, False]
        assert said[1] == "HELLO"

    async def test_a_process_loads_those_of_its_own_points(self, site: Site) -> None:
        site.install_example("trivet-house-rules")
        site.install("elsewhere", {"trivet.hooks": {"after_answer.x": "elsewhere:x", "never": "elsewhere:x"}}, "x = 1")
        agents = load_hooks(["trivet-house-rules", "elsewhere"], (HookPoint.AFTER_ANSWER,), lambda _name: None)
        answer = HookEvent(HookPoint.AFTER_ANSWER, CleanText("yes"), SessionKey("telegram", "7"), "t1")
        assert await agents.replaced(answer, Scrubber().scrub) == await sign(answer)
        asked = HookEvent(HookPoint.BEFORE_MODEL, CleanText("what price?"), SessionKey("telegram", "7"), "t1")
        assert await agents.gathered(asked, Scrubber().scrub) == ()


class TestIntake:
    @pytest.mark.parametrize("bad", [raises, hangs, blocks, exits])
    async def test_a_hook_that_fails_costs_no_message(self, bad: Callable[[HookEvent], Any]) -> None:
        bus = MemoryBus()
        rooms = replace(door_rooms(bus), hooks=hooks(bad, timeout_s=0.05))
        intake = MessageIntake(rooms, IntakeConfig(AccessPolicy(StrangerRule.OPEN), SessionScope.PLACE))
        assert await intake.accept(private_message()) is IntakeOutcome.QUEUED
        assert [message.text for message in bus.queued] == ["hello"]

    async def test_a_hook_changes_what_is_queued_and_sees_no_command_and_no_secret(self) -> None:
        seen: list[str] = []

        def doubled(event: HookEvent) -> str:
            seen.append(event.text)
            return f"{event.text} {SECRET} {'long ' * 8_000}"

        bus = MemoryBus()
        rooms = replace(door_rooms(bus, Scrubber()), hooks=hooks(doubled))
        intake = MessageIntake(rooms, IntakeConfig(AccessPolicy(StrangerRule.OPEN), SessionScope.PLACE))
        await intake.accept(private_message(f"mine is {SECRET}"))
        await intake.accept(private_message("/new"))
        assert len(seen) == 1
        assert SECRET not in seen[0]
        assert SECRET not in bus.queued[0].text
        assert "The message was cut here" in bus.queued[0].text


class TestChannels:
    MATRIX = (
        '[plugins]\nenabled = ["Trivet_Matrix"]\n[channels.matrix]\ntoken = "syt_of_the_bot_0815"\nstreaming = "off"\n'
    )

    def test_its_table_stands_beside_ours(self, site: Site, tmp_path: Path) -> None:
        site.install_example("trivet-matrix")
        environ = {"TRIVET_CHANNELS__MATRIX__API_BASE": "http://home", "TRIVET_CHANNELS__MARTIX__TOKEN": "x"}
        found = loaded(self.MATRIX + '[channels.irc]\nnick = "t"\n', tmp_path, environ)
        account = found.settings.channels.each()["matrix"]
        assert (account.streaming, account.is_enabled, dict(account)["api_base"]) == ("off", True, "http://home")
        assert "syt_of_the_bot_0815" in found.secrets
        assert ("channels.matrix.token", "***") in {(key, value) for key, value, _ in rows(found)}
        assert [warning.split()[2] for warning in found.warnings] == [
            "channels.irc.nick",
            "TRIVET_CHANNELS__MARTIX__TOKEN",
        ]

    def test_without_its_package_enabled_it_is_unknown(self, site: Site, tmp_path: Path) -> None:
        site.install_example("trivet-matrix")
        found = loaded('[channels.matrix]\ntoken = "x"', tmp_path)
        assert "matrix" not in found.settings.channels.each()
        assert len(found.warnings) == 1

    async def test_a_broken_one_says_so_by_an_error_that_is_survived(
        self, site: Site, bus: RedisBus, tmp_path: Path
    ) -> None:
        site.install_example("trivet-matrix")
        site.install("broken", {"trivet.channels": {"cracked": "broken"}}, f"{DECLARED}raise OSError('dead')")
        text = '[plugins]\nenabled = ["broken", "trivet-matrix"]\n'
        settings = loaded(text, tmp_path).settings
        for name, problem in (("cracked", "OSError: dead"), ("matrix", "channels.matrix.token is empty")):
            with pytest.raises(PluginBroken, match=problem):
                await open_channel(name, settings, parts_on(bus))
        found = await check_plugins(settings, is_offline=True)
        assert [(each.name, each.state) for each in found] == [
            ("channels cracked", CheckState.WRONG),
            ("channels matrix", CheckState.WRONG),
        ]
        adapter = await open_channel("matrix", loaded(self.MATRIX, tmp_path).settings, parts_on(bus))
        assert adapter.name == "matrix"
