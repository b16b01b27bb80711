"""How a token arrives on each platform: in words, in links made of it, in names of people and files, in what comes
along. Each spelling is the platform's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html import escape
from typing import Any, Final

from channels.core.message import Incoming
from channels.discord.normalize import DiscordAttachment, DiscordIdentity, DiscordMessage, DiscordQuoted
from channels.discord.normalize import normalize as normalize_discord
from channels.slack.normalize import SlackIdentity
from channels.slack.normalize import normalize as normalize_slack
from channels.telegram.normalize import TelegramIdentity
from channels.telegram.normalize import normalize as normalize_telegram

Arrival = Callable[[str], Incoming]
"""A message with a token somewhere in it."""

_MARKDOWN: Final = re.compile(r"[_*~`|>\\]")
_BOT: Final = "TrivetBot"


def _slack(words: str = "x", **fields: Any) -> Incoming:
    event = {"type": "message", "channel": "D1", "channel_type": "im", "user": "U1", "ts": "1.000001", "text": words}
    payload = {"team_id": "T1", "event": {**event, **fields}}
    incoming = normalize_slack(payload, SlackIdentity("T1", "UBOT"), takes_part=lambda _channel, _ts: False)
    assert isinstance(incoming, Incoming), incoming
    return incoming


def _rich(*elements: dict[str, Any], kind: str = "rich_text_section") -> Incoming:
    return _slack("", blocks=[{"type": "rich_text", "elements": [{"type": kind, "elements": elements}]}])


def _telegram(words: str = "", **fields: Any) -> Incoming:
    message = {
        "message_id": 7,
        "date": 1,
        "chat": {"id": 5, "type": "private"},
        "from": {"id": 5, "is_bot": False, "first_name": "A"},
        **({"text": words} if words else {}),
        **fields,
    }
    incoming = normalize_telegram({"message": message}, TelegramIdentity(42, _BOT))
    assert isinstance(incoming, Incoming), incoming
    return incoming


def _discord(words: str = "x", *, author_name: str = "A", **fields: Any) -> Incoming:
    message = DiscordMessage("1", "2", "3", author_name, words, 1, **fields)
    incoming = normalize_discord(message, DiscordIdentity("99"))
    assert isinstance(incoming, Incoming), incoming
    return incoming


def _typed(token: str) -> str:
    """As Slack stores it."""
    return escape(token, quote=False)


def _halves(token: str) -> tuple[str, str]:
    return token[: len(token) // 2], token[len(token) // 2 :]


def _half_linked(token: str) -> str:
    """Slack took the second half for the name of a server."""
    head, rest = map(_typed, _halves(token))
    return f"{head}<http://{rest}|{rest}>"


def _half_linked_blocks(token: str) -> Incoming:
    head, rest = _halves(token)
    return _rich({"type": "text", "text": head}, {"type": "link", "url": f"http://{rest}", "text": rest})


def _text(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **fields}


def _bold_half(token: str) -> Incoming:
    head, rest = _halves(token)
    return _rich(_text(head), _text(rest, style={"bold": True}))


def _entities(token: str) -> list[dict[str, Any]]:
    """Bold, and italic from the fifth character on."""
    return [
        {"type": "bold", "offset": 0, "length": len(token)},
        {"type": "italic", "offset": 5, "length": len(token) - 5},
    ]


def _pre(token: str) -> list[dict[str, Any]]:
    return [{"type": "pre", "offset": 0, "length": len(token), "language": "sh"}]


def _person(name: str) -> dict[str, Any]:
    return {"id": 8, "is_bot": False, "first_name": name}


def _answered(**fields: Any) -> dict[str, Any]:
    return {"message_id": 3, "from": _person("B"), **fields}


def _hidden(name: str) -> dict[str, Any]:
    return {"type": "hidden_user", "sender_user_name": name}


ARRIVALS: Final[Mapping[str, Arrival]] = {
    "slack: words": lambda token: _slack(f"a {_typed(token)} &amp; b"),
    "slack: code": lambda token: _slack(f"`{_typed(token)}`"),
    "slack: fence": lambda token: _slack(f"```{_typed(token)}```"),
    "slack: italic": lambda token: _slack(f"_{_typed(token)}_"),
    "slack: struck": lambda token: _slack(f"~{_typed(token)}~"),
    "slack: quote": lambda token: _slack(f"&gt; {_typed(token)}"),
    "slack: taken for a link": lambda token: _slack(f"a <http://{_typed(token)}.com|{_typed(token)}.com> b"),
    "slack: half of it taken for a link": lambda token: _slack(_half_linked(token)),
    "slack: before an at sign": lambda token: _slack(f"<mailto:{_typed(token)}@e.com|{_typed(token)}@e.com>"),
    "slack: user of an address": lambda token: _slack(f"<https://{_typed(token)}@e.com|x>"),
    "slack: path of an address": lambda token: _slack(f"<https://e.com/{_typed(token)}|x>"),
    "slack: label of a link": lambda token: _slack(f"<https://e.com|{_typed(token)}>"),
    "slack: behind a mention": lambda token: _slack(f"<@U1>{_typed(token)}"),
    "slack: behind a channel": lambda token: _slack(f"<#C1|general>{_typed(token)}"),
    "slack: behind a call": lambda token: _slack(f"<!here>{_typed(token)}"),
    "slack: blocks": lambda token: _rich(_text(f"a {token} b")),
    "slack: blocks, half of it bold": _bold_half,
    "slack: blocks, half of it a link": _half_linked_blocks,
    "slack: blocks, fence": lambda token: _rich(_text(token), kind="rich_text_preformatted"),
    "slack: blocks, quote": lambda token: _rich(_text(token), kind="rich_text_quote"),
    "slack: name of a file": lambda token: _slack(files=[{"id": "F1", "name": f"{token}.txt"}]),
    "slack: title of a file": lambda token: _slack(files=[{"id": "F1", "title": token}]),
    "slack: shared": lambda token: _slack(attachments=[{"is_share": True, "text": _typed(token)}]),
    "slack: author of what is shared": lambda token: _slack(
        attachments=[{"is_share": True, "text": "a", "author_name": token}]
    ),
    "slack: name": lambda token: _slack(user_profile={"display_name": token}),
    "telegram: words": lambda token: _telegram(f"a {token} b"),
    "telegram: entities": lambda token: _telegram(token, entities=_entities(token)),
    "telegram: pre": lambda token: _telegram(token, entities=_pre(token)),
    "telegram: zero width": lambda token: _telegram("\u200b".join(token)),
    "telegram: caption": lambda token: _telegram(caption=token, photo=[{"file_id": "f"}]),
    "telegram: name of a file": lambda token: _telegram(document={"file_id": "f", "file_name": f"{token}.env"}),
    "telegram: type of a file": lambda token: _telegram(document={"file_id": "f", "mime_type": token}),
    "telegram: excerpt": lambda token: _telegram("x", quote={"text": token}, reply_to_message=_answered(text="a")),
    "telegram: answered caption": lambda token: _telegram("x", reply_to_message=_answered(caption=token)),
    "telegram: answered file": lambda token: _telegram(
        "x", reply_to_message=_answered(document={"file_id": "f", "file_name": token})
    ),
    "telegram: answered name": lambda token: _telegram(
        "x", reply_to_message={"message_id": 3, "from": _person(token), "text": "a"}
    ),
    "telegram: forward": lambda token: _telegram(token, forward_origin=_hidden("Z")),
    "telegram: name of a forward": lambda token: _telegram("x", forward_origin=_hidden(token)),
    "telegram: option of a poll": lambda token: _telegram(poll={"question": "q", "options": [{"text": token}]}),
    "telegram: contact": lambda token: _telegram(contact={"first_name": token}),
    "telegram: venue": lambda token: _telegram(venue={"title": "a", "address": token}),
    "telegram: checklist": lambda token: _telegram(checklist={"title": "a", "tasks": [{"text": token}]}),
    "telegram: name": lambda token: _telegram("x", **{"from": _person(token)}),
    "telegram: name with a mark of direction": lambda token: _telegram(
        "x", **{"from": _person(f"{token[:9]}\u202e{token[9:]}")}
    ),
    "telegram: name with a colour": lambda token: _telegram(
        "x", **{"from": _person(f"{token[:9]}\x1b[31m{token[9:]}")}
    ),
    "discord: words": lambda token: _discord(f"a {token} b"),
    "discord: fence": lambda token: _discord(f"```{token}```"),
    "discord: italic": lambda token: _discord(f"_{token}_"),
    "discord: underlined": lambda token: _discord(f"__{token}__"),
    "discord: struck": lambda token: _discord(f"~~{token}~~"),
    "discord: spoiler": lambda token: _discord(f"||{token}||"),
    "discord: escaped": lambda token: _discord(_MARKDOWN.sub(r"\\\g<0>", token)),
    "discord: address of a link": lambda token: _discord(f"[x](https://e.com/{token})"),
    "discord: label of a link": lambda token: _discord(f"[{token}](https://e.com)"),
    "discord: behind a mention": lambda token: _discord(f"<@3>{token}"),
    "discord: behind an emoji": lambda token: _discord(f"<:wave:5>{token}"),
    "discord: name of a channel": lambda token: _discord("<#5>", channel_names={"5": token}),
    "discord: name of a file": lambda token: _discord(files=(DiscordAttachment("5", f"{token}.txt"),)),
    "discord: name of a spoiler": lambda token: _discord(files=(DiscordAttachment("5", f"SPOILER_{token}.txt"),)),
    "discord: answered": lambda token: _discord(answered=DiscordQuoted("2", "4", token, "7", "B")),
    "discord: answered name": lambda token: _discord(answered=DiscordQuoted("2", "4", "a", "7", token)),
    "discord: forward": lambda token: _discord("", forwarded=(DiscordQuoted("2", "4", token),)),
    "discord: name": lambda token: _discord(author_name=token),
}
