"""The demo model as a parent and as a sub-agent: orders, roles, reports. Pure.

Split this over three helpers: count the files, list the folders, find the tests
Use 4 sub-agents in the background to compare frameworks
Teile das auf drei Helfer auf: lies die Dateien; suche die Tests; fasse zusammen"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_SIDE_BY_SIDE: Final = re.compile(
    r"\bin parallel\b|\bat the same time\b|\bside by side\b|\bparallel\b|\bgleichzeitig\b|\ben paralelo\b"
    r"|\bпараллельно\b|\bодновременно\b|并行|同时",
    re.IGNORECASE,
)
_BEHIND: Final = re.compile(
    r"\bin the background\b|\bim hintergrund\b|\ben segundo plano\b|\bв фоне\b|在?后台", re.IGNORECASE
)
_NUMBERS: Final = (
    "two|zwei|dos|два|две|двух|двум|двоих|两|二",
    "three|drei|tres|три|трёх|трех|трём|трем|троих|三",
    "four|vier|cuatro|четыре|четырёх|четырех|四",
    "five|fünf|cinco|пять|пяти|五",
    "six|sechs|seis|шесть|шести|六",
    "seven|sieben|siete|семь|семи|七",
    "eight|acht|ocho|восемь|восьми|八",
    "nine|neun|nueve|девять|девяти|九",
)
_NUMBER: Final = {word: number for number, words in enumerate(_NUMBERS, 2) for word in words.split("|")}
_COUNT: Final = re.compile(
    rf"\b[2-9]\b|[2-9](?=[个位])|\b(?:{'|'.join(_NUMBERS)})\b|[两二三四五六七八九](?=[个位])", re.IGNORECASE
)
_HELPER: Final = re.compile(
    r"\b(?:sub|unter)-?\s?agent\w*|\b(?:суб|под)-?агент\w*|子代理|子智能体"
    rf"|(?:{_COUNT.pattern})\s+(?:helpers|workers|assistants|children|helfern?|gehilfen|ayudantes|помощник\w*)\b"
    r"|[2-9两二三四五六七八九][个位](?:助手|帮手)",
    re.IGNORECASE,
)
_COLON: Final = re.compile(r"[:：]\s*")
_STRONG: Final = re.compile(r"\s*[|;；]\s*|\s*\n\s*(?:[-*•]|\d+[.)])?\s*")
_WEAK: Final = re.compile(r"\s*[,，、]\s*(?:and|und|y|и)?\s+|\s*[,，、]\s*|\s+(?:and|und|y|и)\s+|(?<=\S)和(?=\S)")
_LINK: Final = re.compile(
    r"\A\W*(?:(?:to|for|and|who|which|that|um|zu|und|für|die|der|para|que|y|чтобы|и|для|которые|来|去)\s+|[来去])?",
    re.IGNORECASE,
)
_QUESTION: Final = re.compile(r"[?？]\s*\Z")
_OTHERWISE: Final = 3
_PARTS_MAX: Final = 9


@dataclass(frozen=True, slots=True)
class DemoTasks:
    """The tasks, in parts that do not wait for each other; `in_background`: nobody waits for them."""

    parts: tuple[str, ...]
    in_background: bool = False


def demo_tasks(said: str) -> DemoTasks | None:
    """Read which sub-agents the message wishes for; None where it wishes for none, or only asks about them."""
    is_listed = len(_listed(_behind_colon(said))) > 1
    if not is_listed and (_HELPER.search(said) is None or (_QUESTION.search(said) and not _COUNT.search(said))):
        return None
    if is_listed and _HELPER.search(said) is None and _SIDE_BY_SIDE.search(said) is None:
        return None
    return DemoTasks(parts_of(said), _BEHIND.search(said) is not None)


def parts_of(said: str) -> tuple[str, ...]:
    """Split a job into parts: those that are listed after a colon, else as many as are wished for."""
    parts = _listed(_behind_colon(said))
    if len(parts) > 1:
        return parts
    counted = _COUNT.search(_COLON.split(said, maxsplit=1)[0])
    number = _number(counted[0]) if counted else _OTHERWISE
    job = parts[0] if parts else _job(said)
    return tuple(f"part {at} of {number}: {job}" for at in range(1, number + 1))


def _behind_colon(said: str) -> str:
    return _COLON.split(said, maxsplit=1)[-1] if _COLON.search(said) else ""


def _listed(text: str) -> tuple[str, ...]:
    """Split a list at bars, semicolons and line ends if there are any, else at commas and the last `and`."""
    strong = _told(_STRONG.split(text.strip()))
    return (strong if len(strong) > 1 else _told(_WEAK.split(text.strip())))[:_PARTS_MAX]


def _told(parts: Sequence[str]) -> tuple[str, ...]:
    stripped = (part.strip(" \t\r\n.。-*•") for part in parts)
    return tuple(part for part in stripped if part)


def _job(said: str) -> str:
    """Return what the sub-agents are to do: the text after the word for them, else everything."""
    named = _HELPER.search(said)
    behind = _LINK.sub("", _BEHIND.sub("", said[named.end() :]).strip()) if named else ""
    return behind.strip(" .。!?") or said


def _number(word: str) -> int:
    return int(word) if word.isdigit() else _NUMBER[word.lower()]


# What the demo model asks of sub-agents: the arguments of their tool, one order for each task. Pure.


_TYPED: Final = re.compile(r"(?P<type>[a-z]+):\s*(?P<task>.+)", re.DOTALL)
_OTHER_TASK: Final = "explore"
_LEAST_WATCHED_S: Final = 5  # what is asked for in plain words takes long enough to be seen on the board

IsTold = Callable[[str], bool]
"""Tells whether the first word of a task is an order."""


def orders(rest: str, is_told: IsTold, types: Collection[str]) -> list[Mapping[str, str]]:
    """Build the tasks of `split` and `spawn`: as they are between bars, or as they are listed in plain words. A type in
    front of a task chooses who does it, where `types` are unknown or have one of that name."""
    tasks = [task.strip() for task in rest.split("|") if task.strip()]
    if len(tasks) == 1 and not is_told(rest) and not _TYPED.fullmatch(rest):
        return watched(parts_of(rest), is_told, types)
    return [_order(task, types) for task in tasks]


def watched(parts: Sequence[str], is_told: IsTold, types: Collection[str]) -> list[Mapping[str, str]]:
    """Give each task a little more time than the one before it; a task that says what it does takes as long as that."""
    return [
        _order(part, types) if is_told(part) else {**_order(part, types), **_slow(_order(part, types)["task"], seconds)}
        for seconds, part in enumerate(parts, _LEAST_WATCHED_S)
    ]


def _slow(task: str, seconds: int) -> Mapping[str, str]:
    return {"task": f"slow {seconds} {task}", "label": task}


def _order(task: str, types: Collection[str]) -> Mapping[str, str]:
    typed = _TYPED.fullmatch(task)
    if typed and (not types or typed["type"] in types):
        return {"type": typed["type"], "task": typed["task"]}
    return {"type": _OTHER_TASK, "task": task}


# The parts that the demo model plays in an orchestration, each so that the strategy can be watched. Pure.
#
# A strategy tells a sub-agent who it is, what all is for, what its own part is, and in which form it is to answer.
# What comes back is a task in the demo model's own words, or the whole answer where a form is asked for.


_GOAL: Final = re.compile(r"^# What all of it is for\n(?P<goal>.+?)(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)
_PART: Final = re.compile(r"^# Your part\n(?P<part>.+?)(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)
_MATERIAL_END: Final = re.compile(r".*^</foreign mark=\w+>$", re.DOTALL | re.MULTILINE)
_SIDE: Final = re.compile(r"You are side (?P<side>\d+) and speak for this position: (?P<position>.+)", re.DOTALL)
_SAY: Final = "slow 3 say"
_FORM_PAUSE_S: Final = 3.0
_FIRST_DRAFT: Final = "This is the first draft"
_BARS: Final = re.compile(r"\s*\|\s*")
STRATEGIES: Final = ("sequential", "parallel", "graph", "debate", "review", "hierarchical")


@dataclass(frozen=True, slots=True)
class DemoPart:
    """The part of one sub-agent: `task`, in the words that choose what the demo model does; where `is_answer`,
    it is the answer, letter for letter, after `pause_s`."""

    task: str
    is_answer: bool = False
    pause_s: float = 0.0


def part_played(prompt: str) -> DemoPart | None:
    """Recognize the part of a sub-agent of a strategy; None for any other."""
    found = _GOAL.search(prompt)
    if found is None:
        return None
    goal, own = found["goal"].strip(), _PART.search(prompt)
    form = _MATERIAL_END.sub("", prompt)
    if '{"approved":' in form:
        return _form(_verdict(prompt))
    if '{"parts":' in form:
        return _form({"parts": [{"task": each} for each in _BARS.split(goal)]})
    if own is not None:
        part = own["part"].strip()
        side = _SIDE.fullmatch(part)
        return DemoPart(f"{_SAY} The case for {side['position']}, as side {side['side']} makes it." if side else part)
    if prompt.startswith("You are the author"):
        is_again = "was reviewed and not approved" in prompt
        return DemoPart(f"{_SAY} {'This is the draft again, with an end' if is_again else _FIRST_DRAFT}: {goal}")
    if prompt.startswith("You judge"):
        return DemoPart(f"{_SAY} I cannot judge, so whoever spoke first wins: {_BARS.split(goal)[0]}")
    return DemoPart(f"{_SAY} Of what the others brought I made one answer: {goal}")


def _form(answer: Mapping[str, Any]) -> DemoPart:
    return DemoPart(json.dumps(answer, ensure_ascii=False), is_answer=True, pause_s=_FORM_PAUSE_S)


def _verdict(prompt: str) -> Mapping[str, Any]:
    """Reject the first draft always: else the loop would be short."""
    is_approved = _FIRST_DRAFT not in prompt
    return {"approved": is_approved, "feedback": "" if is_approved else "It has no end yet."}


def orchestration(said: str) -> Mapping[str, Any] | None:
    """Build the arguments of `orchestrate` for `STRATEGY A | B | C`; None where no strategy is named or nothing is
    asked."""
    name, _, rest = said.partition(" ")
    parts = [part for part in _BARS.split(rest.strip()) if part]
    make = _ASKED.get(name.lower().rstrip(":"))
    return {"strategy": name.lower().rstrip(":"), "goal": rest.strip(), **make(parts)} if make and parts else None


def _steps(parts: list[str]) -> Mapping[str, Any]:
    return {"steps": [{"id": f"S{at}", "type": "explore", "task": part} for at, part in enumerate(parts, 1)]}


def _graph(parts: list[str]) -> Mapping[str, Any]:
    """Build a graph in which the last step waits for all the others."""
    *first, last = _steps(parts)["steps"]
    return {"steps": [*first, {**last, "needs": [step["id"] for step in first]}]}


def _debate(parts: list[str]) -> Mapping[str, Any]:
    sides = parts if len(parts) > 1 else [f"for: {parts[0]}", f"against: {parts[0]}"]
    return {"steps": [{"type": "general", "task": side} for side in sides]}


def _of_roles(_parts: list[str]) -> Mapping[str, Any]:
    return {}


_ASKED: Final[Mapping[str, Callable[[list[str]], Mapping[str, Any]]]] = dict(
    zip(STRATEGIES, (_steps, _steps, _graph, _debate, _of_roles, _of_roles), strict=True)
)


# What sub-agents did, told to the person who asked: who answered what, who did not and why. Pure.
#
# The demo model reads what a model reads of its sub-agents, results with a line above each, and says it in the words
# of somebody who watched.


_HEAD: Final = re.compile(
    r'^Sub-agent (?P<id>\w+) \((?P<type>[\w-]+)\)(?: "(?P<label>.*)")? '
    r"(?P<state>completed|failed|was cancelled|ran out of time)(?: after (?P<time>(?:\d+ min )?\d+ s))?"
    r"(?:, (?P<tokens>[\d,]+) tokens)?(?:: (?P<reason>.+?))?\.(?: What now: .+\.)?$",
    re.MULTILINE,
)
_RULE: Final = "\n---\n"
_EMPTY: Final = "It left no answer."
_AGAIN: Final = (
    "What did not complete is missing here; the others were not disturbed by it. /retry does all of it once more."
)


@dataclass(frozen=True, slots=True)
class _Told:
    """One sub-agent: the line above its answer, taken apart, and the answer."""

    head: re.Match[str]
    answer: str

    @property
    def is_done(self) -> bool:
        return self.head["state"] == "completed"

    @property
    def text(self) -> str:
        head = self.head
        tokens = head["tokens"]
        spent = ", ".join(filter(None, (head["type"], head["time"], f"{tokens} tokens" if tokens else "")))
        line = f"**{head['label'] or head['id']}** ({spent})"
        if not self.is_done:
            why = f": {head['reason']}" if head["reason"] else ""
            line = f"{line} {head['state']}{why}."
        return f"{line}\n\n{quoted(self.answer)}" if self.answer else line


def report(opening: str, results: Sequence[str]) -> str:
    """Write `opening` and then what each sub-agent did. Results that do not come from sub-agents are quoted as they
    are."""
    told = [each for result in results for each in _told_result(result)]
    heads = [each for each in told if isinstance(each, _Told)]
    done = sum(each.is_done for each in heads)
    first = f"{opening}:" if done == len(heads) else f"{opening}: {done} of {len(heads)} completed."
    texts = [each.text if isinstance(each, _Told) else quoted(each) for each in told]
    return "\n\n".join((first, *texts, *([_AGAIN] if done < len(heads) else ())))


def strategy_report(result: str) -> str:
    """Report the result of a strategy: the answer as a quotation, and below it a table of which sub-agent did what."""
    answer, rule, table = result.partition(_RULE)
    return f"The sub-agents went about it together:\n\n{quoted(answer.strip())}" + (
        f"\n\n{table.strip()}" if rule else ""
    )


def quoted(text: str) -> str:
    """Format the text as a quotation."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _told_result(result: str) -> list[_Told | str]:
    heads = list(_HEAD.finditer(result))
    if not heads:
        return [result]
    ends = [*(head.start() for head in heads[1:]), len(result)]
    return [_Told(head, _answer(result[head.end() : end])) for head, end in zip(heads, ends, strict=True)]


def _answer(text: str) -> str:
    said = text.strip()
    return "" if said == _EMPTY else said
