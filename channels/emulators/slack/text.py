"""Slack's text and blocks: how they are stored, what Slack rejects, and how its client shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import escape, unescape
from typing import Final

from markdown_it import MarkdownIt

from channels.emulators.slack.world import (
    Conversation,
    SlackMessage,
    SlackRefusal,
    SlackState,
    SlackUser,
    invalid_blocks,
    ts_key,
)
from channels.emulators.stage import Json, Person, Place, PlaceKind, Said, StageButton, mapped

# --- text as it is stored: what `&`, `<` and `>` become, what is a mention, where long text is cut


TEXT_MAX: Final = 40_000  # beyond, Slack truncates
SPLIT_OVER: Final = 4040  # observed: up to here a text stays one message
SPLIT_AT: Final = 4000

_CONTROL: Final = re.compile(
    r"<(?:[@#][UWCSBDG][A-Z0-9]+(?:\|[^<>]*)?|!(?:here|channel|everyone|subteam\^[A-Z0-9]+|date\^[^<>]+)(?:\|[^<>]*)?"
    r"|(?:https?://|mailto:|tel:)[^<>|\s]+(?:\|[^<>]*)?)>"
)
_ENTITY: Final = re.compile(r"&(?!(?:amp|lt|gt);)")
_BARE_LINK: Final = re.compile(r"(?<![<|\w])https?://[^\s<>|]*[^\s<>|.,:;!?'\")\]]")
_CODE: Final = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
_USER: Final = re.compile(r"<@([UWB][A-Z0-9]+)(?:\|[^<>]*)?>")


def stored(text: str, *, links: bool = True) -> str:
    """Normalize the text an app posted: control sequences kept, other brackets and ampersands escaped.

    Bare web addresses become links, outside code."""
    return mapped(_CONTROL, text, found=re.Match.group, between=lambda rest: _escaped(rest, links=links))


def _escaped(text: str, *, links: bool) -> str:
    text = _ENTITY.sub("&amp;", text).replace("<", "&lt;").replace(">", "&gt;")
    if not links:
        return text
    return mapped(_CODE, text, found=re.Match.group, between=_linked)


def _linked(text: str) -> str:
    return _BARE_LINK.sub(r"<\g<0>>", text)


def typed(text: str) -> str:
    """Return what a person's client sends for what they typed: everything escaped, but a mention stays a mention."""
    return mapped(_USER, text, found=re.Match.group, between=lambda rest: _linked(escape(rest, quote=False)))


def mentioned(text: str) -> list[str]:
    """Find the user ids the text names, in order, each once."""
    return list(dict.fromkeys(_USER.findall(text)))


def plain(text: str) -> str:
    """Resolve entities; control sequences stay as they are."""
    return unescape(text)


def cut(text: str) -> list[str]:
    """Cut to 40 000 characters, and those into pieces of at most about 4000, at white space where there is some."""
    text = text[:TEXT_MAX]
    if len(text) <= SPLIT_OVER:
        return [text]
    pieces: list[str] = []
    while len(text) > SPLIT_AT:
        space = max(text.rfind("\n", 0, SPLIT_AT), text.rfind(" ", 0, SPLIT_AT))
        at = space if space > SPLIT_AT // 2 else SPLIT_AT
        pieces.append(text[:at])
        text = text[at:].lstrip("\n ") if at == space else text[at:]
    return [*pieces, text] if text else pieces


# --- Block Kit, as far as messages need it


BLOCKS_MAX: Final = 50
ALL_TEXT_MAX: Final = 13_200  # observed
SECTION_MAX: Final = 3000
ACTIONS_MAX: Final = 25
BUTTON_MAX: Final = 75
VALUE_MAX: Final = 2000
ID_MAX: Final = 255


def check_blocks(blocks: object) -> list[Json]:
    """Check the kinds that our app sends: `section` and `actions`; Slack has more, which are refused here.

    Raises `SlackRefusal`: `invalid_blocks_format`, `invalid_blocks`, `msg_blocks_too_long`."""
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise SlackRefusal("invalid_blocks_format")
    if len(blocks) > BLOCKS_MAX:
        raise invalid_blocks(f"no more than {BLOCKS_MAX} items allowed [json-pointer:/blocks]")
    problems = [
        f"{problem} [json-pointer:/blocks/{number}]"
        for number, block in enumerate(blocks)
        for problem in _problems(block)
    ]
    if problems:
        raise invalid_blocks(*problems)
    if sum(len(text) for block in blocks for text in _texts(block)) > ALL_TEXT_MAX:
        raise SlackRefusal("msg_blocks_too_long")
    return blocks


