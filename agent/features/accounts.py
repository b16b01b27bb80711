"""Accounts of one person: /link and /unlink join and part them, /export hands out what is kept.

Both accounts are proven: a code is given out in a direct message of one and entered in a direct message of the
other, by a person who is admitted at both. The person who enters it sees whose it is and what would be joined,
and only then joins the two, by a button or in words; both name the other account, so that a late press joins no
other. The account that asked for the code is told who used it, and how to undo it; that is committed together
with the link. `gateway.contracts.access` says what the two share from then on."""

from __future__ import annotations

import asyncio
import io
import math
import zipfile
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from agent.features.commands import CommandReply, CommandRequest, CommandRow, Offer
from agent.limits import EXPORT_PLAIN_BYTES_MAX, LINK_NAME_CHARS_MAX, SENT_FILE_BYTES_MAX
from agent.tools.questions import plain_name
from agent.tools.tool import Enclosed
from gateway.contracts.access import LinkOffer, LinkVerdict, RedeemedLink
from gateway.contracts.errors import BadSessionKey
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import Reply, ReplyKind, clipped, literal_text
from gateway.contracts.ports import Clock
from gateway.i18n import Words, sentence, words_for
from gateway.limits import LINK_CODE_TTL_S, PAIRING_CODE_CHARS
from gateway.scrub import Scrubber
from gateway.store.accounts import LinkStore
from gateway.store.export import PeopleStore
from gateway.tasks import retry_until_available

Changed = Callable[[], Awaitable[None]]
"""Told that persons have changed: a block of one account counts for all."""
Tell = Callable[[Sequence[Reply]], Awaitable[None]]
"""The quick way of a reply that is committed already."""

_MINUTE_S: Final = 60
_PRIVATELY: Final = sentence("Linking accounts is for our direct messages: write it to me there.")
_SAID_ALOUD: Final = sentence(
    "Others may have read that code, so it is worth nothing any more. Write `/link` to me in a direct message for a "
    "new one."
)
_WRONG: Final = sentence(
    "I do not know that code. Codes hold for {minutes} minutes, are used up once, and a new one replaces the one "
    "before. Tries left within the hour: {left}."
)


def linking_commands(
    links: LinkStore, scrubber: Scrubber, clock: Clock, *, changed: Changed, tell: Tell
) -> tuple[CommandRow, ...]:
    """Return the command rows, in the order of /help."""
    commands = _Commands(links, scrubber, clock, changed, tell)
    return (CommandRow("link", commands.link), CommandRow("unlink", commands.unlink))


