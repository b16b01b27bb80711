"""The demo model `demo/scripted`: offline and deterministic; every reply says what it is."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Final

from agent.models import requests
from agent.models.demo_subagents import (
    STRATEGIES,
    DemoPart,
    demo_tasks,
    orchestration,
    orders,
    part_played,
    quoted,
    report,
    strategy_report,
    watched,
)
from agent.tokens import estimate_tokens
from gateway.contracts.errors import ConfigError, ContextTooLong, ModelError, ModelUnavailable
from gateway.contracts.sessions import Role, UsagePurpose

_TEXTS: Final[Mapping[str, str]] = tomllib.loads(resources.files(__package__).joinpath("demo.toml").read_text("utf-8"))
HELP: Final = _TEXTS["help"].strip()
"""What it says of itself when somebody asks."""
MARKDOWN: Final = _TEXTS["markdown"]
PARAGRAPH: Final = _TEXTS["paragraph"]
HINT: Final = "Write `help` to see what I can show you."
WORDS: Final = frozenset({"help", "?", "hilfe", "ayuda", "помощь", "справка", "帮助"})
"""The messages that show the help."""


# What came along with a message, as far as somebody without eyes and ears can tell. Pure.


CAME_WITH: Final = re.compile(r"<context>\n.*?\n</context>", re.DOTALL)
_ELEMENT: Final = re.compile(
    r"^<(?P<name>quoted|image|file|voice)(?P<head>[^<>\n]*?)(?:/>|>\n(?P<inside>.*?)\n</(?P=name)>)",
    re.DOTALL | re.MULTILINE,
)
_ATTRIBUTE: Final = re.compile(r'(\w+)="([^"]*)"')


def what_came(text: str) -> list[str]:
    """Describe in a sentence each thing that came with the newest message, whose whole text is `text`."""
    elements = (match for context in CAME_WITH.findall(text) for match in _ELEMENT.finditer(context))
    return [_got(*match.group("name", "head", "inside")) for match in elements]


def _got(name: str, head: str, inside: str | None) -> str:
    told = dict(_ATTRIBUTE.findall(head))
    first_line = next((line for line in (inside or "").splitlines() if line.strip()), "")
    if name == "quoted":
        return f"You quoted {told.get('by') or 'somebody'}: {first_line}"
    if "path" not in told:
        return f"I got no file: {first_line}"
    kind = f"{told['type'].rpartition('/')[2].upper()}, {told['size']}"
    match name:
        case "image":
            return f"I got an image ({kind})."
        case "voice":
            return f"I got a recording ({kind})."
        case _:
            return f"I got a file ({kind})." + (f" It begins: {first_line}" if first_line else "")


# `demo/scripted`: the honest demo model. Offline and deterministic; every reply says what it is.
#
# It streams, uses markdown, makes titles, summaries and plans, calls tools when told to, and fails when told to, so
# that everything around a model can be tried without one. The first word of a message chooses:
#
#     say TEXT · long N · markdown · history · slow SECONDS [WHAT] · fail [kind] · tool NAME {json}
#     remember FACT · recall WORDS · todo TASK
#     an image, a document, a recording: it says what it got, which is a place and a size, and for a text its first line
#     split TASK | TASK … (sub-agents in parallel) · spawn TASK | TASK … (in the background, then it waits for them)
#     orchestrate STRATEGY TASK | TASK … · help (all of this, for people)
#
# A sub-agent does the same with its task; `explore:` or another type in front of a task chooses who does it. A
# message that asks for sub-agents in plain words gets some, too. Anything else is answered by repeating it. `slow 5
# long 3000` does the latter within five seconds. `demo/scripted@500ms` waits that long before it answers.


PREFIX: Final = "demo/"
SIGNATURE: Final = "_Demo model: scripted, no AI behind it._"
_PREAMBLE: Final = re.compile(r"\A(?:<([\w-]+)>.*?</\1>\s*)+", re.DOTALL)
_BEFORE_NOW: Final = re.compile(r"\A.*^<now>\n[^\n]*\n</now>\s*(?=\S)", re.DOTALL | re.MULTILINE)
_NOTE: Final = re.compile(r"<tool-failures>.*</tool-failures>\Z", re.DOTALL)
_APPROVED: Final = re.compile(r"^The user approved this plan, .*?\n\n(?P<plan>.+)", re.DOTALL | re.MULTILINE)
_STEP: Final = re.compile(r"^\*\*(S\d+)\. (.+?)\*\*", re.MULTILINE)
_FRAME: Final = re.compile(r"<foreign mark=(\w+)>\n[^\n]*\n(.*?)\n</foreign mark=\1>", re.DOTALL)
_WOKEN: Final = re.compile(rf"\(Nobody wrote this: sub-agents[^\n]*\s*{_FRAME.pattern}", re.DOTALL)
_NAME: Final = re.compile(r"demo/scripted(?:@(?P<latency_ms>\d{1,6})ms)?")
_WINDOW: Final = 32_768
_OUTPUT_MAX: Final = 8_192
_DELTA_CHARS: Final = 48
_SLOW_DELTA_CHARS: Final = 4  # about a token: what is slow is to be seen growing
_SLOW_FINE_CHARS_MAX: Final = 2_000  # a longer answer grows visibly by larger pieces
_LONG_MAX: Final = 50_000
_SLOW_MAX_S: Final = 120.0
_TITLE_WORDS: Final = 6
_SUMMARY_LINES: Final = 12
_SUMMARY_LINE_CHARS: Final = 80
_SPEAKING: Final = frozenset({UsagePurpose.TURN, UsagePurpose.SUBAGENT})
"""Calls in which it does what it is told."""


def latency_s(model: str) -> float:
    """Parse the latency in seconds from a demo model's name. Raises `ConfigError`."""
    match = _NAME.fullmatch(model)
    if match is None:
        raise ConfigError(f"{model!r} is no demo model; write demo/scripted or demo/scripted@500ms")
    return int(match["latency_ms"] or 0) / 1000


