"""Recorded shapes with parts torn out, and any JSON at all."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

_NUMBERS = st.integers() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False)
_SCALARS = st.none() | st.booleans() | _NUMBERS | st.text(max_size=8)
ANY_JSON = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)


def _mutated(draw: st.DrawFn, value: Any) -> Any:
    """`value` with some of its parts replaced by anything, or left out."""
    match draw(st.integers(0, 12)):
        case 0:
            return draw(ANY_JSON)
        case _ if isinstance(value, dict):
            return {name: _mutated(draw, part) for name, part in value.items() if draw(st.integers(0, 12))}
        case _ if isinstance(value, list):
            return [_mutated(draw, part) for part in value]
        case _:
            return value


@st.composite
def like(draw: st.DrawFn, shape: dict[str, Any]) -> Any:
    """`shape` with some of its parts replaced by anything, or left out."""
    return {name: _mutated(draw, part) for name, part in shape.items()}
