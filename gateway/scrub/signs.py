"""What may stand between an announcing word and its value, and around the value. Patterns only.

Each is matched within one unit, whose end is its `\\Z`; so none depends on how the text arrived.
"""

from __future__ import annotations

import re
from typing import Final

IDENTIFIER_REST: Final = re.compile(r"[A-Za-z0-9_-]{0,40}", re.ASCII)
FENCE: Final = re.compile(r"`{3,}[a-z]{0,12}\Z|\\n")
BULLET: Final = re.compile(r"[-*•|]\Z|>")
BLOCK_SCALAR: Final = re.compile(r"[|>][+-]?\d?\Z")
"""`password: |`, the value is below."""

CLOSING: Final = re.compile(r"(?:\\{0,3}[\"']|[`*_\])}]){1,6}")
TAG: Final = re.compile(r"<(?P<is_closing>/?)(?:br/?|[A-Za-z][\w:.-]{0,30}(?P<encloses>))>|&nbsp;", re.ASCII)
SECTION: Final = re.compile(r"<!\[CDATA\[")
ATTRIBUTE: Final = re.compile(r"(?P<name>[A-Za-z][\w:.-]{0,20})=\\?([\"'])[^\"'<>\s]{0,24}\\?\2", re.ASCII)
ASSIGNS: Final = re.compile(r";s:\d{1,4}:(?=\\{0,3}\")|[?+.|&:!~]{0,3}={1,3}>?|->|<-|:(?!//|:\w)|>(?=[^=>]|\Z)")
FALLS_BACK: Final = re.compile(r"(?:\|\||\?\?)\Z")
"""`env.TOKEN || '…'`"""

SAYS: Final = re.compile(r"[-~/]\Z|\|{1,2}|>{2,3}\Z")
TRAILS_OFF: Final = re.compile(r"\.{2,3}")
MARK: Final = re.compile(
    r"[\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u27f0-\u27ff\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff]+"
)
"""Arrows and emoji."""

OPENING: Final = re.compile(
    r"[bBrRfFuU@$]{0,2}(?P<quote>\\{0,7}(?:\"\"\"|'''|[\"'])|`)|\*{1,2}|~~|\|{1,2}|[(\[⟦]|\{(?=[\"'])"
    r"|<(?=[^<>\s/]{6,64}>)"
)
NOTE: Final = re.compile(r"[(\[][^\W\d_]{2,20}[)\]](?=[:=]?\Z)")
"""`password (temporary): …`"""

TYPE_SIGN: Final = re.compile(r"&str\b|!!\w{1,12}\Z|&[a-z_]{1,12}\Z|\[\d{0,4}\](?=={0,1}\Z)")
WORD: Final = re.compile(
    r"(?!(?:[^\W\d_]+-){3})[^\W\d_](?:[^\W\d_]|['-](?=[^\W\d_])){0,23}(?=[:=,.;?!]?\Z|(?:\*\*|:\*\*|\")\Z)"
)
PHRASE: Final = re.compile(r"[a-z]{4,12}(?:-[a-z]{4,12}){2,}\b")
THING: Final = re.compile(r"\d[A-Z]{1,3}(?=:?\Z)")
"""`2FA`, which no word is."""

GLUED: Final = re.compile(r"[^\W\d_]{1,12}(?=[:=])")
ADDRESS: Final = re.compile(
    r"(?:[\w.+-]{1,40}@[\w-]{1,30}|[A-Za-z][\w-]{0,30})(?:\.[A-Za-z][\w-]{0,30}){1,4}\Z", re.ASCII
)
"""A host or a mail address: what a secret may be for."""

STOP: Final = re.compile(r"[.;?!]\Z")
NEXT_NAME: Final = re.compile(r"[^\W\d_]{2,24}(?=[=:])")
SCHEME_AND_VALUE: Final = re.compile(r"[A-Za-z-]{3,16} (?:token=)?(?=\S+\Z)")
NAME_AND_VALUE: Final = re.compile(r"[^/:|]{1,64}[/:|](?!/)")

DASHES: Final = "—–"
OPENING_MARKS: Final = "“”«»„‘’「『《【（）】…"
