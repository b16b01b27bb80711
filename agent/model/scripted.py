"""`demo/scripted`: the honest demo model. Offline and deterministic; every reply says what it is.

It streams, uses markdown, makes titles, summaries and plans, calls tools when told to, and fails when told
to, so that everything around a model can be tried without one. The first word of a message chooses:

    say TEXT · long N · markdown · history · slow SECONDS [WHAT] · fail [kind] · tool NAME {json}
    remember FACT · recall WORDS · todo TASK
    an image, a document, a recording: it says what it got, which is a place and a size, and for a text its first line
    split TASK | TASK … (sub-agents in parallel) · spawn TASK | TASK … (in the background, then it waits for them)

A sub-agent does the same with its task; `explore:` or another type in front of a task chooses who does it. Anything
else is answered by repeating it. `slow 5 long 3000` does the latter within five seconds. `demo/scripted@500ms` waits
that long before it answers.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agent.model.client import (
    ModelAnswer,
    ModelEvent,
    ModelFacts,
    ModelRequest,
    PromptMessage,
    RequestedCall,
    TextDelta,
    TokenCount,
    request_chars,
)
from agent.tokens import estimate_tokens
from gateway.contracts.entries import Role, UsagePurpose
from gateway.contracts.errors import ConfigError, ContextTooLong, ModelError, ModelRejected, ModelUnavailable

PREFIX: Final = "demo/"
SIGNATURE: Final = "_Demo model: scripted, no AI behind it._"
_PREAMBLE: Final = re.compile(r"\A(?:<([\w-]+)>.*?</\1>\s*)+", re.DOTALL)
_NOTE: Final = re.compile(r"<tool-failures>.*</tool-failures>\Z", re.DOTALL)
_FRAME: Final = re.compile(r"<foreign mark=(\w+)>\n[^\n]*\n(.*?)\n</foreign mark=\1>", re.DOTALL)
_WOKEN: Final = re.compile(rf"\(Nobody wrote this: sub-agents[^\n]*\s*{_FRAME.pattern}", re.DOTALL)
_CAME_WITH: Final = re.compile(r"<context>\n.*?\n</context>", re.DOTALL)
_ELEMENT: Final = re.compile(
    r"^<(?P<name>quoted|image|file|voice)(?P<head>[^<>\n]*?)(?:/>|>\n(?P<inside>.*?)\n</(?P=name)>)",
    re.DOTALL | re.MULTILINE,
)
_ATTRIBUTE: Final = re.compile(r'(\w+)="([^"]*)"')
_TASK: Final = re.compile(r"(?:(?P<type>[a-z]+):\s*)?(?P<task>.+)", re.DOTALL)
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

_MARKDOWN_SAMPLE: Final = """# A heading

