"""What becomes of a title that a model wrote."""

from __future__ import annotations

import pytest

from agent.features.titles import first_request, sanitize_title, wanted_title
from agent.limits import TITLE_INPUT_CHARS_MAX
from gateway.contracts.messages import CleanText
from gateway.scrub import Scrubber

SCRUB = Scrubber().scrub
FAMILY = "👨‍👩‍👧‍👦"
SCOTLAND = "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


@pytest.mark.parametrize(
    ("raw", "title"),
    [
        ("Plan a trip to Rome", "Plan a trip to Rome"),
        ("\n \n  Plan a trip\nsecond line", "Plan a trip"),
        ("a\tb   c", "a b c"),
        ("", ""),
        (" \n\t", ""),
    ],
)
def test_a_title_is_the_first_line_that_says_something(raw: str, title: str) -> None:
    assert sanitize_title(raw, SCRUB) == title


@pytest.mark.parametrize(
    ("raw", "title"),
    [
        ("<think>The user wants…</think>\nPlan a trip", "Plan a trip"),
        ("<THINKING mood='calm'>\nlong\n\nthoughts</THINKING >Plan a trip", "Plan a trip"),
        ("<reasoning>a</reasoning> <think>b</think> Plan a trip", "Plan a trip"),
        ("<think>a <think>b</think> c</think>Plan a trip", "Plan a trip"),
        ("◁think▷hm◁/think▷Plan a trip", "Plan a trip"),
        ("<seed:think>hm</seed:think>Plan a trip", "Plan a trip"),
        ("the start was lost</reasoning>Plan a trip", "Plan a trip"),
        ("Plan a trip <think>or rather", "Plan a trip"),
        ("<thinking>never closed, so nothing is left", ""),
        ("<think", ""),
        ("<think>only thoughts</think>", ""),
        ("Think about the thinker", "Think about the thinker"),
        ("Vec<Thinker> in Rust", "Vec<Thinker> in Rust"),
    ],
)
def test_thoughts_are_taken_out_whether_they_end_or_not(raw: str, title: str) -> None:
    assert sanitize_title(raw, SCRUB) == title


@pytest.mark.parametrize(
    "label",
    [
        *("Title: ", "title:", "TITLE : ", "Chat title: ", "**Title:** ", "**Title**: ", '"Title": ', "# Title: "),
        *("Here is a title: ", "Sure! Here's the title: ", "Suggested title: ", "Title: Title: "),
        *("Titel: ", "Überschrift: ", "Titre : ", "Título: ", "Ti\u0301tulo: ", "Titolo: ", "Tytuł: ", "Başlık: "),
        *("Заголовок: ", "Название: ", "Назва: ", "Τίτλος: ", "العنوان: ", "כותרת: ", "शीर्षक: ", "Judul: "),
        *("标题：", "標題:", "【标题】：", "タイトル: ", "件名：", "제목: ", "Tiêu đề: "),
    ],
)
def test_a_label_goes_in_whichever_language(label: str) -> None:
    assert sanitize_title(f"{label}Rome 2027", SCRUB) == "Rome 2027"


@pytest.mark.parametrize("raw", ["Subtitle: a film", "Untitled: a novel", "Page title in HTML", "Titles of films"])
def test_a_word_that_only_looks_like_a_label_stays(raw: str) -> None:
    assert sanitize_title(raw, SCRUB) == raw


@pytest.mark.parametrize(
    ("raw", "title"),
    [
        ('**Title: "Plan a trip to Rome."**', "Plan a trip to Rome"),
        ("# Heading", "Heading"),
        ("> quoted", "quoted"),
        ("- [ ] a task", "a task"),
        ("1. Rome", "Rome"),
        ("2. Weltkrieg", "2. Weltkrieg"),
        ("\n\n- `Fix the build`!!!", "Fix the build"),
        ("Plan a **trip** to *Rome*", "Plan a trip to Rome"),
        ("Fix `foo()` in ~~bar~~ baz", "Fix foo() in bar baz"),
        ("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4"),
        ("[Docs](https://example.org/x)", "Docs"),
        ("<title>Rome</title>", "Rome"),
        ("```markdown\nRome\n```", "Rome"),
        ("---\nRome", "Rome"),
    ],
)
def test_markdown_marks_go_and_words_stay(raw: str, title: str) -> None:
    assert sanitize_title(raw, SCRUB) == title


