"""Slash commands, once: /help, the native menus and their translations are made of this table; and the texts that say
one, the same for channels and agents.

What a command does is in `agent.features` and `agent.runtime.control`; a test pins that both know the same names."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final, LiteralString

from gateway.contracts.access import RANKS
from gateway.contracts.errors import BadEnvelope, BadSessionKey
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, ControlKind
from gateway.contracts.sessions import GrantRole


class Suggests(StrEnum):
    """The kind of words that could follow a command, where a client asks while a person types."""

    NOTHING = "nothing"
    SESSIONS = "sessions"
    MODELS = "models"
    PROFILES = "profiles"


class HelpTopic(StrEnum):
    """The topic of a command; /help has a part for each."""

    TALK = "talk"
    AGENT = "agent"
    MEMORY = "memory"
    ACCESS = "access"


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """One command as people meet it. `about` and `argument` (what may follow, empty for nothing) are English: the keys
    of their translations; `about` has at most 100 characters, which is what Discord's menu takes. Only a person of
    `role` or more is offered it; one that is `only_private`, only where nobody else reads along. `needs_argument`: it
    does nothing without; where only some words may follow, `words` has them. `is_aloud`: what it leads to is said to
    everybody there, not only to the one who asked."""

    name: str
    about: LiteralString
    argument: LiteralString = ""
    suggests: Suggests = Suggests.NOTHING
    role: GrantRole = GrantRole.GUEST
    is_in_menu: bool = True
    only_private: bool = False
    needs_argument: bool = False
    is_aloud: bool = False
    topic: HelpTopic = HelpTopic.TALK
    words: tuple[str, ...] = ()


def is_offered(spec: CommandSpec, role: GrantRole) -> bool:
    """Tell whether a person of `role` may use the command."""
    return role is not GrantRole.BLOCKED and RANKS.index(role) >= RANKS.index(spec.role)


_admin_command: Final = partial(CommandSpec, role=GrantRole.ADMIN, only_private=True, topic=HelpTopic.ACCESS)

COMMANDS: Final[Sequence[CommandSpec]] = (
    CommandSpec("help", "what I understand", "topic", words=tuple(HelpTopic)),
    CommandSpec("new", "begin a new conversation"),
    CommandSpec("stop", "stop what is running and drop what waits"),
    CommandSpec("retry", "answer the last message once more", is_aloud=True),
    CommandSpec("undo", "take back the last exchange, or several", "number"),
    CommandSpec("title", "show or set the title", "title"),
    CommandSpec("sessions", "your conversations"),
    CommandSpec("resume", "go on with an earlier conversation", "number", Suggests.SESSIONS, needs_argument=True),
    CommandSpec("model", "show or choose the model", "model", Suggests.MODELS, topic=HelpTopic.AGENT),
    CommandSpec("voice", "have my answers spoken, too", "on or off", words=("on", "off"), topic=HelpTopic.AGENT),
    CommandSpec("agent", "who I am in this conversation", "name", Suggests.PROFILES, topic=HelpTopic.AGENT),
    CommandSpec("compact", "condense this conversation", "focus"),
    CommandSpec("status", "what is going on", topic=HelpTopic.AGENT),
    CommandSpec("where", "where your messages are", topic=HelpTopic.AGENT),
    CommandSpec("usage", "what you have used: today, this month", topic=HelpTopic.AGENT),
    CommandSpec("memory", "what I remember", "words", topic=HelpTopic.MEMORY),
    CommandSpec("forget", "make me forget", "what", needs_argument=True, topic=HelpTopic.MEMORY),
    CommandSpec("remind", "remind you of something", "when and what", topic=HelpTopic.MEMORY),
    CommandSpec(
        "plan",
        "plan a task first, then do it when you approve",
        "task",
        needs_argument=True,
        is_aloud=True,
        topic=HelpTopic.AGENT,
    ),
    CommandSpec("export", "everything I keep of you, as a file", only_private=True, topic=HelpTopic.MEMORY),
    CommandSpec(
        "link", "make your accounts on several platforms one person", "code", only_private=True, topic=HelpTopic.MEMORY
    ),
    CommandSpec(
        "unlink",
        "show the accounts that are linked, or part them",
        "platform",
        only_private=True,
        topic=HelpTopic.MEMORY,
    ),
    CommandSpec(
        "heartbeat",
        "look by myself whether something is to be done",
        "on, off",
        is_in_menu=False,
        topic=HelpTopic.MEMORY,
    ),
    CommandSpec("approve", "let me do what I asked about", "code", is_in_menu=False, topic=HelpTopic.ACCESS),
    CommandSpec("deny", "do not let me do what I asked about", "code", is_in_menu=False, topic=HelpTopic.ACCESS),
    _admin_command("pair", "let a stranger in, or list who waits", "code"),
    _admin_command("role", "give a person a role", "person and role", needs_argument=True),
    _admin_command("block", "do not listen to a person, or list who is blocked", "person"),
    _admin_command("unblock", "listen to a person again", "person", needs_argument=True),
    CommandSpec("place", "who may speak here, with which tools", "rules", role=GrantRole.ADMIN, topic=HelpTopic.ACCESS),
    _admin_command("limits", "how much a person may ask", "person and limits"),
    CommandSpec("queue", "how much there is to do", role=GrantRole.ADMIN, topic=HelpTopic.AGENT),
    CommandSpec("start", "what I understand", is_in_menu=False),
)
"""In the order in which they are offered."""

OWN_NAME: Final = "trivet"
"""`/trivet status` is `/status`: Slack's slash commands are those of a whole workspace, so ours has our name."""