def _problems(block: Json) -> Iterator[str]:
    kind = block.get("type")
    if kind not in ("section", "actions"):
        yield f"unsupported type: {kind}"
    elif len(str(block.get("block_id", ""))) > ID_MAX:
        yield f"must be less than {ID_MAX + 1} characters"
    elif kind == "section":
        if "text" not in block:
            yield "missing required field: text"
        else:
            yield from _text_problems(block["text"], SECTION_MAX, {"plain_text", "mrkdwn"})
    else:
        yield from _count(block.get("elements"), ACTIONS_MAX)
        for element in block.get("elements") or []:
            yield from _button(element)


def _text_problems(text: object, limit: int, kinds: set[str]) -> Iterator[str]:
    if not isinstance(text, dict) or text.get("type") not in kinds:
        yield "invalid text object"
    elif not str(text.get("text", "")):
        yield "must be more than 0 characters"
    elif len(str(text["text"])) > limit:
        yield f"must be less than {limit + 1} characters"


def _count(items: object, limit: int) -> Iterator[str]:
    if not isinstance(items, list) or not items:
        yield "missing required field: elements"
    elif len(items) > limit:
        yield f"no more than {limit} items allowed"


def _button(element: object) -> Iterator[str]:
    if not isinstance(element, dict) or element.get("type") != "button":
        return
    yield from _text_problems(element.get("text"), BUTTON_MAX, {"plain_text"})
    if len(str(element.get("value", ""))) > VALUE_MAX:
        yield f"must be less than {VALUE_MAX + 1} characters"
    if len(str(element.get("action_id", ""))) > ID_MAX:
        yield f"must be less than {ID_MAX + 1} characters"


def _texts(block: object) -> Iterator[str]:
    """Find every text a person would read in a block, in order."""
    if isinstance(block, list):
        for item in block:
            yield from _texts(item)
    elif isinstance(block, dict):
        if isinstance(block.get("text"), str):
            yield block["text"]
        for name in ("text", "elements"):
            if not isinstance(block.get(name), str):
                yield from _texts(block.get(name))


def rich_text(text: str, mentions: list[str]) -> list[Json]:
    """Return the rich_text block that a person's own client makes of what they typed."""
    elements: list[Json] = []
    rest = text
    for user_id in mentions:
        before, _, rest = rest.partition(f"<@{user_id}>")
        elements += [{"type": "text", "text": before}] * bool(before) + [{"type": "user", "user_id": user_id}]
    elements += [{"type": "text", "text": rest}] * bool(rest)
    section: Json = {"type": "rich_text_section", "elements": elements}
    return [{"type": "rich_text", "block_id": "rt", "elements": [section]}]


# --- both dialects as safe HTML: mrkdwn, and real Markdown in `markdown` blocks


NameOf = Callable[[str], str | None]
"""The name of a user or conversation id, or None."""

# Both with the empty line on either side: a box and a bar stand off by themselves.
_FENCE: Final = re.compile(r"\n{0,2}```\n?(.*?)\n?```\n{0,2}", re.DOTALL)
_QUOTE: Final = re.compile(r"\n{0,2}(?:^&gt; ?[^\n]*\n?)+\n?", re.MULTILINE)
_INLINE: Final = re.compile(
    r"`(?P<code>[^`\n]+)`"
    r"|<(?P<control>[^<>\n]+)>"
    r"|(?<![\w`*])\*(?P<bold>(?! )[^*\n]+(?<! ))\*(?![\w*])"
    r"|(?<![\w`_])_(?P<italic>(?! )[^_\n]+(?<! ))_(?![\w_])"
    r"|(?<![\w`~])~(?P<strike>(?! )[^~\n]+(?<! ))~(?![\w~])"
)
_TAGS: Final = {"bold": "strong", "italic": "em", "strike": "s"}
_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
_MENTION: Final = re.compile(r"&lt;([@#!])([\w^]+)(?:\|[^&<>]*)?&gt;")


