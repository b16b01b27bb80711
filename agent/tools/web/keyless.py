"""Web search without a key, in a process of its own: `python -m agent.tools.web.keyless COUNT [PROXY] < query`.

`ddgs` reads the result pages of public search engines, with parsers in C and an HTTP client of its own. So it runs
where it can be killed, with no environment, and its memory goes with it (`agent.tools.web.tools`)."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from ddgs import DDGS
from ddgs.exceptions import DDGSException

BACKENDS: Final = "duckduckgo,brave,mojeek,startpage"
"""The engines that are asked: they sell no profile of who asks."""
_TIMEOUT_S: Final = 10  # of one engine


def found(client: DDGS, query: str, count: int) -> Sequence[Mapping[str, str]]:
    """Search for at most `count` results, each with `title`, `url` and `content`; none where no engine has any."""
    try:
        rows = client.text(query, max_results=count, backend=BACKENDS)
    except DDGSException as error:
        if "No results" in str(error):
            return ()
        raise
    return [{"title": row["title"], "url": row["href"], "content": row["body"]} for row in rows]


def main() -> None:
    """Read the query from standard input and write a JSON list to standard output; end with 1 where no engine
    answers."""
    query = sys.stdin.buffer.read().decode("utf-8", errors="replace")
    client = DDGS(proxy=sys.argv[2] if len(sys.argv) > 2 else None, timeout=_TIMEOUT_S)
    try:
        rows = found(client, query, int(sys.argv[1]))
    except DDGSException as error:
        sys.exit(f"{type(error).__name__}")
    sys.stdout.write(json.dumps(rows))


if __name__ == "__main__":
    main()
