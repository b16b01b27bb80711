"""`make docs`: write the references anew, build the site into build/site, strictly, and see that it is whole.

mkdocs lives in an environment of its own, beside ours, as `tests/docs/site.lock` names it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.docs.references import ROOT, write
from tests.parts.environments import interpreter

SITE: Final = ROOT / "build" / "site"
PICTURES_BYTES_MAX: Final = 1_500_000  # of all pictures: everybody who clones fetches them
_QUIET: Final = {"NO_MKDOCS_2_WARNING": "1"}
_FETCHED: Final = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"(?:https?:)?//|<link\b[^>]*\bhref=\"https?://"
)
"""What a reader's browser would fetch from somewhere else."""


def main() -> None:
    """Build; exit with a sentence for each thing that is wrong."""
    write()
    python = interpreter(Path(__file__).with_name("site.lock"))
    build = (python, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", SITE)
    subprocess.run(build, cwd=ROOT, env=os.environ | _QUIET, check=True)
    if wrong := [*_from_elsewhere(), *_pictures()]:
        sys.exit("\n".join(wrong))
    print(f"{SITE / 'index.html'}")


def _from_elsewhere() -> Iterator[str]:
    for page in SITE.rglob("*.html"):
        for found in _FETCHED.findall(page.read_text("utf-8")):
            yield f"{page.relative_to(SITE)} fetches something from elsewhere: {found}"


def _pictures() -> Iterator[str]:
    pictures = list((ROOT / "docs" / "pictures").iterdir())
    texts = [page.read_text("utf-8") for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))]
    for picture in pictures:
        if not any(f"pictures/{picture.name}" in text for text in texts):
            yield f"no page shows {picture.name}"
    if (size := sum(picture.stat().st_size for picture in pictures)) > PICTURES_BYTES_MAX:
        yield f"the pictures take {size} bytes, more than {PICTURES_BYTES_MAX}"


if __name__ == "__main__":
    main()
