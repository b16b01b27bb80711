"""A model that says what it should not: whatever it is asked for, with the canaries of a pack in it."""

from __future__ import annotations

import codecs
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.canary.flock import Canary, beginning_of, text_of
from tests.parts.model_server import Body, call, echo, last_user_text

_ASKED: Final = re.compile(r"(?P<what>[a-z]+) pack (?P<number>\d+)")


class Parrot:
    """`recite pack 3` is answered with its text; `keep`, `list`, `write`, `send`, `run`, `query`, `name` and `fail` are
    tool calls with it, whose results are repeated. Who asks without tools (titles, summaries, memory) is answered
    with one canary after the other."""

    def __init__(self, packs: Sequence[Sequence[Canary]]) -> None:
        self._packs = packs
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
        pack = self._packs[int(asked["number"])]
        act = _ACTS.get(asked["what"])
        return {"content": f"pack {asked['number']}: {text_of(pack)}"} if act is None else act(pack)


def _tool(name: str, **arguments: object) -> Body:
    return call(name, json.dumps(arguments, ensure_ascii=False))


def _spelled(text: str) -> str:
    """A program that prints the text, and in which it does not stand: backwards, too, for digits stay digits."""
    return f"import codecs; print(codecs.decode({codecs.encode(text[::-1], 'rot13')!r}, 'rot13')[::-1])"


_ACTS: Final[Mapping[str, Callable[[Sequence[Canary]], Body]]] = {
    "keep": lambda pack: _tool("remember", fact=text_of(pack)),
    "list": lambda pack: _tool("todo_write", todos=[{"text": beginning_of(pack, 200), "state": "pending"}]),
    "write": lambda pack: _tool("file_write", path="notes.txt", content=text_of(pack)),
    "read": lambda _: _tool("file_read", path="raw.txt"),
    "send": lambda pack: _tool("send_file", path="raw.txt", caption=beginning_of(pack, 400)),
    "run": lambda pack: _tool("code_exec", language="python", code=_spelled(text_of(pack))),
    "query": lambda _: _tool("db_query", database="shop", statement="SELECT note FROM notes"),
    "complain": lambda pack: _tool("db_query", database="shop", statement=f"SELECT {text_of(pack)}"),
    "name": lambda pack: call(beginning_of(pack, 60), "{}", call_id=beginning_of(pack, 120)),
    "break": lambda pack: call("remember", f'{{"fact": "{beginning_of(pack, 300)}'),
}
