"""The table of commands that are part of the conversation, /help, and the buttons that say commands.

A person without buttons writes the same command: the text above the buttons names it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from agent.limits import BUTTON_DRAWS_MAX, BUTTON_LABEL_CHARS_MAX, BUTTON_TOKEN_CHARS, BUTTON_TTL_S, BUTTONS_MAX
from agent.models.requests import Permit
from agent.tools.policy import Permissions, Visibility
from agent.tools.tool import CallOrigin, Enclosed, ToolContext
from gateway.contracts.commands import COMMANDS, CommandSpec, HelpTopic, find_command, is_offered
from gateway.contracts.errors import ContextTooLong, ModelRejected
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import Button, Choice, CleanText, InboundMessage, Reply, clipped, joined, literal_text
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import Effect, GrantRole, Session
from gateway.i18n import Words, about_in, argument_in, sentence, words_for
from gateway.scrub import Scrubber

if TYPE_CHECKING:
    from agent.prompts.workspace import OwnCommand, WorkspaceFiles  # reads files, which this module does not

Clean = Callable[[str], CleanText]
_PRESS: Final = literal_text("/press")
_RETRY: Final = sentence("Try again")


@dataclass(frozen=True, slots=True)
class Offer:
    """One button: its label, and the command that it says."""

    label: str
    command: str


@dataclass(frozen=True, slots=True)
class Addressee:
    """The person (an owner key) and the place of buttons. Only one button of a `group` can be pressed; empty:
    the group is the reply."""

    person: SessionKey
    is_private: bool
    place: tuple[str, ...] = ()
    realm: str = ""
    group: str = ""

    @classmethod
    def for_author(cls, message: InboundMessage) -> Addressee:
        """Allow the buttons to the author of the message, where it was written."""
        return cls(message.author, message.is_private, message.place, message.realm)


def with_buttons(
    reply: Reply,
    offers: Sequence[Offer],
    addressee: Addressee,
    clean: Clean,
    clock: Clock,
    *,
    ttl_s: int = BUTTON_TTL_S,
) -> tuple[Reply, tuple[Button, ...]]:
    """Add the buttons to the reply, and return with it the rows to be committed with it."""
    buttons = tuple(
        Button(
            token=_token(clean, clock),
            group=addressee.group or reply.id,
            reply_id=reply.id,
            label=clipped(clean(" ".join(offer.label.split())), BUTTON_LABEL_CHARS_MAX),
            command=clean(offer.command),
            meant_for=addressee.person,
            key=reply.key,
            address=reply.address,
            is_private=addressee.is_private,
            place=addressee.place,
            realm=addressee.realm,
            expires_at_ms=reply.created_at_ms + ttl_s * 1000,
        )
        for offer in offers[:BUTTONS_MAX]
    )
    choices = tuple(Choice(button.label, joined(_PRESS, clean(button.token), by=" ")) for button in buttons)
    return replace(reply, choices=(*reply.choices, *choices)), buttons


def _token(clean: Clean, clock: Clock) -> str:
    """Draw a token that is not redacted on its way: some begin by chance as the keys of a vendor do. Where a rule of
    the operator redacts every one, the button does nothing."""
    draws = (clock.code(BUTTON_TOKEN_CHARS) for _ in range(BUTTON_DRAWS_MAX))
    return next((token for token in draws if clean(token) == token), "") or clock.code(BUTTON_TOKEN_CHARS)


def retry_offers(error: Exception, turn_id: str, words: Words) -> tuple[Offer, ...]:
    """Offer the button under a failed turn that repeats that very turn, as long as no turn followed it. Nothing is
    offered where it would fail again."""
    if isinstance(error, ContextTooLong | ModelRejected):
        return ()
    return (Offer(words.say(_RETRY), f"/retry {turn_id}"),)


# The answer to /help: the commands that a person of some role may use, in the person's language. Pure.


_TOPICS: Final = {
    HelpTopic.TALK: sentence("Conversations"),
    HelpTopic.AGENT: sentence("Who answers, and how it goes"),
    HelpTopic.MEMORY: sentence("What I keep"),
    HelpTopic.ACCESS: sentence("Who may do what"),
}
_ADDED: Final = sentence("Added by the operator")
_START: Final = (
    sentence("Write to me as you would to a person: ask, give me a task, send me a file, in any language."),
    sentence("/new begins another conversation, /stop ends what I am doing, /help says what else I understand."),
    sentence("/memory shows what I remember of you, and /forget makes me forget it."),
)


def help_text(
    role: GrantRole,
    words: Words,
    *,
    listed: Iterable[CommandSpec],
    can_split: bool,
    topic: HelpTopic | None = None,
    own: Iterable[OwnCommand] = (),
) -> str:
    """List every command that `role` may use, among those that are `listed` here, by topics, or those of one, and the
    operator's `own`; `can_split` tells whether the asker may have tasks split among sub-agents."""
    offered = [spec for spec in listed if is_offered(spec, role)]
    parts = {each: [_line(spec, words) for spec in offered if spec.topic is each] for each in HelpTopic}
    if topic is not None and parts[topic]:
        return "\n\n".join((_heading(topic, words), "\n".join(parts[topic])))
    said: list[str] = [words.say("Write to me as you would to a person. I also understand:")]
    said += ["\n\n".join((_heading(each, words), "\n".join(lines))) for each, lines in parts.items() if lines]
    if lines := [_own_line(command) for command in own if command.is_for(role)]:
        said.append("\n\n".join((f"**{words.say(_ADDED)}**", "\n".join(lines))))
    if can_split:
        said.append(words.say("Parts of a task can be done side by side: ask me to split it among sub-agents."))
    return "\n\n".join(said)


