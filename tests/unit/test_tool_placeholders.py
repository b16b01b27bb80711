"""A placeholder never gets where a secret belongs: the registry refuses the call, and says what to do instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.tools.files.tools import WRITING
from agent.tools.files.workspace import Workspaces
from agent.tools.policy import Policy, Risk
from agent.tools.toolbox import offered_files, open_toolbox
from gateway.clock import SystemClock
from gateway.config.loader import load_settings
from gateway.contracts.ids import WORKSPACES, SessionKey
from gateway.scrub import Scrubber
from gateway.store.foreign import ForeignDatabases
from tests.parts.tooling import People, file_threads, registry, run, tool
from tests.scrubbing import draw

MADE = "[redacted:openai#a1b2c3]"
SECRET = draw("ghp_<base62:36>", seed=7)


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": MADE},
        {"text": f"curl -H 'Authorization: Bearer {MADE}'"},
        {"text": "[redacted:openai]"},
        {"text": "[REDACTED:openai#...]"},
        {"list": ["fine", {"deep": [f"x{MADE}y"]}]},
        {"object": {MADE: 1}},
    ],
)
async def test_wherever_it_stands_the_tool_is_not_run(arguments: dict[str, Any]) -> None:
    ran: dict[str, object] = {}
    tools = registry(tool("act", lambda given: str(ran.setdefault("with", given))))
    result = await run(tools, "act", **arguments)
    assert result.is_error
    assert not ran
    assert f"in `{next(iter(arguments))}` stands for a secret" in result.text
    assert "is not available to act, and nothing was done" in result.text


@pytest.mark.parametrize("text", ["[REDACTED]", "redacted:openai#a1b2c3", "[redacted] [x]", "arr[redacted]", "***"])
async def test_words_that_are_no_placeholder_are_no_reason_to_refuse(text: str) -> None:
    assert not (await run(registry(tool("act")), "act", text=text)).is_error


async def test_nobody_is_asked_about_a_call_that_is_refused_anyway() -> None:
    people = People()
    tools = registry(tool("act", risk=Risk.WRITE), policy=Policy(), approvals=people)
    assert (await run(tools, "act", text=MADE)).is_error
    assert not people.asked


async def test_a_tool_that_only_quotes_gets_it_letter_for_letter() -> None:
    tools = registry(tool("recall", lambda given: given["query"], quotes=True))
    assert (await run(tools, "recall", query=f"what is {MADE}")).text == f"what is {MADE}"


async def test_only_tools_that_read_search_or_tell_the_user_quote(tmp_path: Path) -> None:
    """Everything else that writes, executes or sends, and whatever is added, refuses by default."""
    async with open_toolbox(
        load_settings(None, {}).settings.tools,
        workspaces=Workspaces(tmp_path / WORKSPACES),
        own=(),
        databases=ForeignDatabases({"shop": "sqlite+aiosqlite:///shop.db"}),
        scrubber=Scrubber(),
        clock=SystemClock(),
    ) as tools:
        refusing = {
            spec.name
            for spec in tools.specs
            if "is not available" in (await run(tools, spec.name, **every_argument(spec.schema))).text
        }
        quoting = {spec.name for spec in tools.specs if spec.schema["properties"]} - refusing
    assert quoting == {"file_read", "file_list", "file_tree", "file_info", "file_search", "send_file"}


async def test_a_file_is_mended_around_its_secret(tmp_path: Path) -> None:
    """The whole way of a model that reads a file with a key in it, copies it back, and follows the advice."""
    workspaces = Workspaces(tmp_path)
    tools = registry(*offered_files(WRITING, workspaces, file_threads()))
    file = workspaces.of(SessionKey.parse("telegram:1")).files / "env"
    file.write_text(before := f"HOST=old\nTOKEN={SECRET}\nPORT=1\n")
    seen = Scrubber().scrub(before)
    assert SECRET not in seen

    copied = await run(tools, "file_write", path="env", content=seen.replace("old", "new"))
    assert "would destroy it" in copied.text
    line = seen.splitlines()[1]
    edited = await run(tools, "file_edit", path="env", old=f"HOST=old\n{line}", new=f"HOST=new\n{line}")
    assert "is not found in it" in edited.text
    patch = f"--- env\n+++ env\n@@ -1,2 +1,2 @@\n-HOST=old\n+HOST=new\n {line}\n"
    assert "not even around the change" in (await run(tools, "file_patch", patch=patch)).text
    assert file.read_text() == before

    assert not (await run(tools, "file_edit", path="env", old="HOST=old", new="HOST=new")).is_error
    assert file.read_text() == before.replace("old", "new")


def every_argument(schema: Any) -> dict[str, Any]:
    """Arguments that pass the schema, with a placeholder in every text that may be any text."""
    return {name: _value(part) for name, part in schema["properties"].items()}


def _value(part: Any) -> Any:
    match part:
        case {"enum": [first, *_]}:
            return first
        case {"type": "string"}:
            return MADE
        case {"type": "array", "items": items}:
            return [_value(items)]
        case {"type": "object"}:
            return every_argument(part) if "properties" in part else {}
        case {"type": "boolean"}:
            return True
        case _:
            return part.get("minimum", 1)
