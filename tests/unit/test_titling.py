"""What becomes of a title that a model wrote."""

from __future__ import annotations

import pytest

from agent.titling import sanitize_title


@pytest.mark.parametrize(
    ("raw", "title"),
    [
        ("Plan a trip to Rome", "Plan a trip to Rome"),
        ('**Title: "Plan a trip to Rome."**', "Plan a trip to Rome"),
        ("<think>The user wants…</think>\nPlan a trip", "Plan a trip"),
        ("<thinking>never closed, so nothing is left", ""),
        ("the start was lost</reasoning>Plan a trip", "Plan a trip"),
        ("# Heading\nsecond line", "Heading"),
        ("\n\n- `Fix the build`!!!", "Fix the build"),
        ("«Привет, мир»!", "Привет, мир"),
        ("Заголовок: Отпуск в Риме…", "Отпуск в Риме"),
        ("标题：如何部署？", "如何部署"),
        ("タイトル: 「旅行の計画」。", "旅行の計画"),
        ("[Docs](https://example.org/x)", "Docs"),
        ("a\tb   c", "a b c"),
        ("...", ""),
        ("", ""),
        ("x" * 61, "x" * 59 + "…"),
        ("x" * 60, "x" * 60),
        ("👨‍👩‍👧‍👦" * 61, "👨‍👩‍👧‍👦" * 59 + "…"),
    ],
)
def test_a_title_is_one_bare_line(raw: str, title: str) -> None:
    """Thoughts, marks, labels, quotes and closing punctuation go; what is left fits into 60 graphemes."""
    assert sanitize_title(raw) == title
