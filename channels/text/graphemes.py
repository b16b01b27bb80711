"""Where a text may be cut so that a reader does not stumble."""

from __future__ import annotations

from typing import Final

import regex

_SENTENCE_END: Final = regex.compile(r"""(?:[.!?…]["'”’)\]]*\s+|[。！？]["'”’」』）]*\s*)(?!\p{GCB=Extend}|\u200d)""")
_SPACE: Final = regex.compile(r"\s(?!\p{GCB=Extend}|\u200d)")
_GRAPHEME: Final = regex.compile(r"\X")
_LOOK_AHEAD: Final = 64  # enough to see whether the cluster at the cut goes on


def cut_at(text: str, most: int, *, in_words: bool) -> int:
    """The best place to cut `text` so that at most `most` characters come before, 0 if there is none.

    After a line, else after a sentence (both only if that fills half of the room), else between words, else
    (if `in_words`) at a grapheme border, else, for one monstrous grapheme, anywhere.
    """
    if most >= len(text):
        return len(text)
    if most <= 0:
        return 0
    line_end = text.rfind("\n", most // 2, most)
    if line_end > 0:
        return line_end + 1
    if text[most].isspace():
        return most
    sentence = _last_end(_SENTENCE_END, text, most // 2, most)
    if sentence:
        return sentence
    word = _last_end(_SPACE, text, 0, most)
    word = word if text[:word].strip() else 0
    if word or not in_words:
        return word
    return _grapheme_border(text, most) or most


def utf16_units(text: str) -> int:
    """Length as Telegram counts it: characters beyond the basic plane are two units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def clipped(text: str, units_max: int) -> str:
    """As many of the first clusters as fit, counted in UTF-16 units."""
    end = units = 0
    for cluster in _GRAPHEME.finditer(text):
        units += utf16_units(cluster[0])
        if units > units_max:
            break
        end = cluster.end()
    return text[:end]


def _last_end(pattern: regex.Pattern[str], text: str, start: int, most: int) -> int:
    """Where the last match ends that ends at or before `most`, else 0. One more character is looked at, for
    a combining mark makes a grapheme of the white space before it."""
    ends = (match.end() for match in pattern.finditer(text, start, most + 1))
    return max((end for end in ends if end <= most), default=0)


def _grapheme_border(text: str, most: int) -> int:
    """The last cluster border at or before `most`, counted from the last white space, where one surely is."""
    start = border = _last_end(_SPACE, text, 0, most)
    for cluster in _GRAPHEME.finditer(text, start, min(len(text), most + _LOOK_AHEAD)):
        if cluster.end() > most:
            break
        border = cluster.end()
    return border
