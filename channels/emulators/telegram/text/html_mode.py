"""parse_mode=HTML, as strict as the server: unknown tags and bad nesting are errors that name a byte offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from channels.emulators.telegram.text.entities import CODE, Entity, FormattedText, MarkupError, in_order, utf16_length
from channels.emulators.telegram.text.links import checked_link, mentioned_user

_STYLES: Final = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "span": "spoiler",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
}
_TAGS: Final = frozenset(_STYLES) | {"a", "tg-emoji", "tg-time"}
_NAMED: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_SPACE: Final = frozenset(" \t\r\n\0\v")
_ARGUMENTS: Final = {"a": "href", "tg-emoji": "emoji-id", "code": "class", "span": "class"}


def parse_html(text: str) -> FormattedText:
    """Plain text and entities. Raises `MarkupError`."""
    return _Parser(text).parse()


@dataclass(frozen=True, slots=True)
class _Open:
    tag: str
    argument: str
    offset: int
    written: int


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.plain: list[str] = []
        self.offset = 0
        self.open: list[_Open] = []
        self.entities: list[Entity] = []
        self.languages: dict[tuple[int, int], str] = {}

    def parse(self) -> FormattedText:
        while self.at < len(self.source):
            character = self.source[self.at]
            if character == "<":
                self._end_tag() if self._peek(1) == "/" else self._start_tag()
            elif character == "&":
                self._write(self._reference())
            else:
                self.at += 1
                self._write(character)
        if self.open:
            raise MarkupError(f'Can\'t find end tag corresponding to start tag "{self.open[-1].tag}"')
        return FormattedText("".join(self.plain), tuple(in_order(self.entities)))

    def _peek(self, ahead: int = 0) -> str:
        place = self.at + ahead
        return self.source[place] if place < len(self.source) else "\0"

    def _write(self, text: str) -> None:
        self.plain.append(text)
        self.offset += utf16_length(text)

    def _skip_space(self) -> None:
        while self.at < len(self.source) and self._peek() in _SPACE:
            self.at += 1

    def _read_until(self, stops: str) -> str:
        started = self.at
        while self._peek() not in _SPACE and self._peek() not in stops:
            self.at += 1
        return self.source[started : self.at]

    def _reference(self) -> str:
        """One character for `&lt;` and its like; the `&` itself when it is none. The semicolon is optional."""
        end = self.at + 1
        if self.source.startswith("#", end):
            is_hex = self.source[end + 1 : end + 2] in ("x", "X")
            end += 2 if is_hex else 1
            digits = "0123456789abcdefABCDEF" if is_hex else "0123456789"
            started = end
            while end < len(self.source) and self.source[end] in digits:
                end += 1
            code = int(self.source[started:end] or "0", 16 if is_hex else 10)
            found = chr(code) if 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else ""
        else:
            while end < len(self.source) and self.source[end].isascii() and self.source[end].isalpha():
                end += 1
            found = _NAMED.get(self.source[self.at + 1 : end], "")
        if not found:
            self.at += 1
            return "&"
        self.at = end + 1 if self.source.startswith(";", end) else end
        return found

    def _start_tag(self) -> None:
        started = self.at
        self.at += 1
        tag = self._read_until(">").lower()
        if self.at >= len(self.source):
            raise self._error("Unclosed start tag", started)
        if tag not in _TAGS:
            raise self._error(f'Unsupported start tag "{tag}"', started)
        argument = ""
        while True:
            self._skip_space()
            if self._peek() == ">":
                break
            name, value = self._attribute(tag, started)
            if name == _ARGUMENTS.get(tag):
                argument = value
            elif tag == "blockquote" and name == "expandable":
                argument = name
        self.at += 1
        if tag == "span" and argument != "tg-spoiler":
            raise self._error('Tag "span" must have class "tg-spoiler"', started)
        self.open.append(_Open(tag, argument, self.offset, len(self.plain)))

    def _attribute(self, tag: str, started: int) -> tuple[str, str]:
        name = self._read_until("=>")
        if self.at >= len(self.source):
            raise self._error("Unclosed start tag", started)
        if not name:
            raise self._error(f'Empty attribute name in the tag "{tag}"', started)
        self._skip_space()
        if self._peek() != "=":
            if tag == "blockquote" and name == "expandable":
                return name, ""
            raise self._error(f'Expected equal sign in declaration of an attribute of the tag "{tag}"', started)
        self.at += 1
        self._skip_space()
        if self.at >= len(self.source):
            raise self._error(f'Unclosed start tag "{tag}"', started)
        value = self._quoted() if self._peek() in "'\"" else self._token()
        if self.at >= len(self.source):
            raise self._error("Unclosed start tag", started)
        return name, value

    def _quoted(self) -> str:
        quote = self._peek()
        self.at += 1
        value = []
        while self.at < len(self.source) and self._peek() != quote:
            if self._peek() == "&":
                value.append(self._reference())
            else:
                value.append(self._peek())
                self.at += 1
        self.at += 1
        return "".join(value)

    def _token(self) -> str:
        started = self.at
        while self._peek().isascii() and (self._peek().isalnum() or self._peek() in ".-"):
            self.at += 1
        if self._peek() not in _SPACE and self._peek() != ">":
            raise self._error("Unexpected end of name token", started)
        return self.source[started : self.at].lower()

    def _end_tag(self) -> None:
        started = self.at
        if not self.open:
            raise self._error("Unexpected end tag", started)
        self.at += 2
        tag = self._read_until(">").lower()
        self._skip_space()
        if self._peek() != ">":
            raise self._error("Unclosed end tag", started)
        self.at += 1
        top = self.open.pop()
        if tag and tag != top.tag:
            where = len(self.source[:started].encode())
            raise MarkupError(f'Unmatched end tag at byte offset {where}, expected "</{top.tag}>", found "</{tag}>"')
        if self.offset > top.offset:
            self._close(top)

    def _close(self, top: _Open) -> None:
        length = self.offset - top.offset
        if top.tag == "a":
            self._close_link(top, length)
        elif top.tag == "tg-emoji":
            if not top.argument.isdecimal() or int(top.argument) == 0:
                raise MarkupError("Invalid custom emoji identifier specified")
            self.entities.append(Entity("custom_emoji", top.offset, length, custom_emoji_id=top.argument))
        elif top.tag in CODE:
            self._close_code(top, length)
        elif top.tag in _STYLES:
            kind = "expandable_blockquote" if top.argument == "expandable" else _STYLES[top.tag]
            self.entities.append(Entity(kind, top.offset, length))

    def _close_link(self, top: _Open, length: int) -> None:
        url = top.argument or "".join(self.plain[top.written :])
        if user_id := mentioned_user(url):
            self.entities.append(Entity("text_mention", top.offset, length, user_id=user_id))
        elif link := checked_link(url):
            self.entities.append(Entity("text_link", top.offset, length, url=link))

    def _close_code(self, top: _Open, length: int) -> None:
        """`<pre><code class="language-x">` is one block of that language; the order of the two is free."""
        language = top.argument.removeprefix("language-") if top.argument.startswith("language-") else ""
        last = self.entities[-1] if self.entities else None
        same = last is not None and (last.offset, last.length) == (top.offset, length)
        if same and last is not None and {last.type, top.tag} == CODE:
            language = language or self.languages.get((top.offset, length), "")
            if language:
                self.entities[-1] = Entity("pre", top.offset, length, language=language)
                return
        if language:
            self.languages[top.offset, length] = language
        self.entities.append(Entity(top.tag, top.offset, length))

    def _error(self, what: str, place: int) -> MarkupError:
        return MarkupError(f"{what} at byte offset {len(self.source[:place].encode())}")
