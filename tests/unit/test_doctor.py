"""What the doctor sees: this machine, the servers, the platforms' own answers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import httpx
import pytest

from gateway.bus.embedded import EmbeddedValkey
from gateway.config import Settings, load_settings
from gateway.config.limits import GUEST_TOKENS, GUEST_USD, OWNER_DISK_MB, POT_TOKENS
from gateway.key_files import REDIS_PASSWORD_FILE, redis_password
from gateway.ops.doctor import CheckResult, CheckState, as_table, is_healthy, ok, warning, wrong
from gateway.ops.doctor.checks import (
    check_channels,
    check_confinement,
    check_data_dir,
    check_database,
    check_disk,
    check_installation,
    check_limits,
    check_mcp,
    check_model,
    check_models,
    check_ports,
    check_redis,
    check_scrubber,
    check_webhooks,
    check_workspace,
    file_system_of,
)
from gateway.ops.doctor.platforms import check_platforms
from gateway.store import open_store
from tests.parts.databases import INSTALLATION
from tests.parts.model_server import Failure, serve_model
from tests.parts.redis_sets import ClusterSet, SentinelSet

MOUNTS = """\
overlay / overlay rw,relatime 0 0
proc /proc proc rw 0 0
/dev/sda1 /home ext4 rw 0 0
server:/export /home/me/net\\040disk nfs4 rw 0 0
"""
TELEGRAM = {"TRIVET_CHANNELS__TELEGRAM__TOKEN": "123:quiet"}
DISCORD = {"TRIVET_CHANNELS__DISCORD__TOKEN": "quiet"}
SLACK = {"TRIVET_CHANNELS__SLACK__BOT_TOKEN": "xoxb-quiet", "TRIVET_CHANNELS__SLACK__APP_TOKEN": "xapp-quiet"}


def settings_of(environ: Mapping[str, str]) -> Settings:
    return load_settings(None, environ).settings


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/trivet", "overlay"),
        ("/home/me", "ext4"),
        ("/home/me/net disk/trivet", "nfs4"),
        ("/homely", "overlay"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    assert file_system_of(PurePosixPath(path), MOUNTS) == kind


def test_a_data_directory_that_is_a_file_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    assert check_data_dir(settings_of({"TRIVET_DATA_DIR": str(tmp_path / "data")})).state is CheckState.WRONG
    assert check_data_dir(settings_of({"TRIVET_DATA_DIR": str(tmp_path / "new" / "below")})).state is CheckState.OK


async def test_a_port_in_use_is_wrong_and_a_free_one_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        environ = {"TRIVET_HTTP__PORT": str(server.getsockname()[1])}
        taken = await check_ports(settings_of(environ))
    assert [finding.state for finding in taken] == [CheckState.WRONG]
    assert [finding.state for finding in await check_ports(settings_of(environ))] == [CheckState.OK]


async def test_without_a_channel_and_without_a_running_trivet_nothing_can_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        environ = {"TRIVET_HTTP__PORT": str(server.getsockname()[1])}
    [found] = await check_channels(settings_of(environ))
    assert (found.state, found.seen) == (CheckState.WRONG, "none is configured")
    assert "`trivet init`" in found.remedy
    assert await check_channels(settings_of(TELEGRAM)) == []


async def test_the_webhooks_have_an_address_of_their_own() -> None:
    with socket.create_server(("127.0.0.2", 0)) as server:
        port = str(server.getsockname()[1])
        environ = TELEGRAM | CALLED | {"TRIVET_HTTP__WEBHOOK_PORT": port}
        for host, state in (("", CheckState.OK), ("127.0.0.2", CheckState.WRONG)):
            found = await check_ports(settings_of(environ | {"TRIVET_HTTP__WEBHOOK_HOST": host}))
            assert {finding.name: finding.state for finding in found}["http.webhook_port"] is state


@pytest.mark.parametrize(
    ("environ", "state"),
    [
        ({}, CheckState.WARNING),
        ({"OPENAI_API_KEY": "k"}, CheckState.OK),
        ({"TRIVET_AGENT__MODEL": "gpt-5.4"}, CheckState.WRONG),
        ({"TRIVET_AGENT__MODEL": "gpt-5.4", "ANTHROPIC_API_KEY": "k"}, CheckState.WRONG),
        ({"TRIVET_AGENT__MODEL": "gpt-5.4", "TRIVET_AGENT__API_KEY": "k"}, CheckState.OK),
        ({"TRIVET_AGENT__MODEL": "openai/x", "TRIVET_AGENT__API_BASE": "http://127.0.0.1:1/v1"}, CheckState.OK),
        ({"TRIVET_AGENT__MODEL": "ollama_chat/llama3"}, CheckState.OK),
    ],
)
def test_the_model_needs_the_key_of_its_provider(environ: dict[str, str], state: CheckState) -> None:
    assert check_model(settings_of(environ), environ).state is state


@pytest.mark.parametrize(("first", "state"), [("", CheckState.WARNING), ("close_to_others()", CheckState.OK)])
def test_whether_other_programs_may_read_our_keys_is_told(first: str, state: CheckState) -> None:
    """In a process of its own: closed is closed."""
    says = f"""
