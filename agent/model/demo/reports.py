"""What sub-agents did, told to the person who asked: who answered what, who did not and why. Pure.

The demo model reads what a model reads of its sub-agents, results with a line above each, and says it in the words of
somebody who watched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
        spent = ", ".join(filter(None, (head["type"], head["time"], _tokens(head["tokens"]))))
        line = f"**{head['label'] or head['id']}** ({spent})"
        if not self.is_done:
            why = f": {head['reason']}" if head["reason"] else ""
            line = f"{line} {head['state']}{why}."
        return f"{line}\n\n{quoted(self.answer)}" if self.answer else line


def report(opening: str, results: Sequence[str]) -> str:
    """`opening` and then what each did. Results that say nothing of sub-agents are quoted as they are."""
    told = [each for result in results for each in _told(result)]
    heads = [each for each in told if isinstance(each, _Told)]
    done = sum(each.is_done for each in heads)
    first = f"{opening}:" if done == len(heads) else f"{opening}: {done} of {len(heads)} completed."
    texts = [each.text if isinstance(each, _Told) else quoted(each) for each in told]
    return "\n\n".join((first, *texts, *([_AGAIN] if done < len(heads) else ())))


def strategy_report(result: str) -> str:
    """What a strategy brought: the answer as a quotation, and below it the table of who did what, as a table."""
    answer, rule, table = result.partition(_RULE)
    return f"The sub-agents went about it together:\n\n{quoted(answer.strip())}" + (
        f"\n\n{table.strip()}" if rule else ""
    )


def quoted(text: str) -> str:
    """As a quotation."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _told(result: str) -> list[_Told | str]:
    heads = list(_HEAD.finditer(result))
    if not heads:
        return [result]
    ends = [*(head.start() for head in heads[1:]), len(result)]
    return [_Told(head, _answer(result[head.end() : end])) for head, end in zip(heads, ends, strict=True)]


def _answer(text: str) -> str:
    said = text.strip()
    return "" if said == _EMPTY else said


def _tokens(tokens: str | None) -> str:
    return f"{tokens} tokens" if tokens else ""