def _own_line(command: OwnCommand) -> str:
    shown = f"/{command.name} [{command.argument}]" if command.argument else f"/{command.name}"
    return f"- {shown}: {command.about}"


def _heading(topic: HelpTopic, words: Words) -> str:
    return f"**{words.say(_TOPICS[topic])}** (/help {topic.value})"


def _line(spec: CommandSpec, words: Words) -> str:
    argument = argument_in(spec, words.language)
    shown = f"/{spec.name} [{argument}]" if argument else f"/{spec.name}"
    return f"- {shown}: {about_in(spec, words.language)}"


# The table of commands that are part of the conversation; /stop, /status and /where are `agent.runtime.control`.


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """One command as its row gets it: the text after its name, where, by whom, in which turn, under which
    fence. `ceiling` is the most that may be used for anything that follows from it."""

    argument: str
    message: InboundMessage
    session: Session
    role: GrantRole
    fence: int
    permit: Permit
    ceiling: Permissions
    turn_id: str = ""

    def tool_context(self) -> ToolContext:
        """Return the context of the tool calls that this command asks for."""
        return ToolContext(
            self.session.key,
            self.turn_id,
            role=self.role,
            place=Visibility.of(self.message),
            asked_by=self.message.author,
            address=self.message.address,
            fence=self.fence,
            ceiling=self.ceiling,
            permit=self.permit,
            call_origin=CallOrigin(self.session.id),
            language=self.session.language,
        )

    @property
    def words(self) -> Words:
        """Return the texts in the asker's language: the session was brought up to date when the turn began."""
        return words_for(self.session.language)


@dataclass(frozen=True, slots=True)
class CommandReply:
    """The answer of a command, its changes and its files; all of it is committed together. `noted` is what the
    transcript keeps of it, for the model to know; of most commands it keeps nothing. `offers` are buttons
    below. `title` is the new title of the conversation, if that has changed."""

    text: str
    effects: tuple[Effect, ...] = ()
    noted: CleanText | None = None
    files: tuple[Enclosed, ...] = ()
    offers: tuple[Offer, ...] = ()
    title: CleanText | None = None