from gateway.ops.doctor.checks import check_memory
from gateway.dumpable import close_to_others
{first}
print(check_memory().state)
"""
    told = subprocess.run([sys.executable, "-c", says], cwd=Path(__file__).parents[2], capture_output=True, check=True)
    assert told.stdout.decode().strip() == state


async def test_our_own_valkey_keeps_everything_and_evicts_nothing(valkey_server: EmbeddedValkey) -> None:
    found = await check_redis(settings_of({"TRIVET_REDIS__URL": valkey_server.url}))
    assert {finding.state for finding in found} == {CheckState.OK}
    assert found[1].seen.startswith("Valkey ")


async def test_the_password_of_our_own_valkey_is_told_with_who_may_read_it(tmp_path: Path) -> None:
    settings = settings_of({"TRIVET_DATA_DIR": str(tmp_path), "TRIVET_REDIS__MEMORY_MB": "64"})
    (new,) = await check_redis(settings)
    assert (new.state, "at its first start" in new.seen, "64 MB at most" in new.seen) == (CheckState.OK, True, True)
    redis_password(tmp_path)
    (kept,) = await check_redis(settings)
    assert (kept.state, str(tmp_path / REDIS_PASSWORD_FILE) in kept.seen) == (CheckState.OK, True)
    (tmp_path / REDIS_PASSWORD_FILE).chmod(0o644)
    (open_to_others,) = await check_redis(settings)
    assert open_to_others.state is CheckState.WARNING
    assert open_to_others.remedy.startswith("run `chmod 600 ")


def test_what_files_may_take_is_told_and_too_little_free_space_is_wrong(tmp_path: Path) -> None:
    data = {"TRIVET_DATA_DIR": str(tmp_path / "new"), "TRIVET_LIMITS__DISK__ALL_MB": "0"}
    found = check_disk(settings_of({**data, "TRIVET_LIMITS__DISK__FREE_MB": "1"}))
    assert found.state is CheckState.OK
    assert found.seen.startswith(
        f"files of one user: {OWNER_DISK_MB} MB, of all: no limit, kept free: 1 MB; free now: "
    )
    found = check_disk(settings_of({**data, "TRIVET_LIMITS__DISK__FREE_MB": str(10**9)}))
    assert found.state is CheckState.WRONG
    assert "limits.disk.free_mb" in found.remedy


def test_rules_that_are_not_in_force_are_named(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    settings = settings_of({"TRIVET_SCRUB__RULES_FILE": str(path)})
    path.write_text("[[rules]]\nid = 'badge'\nregex = 'badge (\\d{6})'\n")
    (_, told) = check_scrubber(settings)
    assert (told.state, told.seen) == (CheckState.OK, f"1 rules of {path} are in force")
    path.write_text(f"{path.read_text()}[[rules]]\nid = 'files'\npath = 'x'\n")
    (_, told) = check_scrubber(settings)
    assert told.state is CheckState.WARNING
    assert "these are not: files" in told.seen


@pytest.mark.long
async def test_a_wrong_file_of_the_workspace_is_told_with_its_line(tmp_path: Path) -> None:
    environ = {**os.environ, "TRIVET_DATA_DIR": str(tmp_path)}
    settings = settings_of(environ)
    assert await check_workspace(settings, environ) == []
    folder = tmp_path / "workspace" / "commands"
    folder.mkdir(parents=True)
    (folder / "good.md").write_text("---\ndescription: d\n---\nhello\n")
    (folder / "bad.md").write_text("---\ndescription: d\nrole: king\n---\nhello\n")
    bad, added = await check_workspace(settings, environ)
    assert (bad.state, added.state) == (CheckState.WRONG, CheckState.OK)
    assert bad.seen.startswith("commands/bad.md line 3: role must be")
    assert added.seen == "added: /good"


def test_what_a_day_may_cost_is_told() -> None:
    guest, everybody = check_limits(settings_of({"TRIVET_LIMITS__USER__TURNS": "9", "TRIVET_LIMITS__POT__USD": "0"}))
    assert guest.seen == f"each guest, a day: tokens {GUEST_TOKENS}, usd {GUEST_USD:g}, turns 9"
    assert everybody.seen == f"all together, a day: tokens {POT_TOKENS}, usd none, turns none"


async def test_the_primary_of_a_sentinel_set_is_judged_with_its_replicas(sentinel_set: SentinelSet) -> None:
    """It leaves syncing to the system, which the operator is told; a replica that is asked for and missing is wrong."""
    found = await check_redis(settings_of({"TRIVET_REDIS__URL": sentinel_set.url}))
    assert [finding.state for finding in found] == [
        CheckState.OK,
        CheckState.OK,
        CheckState.WARNING,
        CheckState.WARNING,
    ]
    assert "Sentinel" in found[0].seen
    assert "replicas: 1" in found[1].seen
    assert "often 30 s" in found[2].seen
    assert "wait_replicas" in found[3].remedy
    environ = {"TRIVET_REDIS__URL": sentinel_set.url, "TRIVET_REDIS__WAIT_REPLICAS": "2"}
    assert CheckState.WRONG in [finding.state for finding in await check_redis(settings_of(environ))]


async def test_a_server_that_syncs_every_second_may_lose_by_its_own_crash(tmp_path: Path) -> None:
    server = EmbeddedValkey(tmp_path, appendfsync="everysec")
    await server.start()
    try:
        found = await check_redis(settings_of({"TRIVET_REDIS__URL": server.url}))
    finally:
        await server.stop()
    (warned,) = [finding for finding in found if finding.state is CheckState.WARNING]
    assert "a crash of the server while its disk is slow" in warned.seen
    assert warned.remedy == "set `appendfsync always`"


async def test_every_primary_of_a_cluster_is_judged(cluster_set: ClusterSet) -> None:
    found = await check_redis(settings_of({"TRIVET_REDIS__URL": cluster_set.url}))
    told = " ".join(finding.seen for finding in found)
    assert all(f"127.0.0.1:{server.port}" in told for server in cluster_set.primaries)


async def test_a_redis_that_does_not_answer_is_wrong_and_its_password_stays_hidden() -> None:
    found = await check_redis(settings_of({"TRIVET_REDIS__URL": "redis://:hush@127.0.0.1:1"}))
    assert [finding.state for finding in found] == [CheckState.WRONG]
    assert "hush" not in as_table(found)


async def test_a_database_is_looked_at_but_never_made(tmp_path: Path, sqlite_url: str) -> None:
    absent = f"sqlite+aiosqlite:///{tmp_path}/absent.db"
    assert (await check_database(settings_of({"TRIVET_DATABASE__URL": absent}))).state is CheckState.OK
    assert not (tmp_path / "absent.db").exists()
    assert (await check_database(settings_of({"TRIVET_DATABASE__URL": sqlite_url}))).state is CheckState.OK
    (tmp_path / "strange.db").write_bytes(b"")
    strange = f"sqlite+aiosqlite:///{tmp_path}/strange.db"
    assert (await check_database(settings_of({"TRIVET_DATABASE__URL": strange}))).state is CheckState.WRONG


async def test_database_and_bus_of_two_trivets_are_wrong(tmp_path: Path, sqlite_url: str, valkey_url: str) -> None:
    """Nobody is named by looking; who was named and by whom is told, and what to do where they differ."""

    async def found(database: str, redis: str) -> CheckResult:
        (finding,) = await check_installation(
            settings_of(
                {"TRIVET_DATA_DIR": str(tmp_path), "TRIVET_DATABASE__URL": database, "TRIVET_REDIS__URL": redis}
            )
        )
        return finding

    assert await found(sqlite_url, valkey_url) == ok("installation", INSTALLATION)
    absent = f"sqlite+aiosqlite:///{tmp_path}/absent.db"
    assert (await found(absent, f"{valkey_url}?db=1")).state is CheckState.OK
    unnamed = await found(sqlite_url, f"{valkey_url}?db=1")
    assert (unnamed.state, unnamed.seen.partition(",")[0]) == (CheckState.OK, INSTALLATION)
    store = open_store(sqlite_url)
    renewed = await store.renew_installation()
    await store.close()
    differing = await found(sqlite_url, valkey_url)
    assert differing.state is CheckState.WRONG
    assert (INSTALLATION in differing.seen, renewed in differing.seen) == (True, True)
    assert "--take-bus" in differing.remedy


@pytest.mark.long
async def test_what_would_hold_a_sub_agent_is_tried_and_said(tmp_path: Path) -> None:
    """Also that an insisted one is not there, or that there is nothing to be held."""

    async def found(**variables: str) -> CheckResult:
        environ = {**os.environ, "TRIVET_DATA_DIR": str(tmp_path), **variables}
        return await check_confinement(settings_of(environ), environ)

    plain = await found(TRIVET_SUBAGENTS__CONFINEMENT="plain")
    assert (plain.state, plain.seen.partition(":")[0]) == (CheckState.WARNING, "plain")
    missing = await found(TRIVET_SUBAGENTS__CONFINEMENT="bubblewrap", PATH=str(tmp_path))
    assert (missing.state, "does not work here" in missing.seen) == (CheckState.WRONG, True)
    assert (await found(TRIVET_SUBAGENTS__ENABLED="false")).state is CheckState.OK


@pytest.mark.long
async def test_what_would_hold_the_programs_of_mcp_servers_is_tried_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of those that are not started, and of those that the settings let go."""

    async def found(**tools: str) -> list[CheckResult]:
        variables = {f"TRIVET_TOOLS__{name.upper()}": value for name, value in tools.items()}
        environ = {**os.environ, "TRIVET_DATA_DIR": str(tmp_path), **variables}
        return await check_mcp(settings_of(environ), environ)

    assert await found(mcp='["docs=https://docs.example/mcp"]') == []
    free = await found(mcp='["time=serve"]', mcp_access='["time.confined=off"]')
    assert [(each.state, "nothing holds time" in each.seen) for each in free] == [(CheckState.WARNING, True)]
    monkeypatch.setenv("PATH", str(tmp_path))
    alone = await found(mcp='["time=serve"]', mcp_access='["time.network=off"]')
    assert [(each.state, "not started: mcp_time" in each.seen) for each in alone] == [(CheckState.WRONG, True)]


