"""Hypothesis strategies for what a model may write: markup whole and broken, in many scripts."""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

patient = settings(suppress_health_check=[HealthCheck.too_slow])
"""No clock decides: a busy machine must not fail a property."""
patient_with_long_texts = settings(patient, max_examples=50)

WORDS: Final = (
    *("alpha", "beta", "gamma", "шорох", "日本語", "مرحبا", "👩‍👩‍👧‍👦", "🇩🇪🇫🇷"),
    *("e\u0301te", "naïve", "x_y", "a*b", "R&D", "<b>"),
)
_MARKUP: Final = (
    *("**", "*", "__", "_", "~~", "`", "``", "```", "```py\n", "\n```\n"),
    *("[", "](", "](http://e.com/x?a=1&b=2)", ")", "![", "http://e.com/a_b_c(d)"),
    *("# ", "\n## ", "\n> ", "\n- ", "\n  - ", "\n1. ", "\n- [ ] ", "\n---\n"),
    *("|", "\n|-|-|\n", "\n| a | b |\n|---|--:|\n| 1 | "),
    *("<div>", "<!--", "&amp;", "\\", "$x^2$", "\\(a_1\\)", "\n$$\n"),
    *("[^1]", "\n[^1]: ", "\n[ref]: http://e.com\n", "@everyone", "<@U123>", "<!channel>"),
    *("\n\n", "\n", " ", "    ", "\t", "\u202e", "\u200d", "\ufe0f", "\r\n", "\x00", "\ud83d"),
)

words = st.sampled_from(WORDS)
pieces = st.one_of(words, st.sampled_from(_MARKUP), st.text(max_size=6), st.just(" "))
fragments = st.lists(pieces, max_size=60).map("".join)
long_fragments = st.builds(lambda text, times: text * times, fragments, st.integers(1, 40))
anything = st.one_of(fragments, long_fragments, st.text(max_size=400))


plain_words = st.lists(
    st.sampled_from(("alpha", "beta.", "gamma", "delta!", "шорох", "مرحبا", "👩‍👩‍👧‍👦", "naïve")), min_size=1
)
paragraphs = plain_words.map(" ".join)
styled = st.builds(lambda sign, text: f"{sign}{text}{sign}", st.sampled_from(("**", "*", "~~", "***")), paragraphs)
codes = plain_words.map(lambda parts: "```py\n" + "\n".join(parts) + "\n```")
lists = plain_words.map(lambda parts: "\n".join(f"- {part}" for part in parts))
numbered = plain_words.map(lambda parts: "\n".join(f"{number}. {part}" for number, part in enumerate(parts, 1)))
quotes = plain_words.map(lambda parts: "\n".join(f"> {part}" for part in parts))
headings = st.builds(lambda level, text: f"{'#' * level} {text}", st.integers(1, 6), paragraphs)
blocks = st.one_of(paragraphs, styled, codes, lists, numbered, quotes, headings)
documents = st.builds(
    lambda parts, times: "\n\n".join(parts * times), st.lists(blocks, min_size=1, max_size=8), st.integers(1, 30)
)
"""Well-formed answers of up to some tens of thousands of characters, whose words all stay visible."""