@dataclass(frozen=True, slots=True)
class _Script:
    """The demo model's decision: a text or tool calls."""

    text: str = ""
    calls: tuple[requests.RequestedCall, ...] = ()


class ScriptedClient:
    """`ModelProvider` without a model."""

    away: Path | None = None
    """As long as this file is there, the model cannot be reached."""

    def facts(self, model: str) -> requests.ModelFacts:
        """Return a small window, so that compaction can be seen in a demo."""
        return requests.ModelFacts(
            provider=PREFIX, api=PREFIX.partition("/")[0], context_window=_WINDOW, output_max=_OUTPUT_MAX
        )

    def check_name(self, model: str) -> None:
        """Check that the name is `demo/scripted`, with or without a latency."""
        latency_s(model)

    async def stream(self, request: requests.ModelRequest) -> AsyncIterator[requests.ModelEvent]:
        """Stream the scripted answer in small deltas. Raises what `fail` asks for, and `ModelUnavailable`."""
        self._check_cable()
        await asyncio.sleep(latency_s(request.model))
        script = _SCRIPTS[request.purpose](request)
        slow_s = _slowness_s(request)
        size = _SLOW_DELTA_CHARS if slow_s and len(script.text) <= _SLOW_FINE_CHARS_MAX else _DELTA_CHARS
        pieces = [script.text[at : at + size] for at in range(0, len(script.text), size)]
        for piece in pieces:
            await asyncio.sleep(slow_s / len(pieces))
            self._check_cable()
            yield requests.TextDelta(piece)
        prompt = requests.request_chars(request.system, request.messages) // 4
        yield requests.ModelAnswer(
            text=script.text,
            calls=script.calls,
            finish_reason="tool_calls" if script.calls else "stop",
            tokens=requests.TokenCount(prompt=prompt, completion=estimate_tokens(script.text)),
            cost_usd=0.0,
            model=request.model,
        )

    def _check_cable(self) -> None:
        if self.away is not None and self.away.exists():
            raise ModelUnavailable("the cable to the demo model is pulled")

    async def close(self) -> None:
        """Close nothing: the client has no connection."""


