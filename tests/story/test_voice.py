"""/voice: answers that are spoken, too."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.features.voice import spoken
from agent.limits import SPEECH_CHARS_MAX
from agent.models.demo import ScriptedClient
from gateway.bus.bus import RedisBus
from gateway.contracts.errors import ModelUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import ReplyFile
from gateway.contracts.ports import WantedFile
from gateway.scrub import scrub
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.postmen import RECORDING, Mouth

ANNA, BEN = "telegram:1", "telegram:2"


@pytest.fixture
def mouth() -> Mouth:
    return Mouth()


@pytest.fixture
async def agent(bus: RedisBus, store: Store, tmp_path: Path, mouth: Mouth) -> AsyncIterator[AgentProcess]:
    async with running_agent(bus, store, ScriptedClient(), tmp_path, speech=mouth) as process:
        yield process


async def files_of(agent: AgentProcess, text: str, key: str = ANNA) -> tuple[ReplyFile, ...]:
    """The files that go with the answer."""
    await agent.ask(text, key)
    return agent.replies[-1].files


async def test_who_asks_for_it_hears_the_words_as_well_until_it_is_off(agent: AgentProcess) -> None:
    """It goes with the answer of the conversation, the next one of the person, too, and costs its author."""
    assert await files_of(agent, "good morning") == ()
    assert "/voice off" in await agent.ask("/voice on", ANNA)
    (file,) = await files_of(agent, "good **evening**")
    assert (file.name, file.media_type) == ("answer.ogg", "audio/ogg")
    wanted = WantedFile(SessionKey.parse(ANNA), agent.replies[-1].id, 0)
    heard = await agent.bus.files.fetch_file(wanted, wait_s=5)
    assert heard is not None
    assert heard.startswith(RECORDING)
    assert b"good evening" in heard
    assert await files_of(agent, "hello", BEN) == ()
    await agent.ask("/new", ANNA)
    assert len(await files_of(agent, "good night")) == 1
    document = json.loads(await agent.store.people.export(SessionKey.parse(ANNA), clean=scrub))
    assert [row["purpose"] for row in document["usage"]].count("speech") == 2
    await agent.ask("/voice off", ANNA)
    assert await files_of(agent, "good night") == ()


async def test_an_answer_that_cannot_be_spoken_is_written(agent: AgentProcess, mouth: Mouth) -> None:
    """Whether the model fails, sends no sound, or there is nothing that a voice could say."""
    await agent.ask("/voice on", ANNA)
    mouth.failure = ModelUnavailable("503")
    assert await files_of(agent, "good morning") == ()
    mouth.failure, mouth.begin = None, b"{}"
    assert await files_of(agent, "good morning") == ()


async def test_without_a_model_that_speaks_it_says_so(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    async with running_agent(bus, sqlite_store, ScriptedClient(), tmp_path) as agent:
        assert "no speech model" in await agent.ask("/voice on", ANNA)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("# Plan\n\n- see [the page](https://x.de/a)\n- **then** `run` it", "Plan\nsee the page\nthen run it"),
        ("before\n```py\nx = 1\n```\nafter", "before\nafter"),
        ("| a | b |\n|---|---|\n| 1 | 2 |\nhttps://x.de/long", ""),
        ("```\nnever closed", ""),
    ],
)
def test_of_markdown_what_a_voice_can_say_is_said(answer: str, said: str) -> None:
    assert spoken(answer) == said


@pytest.mark.parametrize("unit", ["[", "[a](", "\n", "`", "|", "> ", "1. ", "![", "\t", "https://"])
def test_marks_without_end_take_no_time(unit: str) -> None:
    """A model may be made to say anything."""
    assert len(spoken(unit * 200_000)) <= SPEECH_CHARS_MAX


def test_of_a_long_answer_the_begin_is_said_to_the_end_of_a_line() -> None:
    line = "word " * 100
    said = spoken("\n".join([line] * 50))
    assert len(said) <= SPEECH_CHARS_MAX
    assert set(said.splitlines()) == {line.strip()}
    assert len(spoken("w" * 9_000)) == SPEECH_CHARS_MAX
