"""Everybody is spoken to in his own language, wherever it is we who speak, and it is remembered where he speaks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.models.demo import ScriptedClient
from gateway.bus.bus import RedisBus
from gateway.config.tools import ToolSettings
from gateway.contracts.commands import COMMANDS
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import ControlKind, ControlRequest, Reply
from gateway.store import Store
from tests.parts.agents import AgentProcess, message, running_agent

RUSSIAN = "telegram:1"
IN_GROUP, IN_GROUP_TOO = "telegram:1/-100", "telegram:2/-100"


@pytest.fixture
async def agent(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> AsyncIterator[AgentProcess]:
    async with running_agent(
        bus,
        sqlite_store,
        ScriptedClient(),
        tmp_path,
        admins=(SessionKey.parse(RUSSIAN),),
        tools=ToolSettings(approval_ttl_s=900),
        grace_s=0.2,
    ) as process:
        yield process


async def told(agent: AgentProcess, text: str, key: str = RUSSIAN, *, language: str = "") -> Reply:
    """What is answered to somebody whose client says that language."""
    before = len(agent.replies)
    await agent.bus.intake.enqueue(replace(message(text, key), language=language))
    return (await agent.heard(before + 1))[-1]


async def test_commands_and_failures_answer_in_the_language_of_the_asker(agent: AgentProcess) -> None:
    started = await told(agent, "/new", language="ru")
    assert (started.text, started.language) == ("Начат новый разговор.", "ru")
    failed = await told(agent, "fail", language="ru")
    assert failed.text.startswith("Сейчас ответить не удалось. Чуть позже попробуйте ещё раз: /retry.")
    assert (await told(agent, "/nonsense", language="de")).text.startswith("/nonsense kenne ich nicht.")
    assert (await told(agent, "/nonsense", language="pt-BR")).text.startswith("I do not know /nonsense.")


async def test_what_was_known_lasts_over_messages_that_say_nothing_of_it(agent: AgentProcess) -> None:
    """A client that names no language, and a Cyrillic sentence: that is enough for the commands behind it."""
    await told(agent, "hello")
    assert (await told(agent, "/new")).text == "A new conversation has begun."
    await told(agent, "привет, расскажи что-нибудь")
    assert (await told(agent, "/new")).text == "Начат новый разговор."
    assert (await told(agent, "/title")).text == "Этот разговор называется **New Chat**."


async def test_every_command_of_the_table_is_one_that_is_done(agent: AgentProcess) -> None:
    """In whatever way: what the menus offer is never unknown."""
    for spec in COMMANDS:
        assert not (await told(agent, f"/{spec.name}", language="en")).text.startswith("I do not know"), spec.name


async def test_two_people_in_one_group_read_each_their_own(agent: AgentProcess) -> None:
    assert (await told(agent, "/undo", IN_GROUP, language="ru")).text == "Отменять нечего."
    assert (await told(agent, "/undo", IN_GROUP_TOO, language="es")).text == "No hay nada que deshacer."
    assert (await told(agent, "/undo", IN_GROUP)).text == "Отменять нечего."


async def test_a_control_command_is_answered_so_and_counts_as_russian_does(agent: AgentProcess) -> None:
    await agent.bus.intake.request_control(
        ControlRequest(ControlKind.STATUS, replace(message("/status", RUSSIAN), language="ru"))
    )
    (status,) = await agent.heard(1)
    assert status.text == "Работа: ничего не выполняется, в очереди 0 сообщений."


async def test_a_question_is_in_the_language_of_who_caused_it_and_its_answer_in_that_of_who_pressed(
    agent: AgentProcess,
) -> None:
    asking = replace(message('tool file_write {"path": "note.txt", "content": "hello"}', RUSSIAN), language="ru")
    await agent.bus.intake.enqueue(asking)
    question = await agent.question()
    assert question.text.startswith("Можно запустить `file_write`? Это меняет файлы или данные.")
    assert [choice.label for choice in question.choices] == [
        "Разрешить",
        "Отклонить",
        "Для этого ответа",
        "Всегда в этом месте",
    ]
    stranger = replace(message(question.choices[0].command, "telegram:9"), language="zh-hans")
    await agent.bus.intake.request_control(ControlRequest(ControlKind.APPROVE, stranger, is_press=True))
    refused = await agent.bus.questions.told(stranger, wait_s=5)
    assert refused is not None
    assert refused.text == "只有我询问的人或管理员可以回答。"
    pressed = replace(message(question.choices[1].command, RUSSIAN), language="ru")
    await agent.bus.intake.request_control(ControlRequest(ControlKind.DENY, pressed, is_press=True))
    *_, amendment, _answer = await agent.heard(3)
    assert amendment.text.endswith("**Отклонено**: Someone.")
