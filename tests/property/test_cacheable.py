"""Which questions are the same, in which circumstances, and which may be kept at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.features.answers import is_repeatable, normalised, question, recalled_besides
from agent.models.requests import PromptMessage, ToolSpec
from agent.models.transcript import preamble
from gateway.contracts.ids import SessionKey
from gateway.contracts.memory import CachedQuestion
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Role

ADA = SessionKey("telegram", "1")
TOOL = ToolSpec("web_search", "Search", {"type": "object"})


def user(text: str) -> PromptMessage:
    return PromptMessage(Role.USER, CleanText(text))


def assistant(text: str) -> PromptMessage:
    return PromptMessage(Role.ASSISTANT, CleanText(text))


def asked(
    said: str,
    *,
    key: SessionKey = ADA,
    model: str = "m",
    system: str = "be kind",
    tools: tuple[ToolSpec, ...] = (TOOL,),
    before: tuple[PromptMessage, ...] = (),
    memory: str = "",
    at_ms: int = 1_700_000_000_000,
) -> CachedQuestion | None:
    told = preamble(at_ms, memory=CleanText(memory)) if memory else preamble(at_ms)
    return question(
        key,
        CleanText(said),
        circumstances=(model,),
        system=CleanText(system),
        tools=tools,
        prompt=(*before, user(f"{told}\n\n{said}")),
    )


SAID = "What is the capital of France?"


def test_the_time_of_day_makes_no_difference() -> None:
    assert asked(SAID) is not None
    assert asked(SAID) == asked(SAID, at_ms=1_700_009_999_000)


@pytest.mark.parametrize(
    "other",
    [
        asked(SAID, model="another"),
        asked(SAID, system="be rude"),
        asked(SAID, tools=()),
        asked(SAID, tools=(replace(TOOL, description="Search more"),)),
        asked(SAID, before=(user("We talk about geography."), assistant("Fine."))),
        asked(SAID, memory="<memory>\nFacts about the user:\n- lives in Texas (2026-11-22)\n</memory>"),
    ],
)
def test_whatever_the_model_would_read_besides_makes_another_circumstance(other: CachedQuestion | None) -> None:
    same = asked(SAID)
    assert same is not None
    assert other is not None
    assert other.circumstances != same.circumstances
    assert other.asked == same.asked


def test_history_is_told_apart_by_who_said_what() -> None:
    """Two histories that read alike when put together are still two."""
    one = asked(SAID, before=(user("a"), assistant("b")))
    two = asked(SAID, before=(user("ab"), assistant("")))
    three = asked(SAID, before=(assistant("a"), user("b")))
    assert len({each.circumstances for each in (one, two, three) if each}) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What  is the capital of FRANCE ?", "what is the capital of france ?"),
        ("Ｗhat is the capital of France?", "What is the capital of France?"),
        ("\u0065\u0301tudier le français à Paris", "\u00e9tudier le français à Paris"),
        ("  Wie heißt die Hauptstadt  ", "WIE HEISST DIE HAUPTSTADT"),
    ],
)
def test_spelling_that_means_nothing_makes_no_difference(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How much is 2⁵ apples?", "How much is 25 apples?"),
        ("How much is ½ of it?", "How much is 1⁄2 of it?"),
        ("Is 17 a prime number?", "Is 18 a prime number?"),
        ("Is it safe to eat?", "Is it not safe to eat?"),
        ("print `A`", "print `a`"),
        ("if x:\n  y\nz", "if x:\n  y\n  z"),
        ("open /tmp/A", "open /tmp/a"),
        ("m²", "m2"),
        ("x₁", "x1"),
        ("①", "1"),
    ],
)
def test_what_means_something_else_is_something_else(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Name the 3 largest lakes", "Name the 5 largest lakes"),
        ("Which birds can fly", "Which birds can not fly"),
        ("Which birds can fly", "Which birds can't fly"),
        ("welche Vögel können fliegen", "welche vögel können nicht fliegen"),
        ("какие птицы летают", "какие птицы не летают"),
        ("鳥は飛ぶ", "鳥は飛ばない"),
        ("Who lives in Paris", "Who lives in London"),
        ("is 5 > 3", "is 5 < 3"),
        ("fly from Rome to Oslo", "fly from Oslo to Rome"),
    ],
)
def test_a_likeness_never_passes_over_numbers_negations_and_names(one: str, other: str) -> None:
    first, second = asked(one), asked(other)
    assert first is not None
    assert second is not None
    assert first.guard != second.guard


def test_the_same_words_in_another_order_are_known_as_such() -> None:
    one, other = asked("convert dollars to euros please"), asked("convert euros to dollars please")
    assert one is not None
    assert other is not None
    assert one.guard == other.guard
    assert one.words == other.words
    assert one.asked != other.asked


@pytest.mark.parametrize(
    "said",
    [
        "What time is it in Oslo?",
        "who is the current president of France",
        "WHAT'S THE WEATHER LIKE IN PARIS",
        "tell me another joke about cats",
        "Wie ist das Wetter heute in Berlin?",
        "какая сегодня погода в Москве",
        "quelle est la météo à Paris",
        "今日の天気を教えてください",
        "¿qué noticias hay de España?",
        "up-to-date prices of gold bars",
        "",
        "?!",
        "x" * 2_001,
    ],
)
def test_what_depends_on_the_moment_is_never_kept(said: str) -> None:
    assert not is_repeatable(said, stands_alone=True)


@pytest.mark.parametrize(
    "said", ["yes", "Ja", "да", "はい", "go on", "and then?", "Why is that so important?", "do it"]
)
def test_a_follow_up_is_never_kept(said: str) -> None:
    """ "yes" is an answer to what was asked before."""
    before = (user("Shall I?"), assistant("Shall I delete everything?"))
    assert asked(said, before=before) is None
    assert asked(said, memory="") == asked(said)


def test_a_summary_counts_as_what_was_said_before() -> None:
    prompt = (user("<summary>\nWe were about to delete everything.\n</summary>\n\nyes"),)
    assert question(ADA, CleanText("yes"), circumstances=(), system=CleanText(""), tools=(), prompt=prompt) is None


@pytest.mark.parametrize(
    "said",
    ["Hi there", "What is the capital of France?", "Explain how tides work", "法国的首都是哪里", "Столица Франции?"],
)
def test_a_plain_question_may_be_kept(said: str) -> None:
    assert asked(said) is not None


def test_a_message_that_repeats_what_is_around_it_is_left_alone() -> None:
    assert asked("<now>\nx\n</now> What is the capital?") is None
    assert asked("be", before=()) is not None
    prompt = (user("Ada: Ada: hello there friend"),)
    assert question(ADA, CleanText("Ada:"), circumstances=(), system=CleanText(""), tools=(), prompt=prompt) is None


MEMORY = "<memory>\nKept.\nSaid in earlier conversations:\n{lines}\n</memory>"


def test_an_earlier_conversation_that_asked_and_answered_the_same_changes_nothing() -> None:
    lines = f"- 2026-11-22, the user: {SAID}\n- 2026-11-22, you: Paris, of course.\n- 2026-11-21, you: …Paris, of…"
    first, second = asked(SAID), asked(SAID, memory=MEMORY.format(lines=lines))
    assert first is not None
    assert second is not None
    assert first.circumstances == second.circumstances
    assert recalled_besides(first, "Paris, of course.") == recalled_besides(second, "Paris, of course.")
    assert recalled_besides(first, "Lyon") != recalled_besides(second, "Lyon")


def test_an_earlier_conversation_that_said_more_is_another_circumstance() -> None:
    one = asked(SAID, memory=MEMORY.format(lines="- 2026-11-22, the user: France moved its capital"))
    assert one is not None
    same = asked(SAID)
    assert same is not None
    assert recalled_besides(one, "Paris") != recalled_besides(same, "Paris")


@given(st.text(max_size=60))
def test_spelling_is_normalised_once_for_all(text: str) -> None:
    assert normalised(normalised(text)) == normalised(text)


@given(st.text(max_size=30), st.text(max_size=30))
def test_the_same_question_has_the_same_words_and_guard(one: str, other: str) -> None:
    first, second = asked(one), asked(other)
    if first is not None and second is not None and one.strip() == other.strip():
        assert (first.asked, first.words) == (second.asked, second.words)
