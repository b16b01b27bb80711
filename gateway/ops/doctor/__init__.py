"""`trivet doctor`: finds what is wrong and says how to mend it. Changes nothing.

Here are the results of its checks and the table of them, pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class CheckState(StrEnum):
    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One row: the name of the check, its result, the finding, and the remedy. `link` is where a person meets what was
    found; `is_unreachable`: nothing is known, since nobody answered."""

    name: str
    state: CheckState
    seen: str
    remedy: str = ""
    link: str = ""
    is_unreachable: bool = False


def ok(name: str, seen: str, link: str = "") -> CheckResult:
    return CheckResult(name, CheckState.OK, seen, link=link)


def warning(name: str, seen: str, remedy: str) -> CheckResult:
    return CheckResult(name, CheckState.WARNING, seen, remedy)


def wrong(name: str, seen: str, remedy: str) -> CheckResult:
    return CheckResult(name, CheckState.WRONG, seen, remedy)


def as_table(findings: Sequence[CheckResult], *, paint: Callable[[CheckState, str], str] = lambda _, text: text) -> str:
    """Write one line for each finding, its remedy beneath it; `paint` may colour how it is."""
    width = max((len(finding.name) for finding in findings), default=0)
    lines = []
    for finding in findings:
        lines.append(f"{paint(finding.state, f'{finding.state.value:<7}')}  {finding.name:<{width}}  {finding.seen}")
        if finding.remedy:
            lines.append(f"{'':<7}  {'':<{width}}  -> {finding.remedy}")
    return "\n".join(lines)


def is_healthy(findings: Sequence[CheckResult]) -> bool:
    """Tell whether nothing is wrong; warnings are allowed."""
    return all(finding.state is not CheckState.WRONG for finding in findings)
