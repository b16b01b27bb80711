"""Tokens that a line break runs through, and lines that only follow a token."""

from __future__ import annotations

import base64
import re

import pytest

from gateway.scrub import Scrubber
from tests.scrubbing import draw

SCRUBBER = Scrubber(placeholder_key=b"test")
TOKEN = draw("ghp_<base62:36>", seed=4)
LONG = draw("sk-proj-<base64url:74>T3BlbkFJ<base64url:74>", seed=4)
LEFT = draw("<digits:10>:AA<base64url:33>", seed=4)
BREAKS = [
    "\n",
    "\r\n",
    "\n    ",
    "\\\n  ",
    "=\n",
    "=\r\n",
    "\n> ",
    "=\n> ",
    "\n| ",
    "\n# ",
    "\n// ",
    "\u200b\n",
    "<br>",
    "\\n",
]


def told(text: str) -> str:
    """The clean text with "…" for each placeholder; the same in one piece and letter by letter."""
    clean = SCRUBBER.scrub(text)
    stream = SCRUBBER.stream()
    assert "".join(map(stream.feed, text)) + stream.flush() == clean
    return re.sub(r"\[redacted:[a-z0-9-]+#[0-9a-f]+\]", "…", clean)


@pytest.mark.parametrize("line_break", BREAKS)
@pytest.mark.parametrize("token", [TOKEN, LONG, LEFT], ids=["short", "long", "with its mark inside"])
def test_both_parts_go_wherever_the_line_breaks(token: str, line_break: str) -> None:
    for at in (6, 14, len(token) // 2, len(token) - 12):
        clean = told(f"here {token[:at]}{line_break}{token[at:]} it is")
        assert clean == "here … it is", (at, line_break)


@pytest.mark.parametrize("seam", ['" +\n    "', '"\n  "', "' \\\n'", '"\n + "'])
def test_a_string_that_a_programmer_broke(seam: str) -> None:
    assert told(f'key = "{TOKEN[:20]}{seam}{TOKEN[20:]}"') == 'key = "…"'


@pytest.mark.parametrize("width", [20, 40, 64, 76])
def test_a_token_in_columns(width: int) -> None:
    lines = "\n".join(LONG[at : at + width] for at in range(0, len(LONG), width))
    assert told(f"key:\n{lines}\nthanks") == "key:\n…\nthanks"


def test_an_anchor_that_the_line_break_cuts_in_two() -> None:
    assert told(f"see gh\n{TOKEN[2:]} there") == "see … there"


@pytest.mark.parametrize(
    "following", ["thanks", "It works", "- next", "2024-05-01 12:00", "PORT=80", "https://example.org"]
)
def test_a_line_that_only_follows_a_token_stays(following: str) -> None:
    for token in (TOKEN, LONG, LEFT):
        assert told(f"{token}\n{following}") == f"…\n{following}"


def test_two_tokens_in_two_lines_are_two() -> None:
    assert told(f"{TOKEN}\n{TOKEN[::-1]}\n{LONG}") == f"…\n{TOKEN[::-1]}\n…"


@pytest.mark.parametrize("above", ["hf_<base62:34>", "doo_v1_<hex:64>", "sk-<base62:20>T3BlbkFJ<base62:20>"])
@pytest.mark.parametrize("token", ["hf_<base62:34>", "doo_v1_<hex:64>", "AKIA<base32:16>"])
def test_a_token_that_is_broken_below_another_goes(above: str, token: str) -> None:
    whole = draw(token, seed=1)
    assert told(f"{draw(above, seed=2)} \n{whole[:14]}=\n{whole[14:]}\n") == "… \n…\n"


def test_a_part_that_is_a_token_by_itself_goes_even_if_nothing_follows() -> None:
    assert told(f"{LONG[:60]}\n") == "…\n"
    assert told(f"{LONG[:60]}\nand then") == "…\nand then"


@pytest.mark.parametrize(
    "text", ["sk-learn\nis fine", "gh\nissue list", "a 1234\n5678 b", "test\n_run", "see sk-\nfoo"]
)
def test_lines_that_make_no_token_stay(text: str) -> None:
    assert told(text) == text


class TestEncoded:
    def test_one_layer_goes_whole(self) -> None:
        for encoded in (
            base64.b64encode(TOKEN.encode()).decode(),
            base64.urlsafe_b64encode(f"export KEY={TOKEN}\n".encode()).decode().rstrip("="),
            base64.b64encode(f"export KEY={TOKEN}".encode("utf-16-le")).decode(),
            TOKEN.encode().hex(),
            TOKEN.encode().hex().upper(),
        ):
            assert told(f'echo "{encoded}" | base64 -d') == 'echo "…" | base64 -d'
            assert told(f"path/{encoded}").endswith("…")

    def test_a_named_value_and_a_link_inside_go_as_well(self) -> None:
        for inner in ('{"password": "Qwe123!xyz"}', "postgres://bob:Qwe123xyz@db.example.org/app"):
            assert told(base64.b64encode(inner.encode()).decode()) == "…"

    def test_a_secret_in_two_lines_of_base64(self) -> None:
        lines = base64.encodebytes(f"# some settings of the app\nexport KEY={TOKEN}\n".encode()).decode()
        assert not re.search(r"[A-Za-z0-9]{30}", told(f"file:\n{lines}"))

    @pytest.mark.parametrize(
        "plain", ["just a text without anything to hide in it", '{"cursor": 1234, "page": "next"}', "<svg>…</svg>" * 4]
    )
    def test_text_without_a_secret_stays(self, plain: str) -> None:
        encoded = base64.b64encode(plain.encode()).decode()
        assert told(f"data:text/plain;base64,{encoded}") == f"data:text/plain;base64,{encoded}"

    def test_digests_and_pictures_stay(self) -> None:
        text = draw("sha512-<base64:86>== <hex:64> data:image/png;base64,iVBORw0KGgo<base64:200>", seed=2)
        assert told(text) == text

    def test_two_layers_are_out_of_scope(self) -> None:
        twice = base64.b64encode(base64.b64encode(TOKEN.encode())).decode()
        assert told(twice) == twice


class TestWrongCase:
    @pytest.mark.parametrize("token", [TOKEN, LONG, draw("glpat-<base64url:20>", seed=1)])
    def test_a_token_whose_letters_lost_their_case(self, token: str) -> None:
        for changed in (token.upper(), token.lower(), token.swapcase(), token.title()):
            assert told(f"see {changed} there") == "see … there"

    @pytest.mark.parametrize("text", ["NPM_CONFIG_REGISTRY=x", "GHP_SOME_NAME_OF_A_CONSTANT_IN_CAPITALS", "SK-LEARN"])
    def test_names_in_capitals_stay(self, text: str) -> None:
        assert told(text) == text
