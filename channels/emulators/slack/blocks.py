"""Block Kit, as far as messages need it: what Slack rejects, and the text inside. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from channels.emulators.slack.errors import Refused, invalid_blocks
from channels.emulators.traffic import Json

BLOCKS_MAX: Final = 50
MARKDOWN_MAX: Final = 12_000  # over all markdown blocks of a message
ALL_TEXT_MAX: Final = 13_200  # observed
SECTION_MAX: Final = 3000
FIELDS_MAX: Final = 10
FIELD_MAX: Final = 2000
HEADER_MAX: Final = 150
CONTEXT_MAX: Final = 10
ACTIONS_MAX: Final = 25
BUTTON_MAX: Final = 75
VALUE_MAX: Final = 2000
ID_MAX: Final = 255
ROWS_MAX: Final = 100
COLUMNS_MAX: Final = 20

_KNOWN: Final = frozenset(
    {
        "section",
        "header",
        "divider",
        "context",
        "actions",
        "image",
        "input",
        "video",
        "file",
        "rich_text",
        "markdown",
        "table",
        "data_table",
        "context_actions",
        "call",
        "plan",
        "task_card",
    }
)
_TEXTS: Final = frozenset({"plain_text", "mrkdwn"})


def check(blocks: object, *, knows_markdown: bool) -> list[Json]:
    """The blocks, or `Refused`: `invalid_blocks_format`, `invalid_blocks`, `msg_blocks_too_long`."""
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise Refused("invalid_blocks_format")
    if len(blocks) > BLOCKS_MAX:
        raise invalid_blocks(f"no more than {BLOCKS_MAX} items allowed [json-pointer:/blocks]")
    problems = [
        f"{problem} [json-pointer:/blocks/{number}]"
        for number, block in enumerate(blocks)
        for problem in _problems(block, knows_markdown=knows_markdown)
    ]
    if sum(block.get("type") == "table" for block in blocks) > 1:
        problems.append("only_one_table_allowed [json-pointer:/blocks]")
    if problems:
        raise invalid_blocks(*problems)
    markdown = sum(len(str(block.get("text"))) for block in blocks if block.get("type") == "markdown")
    if markdown > MARKDOWN_MAX or sum(len(text) for block in blocks for text in texts(block)) > ALL_TEXT_MAX:
        raise Refused("msg_blocks_too_long")
    return blocks


def _problems(block: Json, *, knows_markdown: bool) -> Iterator[str]:
    kind = block.get("type")
    if kind not in _KNOWN or (kind == "markdown" and not knows_markdown):
        yield f"unsupported type: {kind}"
    elif len(str(block.get("block_id", ""))) > ID_MAX:
        yield f"must be less than {ID_MAX + 1} characters"
    elif kind == "section":
        yield from _section(block)
    elif kind == "header":
        yield from _text(block.get("text"), HEADER_MAX, {"plain_text"})
    elif kind == "markdown":
        if not isinstance(block.get("text"), str) or not block["text"]:
            yield "missing required field: text"
    elif kind == "context":
        yield from _count(block.get("elements"), CONTEXT_MAX)
    elif kind == "actions":
        yield from _count(block.get("elements"), ACTIONS_MAX)
        for element in block.get("elements") or []:
            yield from _button(element)
    elif kind == "table":
        yield from _table(block)
    elif kind == "rich_text" and not isinstance(block.get("elements"), list):
        yield "missing required field: elements"


def _section(block: Json) -> Iterator[str]:
    if "text" not in block and "fields" not in block:
        yield "missing required field: text"
    if "text" in block:
        yield from _text(block["text"], SECTION_MAX, _TEXTS)
    if "fields" in block:
        yield from _count(block["fields"], FIELDS_MAX)
        for item in block["fields"] or []:
            yield from _text(item, FIELD_MAX, _TEXTS)


def _text(text: object, limit: int, kinds: frozenset[str] | set[str]) -> Iterator[str]:
    if not isinstance(text, dict) or text.get("type") not in kinds:
        yield "invalid text object"
    elif not str(text.get("text", "")):
        yield "must be more than 0 characters"
    elif len(str(text["text"])) > limit:
        yield f"must be less than {limit + 1} characters"


def _count(items: object, limit: int) -> Iterator[str]:
    if not isinstance(items, list) or not items:
        yield "missing required field: elements"
    elif len(items) > limit:
        yield f"no more than {limit} items allowed"


def _button(element: object) -> Iterator[str]:
    if not isinstance(element, dict) or element.get("type") != "button":
        return
    yield from _text(element.get("text"), BUTTON_MAX, {"plain_text"})
    if len(str(element.get("value", ""))) > VALUE_MAX:
        yield f"must be less than {VALUE_MAX + 1} characters"
    if len(str(element.get("action_id", ""))) > ID_MAX:
        yield f"must be less than {ID_MAX + 1} characters"


def _table(block: Json) -> Iterator[str]:
    rows = block.get("rows")
    if not isinstance(rows, list) or not rows:
        yield "missing required field: rows"
    elif len(rows) > ROWS_MAX or any(len(row) > COLUMNS_MAX for row in rows):
        yield f"no more than {ROWS_MAX} rows and {COLUMNS_MAX} columns allowed"


def texts(block: object) -> Iterator[str]:
    """Every text a person would read in a block, in order."""
    if isinstance(block, list):
        for item in block:
            yield from texts(item)
    elif isinstance(block, dict):
        if isinstance(block.get("text"), str):
            yield block["text"]
        for name in ("text", "fields", "elements", "rows", "title"):
            if not isinstance(block.get(name), str):
                yield from texts(block.get(name))


def rich_text(text: str, mentions: list[str]) -> list[Json]:
    """The rich_text block that a person's own client makes of what they typed."""
    elements: list[Json] = []
    rest = text
    for user_id in mentions:
        before, _, rest = rest.partition(f"<@{user_id}>")
        elements += [{"type": "text", "text": before}] * bool(before) + [{"type": "user", "user_id": user_id}]
    elements += [{"type": "text", "text": rest}] * bool(rest)
    section: Json = {"type": "rich_text_section", "elements": elements}
    return [{"type": "rich_text", "block_id": "rt", "elements": [section]}]