class _Commands:
    """The commands of people about their accounts."""

    def __init__(self, links: LinkStore, scrubber: Scrubber, clock: Clock, changed: Changed, tell: Tell) -> None:
        self._links = links
        self._scrubber = scrubber
        self._clock = clock
        self._changed = changed
        self._tell = tell

    async def link(self, asked: CommandRequest) -> CommandReply | str:
        words, code = asked.words, asked.argument.strip()
        answer, _, whose = code.partition(" ")
        if not _is_alone(asked):
            if not code or whose:
                return words.say(_PRIVATELY)
            await retry_until_available(lambda: self._links.withdraw(code))
            return words.say(_SAID_ALOUD)
        match answer.casefold():
            case "":
                return await self._offered(asked)
            case "join" | "no" if whose:
                return await self._decided(asked, whose.strip(), is_wanted=answer.casefold() == "join")
        return await self._entered(asked, code)

    async def _offered(self, asked: CommandRequest) -> str:
        code, address = self._clock.code(PAIRING_CODE_CHARS), asked.message.address
        expires_at_ms = self._clock.now_ms() + LINK_CODE_TTL_S * 1000
        name = clipped(asked.message.author_name, LINK_NAME_CHARS_MAX)
        offer = LinkOffer(asked.session.key.owner, name, address, asked.words.language.value, expires_at_ms)
        await retry_until_available(lambda: self._links.offer(offer, code))
        return asked.words.say(
            "Write `/link {code}` to me in a direct message, from your account on the other platform, within {minutes} "
            "minutes. There I ask whether to join them; then I know both as one person: what I remember of you, and "
            "what you may use in a day, is one. Do not show the code to anybody.",
            code=code,
            minutes=LINK_CODE_TTL_S // _MINUTE_S,
        )

    async def _entered(self, asked: CommandRequest, code: str) -> CommandReply | str:
        words, owner = asked.words, asked.session.key.owner
        found = await retry_until_available(lambda: self._links.enter(owner, code, now_ms=self._clock.now_ms()))
        if found.verdict is not LinkVerdict.PROPOSED or found.other is None:
            return _verdict_text(found, words)
        offers = (
            Offer(words.say("Join"), f"/link join {found.other}"),
            Offer(words.say("Do not join"), f"/link no {found.other}"),
        )
        accounts = await retry_until_available(lambda: self._links.accounts_of(owner))
        own = [account for account in accounts if account != owner]
        return CommandReply(_proposal_text(found, found.other, own, words), offers=offers)

    async def _decided(self, asked: CommandRequest, whose: str, *, is_wanted: bool) -> str:
        try:
            other = SessionKey.parse(whose).owner
        except BadSessionKey:
            return _verdict_text(RedeemedLink(LinkVerdict.GONE), asked.words)
        if is_wanted:
            return await self._joined(asked, other)
        await retry_until_available(lambda: self._links.decline(asked.session.key.owner, other))
        return asked.words.say("Then nothing is joined, and that code is worth nothing any more.")

    async def _joined(self, asked: CommandRequest, other: SessionKey) -> str:
        owner, told = asked.session.key.owner, list[Reply]()

        def notice(offer: LinkOffer) -> Reply:
            told.append(_notice(asked, offer, self._scrubber, now_ms=self._clock.now_ms()))
            return told[-1]

        found = await retry_until_available(
            lambda: self._links.join(owner, other, now_ms=self._clock.now_ms(), notice=notice)
        )
        if found.verdict is LinkVerdict.LINKED:
            await retry_until_available(self._changed)
            if told:
                await retry_until_available(lambda: self._tell([told[-1]]))
        return _verdict_text(found, asked.words)

    async def unlink(self, asked: CommandRequest) -> str:
        words, owner, wanted = asked.words, asked.session.key.owner, asked.argument.strip()
        if not _is_alone(asked):
            return words.say(_PRIVATELY)
        accounts = await retry_until_available(lambda: self._links.accounts_of(owner))
        if len(accounts) == 1:
            return words.say("This account is linked with no other. `/link` begins that.")
        said = wanted.casefold()
        leaving = [
            account
            for account in accounts
            if said in ("all", account.platform, account.channel.casefold(), str(account).casefold())
        ]
        if not leaving:
            return _accounts_text(owner, accounts, words)
        parted = await retry_until_available(
            lambda: self._links.part(owner, leaving, actor=str(owner), now_ms=self._clock.now_ms())
        )
        await retry_until_available(self._changed)
        return words.say(
            "Not linked any more: {accounts}. Each remembers what was told there; what was used today counts for "
            "all of them until midnight UTC.",
            accounts=", ".join(map(str, parted)),
        )


def _is_alone(asked: CommandRequest) -> bool:
    """Tell whether nobody else reads along, and the account speaks for itself."""
    return asked.message.is_private and asked.session.key == asked.message.author


def _accounts_text(owner: SessionKey, accounts: Sequence[SessionKey], words: Words) -> str:
    lines = [f"- {account}" for account in accounts if account != owner]
    head = words.say("This account, {owner}, is one person with:", owner=str(owner))
    hint = words.say("`/unlink all` parts them, `/unlink` and the name of a platform or an account parts only that.")
    return "\n".join((head, "", *lines, "", hint))


def _proposal_text(found: RedeemedLink, other: SessionKey, own: Sequence[SessionKey], words: Words) -> str:
    """Write what the person who entered a code reads before anything is joined."""
    said = [
        words.say(
            "This is the code of **{name}** on {platform}: `{account}`. Nothing is joined yet.",
            name=plain_name(found.name, words),
            platform=other.platform.capitalize(),
            account=str(other),
        )
    ]
    if found.along:
        said.append(words.say("With it comes: {accounts}.", accounts=_listed(found.along)))
    if own:
        said.append(words.say("With this account comes: {accounts}.", accounts=_listed(own)))
    shared = words.say(
        "Whoever uses them would be one person to me: what I remember of direct messages, what may be used in a day, "
        "`/usage`, `/export`, `/forget all`, erasure, a block. Conversations, files, reminders and rights stay with "
        "each account."
    )
    warned = words.say("**Join only what is yours.** A code that somebody sent you would show them what I know of you.")
    answers = words.say(
        "`/link join {account}` joins them, `/link no {account}` does not; within {minutes} minutes.",
        account=str(other),
        minutes=LINK_CODE_TTL_S // _MINUTE_S,
    )
    return "\n\n".join((" ".join(said), shared, warned, answers))


