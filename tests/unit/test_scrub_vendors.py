"""Beside a vendor's name a random value is a secret, unless the line speaks of something else."""

from __future__ import annotations

import pytest

from gateway.scrub import StreamScrubber, scrub
from gateway.scrub.words import KeywordFamily, vocabulary
from tests.scrubbing import draw

NAMES = sorted(word for word, (family, _) in vocabulary().announcing.items() if family is KeywordFamily.VENDOR)
SENTENCES = (
    "{name} = {value}",
    "{name}: '{value}'",
    'new Client("{name}", "{value}")',
    "X_{upper}_PAT={value}",
    '  {name}.app_certificate: "{value}"',
    "<id>{{{name} AQAAABAAA {value}}}</id>",
)
OTHER_THINGS = (
    "{name} commit {value}",
    "{name}_version={value}",
    "{name} request id: {value}",
    "https://{name}.com/docs/{value}",
    "{name} has a page about how-to-choose-a-good-plan-in-2024",
    "{name}\n{value}",
)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_random_value_beside_a_name_is_hidden(sentence: str) -> None:
    for seed, name in enumerate(NAMES[::9]):
        value = draw("<hex:40>", seed=seed)
        text = sentence.format(name=name, upper=name.upper(), value=value)
        assert value not in scrub(text), text


@pytest.mark.parametrize("sentence", OTHER_THINGS)
def test_a_line_about_something_else_stays(sentence: str) -> None:
    for seed, name in enumerate(NAMES[::9]):
        text = sentence.format(name=name, value=draw("<hex:40>", seed=seed))
        assert scrub(text) == text


def test_a_stream_agrees_with_the_whole() -> None:
    text = f"the {NAMES[0]} = '{draw('<base62:32>', seed=1)}', and {NAMES[1]}_id = {draw('<hex:32>', seed=2)} too."
    stream = StreamScrubber()
    pieces = [stream.feed(char) for char in text]
    assert "".join([*pieces, stream.flush()]).count("[redacted:named#") == scrub(text).count("[redacted:named#") == 1