def _newest_request(request: requests.ModelRequest) -> tuple[str, tuple[requests.PromptMessage, ...]]:
    """Return the newest user message without its preamble, and the messages after it; a note on failures does not count
    as a user message."""
    at = _newest_at(request)
    return _without_preamble(request.messages[at].text), request.messages[at + 1 :]


def _newest_at(request: requests.ModelRequest) -> int:
    asked = (at for at, each in enumerate(request.messages) if each.role is Role.USER and not _NOTE.match(each.text))
    return max(asked)


def _without_preamble(text: str) -> str:
    """Return the user's own words: blocks in angle brackets in front of them come from the gateway, and so do
    attachments and the notes on earlier turns, which precede the time of day."""
    words = _PREAMBLE.sub("", CAME_WITH.sub("", text)).strip()
    return _BEFORE_NOW.sub("", words)


def _slowness_s(request: requests.ModelRequest) -> float:
    if request.purpose not in _SPEAKING or _newest_request(request)[1]:
        return 0.0
    task = _task(request)
    match = re.match(r"slow\s+(\d+(?:\.\d+)?)", task.task, re.IGNORECASE)
    return min(float(match[1]), _SLOW_MAX_S) if match else task.pause_s


def _task(request: requests.ModelRequest) -> DemoPart:
    """Return the task of the demo model: a sub-agent of a strategy plays its role, any other carries out what the
    message says."""
    said, _ = _newest_request(request)
    played = part_played(said) if request.purpose is UsagePurpose.SUBAGENT else None
    return played or DemoPart(said)


def _title(request: requests.ModelRequest) -> _Script:
    words = re.findall(r"\w[\w'-]*", _newest_request(request)[0])
    title = " ".join(words[:_TITLE_WORDS])
    return _Script(title[:1].upper() + title[1:])


def _summary(request: requests.ModelRequest) -> _Script:
    """Summarize what was asked, newest last, with what an earlier summary says of it."""
    earlier, _, conversation = request.messages[-1].text.rpartition("</earlier-summary>")
    carried = re.findall(r"^- (.+)$", earlier, re.MULTILINE)
    asked = [line[:_SUMMARY_LINE_CHARS] for line in re.findall(r"^User: (.+)$", conversation, re.MULTILINE)]
    lines = "".join(f"\n- {line}" for line in [*carried, *asked][-_SUMMARY_LINES:])
    return _Script(f"Goal: a talk with the demo model.\nProgress:{lines}\nDecisions: none.\nNext steps: none.")


def _facts(request: requests.ModelRequest) -> _Script:
    """Return every line in which the user speaks in the first person."""
    said = re.findall(r"^User: ((?:my|i am|i'm|i) .+)$", request.messages[-1].text, re.IGNORECASE | re.MULTILINE)
    return _Script("\n".join(json.dumps({"fact": line.strip()}, ensure_ascii=False) for line in said))


def _turn(request: requests.ModelRequest) -> _Script:
    said, since = _newest_request(request)
    results = [_heard(message.text) for message in since if message.role is Role.TOOL]
    if approved := _APPROVED.search(said):
        return _worked_off(approved["plan"], _called(since))
    if results:
        return _after_round(said, _called(since), results)
    if woken := _WOKEN.match(said):
        return _signed(report("The sub-agents in the background have ended", [_heard(woken[2])]))
    part = _task(request)
    if part.is_answer:
        return _Script(part.task)
    word, _, rest = part.task.partition(" ")
    behave = _BEHAVIOURS.get(word.lower().rstrip(":"))
    if behave:
        return behave(rest.strip(), request)
    if request.purpose is UsagePurpose.TURN and (wished := demo_tasks(said)):
        tool = "sub_agent_spawn" if wished.in_background else "sub_agent"
        return _sub_agents(tool, watched(wished.parts, _is_told, _types(request)))
    got = what_came(request.messages[_newest_at(request)].text)
    is_new = request.purpose is UsagePurpose.TURN and not any(each.role is Role.ASSISTANT for each in request.messages)
    told = (*got, *((f"You said: {part.task}",) if part.task or not got else ()), *((HINT,) if is_new else ()))
    return _signed("\n\n".join(told))


