"""What the scrubber alters in the text that lies about on this machine: packages, documents, catalogues, sources.

    python -m tests.bench.scrub.natural_text --seed 1 --shown 200 /usr/share /usr/lib

Nothing of it is kept or committed. Whoever reads the altered pieces counts those that hold no secret: the goal is one
piece in five hundred.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import site
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from gateway.scrub import Scrubber

PIECE_CHARS: Final = 600
FILE_BYTES_MAX: Final = 2_000_000
PIECES_OF_A_FILE: Final = 6
_SKIPPED: Final = frozenset([".git", "__pycache__", "proc", "sys", "dev", "gateway", "channels", "agent"])
_AROUND: Final = 60
CLASSES: Final[Mapping[str, str]] = {
    "readmes": "readme*",
    "changelogs": "change*|news*|history*|release*|whatsnew*",
    "licences": "licen[cs]e*|copying*|copyright*",
    "lock files": "*.lock|package-lock.json|go.sum|requirements*.txt|pnpm-lock.yaml",
    "go modules": "go.mod|*.go",
    "package metadata": "metadata|pkg-info|package.json|pyproject.toml|cargo.toml",
    "records": "record|*.sha256|*.md5sums",
    "tests": "test_*.py|*_test.py|*.test.js|*.spec.*|*_test.go",
    "python": "*.py",
    "python stubs": "*.pyi",
    "minified scripts": "*.min.js|*.bundle.js",
    "javascript": "*.js|*.mjs|*.cjs",
    "typescript": "*.ts|*.tsx|*.jsx",
    "minified styles": "*.min.css",
    "styles": "*.css|*.scss|*.less",
    "pages": "*.html|*.htm|*.j2|*.jinja*",
    "i18n catalogues": "*.po|*.pot|*.arb|*.xlf",
    "i18n tables": "*messages*.json|*locale*.json|??.json|??-??.json|??_??.json",
    "json": "*.json|*.ipynb|*.webmanifest",
    "yaml": "*.yaml|*.yml",
    "toml": "*.toml",
    "settings": "*.ini|*.cfg|*.conf|*.cnf|*.properties|*.env*|*.desktop|*.service",
    "sql": "*.sql|*.ddl",
    "xml": "*.xml|*.xsd|*.rng|*.xsl|*.plist",
    "drawings": "*.svg|*.eps|*.ps",
    "csv": "*.csv|*.tsv|*.dat",
    "markdown": "*.md|*.mdx|*.markdown",
    "restructured": "*.rst|*.adoc|*.texi",
    "manuals": "*.[1-8]|*.info",
    "shell": "*.sh|*.bash|*.zsh|*.fish|configure|*.bashrc",
    "build files": "makefile*|*.mk|*.cmake|cmakelists*|dockerfile*|*.gradle|*.bazel",
    "c": "*.c|*.h|*.cc|*.cpp|*.hpp",
    "rust": "*.rs",
    "java": "*.java|*.kt|*.scala|*.groovy",
    "ruby": "*.rb|*.gemspec|rakefile",
    "perl": "*.pl|*.pm|*.pod|*.t",
    "php": "*.php|*.inc",
    "lisps and editors": "*.el|*.vim|*.lua|*.scm|*.tcl",
    "certificates": "*.pem|*.crt|*.cer|*.pub",
    "logs": "*.log|*.log.*",
    "plain": "*.txt|*.text",
}


def pieces(roots: Sequence[Path], rng: random.Random, per_class: int) -> Iterator[tuple[str, Path, str]]:
    """Yield class, file and piece: at most `per_class` of each class, of as many files as there are."""
    by_class: dict[str, list[Path]] = {}
    for path in _files(roots):
        kind = next((kind for kind, names in CLASSES.items() if _is_any(path.name, names)), None)
        if kind is not None:
            by_class.setdefault(kind, []).append(path)
    for kind, paths in by_class.items():
        rng.shuffle(paths)
        left = per_class
        for path in paths:
            for piece in _cut(path, rng)[:left]:
                left -= 1
                yield kind, path, piece
            if left <= 0:
                break


def _is_any(name: str, patterns: str) -> bool:
    return any(fnmatch(name.lower(), pattern) for pattern in patterns.split("|"))


def _files(roots: Iterable[Path]) -> Iterator[Path]:
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders[:] = [each for each in folders if each not in _SKIPPED]
            yield from (Path(folder, name) for name in names)


def _cut(path: Path, rng: random.Random) -> list[str]:
    """Return some pieces of a text file, each of whole lines as far as these are short."""
    try:
        if path.is_symlink() or path.stat().st_size > FILE_BYTES_MAX:
            return []
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    cut = [found.group() for found in re.finditer(rf"(?s).{{1,{PIECE_CHARS}}}(?:\n|\Z)|.{{{PIECE_CHARS}}}", text)]
    return rng.sample(cut, k=min(PIECES_OF_A_FILE, len(cut)))


def main() -> int:
    """Print how many pieces of each class are altered, and a sample of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scrub.natural_text", description=__doc__)
    parser.add_argument("roots", nargs="*", type=Path, default=[Path("/usr/share"), *map(Path, site.getsitepackages())])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="to repeat a run")
    parser.add_argument("--pieces", type=int, default=1_000, metavar="N", help="of each class, at most")
    parser.add_argument("--shown", type=int, default=200, metavar="N", help="print so many altered pieces")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    scrubber = Scrubber()
    every: Counter[str] = Counter()
    altered: Counter[str] = Counter()
    shown: list[str] = []
    for kind, path, piece in pieces(options.roots, rng, options.pieces):
        every[kind] += 1
        found = scrubber.findings(piece)
        if found:
            altered[kind] += 1
            at = found[0]
            around = piece[max(0, at.start - _AROUND) : at.end + _AROUND // 2]
            shown.append(f"{kind}, {path}, {at.rule}: {piece[at.start : at.end][:_AROUND]!r}\n    {around!r}")
    for kind in CLASSES:
        if every[kind]:
            sys.stdout.write(f"{altered[kind]:5} of {every[kind]:6} {kind}\n")
    total, changed = every.total(), altered.total()
    sys.stdout.write(f"{changed:5} of {total:6}: {100 * changed / max(1, total):.2f} % altered\n")
    for line in rng.sample(shown, k=min(options.shown, len(shown))):
        sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
