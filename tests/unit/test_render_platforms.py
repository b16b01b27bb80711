"""What each platform's renderer promises beyond the look of a construct: limits, splits, fallbacks."""

from __future__ import annotations

import pytest

from channels.core.adapter import MARKS
from channels.discord.render import CONTENT_CHARS_MAX, DiscordChunk, under
from channels.discord.render import render as render_discord
from channels.slack.render import render as render_slack
from channels.telegram.render import CONTINUED, ENTITIES_MAX
from channels.telegram.render import render as render_telegram
from gateway.contracts.messages import CleanText

CODE = CleanText("Look:\n\n```python\n" + "value = compute(1, 2, 3)\n" * 400 + "```\n\nDone.")


@pytest.mark.parametrize("blank", ["", " \n\t ", "\u200b", "\n\n\n", "\x00"])
def test_nothing_to_see_is_no_message(blank: str) -> None:
    """Platforms refuse blank messages, so there is none to send."""
    text = CleanText(blank)
    assert (render_telegram(text), render_discord(text), render_slack(text)) == ((), (), ())


@pytest.mark.parametrize("mark", MARKS)
def test_the_mark_of_a_repetition_fits_above_a_full_message(mark: str) -> None:
    """In every language: Discord refuses a 2001st character, formatted or plain, and the answer would be lost."""
    full = "x" * CONTENT_CHARS_MAX
    assert len(under(mark, DiscordChunk(full, full)).content) <= 2000


@pytest.mark.parametrize("markup", ["```\n```", "#", "[a]: http://e.com", ">", "-", "&nbsp;"])
def test_markup_alone_is_shown_as_written(markup: str) -> None:
    """An answer must not vanish because a parser finds nothing to say in it."""
    (chunk,) = render_telegram(CleanText(markup))
    assert chunk.text == markup


def test_code_is_closed_and_reopened_with_its_language() -> None:
    """On Discord by fences, on Telegram by entities, on Slack by fences without a language."""
    discord = render_discord(CODE)
    assert len(discord) > 3
    assert all(chunk.content.startswith("```python\n") and chunk.content.endswith("\n```") for chunk in discord[1:-1])
    telegram = render_telegram(CODE)
    assert all(any((e.type, e.language) == ("pre", "python") for e in chunk.entities) for chunk in telegram)
    assert all(chunk.text.count("```") == 2 for chunk in render_slack(CODE))


@pytest.mark.parametrize("before", ["\n", "\t\n\n\n", " " * 9000 + "\n", ""])
@pytest.mark.parametrize("opening", ["```\n", "> ```\n> ", "- a\n\n  ```\n  "])
def test_a_long_line_after_blank_ones_in_code_is_cut(opening: str, before: str) -> None:
    """What is blank alone is no message; uncut, the platform would refuse all of it."""
    line = "w" * 9000
    blank = before.replace("\n", "\n" + opening.rpartition("\n")[2])
    text = CleanText(f"{opening}{blank}{line}")
    for shown in (
        [chunk.plain for chunk in render_discord(text)],
        [chunk.plain for chunk in render_slack(text)],
        [chunk.text for chunk in render_telegram(text)],
    ):
        assert max(map(len, shown)) <= 4000
        assert "".join(shown).count("w") == 9000
    assert max(len(chunk.content) for chunk in render_discord(text)) <= CONTENT_CHARS_MAX


@pytest.mark.parametrize("count", range(3, 10))
def test_backticks_in_code_end_no_code(count: int) -> None:
    """However many stand together: neither platform knows an escape there."""
    ticks = "`" * count
    (fence,) = render_discord(CleanText(f"~~~\n{ticks}\n~~~"))
    assert fence.content.count("```") == 2
    (inline,) = render_discord(CleanText(f"``````````` {ticks} ```````````"))
    assert inline.content.count("``") == 2
    (fenced,) = render_slack(CleanText(f"~~~\n{ticks}\n~~~"))
    assert fenced.text.count("```") == 2


def test_a_table_repeats_its_header_in_every_message() -> None:
    """A row without its columns' names means nothing."""
    text = CleanText("| key | value |\n|---|---|\n" + "| something | 12345 |\n" * 500)
    plain = [chunk.plain for render in (render_telegram, render_discord, render_slack) for chunk in render(text)]
    assert len(plain) > 6
    assert all("key" in shown and "value" in shown for shown in plain)


def test_telegram_offsets_count_utf16_units() -> None:
    """An emoji is two units, a family seven characters and eleven units."""
    (chunk,) = render_telegram(CleanText("👨‍👩‍👧‍👦 **bold**"))
    (bold,) = chunk.entities
    assert (bold.offset, bold.length) == (12, 4)


def test_telegram_splits_before_it_loses_formatting() -> None:
    """Beyond a hundred entities the server drops the rest without a word."""
    chunks = render_telegram(CleanText("**a** " * 300))
    assert len(chunks) == 4
    assert sum(len(chunk.entities) for chunk in chunks) == 300
    assert max(len(chunk.entities) for chunk in chunks) == ENTITIES_MAX


def test_telegram_keeps_the_indentation_of_the_first_line_of_code() -> None:
    """White space at the start of a message is trimmed, so a mark stands before it."""
    (chunk,) = render_telegram(CleanText("```py\n    return x\n```"))
    assert chunk.text == f"{CONTINUED}\n    return x"


def test_telegram_quotes_of_many_lines_are_folded() -> None:
    """Nine lines are more than eight."""
    (chunk,) = render_telegram(CleanText("\n".join(["> line"] * 9)))
    assert [entity.type for entity in chunk.entities] == ["expandable_blockquote"]


def test_the_plain_text_keeps_the_addresses_of_links() -> None:
    """Without formatting a link would be a mere word."""
    text = CleanText("[the docs](https://e.com/x) and **bold**")
    for chunks in (render_telegram(text), render_discord(text), render_slack(text)):
        assert [chunk.plain for chunk in chunks] == ["the docs (https://e.com/x) and bold"]


def test_slack_counts_what_escaping_adds() -> None:
    """One ampersand is five characters to Slack."""
    chunks = render_slack(CleanText("&" * 2000))
    assert len(chunks) == 3
    assert all(len(chunk.text) <= 3900 for chunk in chunks)


def test_a_link_longer_than_a_message_is_text() -> None:
    """It can be split then; as markup it could not."""
    url = "https://e.com/" + "a" * 5000
    for chunks in (render_discord(CleanText(f"[x]({url})")), render_slack(CleanText(f"[x]({url})"))):
        assert len(chunks) > 1
        assert "".join(chunk.plain for chunk in chunks) == f"x({url})"


def test_a_long_address_without_spaces_is_cut_only_if_it_must() -> None:
    """A word that fits a fresh message starts one."""
    word = "w" * 1500
    chunks = render_discord(CleanText(f"{'some words ' * 60}{word}"))
    assert chunks[1].content == word
