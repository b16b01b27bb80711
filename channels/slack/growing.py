"""What of a growing answer can be appended to a stream of Slack. Pure.

A stream only grows, and takes Markdown, not mrkdwn. So what is shown is the model's own text, without the power to
call anybody, and without its end as long as that may still become something else: a sign that opens or closes.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Final

_CALL: Final = re.compile(r"<(?=[!@#])")
_LINK: Final = re.compile(r"://|\w\.[^\W\d_]{2}")
"""A whole address, or what may be the name of a host: Slack's clients make links of both."""
_UNSETTLED: Final = " \t\n*_~`|<&[]!\\#>-+="


def streamable(text: str) -> str:
    """Markdown in which `<!channel>`, `<@U…>` and `<#C…>` are mere words."""
    return _CALL.sub("&lt;", text)


def leads_away(markdown: str) -> bool:
    """Whether Slack may take anything in it for a link, whatever the signs are written as."""
    return _LINK.search(unescape(markdown).replace("\\", "")) is not None


def settled(markdown: str) -> str:
    """The part of an unfinished text that what follows leaves as it is."""
    return markdown.rstrip(_UNSETTLED)


def continuation(shown: str, markdown: str) -> str | None:
    """What to append to `shown`, perhaps nothing; None for a text that does not continue it."""
    whole = settled(markdown)
    if whole.startswith(shown):
        return whole[len(shown) :]
    return "" if shown.startswith(whole) else None
