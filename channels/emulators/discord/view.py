"""The world as a person in front of Discord sees it: users, channels and messages in the stage's words."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from html import escape
from typing import Final

from channels.emulators.discord.world import (
    AttachmentObject,
    Channel,
    DiscordState,
    DiscordUser,
    MessageFlag,
    MessageKind,
    MessageObject,
)
from channels.emulators.stage import Json, Person, Place, PlaceKind, Said, StageButton, mapped

# --- Discord's Markdown subset as safe HTML
#
# Known: bold, italic, underline, strike, spoiler, code, fences, headings 1-3, small print, quotes, lists, masked
# and bare links, mentions, timestamps. Everything else, tables and images too, is shown as it was typed.


NameOf = Callable[[str], str | None]
"""Turns a mention (`@42`, `@&42` or `#42`) into a name, or None when nobody is called so."""

DEPTH_MAX: Final = 8  # marks inside marks; deeper ones are shown as they were typed
LIST_DEPTH_MAX: Final = 5  # lists inside lists; deeper items are below those of this depth, as the style sheet has it

_FENCE: Final = re.compile(r"```(?:([\w+#.-]+)\n)?\n?(.*?)\n?```", re.DOTALL)
_HEADING: Final = re.compile(r"(#{1,3}) +(\S.*)")
_SMALL: Final = re.compile(r"-# +(\S.*)")
_ITEM: Final = re.compile(r"( *)(?:[-*]|(\d+)\.) +(\S.*)")
_INLINE: Final = re.compile(
    r"""
      \\(?P<literal>[^\w\s]|_)
    | (?<!`)(?P<ticks>`{1,2})(?!`)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)
    | \*\*(?P<bold>(?:\\.|[^\\])+?)\*\*(?!\*)
    | __(?P<underline>(?:\\.|[^\\])+?)__(?!_)
    | ~~(?P<strike>.+?)~~
    | \|\|(?P<spoiler>.+?)\|\|
    | \*(?P<star>(?![\s*])(?:\\.|\*\*(?:\\.|[^\\*])+?\*\*|[^\\*])+?(?<!\s))\*(?!\*)
    | (?<!\w)_(?P<italic>(?:\\.|__(?:\\.|[^\\_])+?__|[^\\_])+?)_(?!\w)
    | \[(?P<label>[^\[\]\n]+)\]\(<?(?P<target>https?://[^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\ "[^"]*")?\)
    | <(?P<quiet>https?://[^\s<>]+)>
    | (?P<bare>https?://[^\s<>]*[^\s<>.,:;"')\]*_~|])
    | <(?P<mention>@&|@!?|\#)(?P<id>\d+)>
    | (?P<everyone>@everyone|@here)
    | <t:(?P<moment>-?\d{1,13})(?::[tTdDfFsSR])?>
    | <a?:(?P<emoji>\w+):\d+>
    """,
    re.VERBOSE | re.DOTALL,
)


def to_html(text: str, name_of: NameOf) -> str:
    """Write HTML with everything the person typed escaped; of attributes only a checked link's `href` is theirs."""
    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(text):
        if not fence.group(2).strip():
            continue
        parts.append(_blocks(text[end : fence.start()].removesuffix("\n"), name_of))
        language = f' class="language-{escape(fence.group(1))}"' if fence.group(1) else ""
        parts.append(f"<pre><code{language}>{escape(fence.group(2))}</code></pre>")
        end = fence.end() + text[fence.end() :].startswith("\n")
    parts.append(_blocks(text[end:], name_of))
    return "".join(parts)


def _blocks(text: str, name_of: NameOf, *, may_quote: bool = True) -> str:
    """Show quotes, headings, lists and paragraphs. Quotes do not nest: `> >` is a quote that begins with a sign."""
    parts: list[str] = []
    lines = deque(text.split("\n") if text else ())
    while lines:
        line = lines.popleft()
        if may_quote and line.startswith(">>> "):
            parts.append(_quote([line[4:], *lines], name_of))
            break
        if may_quote and line.startswith("> "):
            quoted = [line[2:]]
            while lines and lines[0].startswith("> "):
                quoted.append(lines.popleft()[2:])
            parts.append(_quote(quoted, name_of))
        elif block := _block(line, name_of):
            parts.append(block)
        else:
            paragraph = [line]
            while lines and not _starts_block(lines[0]):
                paragraph.append(lines.popleft())
            parts.append(_inline("\n".join(paragraph), name_of))
    return "".join(parts)


def _quote(lines: list[str], name_of: NameOf) -> str:
    return f"<blockquote>{_blocks(chr(10).join(lines), name_of, may_quote=False)}</blockquote>"


def _starts_block(line: str) -> bool:
    return line.startswith(("> ", ">>> ")) or any(p.fullmatch(line) for p in (_HEADING, _SMALL, _ITEM))


def _block(line: str, name_of: NameOf) -> str | None:
    if heading := _HEADING.fullmatch(line):
        level = len(heading.group(1))
        return f"<h{level}>{_inline(heading.group(2), name_of)}</h{level}>"
    if small := _SMALL.fullmatch(line):
        return f"<small>{_inline(small.group(1), name_of)}</small>"
    if item := _ITEM.fullmatch(line):
        indent, number, body = item.groups()
        depth = min(len(indent) // 2, LIST_DEPTH_MAX)
        sign = f"{number}." if number else ("•", "◦", "▪")[min(depth, 2)]
        return f'<div class="item depth-{depth}">{sign} {_inline(body, name_of)}</div>'
    return None


def _inline(text: str, name_of: NameOf, depth: int = 0) -> str:
    if depth > DEPTH_MAX:
        return _plain(text)
    return mapped(_INLINE, text, found=lambda mark: _mark(mark, name_of, depth + 1), between=_plain)


def _plain(text: str) -> str:
    return escape(text).replace("\n", "<br>")


_TAGS: Final = {
    "bold": ("<strong>", "</strong>"),
    "underline": ("<u>", "</u>"),
    "strike": ("<s>", "</s>"),
    "spoiler": ('<span class="spoiler">', "</span>"),
    "star": ("<em>", "</em>"),
    "italic": ("<em>", "</em>"),
}


def _mark(found: re.Match[str], name_of: NameOf, depth: int) -> str:
    groups = found.groupdict()
    for kind, (opening, closing) in _TAGS.items():
        if groups[kind] is not None:
            return opening + _inline(groups[kind], name_of, depth) + closing
    if groups["literal"]:
        return escape(groups["literal"])
    if groups["code"]:
        return f"<code>{escape(groups['code'])}</code>"
    if groups["label"]:
        return _link(groups["target"], _inline(groups["label"], name_of, depth))
    if url := groups["quiet"] or groups["bare"]:
        return _link(url, escape(url))
    if groups["mention"]:
        return _mention(groups["mention"], groups["id"], found.group(0), name_of)
    if groups["everyone"]:
        return f'<span class="mention">{groups["everyone"]}</span>'
    if groups["moment"]:
        return f"<time>{_moment(int(groups['moment']), found.group(0))}</time>"
    return escape(f":{groups['emoji']}:")


def _link(url: str, label: str) -> str:
    return f'<a href="{escape(url)}" rel="noreferrer noopener" target="_blank">{label}</a>'


def _mention(sign: str, target: str, typed: str, name_of: NameOf) -> str:
    sign = sign.replace("!", "")
    name = name_of(sign + target)
    if name is None:
        return escape(typed)
    return f'<span class="mention">{escape(sign[0] + name)}</span>'


def _moment(seconds: int, typed: str) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%d %B %Y %H:%M UTC")
    except (OverflowError, ValueError, OSError):  # a year that no calendar has
        return escape(typed)


# --- people, places and messages


_BUTTON: Final = 2
_MENTION: Final = re.compile(r"<(@&|@!?|#)(\d+)>")


def as_person(user: DiscordUser) -> Person:
    return Person(str(user.id), user.shown_as, user.username, user.is_bot, user.locale)


def as_place(channel: Channel) -> Place:
    if channel.is_dm:
        person_id = str(channel.recipient_id)
        return Place(str(channel.id), PlaceKind.DM, channel.name, f"DM {channel.id}", person_id=person_id)
    kind = PlaceKind.THREAD if channel.is_thread else PlaceKind.GROUP
    parent_id = str(channel.parent_id) if channel.is_thread else None
    own_id = str(channel.id)  # a thread from a message has that message's id
    root_id = own_id if channel.is_thread else None
    address = f"{channel.guild_id}/{channel.id}"
    return Place(own_id, kind, channel.name, address, parent_id=parent_id, root_id=root_id)


def as_said(world: DiscordState, message: MessageObject) -> Said:
    return Said(
        id=str(message.id),
        address=f"{world.bot.id}:{message.channel_id}:{message.id}",
        place_id=str(message.channel_id),
        author=as_person(message.author),
        text=_text(world, message),
        html=_html(world, message),
        at_ms=message.at_ms,
        edited=message.edited_ms is not None,
        reply_to=_target(message.reference) if message.kind is MessageKind.REPLY else None,
        files=tuple(file.name for file in files_of(message)),
        buttons=tuple(buttons_of(message.components)),
        only_for=_only_for(message),
        silent=bool(message.flags & MessageFlag.SILENT),
        above=_above(world, message),
    )


def files_of(message: MessageObject) -> tuple[AttachmentObject, ...]:
    """Return its own files, and those of the message that it forwards."""
    return message.files + (message.passed_on.files if message.passed_on else ())


def buttons_of(components: Iterable[Json]) -> Iterator[StageButton]:
    """Find the buttons that can be pressed, in all rows; a link is none."""
    for component in components:
        if component.get("type") == _BUTTON and "custom_id" in component and not component.get("disabled"):
            yield StageButton(str(component["custom_id"]), str(component.get("label") or ""))
        yield from buttons_of(component.get("components") or [])


def _only_for(message: MessageObject) -> str | None:
    """Return the person who alone sees an ephemeral message: the one whose interaction it answers."""
    if not message.flags & MessageFlag.EPHEMERAL or message.interaction is None:
        return None
    return str(message.interaction["user"]["id"])


def _above(world: DiscordState, message: MessageObject) -> str:
    """Name the command that a message answers, and who chose it, as the client does."""
    if not message.command or message.interaction is None:
        return ""
    return f"{world.users[int(message.interaction['user']['id'])].shown_as} used /{message.command}"


def _target(reference: Json | None) -> str | None:
    return str(reference["message_id"]) if reference and "message_id" in reference else None


def name_in(world: DiscordState, mention: str) -> str | None:
    """Return the name of `@42`, `@&42` or `#42`."""
    sign = mention.rstrip("0123456789")
    number = int(mention.removeprefix(sign))
    if sign == "@":
        return world.users[number].shown_as if number in world.users else None
    if sign == "#":
        return world.channels[number].name if number in world.channels else None
    return world.bot.username if any(number == guild.bot_role_id for guild in world.guilds.values()) else None


def _text(world: DiscordState, message: MessageObject) -> str:
    def shown(found: re.Match[str]) -> str:
        sign = found.group(1).replace("!", "")
        name = name_in(world, sign + found.group(2))
        return found.group(0) if name is None else sign[0] + name

    return _notice(message) or _MENTION.sub(shown, (message.passed_on or message).content)


def _html(world: DiscordState, message: MessageObject) -> str:
    notice = _notice(message)
    if notice:
        return f"<em>{to_html(notice, lambda _: None)}</em>"
    if message.passed_on is not None:
        return f"<blockquote><small>Forwarded</small>\n{_html(world, message.passed_on)}</blockquote>"
    html = to_html(message.content, lambda mention: name_in(world, mention))
    return html + "".join(_embed(embed) for embed in message.embeds)


def _embed(embed: Json) -> str:
    lines = (f"**{embed['title']}**" if embed.get("title") else "", str(embed.get("description") or ""))
    shown = to_html("\n".join(line for line in lines if line), lambda _: None)
    return f'<div class="embed">{shown}</div>'


def _notice(message: MessageObject) -> str:
    """Say what the client writes for messages of the system."""
    who = message.author.shown_as
    return {
        MessageKind.NAME_CHANGED: f"{who} changed the thread name: {message.content}",
        MessageKind.THREAD_CREATED: f"{who} started a thread: {message.content}",
        MessageKind.THREAD_STARTER: "The message this thread began with.",
    }.get(message.kind, "")
