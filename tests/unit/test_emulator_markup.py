"""What people see in the emulated clients: each vendor's dialect, and never a tag that somebody typed."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.emulators.discord import view as discord_view
from channels.emulators.slack import text as slack_text
from channels.emulators.slack.text import cut, mentioned, plain, rich_text, stored, typed
from channels.emulators.stage import Json

NAMES = {"@1": "Ada", "@&2": "Trivet", "#3": "hall", "U0ADA": "Ada", "C0HALL": "hall"}
_TAGS = frozenset(
    {"a", "blockquote", "br", "button", "code", "div", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "img", "li"}
    | {"ol", "p", "pre", "s", "small", "span", "strong", "table", "tbody", "td", "th", "thead", "time", "tr", "u", "ul"}
)
_ATTRIBUTES = frozenset({"class", "href", "rel", "target", "start", "style", "src", "alt", "title"})


def discord_html(text: str) -> str:
    return discord_view.to_html(text, NAMES.get)


def mrkdwn_html(text: str) -> str:
    return slack_text.mrkdwn_html(stored(text), NAMES.get)


@pytest.mark.parametrize(
    ("typed_text", "html"),
    [
        ("**b** *i* __u__ ~~s~~", "<strong>b</strong> <em>i</em> <u>u</u> <s>s</s>"),
        ("***both***", "<strong><em>both</em></strong>"),
        ("_i_ snake_case_name", "<em>i</em> snake_case_name"),
        (r"\*no\* 2 * 3 * 4", "*no* 2 * 3 * 4"),
        (r"file\_read", "file_read"),
        ("||secret||", '<span class="spoiler">secret</span>'),
        ("`a*b*c`", "<code>a*b*c</code>"),
        ("``a`b``", "<code>a`b</code>"),
        ("```py\nx = 1 < 2\n```", '<pre><code class="language-py">x = 1 &lt; 2</code></pre>'),
        ("```\nplain\n```\nafter", "<pre><code>plain</code></pre>after"),
        ("``` open", "``` open"),
        ("# One\n#### Four", "<h1>One</h1>#### Four"),
        ("-# small", "<small>small</small>"),
        ("> a\n> b\nc", "<blockquote>a<br>b</blockquote>c"),
        (">>> a\nb", "<blockquote>a<br>b</blockquote>"),
        ("> > a", "<blockquote>&gt; a</blockquote>"),
        ("<@1> <@!1> <@&2> <#3> <@99>", None),
        ("a\nb", "a<br>b"),
        ("| a | b |", "| a | b |"),
        ("<b>", "&lt;b&gt;"),
    ],
)
def test_discord_markdown(typed_text: str, html: str | None) -> None:
    mention = '<span class="mention">{}</span>'
    mentions = " ".join([*(mention.format(name) for name in ("@Ada", "@Ada", "@Trivet", "#hall")), "&lt;@99&gt;"])
    assert discord_html(typed_text) == (mentions if html is None else html)


@pytest.mark.parametrize("mark", ["*", "**", "_ a", "~~", "||", "`", "[", "[a](", "> ", ">>> ", "<@", "\\", "- "])
def test_a_message_full_of_marks_is_still_shown(mark: str) -> None:
    """Neither the depth nor the number of open marks is a problem."""
    assert discord_html((mark * 2000)[:2000])
    assert mrkdwn_html((mark * 4000)[:4000])


def test_discord_links_lists_and_moments() -> None:
    assert 'href="https://x.org/a_(b)"' in discord_html("[label](https://x.org/a_(b))")
    assert discord_html("[x](javascript:alert)") == "[x](javascript:alert)"
    assert ">https://x.org/p</a>." in discord_html("see https://x.org/p.")
    assert discord_html("- a\n  - b\n1. c") == (
        '<div class="item depth-0">• a</div><div class="item depth-1">◦ b</div><div class="item depth-0">1. c</div>'
    )
    assert 'class="item depth-5"' in discord_html("- a\n" + "  " * 40 + "- far to the right")
    assert discord_html("<t:0:R>") == "<time>01 January 1970 00:00 UTC</time>"
    assert discord_html("<t:9999999999999>") == "<time>&lt;t:9999999999999&gt;</time>"
    assert discord_html("<:wave:123456789012345678>") == ":wave:"


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("*b* _i_ ~s~ `c`", "<strong>b</strong> <em>i</em> <s>s</s> <code>c</code>"),
        ("a*b*c 2 * 3 * 4", "a*b*c 2 * 3 * 4"),
        ("**not bold**", "**not bold**"),
        ("```x < 1\ny```", "<pre><code>x &lt; 1\ny</code></pre>"),
        ("> quoted\nnot", "<blockquote>quoted</blockquote>not"),
        ("# no heading", "# no heading"),
        ("<script>", "&lt;script&gt;"),
        ("<!here> <@U0ADA> <#C0HALL|hall>", None),
    ],
)
def test_slack_mrkdwn(text: str, html: str | None) -> None:
    mention = '<span class="mention">{}</span>'
    mentions = " ".join(mention.format(name) for name in ("@here", "@Ada", "#hall"))
    assert mrkdwn_html(text) == (mentions if html is None else html)


def test_slack_blocks() -> None:
    blocks: list[Json] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": "*b* <b>"}},
        {"type": "markdown", "text": "**b** <@U0ADA> <b>\n\n| a |\n|---|\n| 1 |"},
        *rich_text("look <c> <@U0ADA>", ["U0ADA"]),
    ]
    html = slack_text.blocks_html(blocks, NAMES.get)
    for part in (
        "<p><strong>b</strong> &lt;b&gt;</p>",
        '<strong>b</strong> <span class="mention">@Ada</span> &lt;b&gt;',
        "<td>1</td>",
        '<div>look &lt;c&gt; <span class="mention">@Ada</span></div>',
    ):
        assert part in html


def test_slack_keeps_text_in_one_form() -> None:
    assert stored("a & b &amp; <c> <@U0ADA|ada> <!channel>") == "a &amp; b &amp; &lt;c&gt; <@U0ADA|ada> <!channel>"
    assert stored("go https://x.org/a?b=1, ok") == "go <https://x.org/a?b=1>, ok"
    assert typed("<!channel> & <@U0ADA>") == "&lt;!channel&gt; &amp; <@U0ADA>"
    assert mentioned("<@U0ADA> <@U0ADA|x> <@W0BOB>") == ["U0ADA", "W0BOB"]


class _Reader(HTMLParser):
    """Fails on a tag or an attribute that our renderers do not write."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS
        for name, value in attrs:
            assert name in _ATTRIBUTES
            if name in ("href", "src"):
                assert not re.match(r"\s*(javascript|vbscript|data:text)", value or "", re.IGNORECASE)


_MARKS = st.text(alphabet="*_~`|<>@#!&;:/\\()[]-\n\"'= abU0ADAhttps1x.", max_size=120) | st.text(max_size=60)


@given(_MARKS)
def test_no_text_becomes_a_tag(text: str) -> None:
    blocks: list[Json] = [
        {"type": "markdown", "text": text},
        {"type": "section", "text": {"type": "mrkdwn", "text": text}},
        *rich_text(text, []),
    ]
    for html in (discord_html(text), mrkdwn_html(text), slack_text.blocks_html(blocks, NAMES.get)):
        reader = _Reader()
        reader.feed(html)
        reader.close()


@given(st.text(alphabet="ab &<>;lt\n*_`", max_size=200))
def test_what_a_person_types_is_what_people_read(text: str) -> None:
    """Escaped once on the way in, resolved once on the way out; what is stored already is not escaped again."""
    assert plain(typed(text)) == text
    assert stored(stored(text)) == stored(text)


@given(st.text(alphabet="ab \n", max_size=9000))
def test_cut_text_loses_at_most_white_space(text: str) -> None:
    pieces = cut(text)
    assert all(len(piece) <= 4040 for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())
