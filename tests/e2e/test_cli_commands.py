"""The `trivet` command as an operator types it: exit codes, sentences, no traceback."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from gateway.bus.bus import open_bus
from gateway.bus.embedded import EmbeddedValkey
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import LogLine
from gateway.contracts.sessions import SetTitle
from gateway.ops.cli.start import ORDER, app
from gateway.store import open_store
from gateway.store.migrations import migrate
from tests.contract.store_samples import ANN
from tests.contract.subtask_samples import conversation, opened
from tests.parts.effects import apply_effects
from tests.parts.warm import WarmTrivet

ROOT = Path(__file__).parents[2]
SECRET = "-".join(("sk", "proj", "T3BlbkFJq7Xw2Zr9Lm4Vt8Kc1Pd6Hs5Ny0Bg"))
TELEGRAM = {"TRIVET_CHANNELS__TELEGRAM__TOKEN": "123456:quiet"}


class Trivet:
    """Runs the command in a directory of its own, with nothing but the settings given."""

    def __init__(self, folder: Path, warm: WarmTrivet) -> None:
        self.folder = folder
        self._warm = warm

    def run(
        self, *arguments: str, environ: Mapping[str, str] = {}, given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return self._warm.run(*arguments, folder=self.folder, environ={**self.environment, **environ}, given=given)

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TRIVET_DATA_DIR": str(self.folder / "data")}

    def refusal(self, *arguments: str, environ: Mapping[str, str] = {}, code: int) -> str:
        """The one sentence on stderr with which a command ends."""
        ended = self.run(*arguments, environ=environ)
        lines = ended.stderr.strip().splitlines()
        assert ended.returncode == code, ended.stderr
        assert "Traceback" not in ended.stderr
        assert len(lines) == 1
        return lines[0].removeprefix("trivet: ")


@pytest.fixture
def trivet(tmp_path: Path, warm_trivet: WarmTrivet) -> Trivet:
    return Trivet(tmp_path, warm_trivet)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedValkey]:
    """A Valkey that does not belong to the data directory."""
    valkey = EmbeddedValkey(tmp_path / "elsewhere")
    asyncio.run(valkey.start())
    yield valkey
    asyncio.run(valkey.stop())


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--version"], 0, "trivet 0."),
        (["migrate"], 0, "v1"),
        (["up"], 2, "trivet: no channel is configured"),
        (["pair", "ABCDEFGH"], 1, "trivet: the database"),
    ],
)
@pytest.mark.long_on("arguments1", "arguments2")
def test_a_command_starts_from_nothing_as_a_program_of_its_own(
    trivet: Trivet, arguments: list[str], code: int, told: str
) -> None:
    """The tests below start theirs where everything is loaded already."""
    ended = subprocess.run(
        [sys.executable, "-m", "gateway", *arguments],
        check=False,
        cwd=trivet.folder,
        env=trivet.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == code
    assert told in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.long
def test_whose_database_and_bus_are_is_shown_and_settled(trivet: Trivet, server: EmbeddedValkey) -> None:
    """By `migrate`, which refuses another's bus; a copy may be named anew, and a bus that is one's own be taken."""
    ours = {"TRIVET_REDIS__URL": server.url}
    trivet.run("migrate", "--quiet", environ=ours)
    before = trivet.run("installation", environ=ours)
    (own,) = set(re.findall(r": (\w{12})$", before.stdout, re.MULTILINE))
    assert before.returncode == 0
    renewed = trivet.run("installation", "--new", environ=ours)
    assert renewed.returncode == 1
    assert f"bus: {own}" in renewed.stdout
    assert f"database: {own}" not in renewed.stdout
    for command in ("migrate", "agent"):
        said = trivet.refusal(command, environ=ours, code=2)
        assert f"belongs to the installation {own}" in said
        assert "--take-bus" in said
    settled = trivet.run("installation", "--take-bus", environ=ours)
    assert settled.returncode == 0
    assert own not in settled.stdout
    assert trivet.run("migrate", environ=ours).returncode == 0


def test_our_own_bus_is_settled_without_anything_running(trivet: Trivet) -> None:
    """The server is started for the moment: with `up` refusing to start nothing else could."""
    trivet.run("migrate", "--quiet")
    assert "bus: nobody has told it yet" in trivet.run("installation").stdout
    taken = trivet.run("installation", "--take-bus").stdout
    assert len(set(re.findall(r": (\w{12})$", taken, re.MULTILINE))) == 1
    assert trivet.run("installation").stdout == taken


def test_config_show_names_the_source_of_each_value(trivet: Trivet) -> None:
    (trivet.folder / "trivet.toml").write_text("[http]\nport = 9000\n")
    shown = trivet.run("config", "show", environ=TELEGRAM).stdout
    assert "trivet.toml line 2" in shown
    assert "quiet" not in shown


def test_warnings_of_the_configuration_are_told_and_do_not_stop(trivet: Trivet) -> None:
    ended = trivet.run("config", "show", environ={"TRIVET_HTTP__PRT": "1"})
    assert ended.returncode == 0
    assert "did you mean TRIVET_HTTP__PORT?" in ended.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("[http\n", "is not valid TOML"), ('[http]\nport = "x"\n', "line 2: http.port must be a whole number")],
)
@pytest.mark.parametrize("command", ["up", "agent", "admin", "channels", "doctor", "migrate"])
def test_a_wrong_file_stops_every_command_with_its_place(
    trivet: Trivet, command: str, text: str, sentence: str
) -> None:
    (trivet.folder / "mine.toml").write_text(text)
    told = trivet.refusal(command, "--config", "mine.toml", code=2)
    assert told.startswith("mine.toml")
    assert sentence in told


def test_a_missing_file_is_told(trivet: Trivet) -> None:
    assert "named by --config, is not a file" in trivet.refusal("up", "--config", "nowhere.toml", code=2)


def test_up_without_a_channel_says_what_to_set(trivet: Trivet) -> None:
    told = trivet.refusal("up", code=2)
    assert "no channel is configured" in told
    assert "trivet demo" in told


def test_up_with_a_channel_that_lacks_a_token_names_the_key(trivet: Trivet) -> None:
    environ = {"TRIVET_CHANNELS__SLACK__ENABLED": "true", "TRIVET_CHANNELS__SLACK__BOT_TOKEN": "xoxb-1"}
    assert "channels.slack.app_token is empty" in trivet.refusal("up", environ=environ, code=2)


def test_half_an_app_of_slack_is_told_where_a_whole_one_is_made(trivet: Trivet) -> None:
    told = trivet.refusal("up", "--slack-bot", "xoxb-1", code=2)
    assert "needs two tokens" in told
    manifest = unquote(told.partition("manifest_yaml=")[2])
    assert yaml.safe_load(manifest) == yaml.safe_load((ROOT / "deploy" / "slack-manifest.yaml").read_text())


def test_up_with_a_port_in_use_names_the_key(trivet: Trivet, taken_port: int) -> None:
    told = trivet.refusal("up", environ=TELEGRAM | {"TRIVET_HTTP__PORT": str(taken_port)}, code=2)
    assert told == (
        f"cannot listen on 127.0.0.1:{taken_port} (address already in use): "
        "stop what uses it or set http.port to another port"
    )


def test_up_with_a_redis_that_does_not_answer_says_so_without_its_password(trivet: Trivet) -> None:
    environ = TELEGRAM | {"TRIVET_REDIS__URL": "redis://:hush@127.0.0.1:1/0"}
    told = trivet.refusal("up", environ=environ, code=1)
    assert told.startswith("Redis at redis://:***@127.0.0.1:1/0 cannot be reached (connection refused)")


def test_channels_refuses_a_name_it_does_not_know(trivet: Trivet) -> None:
    told = trivet.refusal("channels", "myspace", code=2)
    assert told == "there is no channel 'myspace': choose from telegram, discord, slack, api"


def test_migrate_makes_the_database_and_is_content_the_second_time(trivet: Trivet) -> None:
    assert ": v1" in trivet.run("migrate").stdout
    assert (trivet.folder / "data" / "trivet.db").stat().st_mode & 0o077 == 0
    assert "nothing to do" in trivet.run("migrate").stdout
    assert trivet.run("migrate", "--quiet").stdout == ""


def test_pair_without_a_running_trivet_says_what_to_start(trivet: Trivet) -> None:
    trivet.run("migrate")
    assert "`trivet up` has to run" in trivet.refusal("pair", "ABCDEFGH", code=1)


def test_pair_before_the_first_start_says_so(trivet: Trivet) -> None:
    assert "migrate" in trivet.refusal("pair", "ABCDEFGH", code=1)


def test_scrub_copies_its_input_without_the_secrets(trivet: Trivet) -> None:
    ended = trivet.run("scrub", given=f"my key is {SECRET}, thanks\nПривет\n")
    assert ended.returncode == 0
    assert SECRET not in ended.stdout
    assert ended.stdout.startswith("my key is [redacted:openai")
    assert ended.stdout.endswith("thanks\nПривет\n")


def test_scrub_check_says_what_becomes_of_each_rule_and_what_it_finds(trivet: Trivet, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rules]]\nid = 'badge'\nregex = 'badge (\\d{6})'\n\n[[rules]]\nid = 'files'\npath = '\\.p12$'\n")
    ended = trivet.run("scrub", "--check", str(rules), given="hello\nmy badge 123456\n")
    assert ended.returncode == 0, ended.stderr
    assert [line.split(maxsplit=2) for line in ended.stdout.splitlines()] == [
        ["taken", "1", "badge"],
        ["refused", "5", "files: it looks at names of files only"],
        ["1", "taken,", "1 not"],
        ["found", "2:10", "own/badge"],
    ]
    rules.write_text("[[rules]]\nid = 'badge'\nregex = '(?<=badge )\\d{6}'\n")
    assert trivet.run("scrub", "--check", str(rules), given="").returncode == 1


def test_scrub_uses_the_rules_that_are_configured_and_stops_where_they_are_broken(
    trivet: Trivet, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rules]]\nid = 'badge'\nregex = 'badge (\\d{6})'\n")
    config = tmp_path / "own.toml"
    config.write_text(f"[scrub]\nrules_file = '{rules}'\n")
    ended = trivet.run("scrub", "--config", str(config), given="my badge 123456\n")
    assert re.fullmatch(r"my badge \[redacted:own#\w+\]\n", ended.stdout)
    rules.write_text("[[rules]]\nid = 'badge'\nregex = '('\n")
    ended = trivet.run("scrub", "--config", str(config), given="my badge 123456\n")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"{rules}: line 1: rule badge: RE2 does not take it" in ended.stderr


def test_scrub_report_counts_by_kind(trivet: Trivet) -> None:
    ended = trivet.run("scrub", "--report", given=f"{SECRET} and nothing else")
    assert [line.split() for line in ended.stdout.splitlines()] == [["1", "openai"], ["1", "in", "all"]]


def test_doctor_shows_a_row_for_everything_and_fails_when_something_is_wrong(trivet: Trivet, taken_port: int) -> None:
    environ = {
        **TELEGRAM,
        "TRIVET_CHANNELS__TELEGRAM__API_BASE": "http://127.0.0.1:1",
        "TRIVET_HTTP__PORT": str(taken_port),
    }
    ended = trivet.run("doctor", environ=environ)
    rows = {tuple(line.split()[:2]) for line in ended.stdout.splitlines()}
    assert ended.returncode == 1
    assert {("ok", "configuration"), ("ok", "data_dir"), ("ok", "redis"), ("ok", "database")} <= rows
    assert {("warning", "agent.model"), ("wrong", "telegram"), ("wrong", "http.port")} <= rows
    assert "quiet" not in ended.stdout + ended.stderr
    assert not (trivet.folder / "data").exists()


@pytest.mark.long
def test_the_doctor_finds_a_model_that_nobody_reaches_by_the_file_it_was_told_of(trivet: Trivet) -> None:
    (trivet.folder / "other.toml").write_text('[agent]\nmodel = "openai/x"\napi_base = "http://127.0.0.1:9/v1"\n')
    tried = trivet.run("doctor", "--config", "other.toml").stdout
    assert "openai/x: it cannot be reached" in tried
    assert "cannot be reached" not in trivet.run("doctor", "--config", "other.toml", "--offline").stdout


def test_an_operator_exports_what_is_kept_of_a_person(trivet: Trivet) -> None:
    """To standard output, or into a new file that nobody else may read; never over a file that is there."""
    assert trivet.run("migrate").returncode == 0
    assert json.loads(trivet.run("export", "telegram:1/-100").stdout)["owner"] == "telegram:1"
    assert trivet.run("export", "telegram:1", "--output", "me.json").returncode == 0
    file = trivet.folder / "me.json"
    assert json.loads(file.read_text())["sessions"] == []
    assert file.stat().st_mode & 0o077 == 0
    assert "cannot be written" in trivet.refusal("export", "telegram:1", "--output", "me.json", code=2)
    assert "not a session key" in trivet.refusal("export", "nonsense", code=1)


def test_an_operator_sees_who_works_for_whom(trivet: Trivet) -> None:
    asyncio.run(_delegate(f"sqlite+aiosqlite:///{trivet.folder}/data/trivet.db"))
    [line] = trivet.run("sessions").stdout.splitlines()
    assert "  telegram:1  " in line
    assert line.endswith("  ⤷ 1")
    head, child = trivet.run("sessions", "tree", "--key", "telegram:1").stdout.splitlines()
    assert line == f"{head}  ⤷ 1"
    assert child.startswith("⤷ [explore] queued  'label of k1'")
    assert "there is no session none" in trivet.refusal("sessions", "tree", "none", code=1)


def test_every_json_document_keeps_our_ids_and_no_secret(trivet: Trivet) -> None:
    """Of each command that prints one; what a person said in it is scrubbed, whoever put it there raw."""
    key = SessionKey("telegram", "9448585923", ("-1004963670360",))
    asyncio.run(_delegate(f"sqlite+aiosqlite:///{trivet.folder}/data/trivet.db", key, title=f"my key is {SECRET}"))
    of_rows = [path for path, options in _commands(get_command(app)) if "--json" in options and path[0] == "sessions"]
    assert ("sessions", "tree") in of_rows
    for path in of_rows:
        ended = trivet.run(*path, "--json")
        rows = json.loads(ended.stdout)
        assert {row["key"] for row in rows} == {str(key)}
        assert all(row["title"].startswith("my key is [redacted:") for row in rows)
        assert ended.stdout.count("[redacted:") == len(rows)
        assert SECRET not in ended.stdout


@pytest.mark.long
def test_all_that_lists_is_there_for_programs_too(trivet: Trivet, server: EmbeddedValkey) -> None:
    """On an installation where nothing has happened yet, and where no role runs."""
    ours = {"TRIVET_REDIS__URL": server.url}
    trivet.run("migrate", "--quiet", environ=ours)
    of_lists = {path for path, options in _commands(get_command(app)) if "--json" in options}
    named: dict[tuple[str, ...], tuple[str, ...]] = {("pair",): ("pair", "list"), ("trace",): ("trace", "none")}
    assert {("access", "list"), ("dead", "list"), ("doctor",), ("config", "show"), ("status",), *named} <= of_lists
    for path in of_lists - {("trace",)}:
        ended = trivet.run(*named.get(path, path), "--json", environ=ours | {"TRIVET_CHANNELS__TELEGRAM__TOKEN": ""})
        assert json.loads(ended.stdout) is not None, path


@pytest.mark.parametrize("said", ["2026-11-27 a line of ours", ""])
def test_the_log_is_the_journal_of_our_units(trivet: Trivet, server: EmbeddedValkey, said: str) -> None:
    """Where systemd keeps it; elsewhere the newest lines that the bus keeps, the oldest of them first."""
    program = trivet.folder / "journalctl"
    program.write_text(f'#!/bin/sh\necho "{said}"\ntest -z "{said}" || echo "$@"\n')
    program.chmod(0o755)
    environ = {"PATH": f"{trivet.folder}:{os.environ['PATH']}", "TRIVET_REDIS__URL": server.url}
    if said:
        shown = trivet.run("logs", "-f", "--about", "turn1", environ=environ).stdout
        assert said in shown
        assert "--unit trivet* --output cat --lines 100 --follow --grep turn1" in shown
        return
    trivet.run("migrate", "--quiet", environ=environ)
    asyncio.run(_log(server.url, [LogLine(at_ms, "info", f"turn{at_ms % 2} {at_ms}") for at_ms in range(1, 8)]))
    shown = trivet.run("logs", "-n", "2", "--about", "turn1", environ=environ).stdout
    assert [line.split()[-1] for line in shown.splitlines()] == ["5", "7"]


async def _log(url: str, lines: Sequence[LogLine]) -> None:
    bus = await open_bus(url)
    await bus.operator.add_lines(lines)
    await bus.close()


def test_help_names_every_command_in_the_order_of_use(trivet: Trivet) -> None:
    shown = re.findall(r"^  ([a-z]+)  ", trivet.run("-h").stdout, re.MULTILINE)
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    assert shown == list(ORDER)
    assert set(shown) == set(group.commands)
    assert "--show-completion" in trivet.run("--help").stdout
    assert trivet.run("pair", "-h").stdout == trivet.run("pair", "--help").stdout


def _commands(command: object, *path: str) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Every command of the program: the words that name it, its options."""
    assert isinstance(command, TyperCommand | TyperGroup)
    yield path, {name for option in command.params for name in option.opts}
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            yield from _commands(below, *path, name)


async def _delegate(url: str, key: SessionKey = ANN, *, title: str = "") -> None:
    """Have a conversation ask one sub-agent."""
    await migrate(url)
    store = open_store(url)
    try:
        session = await conversation(store, key)
        await apply_effects(store, key, [SetTitle(CleanText(title))], now_ms=2_000)
        await opened(store, session, "k1")
    finally:
        await store.close()
