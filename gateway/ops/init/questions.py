"""The questions of `trivet init`, in order, and its texts between them. Pure, but that it reads our own files."""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final
from urllib.parse import quote

from gateway.config.catalog import catalog
from gateway.contracts.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SetupQuestion:
    """One setting that somebody has to type. A secret one is not shown while it is typed."""

    key: str
    asks: str
    is_secret: bool = False


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform: how to get a bot there, the settings that Trivet needs, and the steps that remain afterwards.
    `{bot}` in `afterwards` is the platform's name of the bot, `{link}` where to meet it, which is `link` as long as
    nobody could ask; `{manifest}` in `steps` is where Slack makes an app of our manifest."""

    name: str
    title: str
    steps: str
    questions: tuple[SetupQuestion, ...]
    afterwards: str
    link: str


OPENING: Final = (
    "This writes {path}, readable by you alone. Leave an answer empty to pass it over; everything can be changed in "
    "the file."
)

PLATFORMS: Final = (
    Platform(
        "telegram",
        "Telegram",
        "Write /newbot to @BotFather. It asks for a name and gives you a token. For groups, /setprivacy says what the "
        "bot reads there; mentions and replies it always does.",
        (SetupQuestion("channels.telegram.token", "Bot token (empty: no Telegram)", is_secret=True),),
        "Write to {bot}: {link}",
        "in Telegram",
    ),
    Platform(
        "discord",
        "Discord",
        "On discord.com/developers/applications: New Application; on its page Bot switch on the Message Content "
        "Intent; Reset Token shows you the token.",
        (SetupQuestion("channels.discord.token", "Bot token (empty: no Discord)", is_secret=True),),
        "Invite {bot} to a server: {link}",
        "discord.com/developers/applications, page OAuth2, URL Generator, scopes bot and applications.commands, "
        "permissions View Channels, Send Messages, Send Messages in Threads, Create Public Threads, Attach Files and "
        "Read Message History",
    ),
    Platform(
        "slack",
        "Slack",
        "This link makes the app:\n{manifest}\nInstall App gives you the bot token; Basic Information, App-Level "
        "Tokens makes the other one, with connections:write.",
        (
            SetupQuestion("channels.slack.bot_token", "Bot token, xoxb-… (empty: no Slack)", is_secret=True),
            SetupQuestion("channels.slack.app_token", "App-level token, xapp-… (empty: no Slack)", is_secret=True),
        ),
        "Write to {bot}, or /invite it to a channel: {link}",
        "in Slack",
    ),
)

MODEL_TITLE: Final = "The model"
MODEL_STEPS: Final = (
    "Any name that litellm knows: anthropic/claude-sonnet-4-6, openai/gpt-5.4-mini, ollama_chat/llama3.2. With "
    "demo/scripted nobody thinks, for a first look."
)
MODEL: Final = SetupQuestion("agent.model", "Model")
MODEL_KEY: Final = SetupQuestion(
    "agent.api_key", "API key (empty: from the environment, or none is needed)", is_secret=True
)
MODEL_BASE: Final = SetupQuestion("agent.api_base", "Address of its API (empty: the provider's own)")

PRESET_TITLE: Final = "For whom"
PRESET_STEPS: Final = (
    "me: your own assistant, with the web, files and code in the sandbox for admins. team: the same for every member. "
    "community: members talk and read, with small limits; nobody of them writes, runs code or goes to the web."
)
PRESET: Final = SetupQuestion("preset", "me, team or community")

ADMINS_TITLE: Final = "You"
ADMINS_STEPS: Final = (
    "Who may let strangers in and change limits from the chat, as session keys: telegram:123456789, "
    "discord:987654321, slack:U123ABC. Leave it empty if you do not know yours: `trivet pair list` will show it."
)
ADMINS: Final = SetupQuestion("access.admins", "Admins, with commas between them (empty: nobody yet)")

CHECK: Final = "trivet doctor    looks at everything once more"
START: Final = "trivet up        starts everything on this machine"
CHAT: Final = "trivet chat      talks to the agent in this terminal"
LET_IN: Final = "Who writes first gets a code: `trivet pair CODE admin` lets you in."


# The files of `deploy/`: beside the source in a clone, with the installed package's data elsewhere.


_PLACES: Final = (
    Path(__file__).parents[3] / "deploy",
    Path(sysconfig.get_path("data")) / "share" / "trivet" / "deploy",
)


def deploy_file(name: str) -> Path:
    """Return where a file or folder of `deploy/` is. Raises `ConfigError` when this installation has none."""
    found = next((folder / name for folder in _PLACES if (folder / name).exists()), None)
    if found is None:
        raise ConfigError(f"deploy/{name} is not part of this installation: install Trivet again")
    return found


def slack_manifest_link() -> str:
    """Return the address under which Slack makes an app of our manifest: docs.slack.dev/app-manifests, "Sharing
    manifests"."""
    lines = deploy_file("slack-manifest.yaml").read_text("utf-8").splitlines()
    manifest = "\n".join(line.partition(" #")[0] for line in lines if not line.startswith("#"))
    return f"https://api.slack.com/apps?new_app=1&manifest_yaml={quote(manifest, safe='')}"


# The text of a configuration file from answers. Pure.


_HEAD = "# Written by `trivet init`. `trivet config schema` says what else there is."


def configuration_text(answers: Mapping[str, str]) -> str:
    """Write TOML for settings by their keys, each a text or, where the setting is a list, texts with commas between
    them."""
    rows = sorted((key.rpartition(".")[0], key, text) for key, text in answers.items())
    tables = [
        "\n".join(
            (
                *([f"[{table}]"] if table else []),
                *(f"{key.rpartition('.')[2]} = {_value(key, text)}" for _, key, text in of_table),
            )
        )
        for table, of_table in groupby(rows, key=lambda row: row[0])
    ]
    return "\n\n".join((_HEAD, *tables)) + "\n"


def _value(key: str, text: str) -> str:
    if catalog()[key].is_list:
        return f"[{', '.join(_quoted(each.strip()) for each in text.split(',') if each.strip())}]"
    return _quoted(text)


def _quoted(text: str) -> str:
    """Write a basic string of TOML, which JSON writes alike but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
