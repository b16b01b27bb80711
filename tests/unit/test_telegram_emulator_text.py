"""How the emulated Telegram reads markup: what it accepts, what it refuses, and where it says so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from telegram.helpers import escape_markdown

from channels.emulators.telegram.text.entities import Entity, FormattedText, MarkupError, utf16_cut, utf16_length
from channels.emulators.telegram.text.found import with_found
from channels.emulators.telegram.text.html_mode import parse_html
from channels.emulators.telegram.text.links import checked_link
from channels.emulators.telegram.text.markdown_v1 import parse_markdown_v1
from channels.emulators.telegram.text.markdown_v2 import parse_markdown_v2
from channels.emulators.telegram.text.show import to_html
from channels.emulators.telegram.text.tidy import tidy


def ranges(parsed: FormattedText) -> list[tuple[str, str]]:
    """Each entity as its type and the text it covers."""
    return [(each.type, utf16_cut(parsed.text, each.offset, each.length)) for each in parsed.entities]


class TestHtml:
    @pytest.mark.parametrize(
        ("source", "text", "expected"),
        [
            ("<b>bold</b> <i>it</i>", "bold it", [("bold", "bold"), ("italic", "it")]),
            ("<strong>a</strong><em>b</em><ins>c</ins>", "abc", [("bold", "a"), ("italic", "b"), ("underline", "c")]),
            ("<s>a</s><del>b</del>", "ab", [("strikethrough", "a"), ("strikethrough", "b")]),
            ('<span class="tg-spoiler">x</span><tg-spoiler>y</tg-spoiler>', "xy", [("spoiler", "x"), ("spoiler", "y")]),
            ("<B>loud</b>", "loud", [("bold", "loud")]),
            ("<blockquote expandable>q</blockquote>", "q", [("expandable_blockquote", "q")]),
            ("😀 <b>é😀</b>", "😀 é😀", [("bold", "é😀")]),
            ("a &lt;b&gt; &amp; &quot;c&quot; &#233;&#x1F600; &nbsp;", 'a <b> & "c" é😀 &nbsp;', []),
            ("<b>open</>", "open", [("bold", "open")]),
            ("<b></b>x", "x", []),
        ],
    )
    def test_markup_becomes_entities(self, source: str, text: str, expected: list[tuple[str, str]]) -> None:
        parsed = parse_html(source)
        assert (parsed.text, ranges(parsed)) == (text, expected)

    @pytest.mark.parametrize(
        "source",
        [
            '<pre><code class="language-python">x = 1</code></pre>',
            "<code class='language-python'><pre>x = 1</pre></code>",
        ],
    )
    def test_code_in_pre_has_a_language_either_way_round(self, source: str) -> None:
        assert parse_html(source).entities == (Entity("pre", 0, 5, language="python"),)

    def test_links_are_checked_and_people_can_be_mentioned(self) -> None:
        parsed = parse_html(
            '<a href="http://e.org/?a=1&amp;b=2">l</a> <a href="tg://user?id=7">u</a> <a href="javascript:x">j</a>'
        )
        assert [(each.type, each.url, each.user_id) for each in parsed.entities] == [
            ("text_link", "http://e.org/?a=1&b=2", 0),
            ("text_mention", "", 7),
        ]

    @pytest.mark.parametrize(
        ("source", "complaint"),
        [
            ("é<x>", 'Unsupported start tag "x" at byte offset 2'),
            ("a < b", 'Unsupported start tag "" at byte offset 2'),
            ("<b", "Unclosed start tag at byte offset 0"),
            ("<b>x", 'Can\'t find end tag corresponding to start tag "b"'),
            ("<b>x</i>", 'Unmatched end tag at byte offset 4, expected "</b>", found "</i>"'),
            ("x</b>", "Unexpected end tag at byte offset 1"),
            ("<b>x</b", "Unclosed end tag at byte offset 4"),
            ("<span>x</span>", 'Tag "span" must have class "tg-spoiler" at byte offset 0'),
            ("<a href>x</a>", 'Expected equal sign in declaration of an attribute of the tag "a" at byte offset 0'),
            ('<a href="x', "Unclosed start tag at byte offset 0"),
            ("<a href=x/y>x</a>", "Unexpected end of name token at byte offset 8"),
            ("<!-- x -->", 'Unsupported start tag "!--" at byte offset 0'),
            ("<br/>", 'Unsupported start tag "br/" at byte offset 0'),
        ],
    )
    def test_what_the_server_refuses(self, source: str, complaint: str) -> None:
        with pytest.raises(MarkupError) as refused:
            parse_html(source)
        assert str(refused.value) == complaint


class TestMarkdownV2:
    @pytest.mark.parametrize(
        ("source", "text", "expected"),
        [
            ("*b* _i_ __u__ ~s~ ||p||", "b i u s p", ["bold", "italic", "underline", "strikethrough", "spoiler"]),
            ("*b _bi ~bis~ bi_ b*", "b bi bis bi b", ["bold", "italic", "strikethrough"]),
            ("`a*b` \\`x\\`", "a*b `x`", ["code"]),
            ("```python\nprint('x')\n```", "print('x')\n", ["pre"]),
            ("```x```", "x", ["pre"]),
            ("[t](http://e.org/\\)x) \\[n\\]", "t [n]", ["text_link"]),
            ("![👍](tg://emoji?id=5368324170671202286)", "👍", ["custom_emoji"]),
            (">a\n>b\nc", "a\nb\nc", ["blockquote"]),
            (">a\n**>b||\nc", "a\nb\nc", ["blockquote", "expandable_blockquote"]),
            (">a||", "a", ["expandable_blockquote"]),
            ("1\\. a\\-b \\!", "1. a-b !", []),
        ],
    )
    def test_markup_becomes_entities(self, source: str, text: str, expected: list[str]) -> None:
        parsed = parse_markdown_v2(source)
        assert (parsed.text, [each.type for each in parsed.entities]) == (text, expected)

    @pytest.mark.parametrize("character", list("_*[]()~`>#+-=|{}.!"))
    def test_every_reserved_character_must_be_escaped(self, character: str) -> None:
        with pytest.raises(MarkupError):
            parse_markdown_v2(f"a {character} b")
        assert parse_markdown_v2(f"a \\{character} b").text == f"a {character} b"

    @pytest.mark.parametrize(
        ("source", "complaint"),
        [
            ("é*x", "Can't find end of Bold entity at byte offset 2"),
            ("x _y", "Can't find end of Italic entity at byte offset 2"),
            ("```py\nx", "Can't find end of PreCode entity at byte offset 0"),
            ("[x](http://e.org", "Can't find end of a URL at byte offset 4"),
            ("a.", "Character '.' is reserved and must be escaped with the preceding '\\'"),
            (">*a\nb*", "Can't find end of Bold entity at byte offset 1"),
            ("![x]", "Custom emoji entity must contain a tg://emoji URL"),
        ],
    )
    def test_what_the_server_refuses(self, source: str, complaint: str) -> None:
        with pytest.raises(MarkupError) as refused:
            parse_markdown_v2(source)
        assert str(refused.value) == complaint

    @given(st.text())
    def test_text_escaped_by_the_client_library_comes_back_as_it_was(self, text: str) -> None:
        parsed = parse_markdown_v2(escape_markdown(text, version=2))
        assert parsed.entities == ()
        assert parsed.text == text

    @given(st.text(alphabet="*_~|`[]()!>\\\n a1.é😀"))
    def test_any_text_is_parsed_or_refused_and_entities_stay_inside(self, text: str) -> None:
        for parse in (parse_markdown_v2, parse_markdown_v1, parse_html):
            try:
                parsed = parse(text)
            except MarkupError:
                continue
            assert all(0 <= each.offset < each.end <= utf16_length(parsed.text) for each in parsed.entities)


class TestLegacyMarkdown:
    def test_markup_becomes_entities(self) -> None:
        parsed = parse_markdown_v1("*b* _i_ `c` [l](http://e.org) ```py\nx``` \\_")
        assert parsed.text == "b i c l x _"
        assert [each.type for each in parsed.entities] == ["bold", "italic", "code", "text_link", "pre"]

    def test_a_stray_marker_is_refused(self) -> None:
        with pytest.raises(MarkupError, match="entity starting at byte offset 2"):
            parse_markdown_v1("é_x")


class TestTidying:
    def test_white_space_around_a_message_goes_and_entities_follow(self) -> None:
        tidied = tidy(FormattedText("  \n bold text \n", (Entity("bold", 3, 5),)))
        assert (tidied.text, ranges(tidied)) == ("bold text", [("bold", "bold")])

    def test_code_keeps_the_spaces_it_begins_with(self) -> None:
        assert ranges(tidy(parse_html("  <pre>  x</pre>"))) == [("pre", "  x")]

    def test_control_characters_become_spaces_and_carriage_returns_vanish(self) -> None:
        tidied = tidy(FormattedText("a\r\nb\tc\x00d", (Entity("bold", 3, 1),)))
        assert (tidied.text, ranges(tidied)) == ("a\nb c d", [("bold", "b")])

    @pytest.mark.parametrize(
        ("given_entities", "kept"),
        [
            ([("bold", 0, 9), ("code", 3, 3)], [("bold", "abc"), ("code", "def"), ("bold", "ghi")]),
            ([("bold", 0, 6), ("italic", 3, 6)], [("bold", "abc"), ("italic", "defghi"), ("bold", "def")]),
            ([("text_link", 0, 3), ("bold", 0, 9)], [("text_link", "abc"), ("bold", "abc"), ("bold", "defghi")]),
            ([("code", 0, 6), ("blockquote", 3, 6)], [("blockquote", "defghi")]),
            ([("text_link", 0, 6), ("code", 0, 3)], [("text_link", "abcdef")]),
            ([("pre", 0, 9), ("code", 0, 9)], [("pre", "abcdefghi")]),
            ([("bold", 0, 5), ("bold", 3, 6)], [("bold", "abcdefghi")]),
            ([("blockquote", 0, 9), ("bold", 0, 3)], [("blockquote", "abcdefghi"), ("bold", "abc")]),
            ([("blockquote", 0, 9), ("blockquote", 3, 3)], [("blockquote", "abcdefghi")]),
        ],
    )
    def test_nesting_is_settled_by_the_rules(
        self, given_entities: list[tuple[str, int, int]], kept: list[tuple[str, str]]
    ) -> None:
        tidied = tidy(FormattedText("abcdefghi", tuple(Entity(*each) for each in given_entities)))
        assert ranges(tidied) == kept


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
