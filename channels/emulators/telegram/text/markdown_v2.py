"""parse_mode=MarkdownV2, as strict as the server: a reserved character that is not escaped is an error.

One pass with a stack of open entities. Errors name byte offsets of the text that was sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from channels.emulators.telegram.text.entities import QUOTES, Entity, FormattedText, MarkupError, in_order, utf16_length
from channels.emulators.telegram.text.links import checked_link, custom_emoji, mentioned_user

_RESERVED: Final = frozenset("_*[]()~`>#+-=|{}.!\n")
_ENDS: Final = {
    "bold": "*",
    "italic": "_",
    "underline": "__",
    "strikethrough": "~",
    "spoiler": "||",
    "code": "`",
    "pre": "```",
    "text_link": "]",
    "custom_emoji": "]",
}
_NAMES: Final = {
    "bold": "Bold",
    "italic": "Italic",
    "underline": "Underline",
    "strikethrough": "Strikethrough",
    "spoiler": "Spoiler",
    "code": "Code",
    "pre": "Pre",
    "text_link": "TextUrl",
    "custom_emoji": "CustomEmoji",
    "blockquote": "BlockQuote",
}


def parse_markdown_v2(text: str) -> FormattedText:
    """Plain text and entities. Raises `MarkupError`."""
    return _Parser(text).parse()


@dataclass(frozen=True, slots=True)
class _Open:
    type: str
    offset: int  # UTF-16, in the plain text
    written: int  # characters of plain text before it
    at: int  # where its marker stands in the source
    language: str = ""


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.plain: list[str] = []
        self.offset = 0
        self.open: list[_Open] = []
        self.entities: list[Entity] = []
        self.at_line_start = True

    def parse(self) -> FormattedText:
        while self.at < len(self.source):
            self._step()
        self._finish()
        return FormattedText("".join(self.plain), tuple(in_order(self.entities)))

    def _step(self) -> None:
        character = self.source[self.at]
        if character == "\\" and "\0" < self._peek(1) <= "~":
            self._write(self._peek(1))
            self.at += 2
            return
        in_code = bool(self.open) and self.open[-1].type in {"code", "pre"}
        if character != "`" and (in_code or character not in _RESERVED):
            self._write(character)
            self.at += 1
        elif self._is_end(character):
            self._end(character)
        else:
            self._begin(character)

    def _peek(self, ahead: int) -> str:
        place = self.at + ahead
        return self.source[place] if place < len(self.source) else "\0"

    def _write(self, character: str) -> None:
        self.plain.append(character)
        self.offset += utf16_length(character)
        if character != "\r":
            self.at_line_start = character == "\n"

    @property
    def _is_quoting(self) -> bool:
        return any(each.type == "blockquote" for each in self.open)

    def _is_end(self, character: str) -> bool:
        if not self.open:
            return False
        if character == "\n" and self._is_quoting and self._peek(1) != ">":
            return True
        kind = self.open[-1].type
        if kind == "italic":
            return character == "_" and self._peek(1) != "_"
        return kind in _ENDS and self.source.startswith(_ENDS[kind], self.at)

    def _begin(self, character: str) -> None:
        if character == "\n":
            self._write("\n")
            self.at += 1
            return
        if character == ">" and self.at_line_start:
            if not self._is_quoting:
                self._push("blockquote", 1)
            else:
                self.at += 1
            return
        for marker, kind in (
            ("__", "underline"),
            ("_", "italic"),
            ("*", "bold"),
            ("~", "strikethrough"),
            ("||", "spoiler"),
            ("![", "custom_emoji"),
            ("[", "text_link"),
            ("```", "pre"),
            ("`", "code"),
        ):
            if self.source.startswith(marker, self.at):
                self._push(kind, len(marker))
                return
        raise MarkupError(f"Character '{character}' is reserved and must be escaped with the preceding '\\'")

    def _push(self, kind: str, marker_length: int) -> None:
        started = self.at
        self.at += marker_length
        language = self._language() if kind == "pre" else ""
        self.open.append(_Open(kind, self.offset, len(self.plain), started, language))

    def _language(self) -> str:
        """The word after an opening fence, if white space follows it; one line break after it goes too."""
        end = self.at
        while end < len(self.source) and not self.source[end].isspace() and self.source[end] != "`":
            end += 1
        language = ""
        if self.at != end and end < len(self.source) and self.source[end] != "`":
            language = self.source[self.at : end]
            self.at = end
        if self._peek(0) in "\r\n":
            self.at += 2 if self._peek(1) in "\r\n" and self._peek(0) != self._peek(1) else 1
        return language

    def _end(self, character: str) -> None:
        top = self.open.pop()
        if character == "\n":
            self._end_quote(top)
            return
        self.at += len(_ENDS[top.type])
        url, user_id, emoji_id = "", 0, ""
        if top.type == "text_link":
            target = self._target("a URL") if self._peek(0) == "(" else "".join(self.plain[top.written :])
            user_id = mentioned_user(target)
            url = "" if user_id else checked_link(target) or ""
            if not user_id and not url:
                return
        elif top.type == "custom_emoji":
            if self._peek(0) != "(":
                raise MarkupError("Custom emoji entity must contain a tg://emoji URL")
            emoji_id = custom_emoji(self._target("a custom emoji URL"))
            if not emoji_id:
                raise MarkupError("Invalid custom emoji identifier specified")
        if self.offset > top.offset:
            kind = "text_mention" if user_id else top.type
            length = self.offset - top.offset
            self.entities.append(Entity(kind, top.offset, length, url, top.language, user_id, emoji_id))

    def _end_quote(self, top: _Open) -> None:
        """A line break that no `>` follows ends the quote; `||` right before it makes it expandable."""
        kind = "blockquote"
        if top.type == "spoiler" and self.at == top.at + len(_ENDS["spoiler"]) and self.open:
            kind = "expandable_blockquote"
            top = self.open.pop()
        if top.type != "blockquote":
            raise self._unclosed(top)
        self._write("\n")
        self.at += 1
        self.entities.append(Entity(kind, top.offset, self.offset - top.offset))

    def _target(self, what: str) -> str:
        """What stands in the round brackets after a label."""
        self.at += 1
        started = self.at
        target = []
        while self.at < len(self.source) and self.source[self.at] != ")":
            if self.source[self.at] == "\\" and "\0" < self._peek(1) <= "~":
                self.at += 1
            target.append(self.source[self.at])
            self.at += 1
        if self.at == len(self.source):
            raise MarkupError(f"Can't find end of {what} at byte offset {self._byte_offset(started)}")
        self.at += 1
        return "".join(target)

    def _finish(self) -> None:
        kind = "blockquote"
        if [each.type for each in self.open[-2:]] == ["blockquote", "spoiler"] and self.open[-1].at + 2 == self.at:
            kind = "expandable_blockquote"
            self.open.pop()
        if self.open and self.open[-1].type in QUOTES:
            top = self.open.pop()
            if self.offset > top.offset:
                self.entities.append(Entity(kind, top.offset, self.offset - top.offset))
        if self.open:
            raise self._unclosed(self.open[-1])

    def _unclosed(self, entity: _Open) -> MarkupError:
        name = "PreCode" if entity.language else _NAMES[entity.type]
        return MarkupError(f"Can't find end of {name} entity at byte offset {self._byte_offset(entity.at)}")

    def _byte_offset(self, place: int) -> int:
        return len(self.source[:place].encode())
