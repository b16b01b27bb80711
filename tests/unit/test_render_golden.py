"""Every construct of CommonMark on every platform, as golden files a person can read.

`tests/golden/render/<construct>/source.md` beside `telegram.txt`, `discord.txt` and `slack.txt`. After a
wanted change, run with TRIVET_WRITE_GOLDEN=1 and read the difference before committing it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from channels.discord.render import render as render_discord
from channels.slack.render import render as render_slack
from channels.telegram.render import TelegramChunk, TelegramEntity
from channels.telegram.render import render as render_telegram
from gateway.contracts.messages import CleanText

FOLDER = Path(__file__).parent.parent / "golden" / "render"
CONSTRUCTS = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
BETWEEN = "\n======== next message ========\n"


def _entity(chunk: TelegramChunk, entity: TelegramEntity) -> str:
    data = chunk.text.encode("utf-16-le")[2 * entity.offset : 2 * (entity.offset + entity.length)]
    extra = " ".join(filter(None, (entity.url, entity.language)))
    head = f"{entity.type} {entity.offset}+{entity.length}"
    return " ".join(filter(None, (head, extra, repr(data.decode("utf-16-le")))))


def _telegram(text: CleanText) -> str:
    chunks = render_telegram(text)
    return BETWEEN.join(
        "\n".join((chunk.text, "--------", *(_entity(chunk, e) for e in chunk.entities))) for chunk in chunks
    )


def _discord(text: CleanText) -> str:
    return BETWEEN.join(chunk.content for chunk in render_discord(text))


def _slack(text: CleanText) -> str:
    return BETWEEN.join(chunk.text for chunk in render_slack(text))


PLATFORMS: dict[str, Callable[[CleanText], str]] = {"telegram": _telegram, "discord": _discord, "slack": _slack}


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_a_construct_looks_as_agreed(construct: str, platform: str) -> None:
    """The mapping table, row by row."""
    source = (FOLDER / construct / "source.md").read_text()
    golden = FOLDER / construct / f"{platform}.txt"
    rendered = PLATFORMS[platform](CleanText(source)) + "\n"
    if os.environ.get("TRIVET_WRITE_GOLDEN"):
        golden.write_text(rendered)
    assert rendered == golden.read_text()
