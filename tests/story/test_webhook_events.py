"""Webhooks are told what happens: each event is committed with it, once, and says no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from agent.models.demo import ScriptedClient
from agent.runtime.worker import DeadLetters
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.config.features import Webhook, WebhookEvent
from gateway.config.limits import Allowance, LimitSettings
from gateway.contracts.ids import EVENTS, SessionKey
from gateway.contracts.messages import ControlKind, Reply
from gateway.contracts.ports import DeadMessage
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.webhooks import WebhookEvents
from tests.parts.agents import message, running_agent
from tests.parts.keepers import pairing

ADA, EVE = SessionKey("telegram", "1"), SessionKey("telegram", "9")
SECRET = SecretStr("a secret of sixteen or more")
TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
ALL = Webhook(url="https://all.example/hook", secret=SECRET)
FAILURES = Webhook(url="https://some.example/hook", secret=SECRET, events=(WebhookEvent.TURN_FAILED,), name="failures")


def told(event: Reply) -> tuple[str, dict[str, Any]]:
    """Which webhook is called, and what with."""
    target = json.loads(event.address.target)
    return target["webhook"], {**target["event"], "text": event.text}


async def test_each_webhook_is_told_what_it_wants_to_know(bus: RedisBus, store: Store, tmp_path: Path) -> None:
    await bus.access.ask_pairing(pairing(EVE, "ABCDEFGH", asked_at_ms=7), ttl_s=60, pending_max=3)
    async with running_agent(
        bus,
        store,
        ScriptedClient(),
        tmp_path,
        admins=(ADA,),
        limits=LimitSettings(user=Allowance(turns=3)),
        webhooks=(ALL, FAILURES),
    ) as agent:
        assert TOKEN not in await agent.ask(f"say {TOKEN}")
        await agent.control(ControlKind.WHERE)
        replies = 2  # or one more, if the admin is asked about Eve before
        while " UTC: " not in (said := "\n".join(reply.text for reply in await agent.heard(replies))):
            replies += 1
        assert said.count(" UTC: ") == 1, "events are none of a person's answers"
        await agent.ask("fail")
        await agent.say('tool file_write {"path": "note.txt", "content": "hello"}')
        question = await agent.question()
        await agent.press(question.choices[0].command)
        events = [told(event) for event in await agent.heard(7, EVENTS)]
        turns = {reply.turn_id for reply in agent.replies if reply.address.channel == "telegram"}
    address = await store.outbox.last_address(ADA)
    assert (address and address.channel) == "telegram", "nobody is answered where events go"
    of_all = {said["type"]: said for name, said in events if name == "all.example"}
    assert sorted(said["type"] for name, said in events if name == "all.example") == sorted(
        ["stranger_asks", "turn_answered", "turn_failed", "approval_wanted", "turn_answered", "budget_low"]
    )
    assert [said["type"] for name, said in events if name == "failures"] == ["turn_failed"]
    stranger = of_all["stranger_asks"]
    assert (stranger["key"], stranger["at"]) == (str(EVE), "1970-01-01T00:00:00.007+00:00")
    assert {said["turn_id"] for _, said in events if said["turn_id"]} < turns
    assert "file_write" in of_all["approval_wanted"]["text"]
    assert len({said["id"] for _, said in events}) == 7
    assert TOKEN not in str(events)


async def test_a_dead_letter_is_told_once(bus: RedisBus, store: Store) -> None:
    events = WebhookEvents((ALL, FAILURES))
    letters = DeadLetters(bus.lanes, bus.deliveries, store, Scrubber(), SystemClock(), events)
    dead = DeadMessage("5-0", message("hello", str(ADA)))
    for _ in range(2):
        await letters.tell(dead)
    [pending] = await bus.deliveries.replies(EVENTS, "c1", count=9, wait_s=1)
    name, said = told(pending.reply)
    assert (name, said["type"], said["key"]) == ("all.example", "dead_letter", str(ADA))
    assert await store.outbox.committed(pending.reply.id) == pending.reply
