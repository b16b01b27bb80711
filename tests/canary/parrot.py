"""A model that says what it should not: whatever it is asked for, with the canaries of a pack in it."""

from __future__ import annotations

import codecs
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.canary.flock import Canary, text_of
from tests.parts.model_server import Body, call, echo, last_user_text

_ASKED: Final = re.compile(r"(?P<what>[a-z]+) pack (?P<number>\d+)")


class Parrot:
    """`recite pack 3` is answered with its text; `keep`, `list`, `write`, `send`, `run`, `query`, `name` and `fail` are
    tool calls with it, whose results are repeated. Who asks without tools (titles, summaries, memory) is answered
    with one canary after the other."""

    def __init__(self, packs: Sequence[Sequence[Canary]]) -> None:
        self._texts = [text_of(pack) for pack in packs]
        self._singles = itertools.cycle(canary.text for pack in packs for canary in pack)

    def answer(self, body: Body) -> Body:
        """The message of an assistant."""
        newest = body["messages"][-1]
        if newest["role"] == "tool":
            return {"content": f"noted: {newest['content']}"}
        if not body.get("tools"):
            text = next(self._singles)
            return {"content": f"{text}\n{json.dumps({'fact': ' '.join(text.split())})}"}
        asked = _ASKED.search(last_user_text(body))
        if asked is None:
            return echo(body)
        text = self._texts[int(asked["number"])]
        act = _ACTS.get(asked["what"])
        return {"content": f"pack {asked['number']}: {text}"} if act is None else act(text)


def _tool(name: str, **arguments: object) -> Body:
    return call(name, json.dumps(arguments, ensure_ascii=False))


def _spelled(text: str) -> str:
    """A program that prints the text, and in which it does not stand."""
    return f"import codecs; print(codecs.decode({codecs.encode(text, 'rot13')!r}, 'rot13'))"


_ACTS: Final[Mapping[str, Callable[[str], Body]]] = {
    "keep": lambda text: _tool("remember", fact=text),
    "list": lambda text: _tool("todo_write", todos=[{"text": text[:200], "state": "pending"}]),
    "write": lambda text: _tool("file_write", path="notes.txt", content=text),
    "read": lambda _: _tool("file_read", path="raw.txt"),
    "send": lambda text: _tool("send_file", path="raw.txt", caption=text[:400]),
    "run": lambda text: _tool("code_exec", language="python", code=_spelled(text)),
    "query": lambda _: _tool("db_query", database="shop", statement="SELECT note FROM notes"),
    "complain": lambda text: _tool("db_query", database="shop", statement=f"SELECT {text}"),
    "name": lambda text: call(text[:60], "{}", call_id=text[:120]),
    "break": lambda text: call("remember", f'{{"fact": "{text[:300]}'),
}