def _worked_off(plan: str, called: set[str]) -> _Script:
    """Tick off the steps of an approved plan: it is now what the person wants."""
    steps = _STEP.findall(plan)
    if not called:
        todos = [{"text": f"{name}: {title}", "state": "done"} for name, title in steps]
        return _Script(calls=(requests.RequestedCall("call_todo_write", "todo_write", json.dumps({"todos": todos})),))
    done = "\n".join(f"- {name} {title}: done" for name, title in steps)
    return _signed(
        f"You approved the plan, and I have ticked off its steps, which is all that a script can do:\n\n{done}"
    )


def _after_round(said: str, called: set[str], results: Sequence[str]) -> _Script:
    """Continue after a round of tool calls: wait for sub-agents that were started in the background on request, else
    report the results."""
    wished = demo_tasks(said)
    is_waited_for = said.lower().startswith("spawn ") or (wished is not None and wished.in_background)
    if is_waited_for and called == {"sub_agent_spawn"}:
        return _Script(calls=(_calling("sub_agent_wait", {"mode": "all"}),))
    if called & {"sub_agent", "sub_agent_wait"}:
        return _signed(report("The sub-agents answered", results))
    if called == {"orchestrate"}:
        return _signed("\n\n".join(map(strategy_report, results)))
    return _signed("The tool answered:\n\n" + "\n\n".join(map(quoted, results)))


def _signed(text: str) -> _Script:
    return _Script(f"{text.rstrip()}\n\n{SIGNATURE}")


def _heard(text: str) -> str:
    """Strip the frame that tells models who wrote the text, and the signature that every demo answer has."""
    lines = _FRAME.sub(r"\2", text).splitlines()
    return "\n".join(line for line in lines if line.strip() != SIGNATURE).strip()


def _long(rest: str, _request: requests.ModelRequest) -> _Script:
    match = re.match(r"\d+", rest)
    size = min(int(match[0]) if match else 6_000, _LONG_MAX)
    code = "".join(f"line_{number} = {number}\n" for number in range(1, 41))
    text = f"A long answer of about {size} characters.\n\n```python\n{code}```\n\n"
    number = 0
    while len(text) < size:
        number += 1
        text += PARAGRAPH.format(number=number)
    return _signed(f"{text}The end of the long answer.")


def _history(_rest: str, request: requests.ModelRequest) -> _Script:
    asked = [_without_preamble(message.text) for message in request.messages if message.role is Role.USER]
    lines = "\n".join(f"{number}. {text[:120]}" for number, text in enumerate(asked, 1))
    return _signed(f"I can see {len(asked)} message(s) of yours:\n\n{lines}")


def _slow(rest: str, request: requests.ModelRequest) -> _Script:
    seconds, _, what = rest.partition(" ")
    word, _, more = what.strip().partition(" ")
    behave = _BEHAVIOURS.get(word.lower()) if word.lower() != "slow" else None
    if behave:
        return behave(more.strip(), request)
    took = f"took {seconds or '0'} seconds, as you wished."
    return _signed(f"{what.strip()}: that {took}" if what else f"That {took}")


def _fail(rest: str, _request: requests.ModelRequest) -> _Script:
    kinds: Mapping[str, type[ModelError]] = {"busy": ModelUnavailable, "long": ContextTooLong}
    raise kinds.get(rest.lower(), ModelError)("the demo model was told to fail")


