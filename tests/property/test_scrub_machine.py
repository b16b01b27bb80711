"""What holds for every text: streams equal wholes, a second scrub changes nothing, the work is linear."""

from __future__ import annotations

import base64
import itertools
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.scrub import Scrubber
from tests.scrubbing import ATTACKS, SPLITS, TOKENS, draw, look_alikes, positives, streamed
from tests.scrubbing.work import attempts_of

CUTS_MAX = 40
HELD_CHARS_MAX = 120_000
"""A unit of 16 K characters, each spelled with up to six, and what rules look back at."""
SCRUBBER = Scrubber(["correct horse", "xK9-known-value"], placeholder_key=b"property")

FRAGMENTS = st.sampled_from(
    [
        *(draw(template, seed=3) for template in TOKENS.values()),
        "password",
        "my password is ",
        "token: ",
        '"api_key": "',
        "Authorization: Bearer ",
        "Cookie: a=",
        "пароль от почты: ",
        "密码",
        "密码是",
        "令牌：",
        "hunter2",
        "Qwe123!@#",
        "correct horse battery",
        "correct ",
        "xK9-known-value",
        "https://bob:",
        "@example.org/",
        "-----BEGIN RSA PRIVATE KEY-----\n",
        "-----BEGIN ",
        "-----END RSA PRIVATE KEY-----",
        draw("<base64:64>\n<base64:64>\n", seed=4),
        "[redacted:github#a1b2]",
        "\x1b[31m",
        "\x1b[",
        "\u200b",
        "，",
        "。",
        " ",
        "\n",
        '"',
        "'",
        "`",
        "**",
        "=",
        ":",
        ";",
        "\\n",
        "is",
        "the",
        "登录",
        "ｇｈｐ＿",
        "ghp_aB3",
        draw("<base62:20>", seed=5),
        draw("<base62:40>", seed=6),
        "sk-proj-",
        "eyJ",
        "\\\n    ",
        "=\n> ",
        "\r\n",
        '" +\n  "',
        "\\_",
        "\\\\-",
        "\\u0067",
        "\\",
        "\\u00",
        "\\x5f",
        "%5F",
        "%2567",
        "%",
        "%40",
        "://",
        "%22",
        "&#95;",
        "&#x5",
        "&lowbar;",
        "&amp;",
        "&",
        "\\033[1",
        "\x1b]8;;",
        "\x1b\\",
        "m",
        base64.b64encode(draw("export A=ghp_<base62:36>", seed=7).encode()).decode(),
        base64.encodebytes(draw("# some settings\nexport A=sk-proj-<base64url:90>\nb=1", seed=8).encode()).decode(),
        draw("ghp_<base62:36>", seed=9).encode().hex(),
        "IyBzZXR0aW5ncyBvZiB0aGUgYXBwIGFu",
        "ZA==",
    ]
)
TEXTS = st.lists(st.one_of(FRAGMENTS, st.text(max_size=6)), max_size=12).map("".join)


def pieces(text: str, cuts: list[int]) -> list[str]:
    return [text[left:right] for left, right in itertools.pairwise([0, *sorted(cuts), len(text)])]


def joined(text: str, cuts: list[int]) -> str:
    return "".join(streamed(SCRUBBER, pieces(text, cuts)))


