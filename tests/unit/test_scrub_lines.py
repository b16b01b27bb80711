"""The rows of `lines.toml`: what each finds, what it leaves alone, and that a stream says the same."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.scrub import Scrubber, findings, lines, scrub
from gateway.scrub.lines import WORDS_MIN, LineRule, line_rules
from tests.scrubbing import draw
from tests.scrubbing.rows import counter_examples_of, examples_of

RULES = sorted({rule.id: rule for rule in line_rules().values()}.values(), key=lambda rule: rule.id)
EXAMPLES = [pytest.param(rule, text, id=f"{rule.id}: {text[:40]}") for rule in RULES for text in examples_of(rule)]
COUNTER_EXAMPLES = [
    pytest.param(rule, text, id=f"{rule.id}: {text[:40]}") for rule in RULES for text in counter_examples_of(rule)
]
ROWS = tomllib.loads(Path(lines.__file__).with_name("lines.toml").read_text(encoding="utf-8"))["line"]
ANCHORS = [anchor for row in ROWS.values() for anchor in row["anchors"]]
PHRASE = "evoke huge pelican fork dentist oven blade convince purse age slush bulk"


def streamed(text: str, chars: int) -> str:
    stream = Scrubber().stream()
    parts = [stream.feed(text[at : at + chars]) for at in range(0, len(text), chars)]
    return without_ids("".join(parts) + stream.flush())


def without_ids(text: str) -> str:
    return re.sub("#[0-9a-f]+", "", text)


def test_no_two_rows_begin_with_one_anchor() -> None:
    """Of two that did, the later would be found alone; one that is wholly in the shadow is no rule any more."""
    counted = Counter(ANCHORS)
    assert [anchor for anchor, count in counted.items() if count > 1] == []


def test_an_anchor_is_found_in_lower_case_and_begins_with_no_space() -> None:
    """A space stands everywhere, and a stream would hold each word before it."""
    assert [anchor for anchor in ANCHORS if anchor != anchor.lower() or anchor[:1].isspace() or not anchor] == []


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_an_example_is_found(rule: LineRule, example: str) -> None:
    for seed in range(3):
        text = draw(example, seed=seed)
        kinds = {finding.rule.partition("/")[0] for finding in findings(text)}
        assert kinds & {rule.id.partition("/")[0], "ssh", "named"}, text
        assert len(findings(f"first line\n{text}\nlast line")) == len(findings(text)), text


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_a_stream_says_what_the_whole_says(rule: LineRule, example: str) -> None:
    text = draw(f"first line\n{example}\nlast line", seed=1)
    for chars in (1, 5, 23):
        assert streamed(text, chars) == without_ids(scrub(text))


@pytest.mark.parametrize(("rule", "example"), COUNTER_EXAMPLES)
def test_a_counter_example_stays(rule: LineRule, example: str) -> None:
    text = draw(example, seed=1)
    assert scrub(text) == text
    assert streamed(text, 3) == text


@pytest.mark.parametrize(
    "said",
    [
        "the passwords are kept in a safe, ",
        "you may use the ",
        "it opens with a scene at sea. ",
        "the password of grace is one of the longer ones here ",
    ],
)
def test_a_stream_holds_no_more_of_a_sentence_than_a_rule_can_read(said: str) -> None:
    stream = Scrubber().stream()
    assert stream.feed(f"{said}and so on ").startswith(said)


@pytest.mark.parametrize(("said", "begins"), [("the front ", 4), ("the front do", 4), ("the front 0x04", 10)])
def test_an_anchor_of_several_words_is_open_only_where_it_may_go_on(said: str, begins: int) -> None:
    assert lines.open_anchor(said, 0, len("the front ")) == begins


def test_a_line_that_is_none_of_the_rule_is_read_as_any_other() -> None:
    text = draw("kind: Secret\nmetadata:\n  note: the password is <base62:14>x7\ndata:\n  host: <base62:14>==", seed=2)
    assert [finding.rule for finding in findings(text)] == ["named/personal", "named/secret"]


def test_twelve_words_of_the_list_go_and_eleven_stay() -> None:
    eleven = PHRASE.rpartition(" ")[0]
    assert without_ids(scrub(f"it says {PHRASE}. Well")) == "it says [redacted:seed-phrase]. Well"
    assert len(eleven.split()) == WORDS_MIN - 1
    assert scrub(f"it says {eleven}. Well") == f"it says {eleven}. Well"
    assert streamed(f"it says {PHRASE}\nwell", 4) == "it says [redacted:seed-phrase]\nwell"


def test_a_list_of_words_is_no_phrase() -> None:
    listed = " ".join(sorted(PHRASE.split()))
    assert scrub(listed) == listed


def test_a_phrase_in_another_language_goes_behind_its_announcement() -> None:
    phrase = "的 一 是 在 不 了 有 和 人 这 中 大"
    assert without_ids(scrub(f"助记词：{phrase}")) == "助记词：[redacted:seed-phrase]"
    assert scrub(phrase) == phrase


LIST = "chpasswd:\n  list: |\n    root:{secret}"
TABLE = "name,url,password,note\nshop,https://x.org,{secret},"


def in_json(text: str) -> str:
    return json.dumps(text)[1:-1]


@pytest.mark.parametrize("text", [LIST, TABLE, "$ pass show web/shop\n{secret}\nuser: ann"])
@pytest.mark.parametrize(
    "wrapped",
    [
        lambda text: f'{{"id": 7, "body": "{in_json(text)}", "pinned": false}}',
        lambda text: f'{{"payload":"{in_json(in_json(text))}"}}',
        lambda text: '{"text":["' + '","'.join(f"{line}\\n" for line in text.split("\n")) + '"]}',
        lambda text: '{"source":["' + '",\n  "'.join(f"{line}\\n" for line in text.split("\n")) + '"]}',
        lambda text: f'{{"body":"{in_json(text.replace(chr(10), chr(13) + chr(10)))}"}}',
        lambda text: f"see below\n{{noformat}}{text}{{noformat}}",
        lambda text: f"<description><![CDATA[{text}]]></description>",
        lambda text: "\n".join(f"-{line}" for line in text.split("\n")),
        lambda text: "\n".join(f"2026-01-01T00:00:00.123Z {line}" for line in text.split("\n")),
        lambda text: "\n".join(f"  {500 + at}  {line}" for at, line in enumerate(text.split("\n"))),
    ],
)
def test_lines_and_tables_are_read_in_whatever_holds_their_text(text: str, wrapped: Callable[[str], str]) -> None:
    secret = draw("<base62:12>7", seed=4)
    held = wrapped(text.replace("{secret}", secret))
    assert secret not in scrub(held)
    for chars in (1, 7, 40):
        assert streamed(held, chars) == without_ids(scrub(held))


@pytest.mark.parametrize(
    "text",
    [
        "-Password (ConvertTo-SecureString 'thundertulip1473' -AsPlainText -Force)",
        "curl -u ann:$PASS -b 'sid=thundertulip1473' https://example.org",
        'name,password,note\nshop,abc7de9f0,"API_TOKEN=thundertulip1473x9, the old one"',
        'AuthLDAPBindPassword "thundertulip1473"',
        '"<add key=""SmtpPassword"" value=""thundertulip1473"" />"',
        "\"INSERT INTO notes VALUES (7, 'password=''thundertulip1473''')\"",
        "text=%3Cadd%20key%3D%22SmtpPassword%22%20value%3D%22thundertulip1473%22%20%2F%3E&x=1",
    ],
)
def test_what_is_open_takes_no_line_from_a_rule_and_no_quote_for_an_end(text: str) -> None:
    assert "thundertulip1473" not in scrub(text)
    for chars in (1, 7, 40):
        assert streamed(text, chars) == without_ids(scrub(text))


@pytest.mark.parametrize(
    "text",
    [
        "lost the password\nann@srv1:~$ ",
        '{"id":7,"text":"login as ann at 14:05","likes":3}',
        '{"text":"credentials saved to ~/.aws/credentials","likes":3}',
        "CallSid: CA0123456789abcdef0123456789abcdef",
        "SSH_AUTH_SOCK=/tmp/ssh-Xa71bQ9zPq/agent.4711",
        "text=%24pw%20%3D%20Read-Host%20-AsSecureString%20%27Password%27&trigger=1",
        "text=boarding%20pass%3A%20seat%2031A&trigger=1",
        "imagePullSecrets:\n2024-05-12T23:31:57.1327530Z - name: registry",
        '{"body": "name,url,username,password\\nShop,https://x.org,ann,\\n"}',
    ],
)
def test_what_stands_where_a_value_would_is_none(text: str) -> None:
    assert scrub(text) == text
