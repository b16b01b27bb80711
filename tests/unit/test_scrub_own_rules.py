"""An operator's own secret formats: which rules of a file are taken, what they find, and what they leave alone."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from gateway.config.features import ScrubSettings
from gateway.contracts.errors import ConfigError
from gateway.scrub import Scrubber
from gateway.scrub.own_rules import OwnRules, RulesFile, entropy, own_rules, read_rules
from tests.scrubbing import draw
from tests.scrubbing.work import attempts_of

TOKEN = draw("acme_<base62:32>", seed=1)
OURS = """
[prefix.acme]
anchors = ["acme_"]
body = "base62:32"
examples = ["acme_<base62:32>"]
counter_examples = ["acme_tower_and_all_its_many_rooms"]

[shape."acme/badge"]
anchors = ["badge number"]
pattern = '''badge number (?:is )?(?P<secret>[[:digits:]]{6})'''
"""


def rules_of(tmp_path: Path, text: str) -> RulesFile:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    return read_rules(path)


def scrubber_of(tmp_path: Path, text: str, **allowed: tuple[str, ...]) -> Scrubber:
    found = rules_of(tmp_path, text)
    assert not found.refused
    return Scrubber(["our-own-credential"], own=OwnRules(found.taken, **allowed))


def reason(tmp_path: Path, text: str) -> str:
    (row,) = rules_of(tmp_path, text).refused
    return f"{row.line} {row.id} {'wrong' if row.is_mistake else 'refused'}: {row.reason}"


def test_rules_in_our_format_find_what_they_describe(tmp_path: Path) -> None:
    scrubber = scrubber_of(tmp_path, OURS)
    text = f"a ({TOKEN}) and badge number is 123456."
    assert [each.rule for each in scrubber.findings(text)] == ["own/acme", "own/acme/badge"]
    assert "123456" not in scrubber.scrub(text)
    assert "[redacted:own#" in scrubber.scrub(text)


def test_a_value_that_a_rule_gives_a_length_takes_no_part_of_a_placeholder(tmp_path: Path) -> None:
    scrubber = scrubber_of(tmp_path, OURS.replace("[[:digits:]]{6}", r"\S{6}"))
    once = scrubber.scrub(draw("badge number is 12,<hex:2>npm_<base62:36>", seed=1))
    assert scrubber.scrub(once) == once
    assert scrubber.scrub("badge number is 12,[redacted:npm#a1b2c3]") == "badge number is 12,[redacted:npm#a1b2c3]"


@pytest.mark.parametrize(("before", "after"), [("the\u200b ", ""), ("**", "**"), ('{"a":"', '"}'), ("%20x ", "")])
def test_disguises_of_the_carrier_do_not_matter(tmp_path: Path, before: str, after: str) -> None:
    token = TOKEN[:9] + "\u200b" + TOKEN[9:]
    assert TOKEN[-10:] not in scrubber_of(tmp_path, OURS).scrub(before + token + after)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("regex = '(?<=a)b+'", "RE2 does not take it"),
        ("regex = '(a+)\\1'", "RE2 does not take it"),
        ("regex = 'a{4,9}+b'", "RE2 does not take it"),
        ("regex = 'a{1,2000}'", "RE2 does not take it"),
        ("regex = 'a*'", "wrong: it matches where there is nothing"),
        ("regex = ''", "wrong: its expression is no text"),
        ("regex = 'abc'\nsecretGroup = 1", "wrong: secretGroup 1 is none of its 0 groups"),
        ("regex = 'abc'\nkeywords = 'abc'", "wrong: keywords is no list of texts"),
        ("regex = 'abc'\nentropy = 'high'", "wrong: entropy is no number"),
        ("regex = 'abc'\nallowlists = [1]", "wrong: allowlists is no list of tables"),
        ("path = '\\.p12$'", "refused: it looks at names of files only"),
        ("regex = 'abc'\npath = '\\.env$'", "refused: it is for files with certain names only"),
        ("regex = '(?s)BEGIN.{4,99}END'", "refused: it reads over several lines"),
        ("regex = 'BEGIN[\\s\\S]{4,99}END'", "refused: it reads over several lines"),
        ("regex = 'abc'\nskipReport = true", "refused: skipreport is not known here"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_line_and_reason(tmp_path: Path, rule: str, said: str) -> None:
    told = reason(
        tmp_path,
        f"title = '''\n[[rules]]\n'''\n\n[[rules]]\nid = 'fine'\nregex = 'x1y'\n"
        f"[[rules.allowlists]]\nregexes = ['q']\n[[rules]]\nid = 'x'\n{rule}\n",
    )
    assert told.startswith("10 x ")
    assert said in told


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("anchors = ['a_']", "wrong: body is no alphabet:count"),
        ("anchors = ['a_']\nbody = 'runes:9'", "wrong: body is no alphabet:count"),
        ("anchors = []\nbody = 'hex:9'", "wrong: it has no anchors"),
        ("anchors = ['a_']\nbody = 'hex:9'\ncheck = []", "wrong: check is unknown"),
        ("anchors = ['a_']\nbody = 'hex:9'\nchecks = ['luhn']", "wrong: check luhn is unknown"),
        ("anchors = ['a_']\nbody = 'hex:32'\nexamples = ['b_<hex:32>']", "its example 'b_<hex:32>' is not found"),
        ("anchors = ['a_']\nbody = 'hex:32'\ncounter_examples = ['a_<hex:32>']", "'a_<hex:32>' is found"),
    ],
)
def test_a_wrong_row_of_our_format_is_told_with_its_line(tmp_path: Path, row: str, said: str) -> None:
    told = reason(tmp_path, f"# ours\n\n[prefix.x]\n{row}\n")
    assert told.startswith("3 x ")
    assert said in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[prefix.a", "is not valid TOML"),
        ("answer = 42", "answer is unknown"),
        ("", "no rule that can be used"),
        ("[[rules]]\nid = 'a'\npath = 'b'", "no rule that can be used"),
        ("[[rules]]\nid = 'a'\nregex = '('", "line 1: rule a: RE2 does not take it"),
        ("[[rules]]\nid = 'a'\nregex = 'xyz'\n[[rules]]\nid = 'a'\nregex = 'zyx'", "another rule has this name"),
    ],
)
def test_a_broken_file_stops_the_start(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"scrub\.rules_file") as raised:
        own_rules(ScrubSettings(rules_file=path))
    assert said in str(raised.value)


def test_a_missing_file_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        own_rules(ScrubSettings(rules_file=tmp_path / "none.toml"))


def test_groups_entropy_and_what_gitleaks_allows(tmp_path: Path) -> None:
    scrubber = scrubber_of(
        tmp_path,
        """
        [allowlist]
        paths = ['x']
        stopwords = ["EVERYWHERE"]

        [[rules]]
        id = "second"
        regex = 'pair ([a-z]+) ([0-9a-z]{4,})'
        secretGroup = 2
        entropy = 1.5
        keywords = ["PAIR"]
        [[rules.allowlists]]
        regexes = ['^q9']
        [[rules.allowlists]]
        regexTarget = "line"
        regexes = ['# none']
        [[rules.allowlists]]
        condition = "AND"
        regexes = ['w5']
        stopwords = ['k8']
        """,
    )
    assert scrubber.scrub("pair foo a1b2c3").startswith("pair foo [redacted:own#")
    for plain in (
        "pair foo aaaa",
        "pair foo q9b2c3",
        "pair foo z1b2c3 # none",
        "pair foo w5k8a1",
        "pair foo x1everywhere",
    ):
        assert scrubber.scrub(plain) == plain
    assert "w5a1b2" not in scrubber.scrub("pair foo w5a1b2")


def test_allowed_values_stay_and_our_own_credentials_do_not(tmp_path: Path) -> None:
    github = draw("ghp_<base62:36>", seed=2)
    scrubber = scrubber_of(tmp_path, OURS, allowed_values=(TOKEN, github, "our-own-credential"))
    assert scrubber.scrub(f"{TOKEN} and {github}") == f"{TOKEN} and {github}"
    assert "our-own-credential" not in scrubber.scrub("it is our-own-credential now")
    assert TOKEN[5:20] not in scrubber.scrub(f"{TOKEN}X")


@pytest.mark.parametrize(("chat", "is_free"), [("slack:U1", True), ("slack:U1/C1", True), ("slack:U12", False)])
def test_in_an_allowed_place_only_trivets_rules_apply(tmp_path: Path, chat: str, *, is_free: bool) -> None:
    scrubber = scrubber_of(tmp_path, OURS, allowed_places=("slack:U1",)).for_chat(chat)
    github = draw("ghp_<base62:36>", seed=2)
    clean = scrubber.scrub(f"badge number 123456, {github}")
    assert ("123456" in clean) == is_free
    assert github not in clean


def test_entropy_counts_bits_per_character() -> None:
    assert entropy("aaaa") == 0
    assert entropy("abcd") == 2


# Shapes as public collections have them: a prefix and an alphabet, a vendor's name beside an assignment, the odd ones.

_END = """(?:[\\x60'"\\s;]|\\\\[nr]|$)"""
_BESIDE = (
    """(?i)[\\w.-]{{0,50}}?(?:{name})(?:[ \\t\\w.-]{{0,20}})[\\s'"]{{0,3}}"""
    """(?:=|>|:{{1,3}}=|\\|\\||:|=>|\\?=|,)[\\x60'"\\s=]{{0,5}}({body})"""
)
_SCRUB = Path(__file__).parents[2] / "gateway" / "scrub"
_CLASSES = {"base62": "[a-zA-Z0-9]", "hex": "[a-f0-9]", "base64url": "[a-zA-Z0-9_-]", "base36": "[a-z0-9]"}
_ODD = f"""
azure-client | (?:^|[\\\\'"\\x60\\s>=:(,)])([a-zA-Z0-9_~.]{{3}}\\dQ~[a-zA-Z0-9_~.-]{{31,34}}){_END} | q~
jwt | \\b(ey[a-zA-Z0-9]{{17,}}\\.ey[a-zA-Z0-9\\/\\\\_-]{{17,}}\\.(?:[a-zA-Z0-9\\/\\\\_-]{{10,}}={{0,2}})?){_END} | ey
age | AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{{58}} | age-secret-key-1
hook | https://hooks\\.example\\.com/(?:services|workflows)/[A-Za-z0-9+/]{{43,56}} | hooks.example.com
curl-user | \\bcurl\\b(?:.*|.*(?:[\\r\\n]{{1,2}}.*){{1,5}})[ \\t\\n\\r](?:-u|--user)[ \\t]{{0,5}}("[^:"]+:[^"]+") | curl
private-key | (?i)-----BEGIN[ A-Z0-9_-]{{0,100}}PRIVATE KEY-----[\\s\\S-]{{64,}}?KEY----- | -----begin
kubernetes | (?i)kind:[ \\t]*secret(?s:.){{0,200}}?data:(?s:.){{0,99}}?\\s+([\\w.-]+:[ \\t]*[a-z0-9+/]{{10,}}) | secret
"""
_RULE = """[[rules]]
id = "{name}"
description = "a kind"
regex = \'\'\'{regex}\'\'\'
entropy = 2
keywords = {keywords!r}

"""


def collection() -> str:
    """Return a file in gitleaks' format of the kinds that our own rules and vendors name, in gitleaks' manner."""
    rows: list[tuple[str, str, list[str]]] = []
    for name, row in tomllib.loads((_SCRUB / "rules.toml").read_text("utf-8"))["prefix"].items():
        alphabet, _, count = row.get("body", "").partition(":")
        anchors = [anchor for anchor in row["anchors"] if "{" not in anchor]
        if alphabet in _CLASSES and anchors:
            heads = "|".join(anchors).replace(".", "\\.")
            rows.append((name, f"\\b((?:{heads}){_CLASSES[alphabet]}{{{count}}}){_END}", anchors))
    vendors = tomllib.loads((_SCRUB / "words.toml").read_text("utf-8"))["vendors"]["names"].split()
    for place, name in enumerate(vendors[:160]):
        body = f"[a-z0-9]{{{(16, 32, 40, 64)[place % 4]}}}"
        rows.append((f"{name}-api-key", _BESIDE.format(name=name, body=body) + _END, [name]))
    body = "[\\w.=-]{10,150}|[a-z0-9][a-z0-9+/]{11,}={0,3}"
    rows.append(("generic", _BESIDE.format(name="access|auth|(?-i:[Aa]pi|API)|credential|key", body=body), ["key"]))
    for line in _ODD.strip().splitlines():
        name, regex, keyword = line.split(" | ")
        rows.append((name, regex, [keyword]))
    text = "".join(_RULE.format(name=name, regex=regex, keywords=keywords) for name, regex, keywords in rows)
    return f"{text}[[rules]]\nid = 'pkcs12'\npath = '(?i)\\.p(?:12|fx)$'\n"


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> RulesFile:
    return rules_of(tmp_path_factory.mktemp("rules"), collection())


def test_a_collection_of_more_than_two_hundred_rules_is_taken(public: RulesFile) -> None:
    refused = Counter(row.reason.partition(",")[0] for row in public.refused)
    assert refused == {"it reads over several lines": 2, "it looks at names of files only": 1}
    assert not any(row.is_mistake for row in public.refused)
    assert len(public.taken) > 250


def test_a_collection_finds_and_streams_as_a_single_rule_does(public: RulesFile) -> None:
    scrubber = Scrubber(placeholder_key=b"k", own=OwnRules(public.taken))
    secret = draw("<base36:32>", seed=9)
    text = (
        f"the Abyssale => '{secret}'\nand hooks: https://hooks.example.com/services/{draw('<base62:44>', seed=3)} ok\n"
    )
    clean = scrubber.scrub(text)
    assert "own/abyssale-api-key" in [each.rule for each in scrubber.findings(text)]
    assert secret not in clean
    stream = scrubber.stream()
    assert "".join(map(stream.feed, text)) + stream.flush() == clean


@pytest.mark.parametrize(
    "piece", ["key ", "accuweather_key = ", "a" * 64, "curl -u x ", "ey.", "acme key=" + "a1" * 9 + "\n"]
)
def test_work_grows_with_the_text_and_with_nothing_else(public: RulesFile, piece: str) -> None:
    scrubber = Scrubber(own=OwnRules(public.taken), budget_s=60)

    def attempts(chars: int) -> int:
        return attempts_of(scrubber.machine(), (piece * chars)[:chars])

    assert attempts(40_000) <= 4.5 * attempts(10_000) + 100
