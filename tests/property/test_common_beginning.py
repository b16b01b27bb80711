"""What two drafts of an answer agree in, which is told to a program piece by piece."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from channels.api.server import common_beginning


@given(st.text(), st.text(), st.text())
@example("/a/b", "", " c")
@example("two words", " more", "")
def test_it_is_the_longest_text_that_both_begin_with(shared: str, one: str, other: str) -> None:
    found = common_beginning(shared + one, shared + other)
    assert found.startswith(shared)
    assert (shared + one).startswith(found)
    assert (shared + other).startswith(found)
    longer = (shared + one)[: len(found) + 1]
    assert longer == found or not (shared + other).startswith(longer)
