"""The placeholder of a secret among the arguments of a tool: found before the tool runs, and refused in words that
help. Pure.

A model that copies a file back, or is asked to use a key that it never saw, would write the placeholder where the
secret belongs; what it destroys then is found out much later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gateway.contracts.errors import ToolError
from gateway.scrub.placeholder import LIKENESS

_INSTEAD: Final = "Leave it out, or tell the user which secret belongs where, so that the user puts it there."
_ONCE_MORE: Final = "Tell the user; a secret that is needed has to be sent again."


class NotAvailable(ToolError):
    """A placeholder whose value a call does not get; said before the tool was run."""


def not_available(placeholder: str, tool: str, instead: str = _ONCE_MORE) -> NotAvailable:
    """Why (it is unknown, somebody else's, used up, too old) is nobody's business but ours."""
    return NotAvailable(f"The value of {placeholder} is not available to {tool}, and nothing was done. {instead}")


def refuse_placeholders(
    tool: str, arguments: Mapping[str, Any], *, instead: str = "", secret: Sequence[str] = ()
) -> None:
    """Raises `NotAvailable` for the first argument, but those in `secret`, that holds a placeholder or something that
    somebody takes for one. `instead` is what the tool advises to do."""
    for name, value in arguments.items():
        found = () if name in secret else placeholders_in({name: value})
        if found:
            raise NotAvailable(
                f"{found[0]} in `{name[:64]}` stands for a secret that was removed before you saw it, or from what you "
                f"wrote. The value is not available to {tool}, and nothing was done. {instead or _INSTEAD}"
            )


def placeholders_in(value: object) -> tuple[str, ...]:
    """Every placeholder in the texts of an argument, and what somebody takes for one, each once."""
    return tuple(dict.fromkeys(found for text in _texts(value) for found in LIKENESS.findall(text)))


def _texts(value: object) -> Iterator[str]:
    """Every text of an argument, names included."""
    match value:
        case str():
            yield value
        case Mapping():
            for name, inner in value.items():
                yield str(name)
                yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)
