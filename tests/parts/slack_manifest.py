"""What `deploy/slack-manifest.yaml` asks a workspace for: the emulated one grants just that."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from channels.emulators.slack import SlackSwitches
from channels.emulators.slack.world import SlashCommand

PATH: Final = Path(__file__).parents[2] / "deploy" / "slack-manifest.yaml"
MANIFEST: Final[dict[str, Any]] = yaml.safe_load(PATH.read_text(encoding="utf-8"))

SCOPES: Final = frozenset(MANIFEST["oauth_config"]["scopes"]["bot"])
EVENTS: Final = frozenset(MANIFEST["settings"]["event_subscriptions"]["bot_events"])


def as_installed() -> SlackSwitches:
    """A workspace in which the app was installed from the manifest."""
    commands = tuple(
        SlashCommand(each["command"].removeprefix("/"), each["description"], each["usage_hint"])
        for each in MANIFEST["features"]["slash_commands"]
    )
    return SlackSwitches(scopes=SCOPES, subscriptions=EVENTS, slash_commands=commands)
