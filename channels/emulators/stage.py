"""An emulated platform as the playground and the tests see it: people, places, messages.

Each emulator keeps its own state in its vendor's shapes and shows it through `Stage`. Nothing here
knows a vendor, and nothing here is seen by the client libraries."""

from __future__ import annotations

import asyncio
import re
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

# --- what travels on an emulated wire, and how much of it is remembered


Json: TypeAlias = dict[str, Any]
"""One JSON object as a vendor's wire carries it. It stays at the edge: inside, there are dataclasses."""

RECORDED_MAX: Final = 10_000  # how much of what came and went is kept for tests to look at


def fields_of(row: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, as they are: `asdict` would copy what is in them."""
    return {each.name: getattr(row, each.name) for each in fields(row)}


def mapped(
    pattern: re.Pattern[str], text: str, *, found: Callable[[re.Match[str]], str], between: Callable[[str], str]
) -> str:
    """Rewrite a text piece by piece: what the pattern finds, and what is between."""
    parts: list[str] = []
    end = 0
    for match in pattern.finditer(text):
        parts += [between(text[end : match.start()]), found(match)]
        end = match.end()
    return "".join([*parts, between(text[end:])])


def mentioning(text: str, mentions: Mapping[str, str]) -> str:
    """Put the vendor's own form in the place of each `@name` that a person typed; `mentions` has it by name. A name in
    code, or one that nobody has, stays as it is."""
    known = {name.lower(): mention for name, mention in mentions.items()}
    names = "|".join(re.escape(name) for name in sorted(known, key=len, reverse=True))
    found = re.compile(rf"```.*?```|`[^`\n]+`|(?<![\w@<])@({names})(?!\w)", re.DOTALL | re.IGNORECASE)
    return found.sub(lambda match: known[match[1].lower()] if match[1] else match[0], text)


# --- people, places, messages and events


class PlaceKind(StrEnum):
    DM = "dm"
    GROUP = "group"
    THREAD = "thread"


@dataclass(frozen=True, slots=True)
class Person:
    """Someone who can write. `id` is the vendor's user id as text, `language` what their client says, an IETF tag."""

    id: str
    name: str
    handle: str
    is_bot: bool = False
    language: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere to write: a direct chat of one person, a group or channel, a thread or topic in one.

    `id` is the stage's own stable name for it, `address` the vendor's ids as shown to people. `root_id` is the message
    of the parent that a thread hangs on, where it hangs on one."""

    id: str
    kind: PlaceKind
    title: str
    address: str
    person_id: str | None = None
    parent_id: str | None = None
    root_id: str | None = None


@dataclass(frozen=True, slots=True)
class StageButton:
    """One button under a message. `id` is what the vendor sends back for it."""

    id: str
    label: str


@dataclass(frozen=True, slots=True)
class Said:
    """One message as people see it now. `text` is plain, `html` is how the vendor's client would show it.

    `only_for` is the person who alone sees it; None: everybody does. A `silent` one rang nobody. `above` is what the
    client writes over it, such as who used which command. `address` is the vendor's ids of the bot (on
    Slack of the workspace), the chat and the message, with colons between them."""

    id: str
    place_id: str
    author: Person
    text: str
    html: str
    at_ms: int
    edited: bool = False
    reply_to: str | None = None
    files: tuple[str, ...] = ()
    buttons: tuple[StageButton, ...] = ()
    only_for: str | None = None
    silent: bool = False
    above: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A file of a message, as a download gives it."""

    name: str
    media_type: str
    content: bytes = field(repr=False)


class EventKind(StrEnum):
    SAID = "said"
    EDITED = "edited"
    DELETED = "deleted"
    TYPING = "typing"
    PLACE = "place"
    TOAST = "toast"
    DRAFT = "draft"


@dataclass(frozen=True, slots=True)
class StageEvent:
    """Something visible happened. `said` for SAID and EDITED, `message_id` for DELETED. A TOAST is a `status` that
    only `person_id` sees, for a moment. A DRAFT is what the bot is about to say (`said`, with an id of its own that no
    message has); it fades by itself, and the next message of the bot takes its place."""

    kind: EventKind
    place_id: str
    said: Said | None = None
    message_id: str | None = None
    status: str = ""
    person_id: str | None = None


@dataclass(slots=True)
class Switches:
    """Switches, read at each request. Counters fall by one at each use; zero is off."""

    def take(self, name: str) -> bool:
        """Use up one of a counter; tell whether there was one."""
        left: int = getattr(self, name)
        if left > 0:
            setattr(self, name, left - 1)
        return left > 0


@dataclass(slots=True)
class Faults(Switches):
    """Faults on purpose, on whichever platform."""

    delay_s: float = 0.0
    refuse_format: int = 0  # "can't parse entities" and its like
    rate_limit: int = 0  # 429 with `retry_after_s`
    retry_after_s: float = 1.0
    server_error: int = 0  # 502 with an HTML body, nothing done
    drop_after: int = 0  # do it, then cut the connection: the sender cannot know
    drop_before: int = 0  # cut the connection, nothing done
    duplicate: int = 0  # deliver the next inbound event twice
    poison: int = 0  # send an update that the client library cannot parse
    half_dead: bool = False  # connections stay open and lose every byte, both ways, until they are given up
    blocked: bool = False  # the bot is blocked, kicked or not in the channel
    other: dict[str, float] = field(default_factory=dict)  # vendor-specific switches, documented there

    def switch(self, name: str) -> float:
        """Return one of the vendor's switches; 0 is off."""
        return self.other.get(name, 0.0)

    def take_other(self, name: str) -> bool:
        """Use up one of a counted switch of the vendor's; tell whether there was one."""
        left = self.switch(name)
        if left > 0:
            self.other[name] = left - 1
        return left > 0