@dataclass(frozen=True, slots=True)
class Converse:
    """A command's result in place of `Done`: the turn goes on as a conversation in which the user said `said`. It
    becomes the turn's user entry, unless the transcript holds it already (`is_stored`): then `authors` are those who
    wrote it; `has_foreign` where something came along that others may have written."""

    said: CleanText
    is_stored: bool = False
    authors: tuple[SessionKey, ...] = ()
    has_foreign: bool = False


Outcome = CommandReply | Converse


@dataclass(frozen=True, slots=True)
class CommandRow:
    """The function of one command; a text that it returns is a reply that changes nothing. Its line in /help is in
    `gateway.contracts.commands`; that of a plug-in's comes along as its `spec`."""

    name: str
    run: Callable[[CommandRequest], Awaitable[Outcome | str]]
    is_listed: bool = True
    spec: CommandSpec | None = None


class CommandTable:
    """Runs commands. Refuses two rows of one name, and a listed row that `COMMANDS` does not have."""

    def __init__(
        self,
        rows: Iterable[CommandRow],
        own: WorkspaceFiles,
        scrubber: Scrubber,
        *,
        can_split: Callable[[CommandRequest], bool],
    ) -> None:
        """Collect the rows; `own` has more commands, which say something in their author's name.
        `can_split` tells for a command whether its author may have tasks split among sub-agents."""
        self._own = own
        self._scrubber = scrubber
        self._can_split = can_split
        known = (CommandRow("help", self._help), *rows, CommandRow("start", self._start, is_listed=False))
        self._rows = {row.name: row for row in known}
        self._specs = {spec.name: spec for spec in (*COMMANDS, *(row.spec for row in known if row.spec))}
        if len(self._rows) != len(known):
            raise ValueError("two commands share a name")
        if unknown := {row.name for row in known if row.is_listed} - self._specs.keys():
            raise ValueError(f"nothing is said of {', '.join(sorted(unknown))} in the table of commands")

    async def execute(
        self,
        message: InboundMessage,
        session: Session,
        role: GrantRole,
        *,
        fence: int,
        permit: Permit,
        ceiling: Permissions,
        turn_id: str = "",
    ) -> Outcome:
        """Do the command in `message`. Raises `Fenced` and `StoreUnavailable`."""
        command = find_command(message.text)
        asked = CommandRequest(
            command.arguments if command else "", message, session, role, fence, permit, ceiling, turn_id
        )
        outcome = await self._outcome(asked, command.name if command else None)
        return CommandReply(outcome) if isinstance(outcome, str) else outcome

    async def _outcome(self, asked: CommandRequest, name: str | None) -> Outcome | str:
        if name is None or name not in self._rows:
            own = self._own.commands.read().get(name or "")
            if own is not None and own.is_for(asked.role):
                return Converse(self._scrubber.for_chat(str(asked.session.key)).scrub(own.said(asked.argument)))
            said = name or asked.message.text[:32]
            return asked.words.say("I do not know /{name}. /help lists what I understand.", name=said)
        if name in self._specs and not is_offered(self._specs[name], asked.role):
            if self._specs[name].role is GrantRole.MEMBER:
                return asked.words.say(
                    "Only members and admins may use /{name}. /help lists what I understand.", name=name
                )
            return asked.words.say("Only admins may use /{name}. /help lists what I understand.", name=name)
        return await self._rows[name].run(asked)

    async def _help(self, asked: CommandRequest) -> str:
        listed = [spec for name, spec in self._specs.items() if name in self._rows and self._rows[name].is_listed]
        named = asked.argument.strip().lower()
        topic = HelpTopic(named) if named in set(HelpTopic) else None
        own, can_split = self._own.commands.read().values(), self._can_split(asked)
        return help_text(asked.role, asked.words, listed=listed, can_split=can_split, topic=topic, own=own)

    async def _start(self, asked: CommandRequest) -> str:
        return "\n".join(map(asked.words.say, _START))
