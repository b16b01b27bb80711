"""No text is scrubbed more often than it has to be, on the way of each message and in each line of the logs."""

from __future__ import annotations

import io
import json
import logging
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
import structlog

from channels.core.sanitize import HarmlessNames, Sanitizer
from gateway.clock import SystemClock
from gateway.contracts.ids import SessionScope
from gateway.scrub import Scrubbed, Scrubber
from gateway.telemetry.logs import configure_logs
from tests.canary.flock import is_seen, of_the_rules
from tests.parts.incoming import private_message
from tests.parts.logs import logging_put_back
from tests.scrubbing import draw

TOKEN = draw("ghp_<base62:36>", seed=12)


class CountingScrubber(Scrubber):
    """A scrubber that notes what it reads; its copies for chats note it in the same place."""

    def __init__(self) -> None:
        super().__init__(placeholder_key=b"once")
        self.read: list[str] = []

    def examine(self, text: str) -> Scrubbed:
        self.read.append(text)
        return super().examine(text)


@pytest.fixture
def scrubber() -> CountingScrubber:
    return CountingScrubber()


class TestMessages:
    def test_the_words_once_and_a_name_once_for_all_messages(self, scrubber: CountingScrubber) -> None:
        sanitizer = Sanitizer(scrubber, SystemClock(), SessionScope.PLACE)
        for words in ("how are you", "and now?"):
            sanitizer.clean(private_message(words))
        assert [text for text in scrubber.read if text] == ["how are you", "Ann", "and now?"]

    def test_after_an_announcement_alone_and_with_it(self, scrubber: CountingScrubber) -> None:
        message = replace(private_message("a nice day"), author_name="")
        Sanitizer(scrubber, SystemClock(), SessionScope.PLACE).clean(message, "my password is")
        assert len([text for text in scrubber.read if text]) == 2

    def test_the_name_of_a_file_once(self, scrubber: CountingScrubber) -> None:
        message = private_message("look", file_name=f"{TOKEN}.txt")
        clean = Sanitizer(scrubber, SystemClock(), SessionScope.PLACE).clean(message)
        assert [removed.kind for removed in clean.removed] == ["github"]
        assert scrubber.read.count(f"{TOKEN}.txt") == 1

    def test_a_name_with_a_secret_is_not_kept(self, scrubber: CountingScrubber) -> None:
        names = HarmlessNames()
        shown = {names.clean(TOKEN, scrubber.for_chat(chat)) for chat in ("a:1", "b:1", "a:1")}
        assert len(shown) == 2  # a placeholder is that of its chat
        assert TOKEN not in repr(vars(names))


@pytest.fixture
def output(scrubber: CountingScrubber) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    with logging_put_back():
        configure_logs(scrubber, as_json=True, output=stream)
        yield stream


class TestLines:
    def test_of_a_turn_that_is_done(self, scrubber: CountingScrubber, output: io.StringIO) -> None:
        with structlog.contextvars.bound_contextvars(turn_id="turn:telegram:1:7:99", lane="telegram:7"):
            structlog.get_logger("agent.runtime.run").info("turn.done", state="done", messages=1, published=True)
        assert scrubber.read == [output.getvalue().removesuffix("\n")]

    def test_the_words_of_others_also_by_themselves(self, scrubber: CountingScrubber, output: io.StringIO) -> None:
        logging.getLogger("a_library").warning("%s refused", "ann", extra={"header": "two words"})
        assert scrubber.read[:-1] == ["ann refused", "two words"]

    @pytest.mark.parametrize("name", ["lane", "turn_id", "code", "event"])
    def test_a_secret_of_every_rule_goes_under_a_name_of_ours_too(self, name: str, output: io.StringIO) -> None:
        logger = structlog.get_logger("agent")
        for canary in of_the_rules(random.Random(5)):
            for said in (canary.text, *canary.secrets):
                if is_seen(canary, Scrubber().scrub(said)):  # without the words around it nobody could tell
                    continue
                logger.info(said) if name == "event" else logger.info("told", **{name: said})
                line = output.getvalue().splitlines()[-1]
                assert not is_seen(canary, "\n".join((line, *map(str, json.loads(line).values())))), canary.kind
