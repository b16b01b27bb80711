"""The view: what a reader sees through, what stays spelled, and the way back to the text as it was sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import quote

import pytest

from gateway.scrub import Scrubber, findings, scrub
from gateway.scrub.view import View, normalised
from tests.scrubbing import draw

TOKEN = draw("sk-proj-<base64url:40>_-x", seed=5)
MATHEMATICAL = {ord("0") + digit: 0x1D7F6 + digit for digit in range(10)} | {
    ord("A") + n: 0x1D670 + n for n in range(26)
}


@pytest.mark.parametrize(
    ("spelled", "seen"),
    [
        (r"a\_b\-c\.d\*e\/f", "a_b-c.d*e/f"),
        (r"a\\_b", "a_b"),
        (r"\u0041\u005f\\u0042\\\\x43\u{44}\U00000045", "A_BCDE"),
        (r"\u043f\u0430\u0440\u043e\u043b\u044c", "пароль"),
        ("%41%5F%2542%252543", "A_BC"),
        ("&#65;&#x5f;&#95&lowbar;&hyphen;&amp;&amp;#66;&lt;&quot;", 'A___-&B<"'),
        ("a\u200bb\u00adc\u2060d\ufefee\U000e0041", "abcd\ufefee"),
        (r"a\u200bb&shy;c&#8203;d%E2%80%8Be", "abcde"),
        ("\x1b[31mred\x1b[0m \x1b[2Kx", "red x"),
        (r"\033[31mred\e[0m\x1b[1mx\u001b[0m", "redx"),
        ("text=a+%22b%22+%25c%5Cd&x=%22", 'text=a "b" %c\\d&x=%22'),
        (r"{\&quot;a\&quot;:1} AT\&T", r"{\"a\":1} AT&T"),
        (r"ssh box 'a '\''b c'\''", "ssh box 'a 'b c'"),
        ("a =3D b=3Dc", "a = b=c"),
        (f"\n{75 * 'x'}=\nyz=\nab", f"\n{75 * 'x'}yz=\nab"),
        ("\x1b]8;;https://example.org\x1b\\name", "https://example.org name"),
        ("ｇｈｐ＿，ⓐ𝚊²‑", "ghp_，aa2-"),
        (r"two%20words%0Aand\nmore \\n", "two words\nand\nmore \n"),
        ("%D0%BF%d1%80%E5%AF%86", "пр密"),
    ],
)
def test_a_spelling_is_seen_as_what_it_spells(spelled: str, seen: str) -> None:
    assert normalised(spelled) == seen


@pytest.mark.parametrize(
    "text",
    [
        "50 % of it, R&D, C:\\new, a \\ b",
        r"say \"hi\" and \\",
        "ab%27cd %22 100%",
        r"\u0020\u000a\u005c\ud800",
        "&nbsp;&bsol;&nosuch;&;",
        "%D0 %BF %E0%80",
    ],
)
def test_what_no_secret_is_made_of_stays_spelled(text: str) -> None:
    assert normalised(text) == text


def test_an_encoded_delimiter_stays_where_it_would_end_a_part_of_an_address() -> None:
    assert normalised("x://bob:p%40s%2Fs@h/a%40b") == "x://bob:p%40s%2Fs@h/a@b"


def test_encoded_json_gets_its_quotes_back_and_a_value_with_a_quote_does_not_end() -> None:
    assert normalised(quote('{"a": "b"}', safe=" ")) == '{"a": "b"}'
    assert normalised("password=ab%22cd") == "password=ab%22cd"


@pytest.mark.parametrize(
    "text",
    [
        r"a\u0041b",
        "%2541 &lowbar; \x1b[31mx",
        r"\\\\_ \033[1;31m",
        "&#0095;%22:%2",
        r"\&quot;'\''x=3D =",
        f"\n{75 * 'x'}=\r\ny",
    ],
)
def test_a_spelling_that_is_cut_in_two_waits_for_its_other_half(text: str) -> None:
    for cut in range(len(text) + 1):
        view = View()
        view.append(text[:cut], is_last=False)
        view.append(text[cut:], is_last=True)
        assert view.text == normalised(text)
        assert view.raw(0, view.raw_length) == text


def test_positions_lead_back_to_whole_spellings() -> None:
    text = r"x \u0067%68p&#95;z" + "\u200b y"
    view = View()
    view.append(text, is_last=True)
    start = view.text.index("ghp_z")
    assert text[view.raw_start(start) : view.raw_end(start + 5)] == r"\u0067%68p&#95;z"


def test_positions_stay_right_when_the_beginning_is_forgotten() -> None:
    view = View()
    view.append("%41\u200b" * 400 + "%42end", is_last=True)
    view.forget(300, 300 * 4)
    at = view.text.index("Bend")
    assert view.raw(view.raw_start(at), view.raw_end(at + 4)) == "%42end"


SPELLINGS: list[Callable[[str], str]] = [
    lambda char: f"\\u{ord(char):04X}",
    lambda char: f"\\\\u{ord(char):04x}",
    lambda char: f"\\x{ord(char):02x}",
    lambda char: f"%{ord(char):02x}",
    lambda char: f"%25{ord(char):02X}",
    lambda char: f"&#{ord(char)};",
    lambda char: f"&#x{ord(char):x};",
    lambda char: f"{char}\u200d",
    lambda char: f"\x1b[3{ord(char) % 8}m{char}",
    lambda char: chr(ord(char) + 0xFEE0),
    lambda char: chr(MATHEMATICAL.get(ord(char), ord(char))),
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_token_is_found_in_any_spelling_and_nothing_of_it_is_left(spelling: Callable[[str], str]) -> None:
    spelled = "".join(map(spelling, TOKEN))
    text = f"see {spelled} there"
    (finding,) = findings(text)
    assert text[finding.start : finding.end].startswith(spelled[-20:][:0] + text[finding.start])
    clean = scrub(text)
    assert clean.startswith("see ")
    assert clean.endswith("] there") or clean.removesuffix(" there").endswith(("]\u200d", "]\x1b[0m"))


def test_a_secret_has_one_placeholder_in_every_spelling() -> None:
    scrubber = Scrubber(placeholder_key=b"test")
    plain = scrubber.scrub(TOKEN)
    assert all(scrubber.scrub("".join(map(spelling, TOKEN))).startswith(plain) for spelling in SPELLINGS[:7])


def test_json_in_json_is_read_through() -> None:
    inner = json.dumps({"password": "hunter2!x", "port": 3})
    assert "hunter2" not in scrub(json.dumps(inner))
    assert "hunter2" not in scrub(json.dumps(inner).replace(r"\"", r"\u0022"))
    assert "hunter2" not in scrub(quote(inner))


def test_other_text_keeps_its_spelling() -> None:
    text = "a\u200bb \x1b[1mc\u00ad \\_d\\_ %41 &amp; ｅ"
    assert scrub(text) == text
