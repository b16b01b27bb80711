"""HTML as Markdown, in a process of its own: `python -m agent.tools.web.html CHARSET < page`.

The parser was not made for hostile pages: some of a few kilobytes keep it busy for minutes. So it runs where
it can be killed, with no environment, and nothing else waits for it (`agent.tools.web.session`)."""

from __future__ import annotations

import re
import sys
from typing import Final

from bs4 import BeautifulSoup
from markdownify import MarkdownConverter

from agent.limits import WEB_HTML_CHARS_MAX
from gateway.scrub.raw_text import head

_SILENT: Final = ("script", "style", "noscript", "template", "svg", "canvas", "iframe", "object", "form", "nav")
_BLANK_LINES: Final = re.compile(r"\n{3,}")


def as_markdown(html: str) -> str:
    """Convert a page to text, only its main part where it marks one."""
    soup = BeautifulSoup(head(html, WEB_HTML_CHARS_MAX), "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for element in soup.find_all(_SILENT):
        element.decompose()
    body = soup.find("main") or soup.find("article") or soup.body or soup
    try:
        written = MarkdownConverter(heading_style="ATX", strip=["img"]).convert_soup(body)
    except RecursionError:  # nested deeper than any honest page
        written = body.get_text("\n", strip=True)
    tidy = _BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in written.split("\n"))).strip()
    return f"# {title}\n\n{tidy}" if title and not tidy.startswith("# ") else tidy


def main() -> None:
    """Read bytes from standard input and write UTF-8 to standard output."""
    html = sys.stdin.buffer.read().decode(sys.argv[1], errors="replace")
    sys.stdout.buffer.write(as_markdown(html).encode("utf-8", errors="replace"))


if __name__ == "__main__":
    main()