Some **bold**, *italic*, ~~struck~~ and `inline code`, a [link](https://example.org/).

- one
- two
  - nested

1. first
2. second

> A quotation.

```python
def greet(name: str) -> str:
    return f"Hello, {name}!"
```

| platform | limit |
|---|---|
| Telegram | 4096 |
| Discord | 2000 |
"""

_PARAGRAPH: Final = (
    "This paragraph is number {number} of a long answer. It exists to be split at a sensible place, "
    "neither inside a word nor inside a block of code, and to arrive complete and in order.\n\n"
)


def latency_s(model: str) -> float:
    """The latency in seconds that a demo model's name asks for. Raises `ConfigError`."""
    match = _NAME.fullmatch(model)
    if match is None:
        raise ConfigError(f"{model!r} is no demo model; write demo/scripted or demo/scripted@500ms")
    return int(match["latency_ms"] or 0) / 1000


@dataclass(frozen=True, slots=True)
class _Script:
    """What the model has decided to do: a text or tool calls."""

    text: str = ""
    calls: tuple[RequestedCall, ...] = ()


class ScriptedClient:
    """`ModelClient` without a model."""

    def facts(self, model: str) -> ModelFacts:
        """A small window, so that compaction can be seen in a demo."""
        return ModelFacts(provider=PREFIX, context_window=_WINDOW, output_max=_OUTPUT_MAX)

    def check_name(self, model: str) -> None:
        """`demo/scripted`, with or without a latency."""
        latency_s(model)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The scripted answer in small deltas. Raises what `fail` asks for."""
        await asyncio.sleep(latency_s(request.model))
        script = _SCRIPTS[request.purpose](request)
        slow_s = _slowness_s(request)
        size = _SLOW_DELTA_CHARS if slow_s and len(script.text) <= _SLOW_FINE_CHARS_MAX else _DELTA_CHARS
        pieces = [script.text[at : at + size] for at in range(0, len(script.text), size)]
        for piece in pieces:
            await asyncio.sleep(slow_s / len(pieces))
            yield TextDelta(piece)
        prompt = request_chars(request.system, request.messages) // 4
        yield ModelAnswer(
            text=script.text,
            calls=script.calls,
            finish_reason="tool_calls" if script.calls else "stop",
            tokens=TokenCount(prompt=prompt, completion=estimate_tokens(script.text)),
            cost_usd=0.0,
            model=request.model,
        )

    async def close(self) -> None:
        """Nothing is open."""


def _newest_request(request: ModelRequest) -> tuple[str, tuple[PromptMessage, ...]]:
    """The newest user message without its preamble, and what has happened since: a note on failures asks nothing."""
    at = _newest_at(request)
    return _without_preamble(request.messages[at].text), request.messages[at + 1 :]


def _newest_message(request: ModelRequest) -> PromptMessage:
    return request.messages[_newest_at(request)]


def _newest_at(request: ModelRequest) -> int:
    asked = (at for at, each in enumerate(request.messages) if each.role is Role.USER and not _NOTE.match(each.text))
    return max(asked)


def _without_preamble(text: str) -> str:
    """The user's own words: blocks in angle brackets in front of them are the gateway's, and all that came along."""
    return _PREAMBLE.sub("", _CAME_WITH.sub("", text)).strip()


def _slowness_s(request: ModelRequest) -> float:
    said, since = _newest_request(request)
    if request.purpose not in _SPEAKING or since:
        return 0.0
    match = re.match(r"slow\s+(\d+(?:\.\d+)?)", said, re.IGNORECASE)
    return min(float(match[1]), _SLOW_MAX_S) if match else 0.0


def _title(request: ModelRequest) -> _Script:
    words = re.findall(r"\w[\w'-]*", _newest_request(request)[0])
    title = " ".join(words[:_TITLE_WORDS])
    return _Script(title[:1].upper() + title[1:])


def _summary(request: ModelRequest) -> _Script:
    """What was asked, newest last, and what an earlier summary says of it."""
    earlier, _, conversation = request.messages[-1].text.rpartition("</earlier-summary>")
    carried = re.findall(r"^- (.+)$", earlier, re.MULTILINE)
    asked = [line[:_SUMMARY_LINE_CHARS] for line in re.findall(r"^User: (.+)$", conversation, re.MULTILINE)]
    lines = "".join(f"\n- {line}" for line in [*carried, *asked][-_SUMMARY_LINES:])
    return _Script(f"Goal: a talk with the demo model.\nProgress:{lines}\nDecisions: none.\nNext steps: none.")


def _facts(request: ModelRequest) -> _Script:
    """Every line in which the user speaks of himself."""
    said = re.findall(r"^User: ((?:my|i am|i'm|i) .+)$", request.messages[-1].text, re.IGNORECASE | re.MULTILINE)
    return _Script("\n".join(json.dumps({"fact": line.strip()}, ensure_ascii=False) for line in said))


def _turn(request: ModelRequest) -> _Script:
    said, since = _newest_request(request)
    results = [message for message in since if message.role is Role.TOOL]
    if said.lower().startswith("spawn ") and _called(since) == {"sub_agent_spawn"}:
        return _Script(calls=(_calling("sub_agent_wait", {"mode": "all"}),))
    if results:
        who = "sub-agents" if _called(since) & {"sub_agent", "sub_agent_wait"} else "tool"
        return _signed(f"The {who} answered:\n\n" + "\n\n".join(_quoted(result.text) for result in results))
    if woken := _WOKEN.match(said):
        return _signed(f"The sub-agents in the background have ended:\n\n{_quoted(woken[2])}")
    word, _, rest = said.partition(" ")
    behave = _BEHAVIOURS.get(word.lower().rstrip(":"))
    if behave:
        return behave(rest.strip(), request)
    got = _what_came(_newest_message(request).text)
    return _signed("\n\n".join((*got, *((f"You said: {said}",) if said or not got else ()))))


def _what_came(text: str) -> list[str]:
    """What came along with the newest messages, as far as somebody without eyes and ears can tell."""
    elements = (match for context in _CAME_WITH.findall(text) for match in _ELEMENT.finditer(context))
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


def _signed(text: str) -> _Script:
    return _Script(f"{text.rstrip()}\n\n{SIGNATURE}")


def _quoted(text: str) -> str:
    """As a quotation, without the frame that tells models who wrote it."""
    return "\n".join(f"> {line}" for line in _FRAME.sub(r"\2", text).splitlines())


def _say(rest: str, _request: ModelRequest) -> _Script:
    return _signed(rest or "…")


def _long(rest: str, _request: ModelRequest) -> _Script:
    match = re.match(r"\d+", rest)
    size = min(int(match[0]) if match else 6_000, _LONG_MAX)
    code = "".join(f"line_{number} = {number}\n" for number in range(1, 41))
    text = f"A long answer of about {size} characters.\n\n```python\n{code}```\n\n"
    number = 0
    while len(text) < size:
        number += 1
        text += _PARAGRAPH.format(number=number)
    return _signed(f"{text}The end of the long answer.")


def _markdown(_rest: str, _request: ModelRequest) -> _Script:
    return _signed(_MARKDOWN_SAMPLE)


def _history(_rest: str, request: ModelRequest) -> _Script:
    asked = [_without_preamble(message.text) for message in request.messages if message.role is Role.USER]
    lines = "\n".join(f"{number}. {text[:120]}" for number, text in enumerate(asked, 1))
    return _signed(f"I can see {len(asked)} message(s) of yours:\n\n{lines}")


def _slow(rest: str, request: ModelRequest) -> _Script:
    seconds, _, what = rest.partition(" ")
    word, _, more = what.strip().partition(" ")
    behave = _BEHAVIOURS.get(word.lower()) if word.lower() != "slow" else None
    return behave(more.strip(), request) if behave else _signed(f"That took {seconds or '0'} seconds, as you wished.")


def _fail(rest: str, _request: ModelRequest) -> _Script:
    failures: Mapping[str, Callable[[], ModelError]] = {
        "busy": lambda: ModelUnavailable("the demo model was told to be overloaded"),
        "long": lambda: ContextTooLong("the demo model was told that the prompt is too long"),
    }
    make = failures.get(rest.lower(), lambda: ModelRejected("the demo model was told to fail"))
    raise make()


def _tool(rest: str, _request: ModelRequest) -> _Script:
    name, _, arguments = rest.partition(" ")
    return _call(name, arguments or "{}")


def _remember(rest: str, _request: ModelRequest) -> _Script:
    return _call("remember", json.dumps({"fact": rest}, ensure_ascii=False))


def _recall(rest: str, _request: ModelRequest) -> _Script:
    return _call("recall", json.dumps({"query": rest}, ensure_ascii=False))


def _todo(rest: str, _request: ModelRequest) -> _Script:
    task = {"text": rest, "state": "pending"}
    return _call("todo_write", json.dumps({"todos": [task]}, ensure_ascii=False))


def _split(rest: str, _request: ModelRequest) -> _Script:
    return _sub_agents("sub_agent", rest)


def _spawn(rest: str, _request: ModelRequest) -> _Script:
    return _sub_agents("sub_agent_spawn", rest)


def _sub_agents(tool: str, rest: str) -> _Script:
    """One call for each task."""
    tasks = [_TASK.fullmatch(task.strip()) for task in rest.split("|") if task.strip()]
    orders = [{"type": match["type"] or "explore", "task": match["task"]} for match in tasks if match]
    calls = tuple(_calling(tool, order, number) for number, order in enumerate(orders, 1))
    return _Script(calls=calls) if calls else _signed("There is nothing to split: write `split TASK | TASK`.")


def _calling(tool: str, arguments: Mapping[str, str], number: int = 1) -> RequestedCall:
    return RequestedCall(f"call_{tool}_{number}", tool, json.dumps(arguments, ensure_ascii=False))


def _called(messages: Sequence[PromptMessage]) -> set[str]:
    return {call.name for message in messages for call in message.tool_calls}


def _plan(request: ModelRequest) -> _Script:
    task, _ = _newest_request(request)
    step = {"depends_on": [], "risks": [], "rollback": "Nothing needs to be undone.", "detail": SIGNATURE}
    steps = [{"id": "S1", "title": "Look at it"} | step, {"id": "S2", "title": "Do it"} | step | {"depends_on": ["S1"]}]
    return _Script(json.dumps({"goal": task[:200], "steps": steps}, ensure_ascii=False))


def _unseen(_request: ModelRequest) -> _Script:
    return _signed("An image that nobody has looked at.")


def _call(name: str, arguments: str) -> _Script:
    return _Script(calls=(RequestedCall(id=f"call_{name}", name=name, arguments=arguments),))


_BEHAVIOURS: Final[Mapping[str, Callable[[str, ModelRequest], _Script]]] = {
    "say": _say,
    "long": _long,
    "markdown": _markdown,
    "history": _history,
    "slow": _slow,
    "fail": _fail,
    "tool": _tool,
    "remember": _remember,
    "recall": _recall,
    "todo": _todo,
    "split": _split,
    "spawn": _spawn,
}
_SCRIPTS: Final[Mapping[UsagePurpose, Callable[[ModelRequest], _Script]]] = {
    UsagePurpose.TURN: _turn,
    UsagePurpose.TITLE: _title,
    UsagePurpose.COMPACTION: _summary,
    UsagePurpose.MEMORY: _facts,
    UsagePurpose.PLAN: _plan,
    UsagePurpose.SUBAGENT: _turn,
    UsagePurpose.VISION: _unseen,
}
