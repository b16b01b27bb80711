"""The app that the manifest makes may do what we do, and no more than that."""

from __future__ import annotations

import re
from pathlib import Path

import channels.slack
from channels.emulators.slack import SlackEmulator
from channels.slack.normalize import SLASH
from tests.parts.slack_manifest import EVENTS, MANIFEST, SCOPES

_CALL = re.compile(r"client(?:\(\))?\.([a-z]+_[a-zA-Z_]+)\b")
_NOT_OF_SLACK = {
    "bot_token",
    "current_session",
    "is_connected",
    "issue_new_wss_url",
    "message_listeners",
    "send_socket_mode_response",
    "wss_uri",
}
_WITHOUT_A_CALL = {"app_mentions:read", "commands", "files:read", "assistant:write"}
"""What events, slash commands, private files and the agent view need."""


def methods_called() -> dict[str, tuple[str, ...]]:
    """Every method of the Web API in our code, and the scopes of which it needs one."""
    known = SlackEmulator(bot_token="xoxb-1", app_token="xapp-1").web_api.methods
    by_name = {name.replace(".", "_"): name for name in known}
    folder = Path(channels.slack.__path__[0])
    called = {match for path in folder.glob("*.py") for match in _CALL.findall(path.read_text(encoding="utf-8"))}
    return {by_name[name]: known[by_name[name]].scopes for name in called - _NOT_OF_SLACK}


def test_every_call_of_ours_is_allowed_by_the_manifest() -> None:
    called = methods_called()
    assert {"chat.postMessage", "chat.appendStream", "users.info", "conversations.replies"} <= called.keys()
    assert [name for name, scopes in called.items() if scopes and not SCOPES & set(scopes)] == []


def test_the_manifest_asks_for_nothing_that_we_do_not_use() -> None:
    used = {scope for scopes in methods_called().values() for scope in scopes}
    assert used | _WITHOUT_A_CALL >= SCOPES


def test_the_manifest_has_what_people_see() -> None:
    (slash,) = MANIFEST["features"]["slash_commands"]
    assert slash["command"] == SLASH
    assert MANIFEST["features"]["app_home"]["messages_tab_enabled"] is True
    assert MANIFEST["features"]["app_home"]["messages_tab_read_only_enabled"] is False
    assert {"app_mention", "message.im", "message.mpim", "message.channels", "message.groups"} <= EVENTS
    assert MANIFEST["settings"]["interactivity"]["is_enabled"] is True