# --- models


@pytest.mark.long
async def test_every_model_is_tried_with_one_token_and_told_apart(tmp_path: Path) -> None:
    """By the agent's own program, with the real litellm: what answers, what has a wrong key, and what no credit. A
    fall-back answers for nobody."""
    async with serve_model() as good, serve_model() as wrong_key, serve_model() as no_credit:
        wrong_key.failures.extend([Failure(401, "Incorrect API key provided: sk-quiet", "invalid_api_key")] * 9)
        no_credit.failures.extend([Failure(429, "You exceeded your current quota", "insufficient_quota")] * 9)
        (tmp_path / "trivet.toml").write_text(f"""
data_dir = "{tmp_path}/data"

[agent]
model = "openai/gpt-4o-mini"
api_base = "{wrong_key.url}"
api_key = "sk-quiet"
utility_model = "good"
fallback_models = ["good"]
vision_model = "spent"
embedding_model = "vectors"
transcription_model = "hears"

[models.good]
model = "openai/gpt-4o-mini"
api_base = "{good.url}"

[models.spent]
model = "openai/gpt-4o"
api_base = "{no_credit.url}"

[models.vectors]
model = "openai/text-embedding-3-small"
api_base = "{good.url}"

[models.hears]
model = "openai/whisper-1"
api_base = "{good.url}"
""")
        found = await check_models({**os.environ, "TRIVET_CONFIG": str(tmp_path / "trivet.toml")})
        seen = {finding.name: (finding.state, finding.seen) for finding in found}
        assert seen == {
            "agent.model": (CheckState.WRONG, "openai/gpt-4o-mini: its provider does not accept the key"),
            "agent.utility_model": (CheckState.OK, "good answers"),
            "agent.vision_model": (CheckState.WRONG, "spent: its quota or credit is used up"),
            "agent.embedding_model": (CheckState.OK, "vectors answers"),
            "agent.transcription_model": (CheckState.OK, "hears answers"),
        }
        assert all(finding.remedy for finding in found if finding.state is CheckState.WRONG)
        assert "sk-quiet" not in as_table(found)
        asked, embedded = good.requests
        assert (asked if "messages" in asked else embedded)["max_tokens"] == 1
        assert len(good.heard) == len(wrong_key.requests) == len(no_credit.requests) == 1