def mrkdwn_html(text: str, name_of: NameOf) -> str:
    """Convert stored mrkdwn (entities escaped) to HTML."""
    return mapped(
        _FENCE,
        text,
        found=lambda fence: f"<pre><code>{_literal(fence.group(1), name_of)}</code></pre>",
        between=lambda rest: _quotes(rest, name_of),
    )


def _quotes(text: str, name_of: NameOf) -> str:
    def quoted(quote: re.Match[str]) -> str:
        inner = re.sub(r"^&gt; ?", "", quote.group(0).strip("\n"), flags=re.MULTILINE)
        return f"<blockquote>{_inline(inner, name_of)}</blockquote>"

    return mapped(_QUOTE, text, found=quoted, between=lambda rest: _inline(rest, name_of))


def _inline(text: str, name_of: NameOf) -> str:
    def marked(found: re.Match[str]) -> str:
        if found.group("code"):
            return f"<code>{_literal(found.group('code'), name_of)}</code>"
        if found.group("control"):
            return _control(found.group("control"), name_of)
        kind = next(name for name in _TAGS if found.group(name))
        return f"<{_TAGS[kind]}>{_inline(found.group(kind), name_of)}</{_TAGS[kind]}>"

    return mapped(_INLINE, text, found=marked, between=_plain)


def _plain(text: str) -> str:
    return escape(unescape(text)).replace("\n", "<br>")


def _literal(text: str, name_of: NameOf) -> str:
    """Show code, inside which only control sequences still mean something: a mention there pings, too."""
    return re.sub(r"<([^<>\n]+)>", lambda found: _shown(found.group(1), name_of), _entities(text))


def _entities(text: str) -> str:
    return re.sub(r'["\']', lambda found: escape(found.group(0)), text)


def _shown(control: str, name_of: NameOf) -> str:
    target, _, label = control.partition("|")
    return _control(control, name_of) if target[:1] in "@#!" else escape(unescape(label or target))


def _control(control: str, name_of: NameOf) -> str:
    target, _, label = control.partition("|")
    sign, rest = target[:1], target[1:]
    if sign in ("@", "#"):
        return _mention(sign + (name_of(rest) or label or rest))
    if sign == "!":
        return _mention(label or "@" + rest.partition("^")[0])
    if target.startswith(("http://", "https://", "mailto:")):
        shown = _plain(label or target.removeprefix("mailto:"))
        return f'<a href="{escape(unescape(target))}" rel="noreferrer noopener" target="_blank">{shown}</a>'
    return _plain(f"<{control}>")


def _mention(name: str) -> str:
    return f'<span class="mention">{escape(unescape(name))}</span>'


def markdown_html(text: str, name_of: NameOf) -> str:
    """Convert real Markdown; HTML in it is text; Slack's mentions work."""
    html = str(_MARKDOWN.render(text))

    def shown(found: re.Match[str]) -> str:
        return _control(unescape(found.group(1) + found.group(2)), name_of)

    return _MENTION.sub(shown, html)


def blocks_html(blocks: list[Json], name_of: NameOf) -> str:
    """Show the blocks of a message, one after another."""
    return "".join(_block(block, name_of) for block in blocks)


def _block(block: Json, name_of: NameOf) -> str:
    kind = block.get("type")
    if kind == "markdown":
        return markdown_html(str(block.get("text", "")), name_of)
    if kind == "section":
        return f"<p>{_text(block.get('text'), name_of)}</p>"
    return "".join(_rich(element, name_of) for element in block.get("elements") or [])


def _text(part: object, name_of: NameOf) -> str:
    if not isinstance(part, dict):
        return ""
    text = str(part.get("text", ""))
    return mrkdwn_html(stored(text), name_of) if part.get("type") == "mrkdwn" else escape(text)


def _rich(element: Json, name_of: NameOf) -> str:
    """Show what people type, as their own client wraps it."""
    kind = element.get("type")
    if kind == "rich_text_section":
        return f"<div>{''.join(_rich(part, name_of) for part in element.get('elements') or [])}</div>"
    if kind == "user":
        return _mention("@" + (name_of(str(element.get("user_id"))) or str(element.get("user_id"))))
    return escape(str(element.get("text", ""))).replace("\n", "<br>")