_GAP: Final = r"[\s\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
"""White space, and what keyboards and clipboards leave that nobody sees."""
_SLASH: Final = r"[/\u2044\u2215\uff0f]"
"""Keyboards for Chinese and Japanese write the wide one."""
_COMMAND: Final = re.compile(
    rf"{_GAP}*{_SLASH}([A-Za-z][A-Za-z0-9_-]{{0,31}})(?:@\w{{1,64}})?(?:{_GAP}+(.*))?", re.DOTALL
)
_SPECS: Final = {spec.name: spec for spec in COMMANDS}
_CONTROL: Final = {kind.value: kind for kind in ControlKind if kind not in (ControlKind.PRESS, ControlKind.CLAIM)}
"""The commands that people say; nobody says a token or a claim."""


@dataclass(frozen=True, slots=True)
class Command:
    """`/name arguments` at the start of a text. `name` is lower case, without the slash, and has no hyphens."""

    name: str
    arguments: str = ""

    @property
    def control(self) -> ControlKind | None:
        """Return the control kind of a command that never waits for running work, None for other commands."""
        return _CONTROL.get(self.name)

    @property
    def text(self) -> str:
        """Spell it the plain way."""
        return f"/{self.name} {self.arguments}".rstrip()


def find_command(text: str) -> Command | None:
    """Find the command that a text is, also one followed by the name of a bot (`/new@bot`) or with ours before it
    (`/trivet new`). None for anything else, such as `/etc/hosts`."""
    command = _plain(text)
    return command_behind_name(command.arguments) if command is not None and command.name == OWN_NAME else command


def command_behind_name(words: str) -> Command | None:
    """Find the command that is meant by what follows our name: nothing is `/help`, and words that no command
    begins with are a thing to say.

    A command that takes no argument is none if more follows ("help me with this letter"), but for those that must
    never wait: who says `stop`, and whatever else, means it."""
    if not words.strip():
        return Command("help")
    spelled = _plain(words)
    if spelled is not None:
        return None if spelled.name == OWN_NAME else spelled
    bare = _plain(f"/{words.strip()}")
    spec = _SPECS.get(bare.name) if bare is not None else None
    if bare is None or spec is None:
        return None
    if spec.words:
        return bare if bare.arguments.lower() in ("", *spec.words) else None
    return bare if spec.argument or bare.control is not None or not bare.arguments else None


def _plain(text: str) -> Command | None:
    match = _COMMAND.fullmatch(text)
    return Command(match[1].lower().replace("-", "_"), (match[2] or "").strip()) if match else None


_FOR_ALL: Final = frozenset({GrantRole.GUEST, GrantRole.MEMBER})  # no menu can tell one from the other


def offered(*, is_admin: bool = False, is_private: bool = True) -> tuple[CommandSpec, ...]:
    """List, in order, the commands that a platform's menu offers to everybody, or to an admin, in a direct chat, or
    where others read along."""
    return tuple(
        spec
        for spec in COMMANDS
        if spec.is_in_menu and (is_admin or spec.role in _FOR_ALL) and (is_private or not spec.only_private)
    )


# What could follow a command, asked by a channel while a person types, said by an agent process.
#
# A question and its answer are worth nothing a moment later: they are no envelopes, and no release has to understand
# those of another. What cannot be read counts as not said.


@dataclass(frozen=True, slots=True)
class SuggestionRequest:
    """`owner` (a user's key) types on the lane `key`, and has come as far as `typed`. `language` is what the platform
    says (an IETF tag), empty for nothing."""

    key: SessionKey
    owner: SessionKey
    kind: Suggests
    typed: CleanText
    language: str = ""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A shown text, and the one that is said when it is chosen: both at most SUGGESTION_CHARS_MAX characters."""

    label: CleanText
    value: CleanText


def encode_suggestion_request(wanted: SuggestionRequest) -> bytes:
    """Encode a request for suggestions; equal questions give equal bytes."""
    fields = [str(wanted.key), str(wanted.owner), wanted.kind, wanted.typed, wanted.language]
    return json.dumps(fields, ensure_ascii=False).encode(errors="replace")


def decode_suggestion_request(entry: bytes) -> SuggestionRequest:
    """Decode a request for suggestions. Raises `BadEnvelope`."""
    try:
        key, owner, kind, typed, language = json.loads(entry)
        return SuggestionRequest(
            SessionKey.parse(key), SessionKey.parse(owner), Suggests(kind), CleanText(typed), language
        )
    except (ValueError, TypeError, AttributeError, BadSessionKey) as error:
        raise BadEnvelope(f"not a question for suggestions: {type(error).__name__}") from error


def encode_suggestions(suggestions: Sequence[Suggestion]) -> bytes:
    fields = [[suggestion.label, suggestion.value] for suggestion in suggestions]
    return json.dumps(fields, ensure_ascii=False).encode(errors="replace")


def decode_suggestions(entry: bytes) -> tuple[Suggestion, ...]:
    """Decode a list of suggestions. Raises `BadEnvelope`."""
    try:
        return tuple(Suggestion(CleanText(label), CleanText(value)) for label, value in json.loads(entry))
    except (ValueError, TypeError) as error:
        raise BadEnvelope(f"not suggestions: {type(error).__name__}") from error
