"""What a message without text says: a place, a contact, a poll, a rich text. In words, for whoever answers it.

Service messages say nothing of the kind, and neither does a file, which comes along as one. Never raises on any JSON.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from channels.raw import Raw, integer, mapping, mappings, text

DEGREES_MAX: Final = 180
RICH_NESTING_MAX: Final = 32  # twice what Telegram allows; deeper is nothing that it made


def spoken(message: Raw) -> str:
    """Empty for a message that shows nothing of these kinds. Works on an external reply as well."""
    for field, telling in _TELLING.items():
        shown = mapping(message.get(field))
        if shown:
            return telling(shown)
    return ""


def _location(location: Raw) -> str:
    return f"[A location: {_coordinates(location)}]"


def _venue(venue: Raw) -> str:
    where = (text(venue.get("title")), text(venue.get("address")), _coordinates(mapping(venue.get("location"))))
    return f"[A place: {', '.join(filter(None, where))}]"


def _coordinates(location: Raw) -> str:
    angles = [location.get("latitude"), location.get("longitude")]
    known = [angle for angle in angles if isinstance(angle, int | float) and abs(angle) <= DEGREES_MAX]
    return ", ".join(f"{angle:.6f}" for angle in known) if len(known) == len(angles) else "somewhere"


def _contact(contact: Raw) -> str:
    name = " ".join(filter(None, (text(contact.get("first_name")), text(contact.get("last_name")))))
    return f"[A contact: {', '.join(filter(None, (name, text(contact.get('phone_number')))))}]"


def _poll(poll: Raw) -> str:
    options = (
        f"- {text(option.get('text'))} ({integer(option.get('voter_count')) or 0})"
        for option in mappings(poll.get("options"))
    )
    return "\n".join([f"[A poll, with the votes so far: {text(poll.get('question'))}]", *options])


def _checklist(checklist: Raw) -> str:
    tasks = (
        f"- [{'x' if task.get('completion_date') else ' '}] {text(task.get('text'))}"
        for task in mappings(checklist.get("tasks"))
    )
    return "\n".join([f"[A checklist: {text(checklist.get('title'))}]", *tasks])


def _dice(dice: Raw) -> str:
    return f"[{text(dice.get('emoji')) or 'A die'} shows {integer(dice.get('value')) or 0}]"


def _game(game: Raw) -> str:
    return f"[A game: {text(game.get('title'))}]"


def _rich(rich: Raw) -> str:
    """One line for each block of it."""
    return "\n".join(filter(None, ("".join(_strings(block, 0)) for block in mappings(rich.get("blocks")))))


def _strings(value: object, depth: int) -> Iterator[str]:
    """A rich text is a string, an array of them, or an object around them, of which there are many kinds."""
    if depth > RICH_NESTING_MAX:
        return
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each, depth + 1)
    elif isinstance(value, Mapping):
        for name, each in value.items():
            if name == "text" or isinstance(each, list | Mapping):
                yield from _strings(each, depth + 1)


_TELLING: Final[Mapping[str, Callable[[Raw], str]]] = {
    "rich_message": _rich,
    "venue": _venue,  # fills `location` as well
    "location": _location,
    "contact": _contact,
    "poll": _poll,
    "checklist": _checklist,
    "dice": _dice,
    "game": _game,
    "story": lambda story: "[A story, which cannot be opened here]",
    "paid_media": lambda media: "[Media behind a payment, which cannot be opened here]",
}
