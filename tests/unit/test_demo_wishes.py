"""A visitor who has read nothing asks the demo model for sub-agents, in his own words and language."""

from __future__ import annotations

import pytest

from agent.models.demo_subagents import DemoTasks, demo_tasks

THREE = ("read", "search", "write")


@pytest.mark.parametrize(
    ("said", "parts"),
    [
        ("Split this over three helpers: read, search, write", THREE),
        ("please do these in parallel: read; search; write", THREE),
        ("Run 3 subagents:\n- read\n- search\n- write", THREE),
        ("Teile das auf drei Helfer auf: read, search und write", THREE),
        ("Reparte esto entre tres ayudantes: read, search y write", THREE),
        ("Раздели это на трёх помощников: read, search и write", THREE),
        ("把这个分给三个助手：read、search、write", THREE),
        ("Use two sub-agents to read it", ("part 1 of 2: read it", "part 2 of 2: read it")),
        ("Nimm zwei Unteragenten, um zu lesen", ("part 1 of 2: zu lesen", "part 2 of 2: zu lesen")),
    ],
)
def test_what_is_listed_are_the_parts_and_else_the_job_is_cut(said: str, parts: tuple[str, ...]) -> None:
    assert demo_tasks(said) == DemoTasks(parts)


@pytest.mark.parametrize("where", ["in the background", "im Hintergrund", "en segundo plano", "в фоне", "在后台"])
def test_nobody_waits_for_what_is_done_in_the_background(where: str) -> None:
    wished = demo_tasks(f"Use three sub-agents {where}: read, search, write")
    assert wished == DemoTasks(THREE, in_background=True)


@pytest.mark.parametrize(
    "said",
    [
        "my children like tea",
        "what is a sub-agent?",
        "compare a and b",
        "to buy: milk, bread",
        "our workers strike",
        "",
    ],
)
def test_who_wishes_for_none_gets_none(said: str) -> None:
    assert demo_tasks(said) is None


def test_there_are_never_more_than_may_live_at_once() -> None:
    wished = demo_tasks("do these in parallel: " + ", ".join(f"part{at}" for at in range(40)))
    assert wished is not None
    assert len(wished.parts) == 9
