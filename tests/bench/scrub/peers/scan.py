"""`python -m tests.bench.scrub.peers.scan NAME < rows.json`: what one scanner of others finds, and how long it takes.

Runs in the environment of `scanners.lock`, so it imports nothing of ours. Nobody is called: no finding is validated.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

Scan = Callable[[str], list[str]]

_OPEN = contextlib.ExitStack()
"""What has to stay open as long as the process lives."""


def betterleaks() -> Scan:
    from betterleaks import scan_string  # noqa: PLC0415 - each scanner is there only where it is asked for

    return lambda text: [found.match.value or found.match.full for found in scan_string(text)]


def kingfisher() -> Scan:
    from kingfisher_sdk import Scanner  # noqa: PLC0415 - as above

    scanner = Scanner()

    def scan(text: str) -> list[str]:
        scanner.reset_dedup()
        return [found.secret for found in scanner.scan(text)]

    return scan


def detect_secrets() -> Scan:
    """As its command line does it: a file at a time."""
    from detect_secrets.core.scan import scan_file  # noqa: PLC0415 - as above
    from detect_secrets.settings import default_settings  # noqa: PLC0415 - as above

    _OPEN.enter_context(default_settings())
    file = Path(tempfile.mkdtemp(prefix="trivet-bench-"), "message.txt")

    def scan(text: str) -> list[str]:
        file.write_text(text, "utf-8")
        return [found.secret_value or "" for found in scan_file(str(file))]

    return scan


SCANNERS = {"betterleaks": betterleaks, "kingfisher": kingfisher, "detect-secrets": detect_secrets}


def main() -> None:
    scan = SCANNERS[sys.argv[1]]()
    texts = json.load(sys.stdin)
    for text in texts[:20]:
        scan(text)
    gc.disable()
    answers = []
    for text in texts:
        began_ns = time.process_time_ns()
        found = scan(text)
        answers.append((found, (time.process_time_ns() - began_ns) / 1000))
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
