"""How the emulated Telegram treats text: what it cleans and nests, what it recognises, and how it is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.emulators.telegram.text import Entity, FormattedText, checked_link, tidy, to_html, utf16_cut, with_found


def ranges(parsed: FormattedText) -> list[tuple[str, str]]:
    """Each entity as its type and the text it covers."""
    return [(each.type, utf16_cut(parsed.text, each.offset, each.length)) for each in parsed.entities]


class TestTidying:
    def test_white_space_around_a_message_goes_and_entities_follow(self) -> None:
        tidied = tidy(FormattedText("  \n bold text \n", (Entity("bold", 3, 5),)))
        assert (tidied.text, ranges(tidied)) == ("bold text", [("bold", "bold")])

    def test_code_keeps_the_spaces_it_begins_with(self) -> None:
        assert ranges(tidy(FormattedText("    x", (Entity("pre", 2, 3),)))) == [("pre", "  x")]

    def test_control_characters_become_spaces_and_carriage_returns_vanish(self) -> None:
        tidied = tidy(FormattedText("a\r\nb\tc\x00d", (Entity("bold", 3, 1),)))
        assert (tidied.text, ranges(tidied)) == ("a\nb c d", [("bold", "b")])


class TestFindingAndShowing:
    def test_mentions_commands_and_addresses_are_found(self) -> None:
        found = with_found(FormattedText("😀 @ada_here /help@x_bot #tag see https://e.org/a?b, mail a@b.org, not a/b"))
        assert ranges(found) == [
            ("mention", "@ada_here"),
            ("bot_command", "/help@x_bot"),
            ("hashtag", "#tag"),
            ("url", "https://e.org/a?b"),
            ("email", "a@b.org"),
        ]

    def test_nothing_is_found_inside_code(self) -> None:
        found = with_found(FormattedText("@ada_here", (Entity("code", 0, 9),)))
        assert ranges(found) == [("code", "@ada_here")]

    def test_what_is_shown_is_nested_and_escaped(self) -> None:
        shown = to_html(FormattedText("a <b>\nx", (Entity("bold", 0, 5), Entity("italic", 2, 3))))
        assert shown == "<strong>a <em>&lt;b&gt;</em></strong>\nx"

    @given(st.text(alphabet="<>&\"' ab"), st.integers(0, 5), st.integers(1, 5), st.sampled_from(["pre", "text_link"]))
    def test_no_text_can_become_markup(self, text: str, offset: int, length: int, kind: str) -> None:
        url = checked_link('http://e.org/"><script>') or ""
        shown = to_html(FormattedText(text, (Entity(kind, offset, length, url=url, language=text),)))
        assert "<script" not in shown
        assert shown.count("<") == shown.count("</") * 2

    @pytest.mark.parametrize(
        ("url", "link"),
        [
            ("example.com", "http://example.com/"),
            ("https://example.com/a", "https://example.com/a"),
            ("tg://resolve?domain=x", "tg://resolve?domain=x"),
            ("http://localhost", None),
            ("javascript:alert(1)", None),
            ("two words.com", None),
        ],
    )
    def test_which_addresses_are_links(self, url: str, link: str | None) -> None:
        assert checked_link(url) == link