@settings(max_examples=400)
@given(TEXTS, st.data())
def test_a_stream_equals_the_whole_however_it_is_cut(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    assert joined(text, cuts) == SCRUBBER.scrub(text)


def test_a_number_in_two_parts_may_be_cut_in_its_second() -> None:
    text = "it sent me the 2fa code, its 471 902 now"
    assert joined(text, [text.index("02 now")]) == SCRUBBER.scrub(text) != text


@settings(max_examples=150)
@given(TEXTS)
@example("TOKEN r isakmp key eb6j7")
@example("KEY s cvv 617\\n")
@example("pass:'.0.1 (admin/G4cl7)")
@example("pasphrase correct horse\n\n12Abcdef,")
@example("Seed:secret, gh secret set dy k2iX77\n")
@example("zoo ability legal about winner absent absorb thank absurd year access wave是")
def test_a_stream_of_single_characters_equals_the_whole(text: str) -> None:
    assert joined(text, list(range(len(text)))) == SCRUBBER.scrub(text)


@settings(max_examples=400)
@given(TEXTS)
@example(draw("API-<upper36:26>correct horse battery", seed=1))
@example(
    'password: "hu7er2 was xK9-known-value ' + ("international organisation committee december " * 3)[:128] + '" tail'
)
@example(draw("Authorization: Bearer <base62:24>Authorization: Bearer <base62:24>|||my", seed=2))
@example("https://bob:" + 56 * "x9" + "xK9-known-value" + 15 * "y1" + "@example.org/")
@example("my password is Fjord!4711x radtest ann Walrus!4712x 10.0.0.2 0 Cello!4713x")
@example("SPOTIFY_CLIENT_SECRET\u2018Fjord!4711x\uff01data:image/png;base64,")
@example(draw("chap-secrets\nann * Q7R4 *glsa_<base62:32>_<hex:8>", seed=3))
@example(draw("TAN für 548228EAAA<base62:60>", seed=6))
@example(draw("login r L2|rft.<base62:48>", seed=7))
@example("rootpw Tc7SR4, lt-cred-mech\nuser=ann:zWQ7r")
@example("r;pw\n;unprotect with C6n;APk7\n;z1U0")
@example('парль aUr!7x"|r|passwor\nb|S3cr')
@example("AUTH 8LE9Y4)example:5432:p:b:FWrgGJ")
@example(draw("wpa_passphrase e' N4Lx7')-----BEGIN PRIVATE KEY-----\n<base64:64>", seed=1))
@example(draw("use Qr7sT9 wifi=ghp_<base62:36>", seed=1))
@example("xK9-known-valueuse 2ChIBi wifi")
@example(draw("AKIA<upper36:16>AKIA<upper36:16>sk-<base62:20>T3BlbkFJ<base62:20>", seed=3))
@example('pass:t!pass"Passwds:\n- iX77\n- P5eM')
@example(draw("sl.<base64url:135>,Passwds:\n- ji3N", seed=12))
@example("smbclient //n 4Mnr7 -U2Wa1")
def test_scrubbing_twice_is_scrubbing_once(text: str) -> None:
    once = SCRUBBER.scrub(text)
    assert SCRUBBER.scrub(once) == once


@settings(max_examples=200)
@given(TEXTS)
def test_text_grows_by_no_more_than_a_placeholder_for_each_finding(text: str) -> None:
    found = SCRUBBER.findings(text)
    assert len(SCRUBBER.scrub(text)) <= len(text) + 40 * len(found)
    assert all(0 <= finding.start < finding.end <= len(text) for finding in found)
    assert all(left.end <= right.start for left, right in itertools.pairwise(found))


@pytest.mark.long
def test_every_two_part_split_of_every_kind_equals_the_whole_and_leaks_nothing_early() -> None:
    """Long rows are cut at some places only."""
    rng = random.Random(7)
    for sample in positives(21, rows=1):
        whole = SCRUBBER.scrub(sample.text)
        places = range(len(sample.text) + 1)
        for cut in rng.sample(places, min(len(places), CUTS_MAX)):
            stream = SCRUBBER.stream()
            early = stream.feed(sample.text[:cut])
            assert whole.startswith(early), sample
            assert early + stream.feed(sample.text[cut:]) + stream.flush() == whole, sample


@pytest.mark.parametrize("split", SPLITS)
def test_every_kind_in_pieces_equals_the_whole(split: str) -> None:
    rng = random.Random(split)
    attacked = itertools.chain.from_iterable(itertools.islice(attack.rows(24), 12) for attack in ATTACKS)
    for sample in itertools.chain(positives(24, rows=1), look_alikes(24, rows=2), attacked):
        assert "".join(streamed(SCRUBBER, SPLITS[split](sample.text, rng))) == SCRUBBER.scrub(sample.text), sample


def test_a_placeholder_never_leaves_a_stream_in_part() -> None:
    for sample in positives(22, rows=1):
        stream = SCRUBBER.stream()
        for char in sample.text:
            piece = stream.feed(char)
            assert piece.count("[redacted:") == piece.count("]") or "]" in sample.text or "[" in sample.text


def test_streams_hold_back_little() -> None:
    """Of text without overlong runs: a word, seldom a link."""
    held: list[int] = []
    for sample in look_alikes(23):
        if max(map(len, sample.text.split())) > 100:
            continue
        stream = SCRUBBER.stream()
        given_away = 0
        for at, char in enumerate(sample.text, start=1):
            given_away += len(stream.feed(char))
            held.append(at - given_away)
    held.sort()
    mean, rare = sum(held) / len(held), held[int(len(held) * 0.99)]
    print(f"held back: mean {mean:.1f}, p99 {rare}")
    assert mean <= 24
    assert rare <= 128


HOSTILE = {
    "assignments": "password=",
    "assignments with a space": "password is ",
    "quotes": 'password: "',
    "announcing words": "key token secret ",
    "begins": "-----BEGIN ",
    "key headers": "-----BEGIN RSA PRIVATE KEY-----\n",
    "anchors": "sk-",
    "long anchors": "sk-proj-",
    "token headers": "eyJ-",
    "links": "://a:",
    "otp links": "otpauth://a?b&",
    "digits and anchors": "1:AA",
    "chinese": "密码",
    "spaces": " ",
    "invisible": "\u200b",
    "one letter": "a",
    "mixed": "ghp_aB1cD2",
    "cookies": "cookie: a=b; ",
    "mail keys": "0123456789abcdef-us1",
    "markdown escapes": "\\_",
    "backslashes": "\\",
    "escaped code points": "\\u0041",
    "percent signs": "%41",
    "percent signs in an address": "://a%40",
    "encoded quotes": "%22:",
    "entities": "&#95;",
    "unfinished entities": "&#",
    "terminal codes": "\x1b[31m",
    "unfinished terminal codes": "\x1b[",
    "newlines": "\n",
    "letters in lines": "a\n",
    "numbers in lines": "12345\n",
    "random pieces in lines": "aB3dE5\n",
    "anchors in lines": "ghp_\n",
    "halves in lines": "ghp_aB1cD2eF3gH4\n",
    "columns": "sk-proj-aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX2yZ3aB4\n",
    "columns of base64": "IyBzZXR0aW5ncyBvZiB0aGUgYXBwIGdocF9hQjFjRDJlRjNnSDRp\n",
    "columns of hex": "2320736f6d652074657874206768705f614231634432654633\n",
    "broken strings": 'ghp_aB" +\n"',
    "open values that are known": "correct ",
    "known values": "xK9-known-value ",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_work_grows_with_the_text_and_with_nothing_else(name: str) -> None:
    """Counted in attempts to match, each of which looks at a bounded piece of text."""

    def attempts(chars: int) -> int:
        return attempts_of(SCRUBBER.machine(), (HOSTILE[name] * (chars // len(HOSTILE[name]) + 1))[:chars])

    small, large = attempts(25_000), attempts(50_000)
    assert large <= 50_000
    assert large <= 2.5 * small + 50


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.long_on("begins")
def test_a_stream_of_nothing_but_traps_equals_the_whole_and_keeps_little_in_memory(name: str) -> None:
    """Long enough for the machine to forget its beginning more than once, and to cut what has no border."""
    text = HOSTILE[name] * (48_000 // len(HOSTILE[name]))
    machine = SCRUBBER.machine()
    clean = ""
    held = 0
    for at in range(0, len(text), 61):
        clean += machine.feed(text[at : at + 61])
        held = max(held, len(machine._view.text) + len(machine._view._raw))
    assert clean + machine.feed("", is_last=True) == SCRUBBER.scrub(text)
    assert held <= HELD_CHARS_MAX


def test_a_hundred_kilobytes_of_base64() -> None:
    text = draw("<base64:100000>", seed=6)
    assert attempts_of(SCRUBBER.machine(), text) <= 20_000
    assert len(SCRUBBER.scrub(text)) > 95_000


def test_a_megabyte_of_one_letter_in_small_pieces_is_read_once() -> None:
    stream = SCRUBBER.stream()
    clean = "".join(stream.feed("aaaaaaaa") for _ in range(125_000)) + stream.flush()
    assert len(clean) == 1_000_000


def test_a_secret_across_the_border_of_an_overlong_run_is_hidden() -> None:
    for lead in range(16_300, 16_420, 7):
        token = draw("ghp_<base62:36>", seed=lead)
        text = "a" * lead + "-" + token + "-" + "b" * 100
        clean = SCRUBBER.scrub(text)
        assert not any(token[at : at + 12] in clean for at in range(len(token) - 11))
        assert joined(text, [9, 16_384, 16_390]) == clean


def test_a_long_secret_across_the_border_is_hidden_to_its_end() -> None:
    token = draw("IQoJb3JpZ2luX2Vj<base64:1900>", seed=1)
    text = "x" * 15_500 + "-" + token + " end"
    clean = SCRUBBER.scrub(text)
    assert clean.endswith("] end")
    assert len(clean) < 15_600