# --- conversations, threads and messages in the stage's words


TITLE_CHARS_MAX: Final = 60
_ANGLED: Final = re.compile(r"<([@#!]?)([^<>|\n]+)(?:\|([^<>\n]*))?>")


def as_person(user: SlackUser) -> Person:
    return Person(user.id, user.real_name, user.handle, user.bot_id is not None, user.locale)


def as_place(place: Conversation) -> Place:
    kind = PlaceKind.DM if place.is_im else PlaceKind.GROUP
    return Place(place.id, kind, place.name, place.id, person_id=place.person_id)


def as_thread(place: Conversation, root: SlackMessage) -> Place:
    title = root.title or plain(root.text).strip().partition("\n")[0][:TITLE_CHARS_MAX] or "Thread"
    address = f"{place.id} {root.ts}"
    return Place(thread_id(place.id, root.ts), PlaceKind.THREAD, title, address, parent_id=place.id, root_id=root.ts)


def thread_id(channel_id: str, root_ts: str) -> str:
    """Return the stage's name of a thread: a thread of Slack is no conversation of its own."""
    return f"{channel_id}/{root_ts}"


def split_id(place_id: str) -> tuple[str, str | None]:
    """Return the conversation, and the thread's root in it."""
    channel_id, _, root_ts = place_id.partition("/")
    return channel_id, root_ts or None


def place_of(message: SlackMessage) -> str:
    """Return where people see the message: a reply is in its thread."""
    if message.is_reply:
        return thread_id(message.channel_id, message.thread_ts or "")
    return message.channel_id


def as_said(world: SlackState, message: SlackMessage, place_id: str | None = None) -> Said:
    seconds, micros = ts_key(message.ts)
    return Said(
        id=message.ts,
        address=f"{world.team_id}:{split_id(place_of(message))[0]}:{message.ts}",
        place_id=place_id or place_of(message),
        author=as_person(message.author),
        text=shown_text(world, message),
        html=_html(world, message),
        at_ms=seconds * 1000 + micros // 1000,
        edited=message.edited_ts is not None,
        reply_to=message.thread_ts if message.is_reply else None,
        files=tuple(file.name for file in message.files),
        buttons=tuple(StageButton(str(each["action_id"]), _label(each)) for each in buttons_of(message)),
        only_for=message.only_for,
    )


def buttons_of(message: SlackMessage) -> Iterator[Json]:
    """Find the buttons of all its blocks, as the app made them; a link is none."""
    for block in message.blocks:
        elements = [*(block.get("elements") or []), block.get("accessory") or {}]
        for element in elements if block.get("type") in ("actions", "section") else []:
            if element.get("type") == "button" and "action_id" in element and "url" not in element:
                yield element


def list_of(message: SlackMessage) -> str:
    """Return the name of the list below a message that the app fills. Raises `ValueError` for a message without one."""
    for block in message.blocks:
        for element in block.get("elements") or []:
            if isinstance(element, dict) and element.get("type") == "external_select":
                return str(element["action_id"])
    raise ValueError("there is no list below the message")


def _label(button: Json) -> str:
    return str((button.get("text") or {}).get("text", ""))


def name_in(world: SlackState, some_id: str) -> str | None:
    if some_id in world.users:
        return world.users[some_id].real_name
    place = world.conversations.get(some_id)
    return place.name if place else None


def shown_text(world: SlackState, message: SlackMessage) -> str:
    def shown(found: re.Match[str]) -> str:
        sign, target, label = found.groups()
        if sign == "!":
            return label or "@" + target.partition("^")[0]
        if sign:
            return sign + (name_in(world, target) or label or target)
        return label or target

    return plain(_ANGLED.sub(shown, message.text))


def _html(world: SlackState, message: SlackMessage) -> str:
    def name_of(some_id: str) -> str | None:
        return name_in(world, some_id)

    passed_on = "".join(
        f"<blockquote><b>{escape(str(each.get('author_name', '')))}</b><br>"
        f"{mrkdwn_html(str(each.get('text', '')), name_of)}</blockquote>"
        for each in message.attachments
    )
    if message.blocks:
        shown = [block for block in message.blocks if block.get("type") != "actions"]
        return blocks_html(shown, name_of) + passed_on
    return mrkdwn_html(message.text, name_of) + passed_on