async def test_a_setting_that_the_agent_cannot_start_with_is_told(tmp_path: Path) -> None:
    environ = {**os.environ, "TRIVET_DATA_DIR": str(tmp_path), "TRIVET_AGENT__MODEL": "nobody-s/model"}
    (finding,) = await check_models(environ)
    assert (finding.state, "agent.model" in finding.seen) == (CheckState.WRONG, True)


async def test_a_webhook_in_a_private_network_is_wrong_unless_it_may_be_there() -> None:
    secret = "a secret of sixteen or more"
    listed = [
        {"url": "https://1.1.1.1/quiet", "secret": secret, "name": "public"},
        {"url": "http://1.1.1.1/quiet", "secret": secret, "name": "open"},
        {"url": "https://10.0.0.1/quiet", "secret": secret, "name": "inside"},
        {"url": "http://127.0.0.1:1/quiet", "secret": secret, "name": "allowed", "private": True},
        {"url": "https://nowhere.invalid/quiet", "secret": secret, "name": "nowhere"},
    ]
    found = await check_webhooks(settings_of({"TRIVET_WEBHOOKS": json.dumps(listed)}))
    assert [(finding.name.removeprefix("webhooks."), finding.state) for finding in found] == [
        ("public", CheckState.OK),
        ("open", CheckState.WARNING),
        ("inside", CheckState.WRONG),
        ("allowed", CheckState.OK),
        ("nowhere", CheckState.WRONG),
    ]
    assert "quiet" not in as_table(found)