def _tool(rest: str, _request: requests.ModelRequest) -> _Script:
    name, _, arguments = rest.partition(" ")
    return _call(name, arguments or "{}")


def _memory(tool: str, argument: str, rest: str, _request: requests.ModelRequest) -> _Script:
    return _call(tool, json.dumps({argument: rest}, ensure_ascii=False))


def _todo(rest: str, _request: requests.ModelRequest) -> _Script:
    task = {"text": rest, "state": "pending"}
    return _call("todo_write", json.dumps({"todos": [task]}, ensure_ascii=False))


def _split(tool: str, rest: str, request: requests.ModelRequest) -> _Script:
    return _sub_agents(tool, orders(rest, _is_told, _types(request)))


def _is_told(task: str) -> bool:
    return task.partition(" ")[0].lower() in _BEHAVIOURS


def _types(request: requests.ModelRequest) -> Sequence[str]:
    return next((spec.schema["properties"]["type"]["enum"] for spec in request.tools if spec.name == "sub_agent"), ())


def _sub_agents(tool: str, wanted: Sequence[Mapping[str, str]]) -> _Script:
    """Call the tool once for each task."""
    calls = tuple(_calling(tool, order, number) for number, order in enumerate(wanted, 1))
    return _Script(calls=calls) if calls else _signed("There is nothing to split: write `split TASK | TASK`.")


def _orchestrate(rest: str, _request: requests.ModelRequest) -> _Script:
    arguments = orchestration(rest)
    if arguments is None:
        return _signed(f"Write `orchestrate STRATEGY A | B | C`, with one of: {', '.join(STRATEGIES)}.")
    return _call("orchestrate", json.dumps(arguments, ensure_ascii=False))


def _calling(tool: str, arguments: Mapping[str, str], number: int = 1) -> requests.RequestedCall:
    return requests.RequestedCall(f"call_{tool}_{number}", tool, json.dumps(arguments, ensure_ascii=False))


def _called(messages: Sequence[requests.PromptMessage]) -> set[str]:
    return {call.name for message in messages for call in message.tool_calls}


def _plan(request: requests.ModelRequest) -> _Script:
    task, _ = _newest_request(request)
    step = {"depends_on": [], "risks": [], "rollback": "Nothing needs to be undone.", "detail": SIGNATURE}
    steps = [{"id": "S1", "title": "Look at it"} | step, {"id": "S2", "title": "Do it"} | step | {"depends_on": ["S1"]}]
    return _Script(json.dumps({"goal": task[:200], "steps": steps}, ensure_ascii=False))


def _call(name: str, arguments: str) -> _Script:
    return _Script(calls=(requests.RequestedCall(id=f"call_{name}", name=name, arguments=arguments),))


_BEHAVIOURS: Final[Mapping[str, Callable[[str, requests.ModelRequest], _Script]]] = {
    "say": lambda rest, _request: _signed(rest or "…"),
    "long": _long,
    "markdown": lambda _rest, _request: _signed(MARKDOWN),
    "history": _history,
    "slow": _slow,
    "fail": _fail,
    "tool": _tool,
    "remember": partial(_memory, "remember", "fact"),
    "recall": partial(_memory, "recall", "query"),
    "todo": _todo,
    "split": partial(_split, "sub_agent"),
    "spawn": partial(_split, "sub_agent_spawn"),
    "orchestrate": _orchestrate,
    **dict.fromkeys(WORDS, lambda _rest, _request: _signed(HELP)),
}
_SCRIPTS: Final[Mapping[UsagePurpose, Callable[[requests.ModelRequest], _Script]]] = {
    UsagePurpose.TURN: _turn,
    UsagePurpose.TITLE: _title,
    UsagePurpose.COMPACTION: _summary,
    UsagePurpose.MEMORY: _facts,
    UsagePurpose.PLAN: _plan,
    UsagePurpose.SUBAGENT: _turn,
    UsagePurpose.VISION: lambda _request: _signed("An image that nobody has looked at."),
}