def _listed(accounts: Sequence[SessionKey]) -> str:
    return ", ".join(f"`{account}`" for account in accounts)


def _notice(asked: CommandRequest, offer: LinkOffer, scrubber: Scrubber, *, now_ms: int) -> Reply:
    """Build the notice to the account that asked for the code, in its language."""
    words = words_for(offer.language)
    who = f"{plain_name(asked.message.author_name, words)} ({asked.session.key.owner})"
    said = words.say(
        "{person} used your code: that account and this one are one person to me now. If that was not you, write "
        "`/unlink all` here, at once.",
        person=who,
    )
    return Reply(
        id=f"notice:linked:{asked.turn_id}",
        turn_id="",
        key=offer.owner,
        address=offer.address,
        text=scrubber.for_chat(str(offer.owner)).scrub(said),
        kind=ReplyKind.NOTICE,
        created_at_ms=now_ms,
        language=offer.language,
    )


def _verdict_text(found: RedeemedLink, words: Words) -> str:
    match found.verdict:
        case LinkVerdict.LINKED:
            return words.say(
                "Done: this account and {other} are one person to me now, with one memory and one budget. `/unlink` "
                "shows and undoes it.",
                other=str(found.other),
            )
        case LinkVerdict.OWN:
            return words.say(
                "That code is yours already: write it to me from the account that is not linked with this one yet."
            )
        case LinkVerdict.FULL:
            return words.say("These are too many accounts for one person: part some with `/unlink` first.")
        case LinkVerdict.GONE:
            return words.say(
                "There is nothing to join with that account any more: ask there for a new code with `/link`, and enter "
                "it here."
            )
        case LinkVerdict.LOCKED:
            minutes = max(1, math.ceil(found.wait_s / _MINUTE_S))
            return words.say("Too many wrong codes: I look at the next one in {minutes} minutes.", minutes=minutes)
    return words.say(_WRONG, minutes=LINK_CODE_TTL_S // _MINUTE_S, left=found.tries_left)


# /export: everything that is stored about a person, given to that person; where several share a conversation, only
# the asker's own messages there and the answers to them.


_PLAIN: Final = literal_text("trivet-export.json")
_PACKED: Final = literal_text("trivet-export.zip")
_EVERYTHING: Final = sentence("Here is everything I keep of you.")
_OWN: Final = sentence("Here is what you said in this place, and what I answered. What others said is left out.")
_LEFT_OUT: Final = sentence(
    "This holds what one person said in a shared place and was answered. What others said there is left out, with what "
    "was quoted or sent along, and what cannot be told to be of anybody."
)


def personal_data_commands(people: PeopleStore, scrubber: Scrubber) -> tuple[CommandRow, ...]:
    """Return the row of /export."""

    async def export(asked: CommandRequest) -> CommandReply | str:
        owner, words = asked.session.key.owner, asked.words
        if not owner.user:  # what is a shared place's is everybody's who speaks there
            told, left_out, person = words.say(_OWN), words.say(_LEFT_OUT), asked.message.author
            document = await people.export_own(asked.session.key, person, left_out=left_out, clean=scrubber.scrub)
        elif asked.message.is_private and asked.session.key == owner:
            told, document = words.say(_EVERYTHING), await people.export(owner, clean=scrubber.scrub)
        else:
            return words.say("Write /export to me in a direct message: the file holds what you said there, too.")
        file = await asyncio.to_thread(_enclosed, document)
        if len(file.content) > SENT_FILE_BYTES_MAX:
            return words.say("What I keep of you is too large to be sent here. The operator can export it for you.")
        return CommandReply(told, files=(file,))

    return (CommandRow("export", export),)


def _enclosed(document: bytes) -> Enclosed:
    """Enclose the document as it is, or packed when it is large."""
    if len(document) <= EXPORT_PLAIN_BYTES_MAX:
        return Enclosed(_PLAIN, "application/json", document, literal_text(""))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_PLAIN, document)
    return Enclosed(_PACKED, "application/zip", packed.getvalue(), literal_text(""))