class Stage(Protocol):
    """One platform, as a person in front of it sees it."""

    faults: Faults

    @property
    def platform(self) -> str:
        """Return the vendor, as one lower-case word."""

    @property
    def bot(self) -> Person: ...

    def people(self) -> Sequence[Person]: ...

    def places(self) -> Sequence[Place]: ...

    def add_person(self, name: str) -> Person:
        """Add a person, with a direct chat to the bot, in every group."""

    def add_place(self, kind: PlaceKind, title: str, *, parent_id: str | None = None) -> Place:
        """Add a group (everybody and the bot are in it) or a thread or topic in one."""

    async def say(
        self,
        person_id: str,
        place_id: str,
        text: str,
        *,
        mention_bot: bool = False,
        reply_to: str | None = None,
        files: Sequence[SharedFile] = (),
    ) -> Said:
        """Write as a person would; `mention_bot` puts the bot's mention in front, in the vendor's own form. `files` go
        with the words, in as many messages as the vendor's client makes of them; the first is returned."""

    async def share(self, person_id: str, message_id: str, place_id: str, to_id: str, text: str = "") -> Said:
        """Pass a message on into another place, with or without words of one's own."""

    async def edit(self, message_id: str, place_id: str, text: str) -> None:
        """Change a message as its author."""

    async def delete(self, message_id: str, place_id: str) -> None:
        """Delete a message as its author."""

    async def press_button(self, person_id: str, place_id: str, message_id: str, button_id: str) -> None:
        """Press a button that a message shows. Raises `ValueError` for one that it does not show (any more)."""

    def said(self, place_id: str) -> Sequence[Said]:
        """List all messages of a place, oldest first, as they are now."""

    def file(self, message_id: str, place_id: str, number: int) -> SharedFile:
        """Return the file `Said.files[number]` of a message. Raises `KeyError` where there is none."""

    def events(self) -> AsyncIterator[StageEvent]:
        """Watch everything visible from now on; each caller gets every event."""

    async def cut_connections(self) -> None:
        """Drop every open long poll or websocket, as a network fault would."""


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """One command as the vendor's client offers it to a person. `argument` is the name of what may follow, empty for
    nothing; `suggests`: the client asks the bot what it could be while the person types."""

    name: str
    about: str
    argument: str = ""
    suggests: bool = False


@runtime_checkable
class MenuStage(Protocol):
    """A platform with a native menu of commands."""

    def menu(self, person_id: str, place_id: str) -> Sequence[MenuEntry]:
        """List what this person is offered there, in the language of their client."""

    async def invoke(self, person_id: str, place_id: str, name: str, argument: str = "") -> None:
        """Choose a command, as the vendor's client does it. Raises `ValueError` for one that is not offered."""

    async def suggest(self, person_id: str, place_id: str, name: str, typed: str) -> Sequence[str]:
        """List what the bot offers while the person types the argument."""


@runtime_checkable
class LanguageStage(Protocol):
    """A platform whose clients say which language their people have chosen."""

    def set_language(self, person_id: str, language: str) -> None:
        """Set the language of the person's client, an IETF tag."""


@runtime_checkable
class ThreadStage(Protocol):
    """A platform on which a person opens a thread from a message."""

    def thread_from(self, person_id: str, place_id: str, message_id: str, title: str) -> Place:
        """Open the thread below a message, or begin it. Where threads have names, it is called `title`."""


# --- everyone who watches a stage


EVENTS_PER_LISTENER_MAX: Final = 10_000  # a page nobody reads any more must not fill the memory


class StageAudience:
    """Tells every listener of a stage what happened, each at its own speed."""

    def __init__(self) -> None:
        self._listeners: weakref.WeakSet[_Listener] = weakref.WeakSet()

    def tell(self, event: StageEvent) -> None:
        """Hand the event to everybody who listens now. A slow listener loses the oldest."""
        for listener in list(self._listeners):
            listener.hear(event)

    def listen(self) -> AsyncIterator[StageEvent]:
        """Hear every event from this call on, not from the first await; a listener let go of is forgotten."""
        listener = _Listener()
        self._listeners.add(listener)
        return listener


class EmulatedStage:
    """What all emulators have: faults on purpose, and an audience."""

    def __init__(self) -> None:
        self.faults = Faults()
        self._audience = StageAudience()

    def events(self) -> AsyncIterator[StageEvent]:
        return self._audience.listen()


class _Listener(AsyncIterator[StageEvent]):
    def __init__(self) -> None:
        self._heard: asyncio.Queue[StageEvent] = asyncio.Queue(EVENTS_PER_LISTENER_MAX)

    def hear(self, event: StageEvent) -> None:
        if self._heard.full():
            self._heard.get_nowait()
        self._heard.put_nowait(event)

    async def __anext__(self) -> StageEvent:
        return await self._heard.get()