# --- platforms, answering as their documentation says

Answers = Mapping[str, tuple[int, Any]]


async def examined(environ: Mapping[str, str], answers: Answers) -> list[CheckResult]:
    """The rows when each path answers as given; nobody is there for other paths."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path not in answers:
            raise httpx.ConnectError("nobody is there")
        status, body = answers[request.url.path]
        return httpx.Response(status, json=body)

    return await check_platforms(
        settings_of(environ), lambda proxy: httpx.AsyncClient(transport=httpx.MockTransport(answer))
    )


def states(found: list[CheckResult]) -> list[tuple[str, CheckState]]:
    return [(finding.name, finding.state) for finding in found]


async def test_accepted_tokens_show_who_the_bot_is() -> None:
    found = await examined(
        TELEGRAM | DISCORD | SLACK,
        {
            "/bot123:quiet/getMe": (200, {"ok": True, "result": {"id": 123, "is_bot": True, "username": "trivet_bot"}}),
            "/bot123:quiet/getWebhookInfo": (200, {"ok": True, "result": {"url": ""}}),
            "/api/v10/users/@me": (200, {"id": "1", "username": "trivet"}),
            "/api/v10/oauth2/applications/@me": (200, {"id": "1", "flags": 1 << 19}),
            "/api/auth.test": (200, {"ok": True, "user": "trivet", "team": "Boats"}),
            "/api/apps.connections.open": (200, {"ok": True, "url": "wss://example"}),
        },
    )
    assert states(found) == [("telegram", CheckState.OK), ("discord", CheckState.OK), ("slack", CheckState.OK)]
    assert [finding.seen for finding in found] == ["@trivet_bot", "@trivet", "@trivet in Boats"]


async def test_refused_tokens_are_wrong_and_never_shown() -> None:
    found = await examined(
        TELEGRAM | DISCORD | SLACK,
        {
            "/bot123:quiet/getMe": (401, {"ok": False, "error_code": 401, "description": "Unauthorized"}),
            "/api/v10/users/@me": (401, {"message": "401: Unauthorized", "code": 0}),
            "/api/auth.test": (200, {"ok": False, "error": "invalid_auth"}),
        },
    )
    assert states(found) == [("telegram", CheckState.WRONG), ("discord", CheckState.WRONG), ("slack", CheckState.WRONG)]
    assert all("the token is refused" in finding.seen and finding.remedy for finding in found)
    assert "quiet" not in as_table(found)


async def test_what_would_keep_a_bot_deaf_is_told() -> None:
    found = await examined(
        TELEGRAM | DISCORD | SLACK,
        {
            "/bot123:quiet/getMe": (200, {"ok": True, "result": {"username": "trivet_bot"}}),
            "/bot123:quiet/getWebhookInfo": (200, {"ok": True, "result": {"url": "https://elsewhere"}}),
            "/api/v10/users/@me": (200, {"username": "trivet"}),
            "/api/v10/oauth2/applications/@me": (200, {"flags": 0}),
            "/api/auth.test": (200, {"ok": True, "user": "trivet", "team": "Boats"}),
            "/api/apps.connections.open": (200, {"ok": False, "error": "not_allowed_token_type"}),
        },
    )
    assert [row for row in states(found) if row[1] is not CheckState.OK] == [
        ("telegram", CheckState.WARNING),
        ("discord", CheckState.WARNING),
        ("slack", CheckState.WRONG),
    ]


@pytest.mark.parametrize("body", [[], "text"])
async def test_an_answer_that_is_none_or_nonsense_is_wrong(body: object) -> None:
    assert states(await examined(TELEGRAM, {})) == [("telegram", CheckState.WRONG)]
    assert states(await examined(TELEGRAM, {"/bot123:quiet/getMe": (200, body)})) == [("telegram", CheckState.WRONG)]


async def test_a_channel_without_its_token_is_wrong_without_a_call() -> None:
    found = await examined({"TRIVET_CHANNELS__SLACK__ENABLED": "true"}, {})
    assert states(found) == [("slack", CheckState.WRONG)]
    assert "channels.slack.bot_token and channels.slack.app_token" in found[0].seen


@pytest.mark.parametrize(("make", "healthy"), [(ok, True), (wrong, False), (warning, True)])
def test_only_what_is_wrong_makes_the_patient_ill(make: Callable[..., CheckResult], healthy: bool) -> None:
    finding = make("name", "seen") if make is ok else make("name", "seen", "do this")
    assert is_healthy([ok("a", "b"), finding]) is healthy
    assert ("-> do this" in as_table([finding])) is (make is not ok)


CALLED = {
    "TRIVET_HTTP__PUBLIC_URL": "https://bot.example",
    "TRIVET_CHANNELS__TELEGRAM__MODE": "webhook",
    "TRIVET_CHANNELS__SLACK__MODE": "events",
    "TRIVET_CHANNELS__SLACK__SIGNING_SECRET": "0123456789abcdef0123456789abcdef",
    "TRIVET_CHANNELS__DISCORD__INTERACTIONS": "http",
    "TRIVET_CHANNELS__DISCORD__PUBLIC_KEY": "ab" * 32,
}


def called(hook: Mapping[str, Any], application: Mapping[str, Any]) -> Answers:
    """What the platforms say of a Trivet that they call."""
    return {
        "/bot123:quiet/getMe": (200, {"ok": True, "result": {"username": "trivet_bot"}}),
        "/bot123:quiet/getWebhookInfo": (200, {"ok": True, "result": hook}),
        "/api/v10/users/@me": (200, {"username": "trivet"}),
        "/api/v10/oauth2/applications/@me": (200, {"flags": 1 << 19, **application}),
        "/api/auth.test": (200, {"ok": True, "user": "trivet", "team": "Boats"}),
    }


async def test_platforms_that_reach_us_are_well() -> None:
    found = await examined(
        TELEGRAM | DISCORD | SLACK | CALLED,
        called(
            {"url": "https://bot.example/webhooks/telegram", "pending_update_count": 0},
            {"verify_key": "ab" * 32, "interactions_endpoint_url": "https://bot.example/webhooks/discord"},
        ),
    )
    assert {finding.state for finding in found} == {CheckState.OK}


async def test_platforms_that_do_not_reach_us_are_named() -> None:
    found = await examined(
        TELEGRAM | DISCORD | SLACK | CALLED | {"TRIVET_CHANNELS__SLACK__SIGNING_SECRET": "xoxb-copied-from-elsewhere"},
        called(
            {
                "url": "https://bot.example/webhooks/telegram",
                "pending_update_count": 3,
                "last_error_message": "Connection timed out",
            },
            {"verify_key": "cd" * 32},
        ),
    )
    assert [row for row in states(found) if row[1] is not CheckState.OK] == [
        ("telegram", CheckState.WRONG),
        ("discord", CheckState.WRONG),
        ("slack", CheckState.WARNING),
    ]
    assert "Connection timed out" in as_table(found)
