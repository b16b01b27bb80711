"""What the next message costs, as /usage and /status say: by the price table, and by the conversation as it is now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.limits import USUAL_ANSWER_TOKENS
from agent.models.requests import ModelFacts
from gateway.bus.bus import RedisBus
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import ControlKind, ControlRequest
from gateway.i18n import Language, words_for
from gateway.store import Store
from tests.parts.agents import AgentProcess, message, running_agent
from tests.parts.minds import Mind

ADA = SessionKey("telegram", "1")
SIGNS = {
    Language.EN: "The next message",
    Language.DE: "Die nächste Nachricht",
    Language.ES: "El próximo mensaje",
    Language.RU: "Следующее сообщение",
    Language.ZH: "下一条消息",
}


class Priced(Mind):
    """The demo model with a price list: dollars a token."""

    def __init__(self, **prices_usd: float) -> None:
        super().__init__()
        self.prices_usd = prices_usd

    def facts(self, model: str) -> ModelFacts:
        return replace(super().facts(model), prices_usd=self.prices_usd)


async def prompt_tokens(agent: AgentProcess) -> int:
    session = await agent.store.sessions.current(ADA)
    assert session is not None
    return session.prompt_tokens


async def both(agent: AgentProcess, language: Language = Language.EN) -> list[str]:
    """What /usage and /status say of it, each in one line."""
    heard = len(agent.replies)
    await agent.bus.intake.enqueue(replace(message("/usage"), language=language))
    await agent.heard(heard + 1)
    status = replace(message("/status"), language=language)
    await agent.bus.intake.request_control(ControlRequest(ControlKind.STATUS, status))
    said = (await agent.heard(heard + 2))[heard:]
    return [line for reply in said for line in reply.text.splitlines() if line.startswith(SIGNS[language])]


async def test_it_follows_the_conversation_and_the_price_list(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """From nothing to something, more with each message, and unknown again after a compaction."""
    mind = Priced(prompt=1e-6, cached=1e-7, completion=5e-6)
    async with running_agent(bus, sqlite_store, mind, tmp_path) as agent:
        assert await both(agent) == []
        counts = []
        for said in ("hello", "tell me more " * 200, "and more"):
            await agent.ask(said)
            counts.append(await prompt_tokens(agent))
            answer = USUAL_ANSWER_TOKENS * 5e-6
            number = words_for(Language.EN).number
            least, most = counts[-1] * 1e-7 + answer, counts[-1] * 1e-6 + answer
            cost = f"${least:.4f} to ${most:.4f}"
            read = f"{number(counts[-1])} tokens are read, cheaper if cached."
            assert await both(agent) == [f"The next message costs about {cost}: {read}"] * 2
        assert counts == sorted(counts)
        assert counts[0] < counts[-1]
        assert "ompacted" in await agent.ask("/compact")
        assert await both(agent) == []


@pytest.mark.parametrize("language", Language)
async def test_it_is_said_in_every_language_and_without_a_price_in_tokens(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, language: Language
) -> None:
    mind = Priced()
    async with running_agent(bus, sqlite_store, mind, tmp_path) as agent:
        await agent.ask("hello")
        tokens = words_for(language).number(await prompt_tokens(agent))
        unpriced = await both(agent, language)
        mind.prices_usd = {"prompt": 1e-6, "completion": 5e-6}
        priced = await both(agent, language)
        mind.prices_usd = {"prompt": 1e-6, "completion": 5e-6, "cached": 1e-7}
        cached = await both(agent, language)
    for said in (unpriced, priced, cached):
        assert len(said) == 2
        assert said[0] == said[1]
        assert tokens in said[0]
    assert ["$" in said[0] for said in (unpriced, priced, cached)] == [False, True, True]
    assert cached[0].count("$") == 2