@pytest.mark.parametrize(
    "quotes", ['""', "''", "“”", "„“", "«»", "‹›", "‘’", "「」", "『』", "《》", "【】", "``", '"“”"']
)
def test_quotes_go(quotes: str) -> None:
    half = len(quotes) // 2
    assert sanitize_title(f"{quotes[:half]}Rome{quotes[half:]}", SCRUB) == "Rome"


@pytest.mark.parametrize(
    "ending", [".", "...", "…", "!", "?!", ":", ";", ",", "。", "！", "？", "：", "、", "．", "؟", "।", " -", "—"]
)
def test_closing_punctuation_goes(ending: str) -> None:
    assert sanitize_title(f"Rome{ending}", SCRUB) == "Rome"


@pytest.mark.parametrize(
    ("raw", "title"),
    [
        ('«"Rome."!» …', "Rome"),
        ('- **"Title: «Rome»".**', "Rome"),
        ("Title: - # Title: *Rome*!", "Rome"),
        ("...", ""),
        ("“”", ""),
        ("\u200d\u200c\ufeff", ""),
        ("()", ""),
        ("C++", "C++"),
        ("C# (2027)", "C# (2027)"),
        ("100 %", "100 %"),
        ("👍", "👍"),
    ],
)
def test_all_of_it_is_done_until_nothing_changes(raw: str, title: str) -> None:
    assert sanitize_title(raw, SCRUB) == title


@pytest.mark.parametrize("one", ["x", "é", "e\u0301\u0323", FAMILY, "🇩🇪", SCOTLAND, "👍🏽", "한", "क्षि"])
def test_sixty_characters_as_people_count_them_fit_and_of_more_fifty_nine_stay(one: str) -> None:
    assert sanitize_title(one * 60, SCRUB).endswith(sanitize_title(one, SCRUB))
    cut = sanitize_title(one * 61, SCRUB)
    assert cut == sanitize_title(one * 59, SCRUB) + "…"


def test_what_cannot_be_seen_goes_and_what_joins_stays() -> None:
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "ignore")
    assert sanitize_title(f"\u202eRome\x07 \x1b[1m{hidden}{SCOTLAND}{FAMILY}", SCRUB) == f"Rome [1m{SCOTLAND}{FAMILY}"


@pytest.mark.parametrize(
    "raw",
    [
        f"Use {TOKEN}",
        f"Use {TOKEN[:9]}<think>x</think>{TOKEN[9:]}",
        f"Use {TOKEN[:9]}\u200b{TOKEN[9:]}",
        f"Use **{TOKEN[:9]}**{TOKEN[9:]}",
        f"A very long title that is cut in the middle of {TOKEN}",
    ],
)
def test_a_secret_is_no_title_even_if_it_only_comes_about_by_stripping(raw: str) -> None:
    title = sanitize_title(raw, SCRUB)
    assert TOKEN not in title
    assert TOKEN[:12] not in title
    assert title.startswith(("Use", "A very long"))


def test_no_placeholder_is_cut_in_two() -> None:
    title = sanitize_title(f"What to do when the deployment of staging shows {TOKEN} again", SCRUB)
    assert title == "What to do when the deployment of staging shows"


def test_the_request_is_the_first_text_and_nothing_else() -> None:
    (message,) = first_request(CleanText("x" * 5_000))
    assert message.text == "x" * TITLE_INPUT_CHARS_MAX


@pytest.mark.parametrize(
    ("argument", "title"),
    [("  My   own\ntitle!  ", "My own title!"), (f"about {TOKEN}", ""), ("y" * 80, "y" * 59 + "…"), ("\u200b", "")],
)
def test_a_users_own_title_keeps_its_words(argument: str, title: str) -> None:
    wanted = wanted_title(argument, SCRUB)
    assert TOKEN not in wanted
    assert wanted == title or "redacted" in wanted
