"""Interactions on the emulated Discord, as discord.py and plain HTTP see them: commands and buttons."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.parts.emulated_discord import DiscordWorld, ada_in_the_hall, discord, discord_world
from tests.parts.waiting import until

__all__ = ["discord_world"]


async def test_a_command_is_deferred_filled_and_followed(discord_world: DiscordWorld) -> None:
    stage, (ada, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    async with discord_world.client() as client:
        asked = stage.interactions.run_command(ada.id, hall.id, "ask", question="why?")
        await until(lambda: client.interactions)
        interaction = client.interactions[0]
        assert interaction.user.id == int(ada.id)
        data: Any = interaction.data
        assert data["options"][0]["value"] == "why?"
        await interaction.response.defer(thinking=True)
        assert asked.original is not None
        await interaction.followup.send("because")
        await interaction.followup.send("and so on")
        await interaction.edit_original_response(content="because!")
        with pytest.raises(discord.HTTPException) as twice:
            await client.http.request(
                discord.http.Route("POST", f"/interactions/{asked.id}/{asked.token}/callback"), json={"type": 5}
            )
        assert twice.value.code == 40060
    assert [said.text for said in stage.said(hall.id)] == ["because!", "and so on"]
    assert stage.said(hall.id)[0].above == "Ada used /ask"


async def test_a_button_changes_its_message(discord_world: DiscordWorld) -> None:
    stage, (ada, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    async with discord_world.client() as client:
        view = discord.ui.View()
        view.add_item(discord.ui.Button(label="Go", custom_id="go"))
        sent = await client.get_partial_messageable(int(hall.id)).send("ready?", view=view)
        stage.interactions.press(ada.id, str(sent.id), hall.id, "go")
        await until(lambda: client.interactions)
        await client.interactions[0].response.edit_message(content="gone", view=None)
    assert [said.text for said in stage.said(hall.id)] == ["gone"]


async def test_answers_that_come_too_late(discord_world: DiscordWorld) -> None:
    """Three seconds for the first answer, fifteen minutes for the token."""
    stage, (ada, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    async with discord_world.http() as http:
        late = stage.interactions.run_command(ada.id, hall.id, "ask")
        late.asked_s -= 3.1
        answer = await http.post(f"/interactions/{late.id}/{late.token}/callback", json={"type": 5})
        assert (answer.status_code, answer.json()["code"]) == (404, 10062)
        asked = stage.interactions.run_command(ada.id, hall.id, "ask")
        whisper = {"type": 4, "data": {"content": "psst", "flags": 64}}
        answer = await http.post(
            f"/interactions/{asked.id}/{asked.token}/callback", json=whisper, params={"with_response": "1"}
        )
        assert answer.json()["interaction"]["response_message_ephemeral"] is True
        asked.asked_s -= 901
        hook = f"/webhooks/{stage.application_id}/{asked.token}"
        assert (await http.post(hook, json={"content": "late"})).json()["code"] == 50027
        assert (await http.get(f"/channels/{hall.id}/messages")).json() == []
    assert [said.text for said in stage.said(hall.id)] == ["psst"]


async def test_all_commands_are_registered_at_once(discord_world: DiscordWorld) -> None:
    path = f"/applications/{discord_world.emulator.application_id}/commands"
    async with discord_world.http() as http:
        listed = [{"name": "ask", "description": "Ask me"}, {"name": "new", "description": "Start anew"}]
        assert [c["name"] for c in (await http.put(path, json=listed)).json()] == ["ask", "new"]
        bad = await http.put(path, json=[{"name": "Not OK", "description": "no"}])
        assert bad.json()["code"] == 50035
        assert len((await http.get(path)).json()) == 2
        assert (await http.get("/applications/1/commands")).json()["code"] == 50001


async def test_a_command_that_stays_keeps_its_id(discord_world: DiscordWorld) -> None:
    """And its version, unless something about it changed. Localizations are shown to those who ask for them."""
    path = f"/applications/{discord_world.emulator.application_id}/commands"
    ask = {"name": "ask", "description": "Ask me", "description_localizations": {"de": "Frag mich"}}
    async with discord_world.http() as http:
        (first,) = (await http.put(path, json=[ask])).json()
        same, new = (await http.put(path, json=[ask, {"name": "new", "description": "Begin"}])).json()
        (changed, _) = (await http.put(path, json=[ask | {"nsfw": True}, new])).json()
        assert same == first
        assert (changed["id"], changed["version"] == first["version"]) == (first["id"], False)
        assert "description_localizations" not in (await http.get(path)).json()[0]
        listed = (await http.get(path, params={"with_localizations": "true"})).json()
        assert listed[0]["description_localizations"] == {"de": "Frag mich"}


@pytest.mark.parametrize(
    ("wrong", "where", "code"),
    [
        ({"name": "Not OK"}, ("0", "name"), "APPLICATION_COMMAND_INVALID_NAME"),
        ({"description": "x" * 101}, ("0", "description"), "BASE_TYPE_BAD_LENGTH"),
        ({"description_localizations": {"xx": "?"}}, ("0", "description_localizations", "xx"), "ENUM_TYPE_COERCE"),
        ({"options": [{"type": 3, "name": "a"}]}, ("0", "options", "0", "description"), "BASE_TYPE_BAD_LENGTH"),
        (
            {"options": [{"type": 3, "name": n, "description": "d", "required": n == "b"} for n in "ab"]},
            ("0", "options", "1"),
            "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID",
        ),
    ],
)
async def test_a_wrong_command_is_refused_where_it_is_wrong(
    discord_world: DiscordWorld, wrong: dict[str, Any], where: tuple[str, ...], code: str
) -> None:
    path = f"/applications/{discord_world.emulator.application_id}/commands"
    async with discord_world.http() as http:
        answer = await http.put(path, json=[{"name": "ask", "description": "Ask me"} | wrong])
    errors: Any = answer.json()["errors"]
    for part in where:
        errors = errors[part]
    assert (answer.status_code, answer.json()["code"], errors["_errors"][0]["code"]) == (400, 50035, code)


async def test_suggestions_answer_the_one_who_types_and_nothing_else(discord_world: DiscordWorld) -> None:
    """At most twenty-five, and no other kind of answer."""
    stage, (ada, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    option = {"type": 3, "name": "number", "description": "which", "required": True, "autocomplete": True}
    path = f"/applications/{stage.application_id}/commands"
    async with discord_world.http() as http, discord_world.client() as client:
        await http.put(path, json=[{"name": "resume", "description": "Go on", "options": [option]}])
        with pytest.raises(ValueError, match="asks for number first"):
            await stage.invoke(ada.id, hall.id, "resume")
        typing = asyncio.create_task(stage.suggest(ada.id, hall.id, "resume", "ro"))
        await until(lambda: client.interactions)
        asked = client.interactions[0]
        data: Any = asked.data
        assert (data["options"][0]["value"], data["options"][0]["focused"]) == ("ro", True)
        callback = f"/interactions/{asked.id}/{asked.token}/callback"
        assert (await http.post(callback, json={"type": 5})).json()["code"] == 50035
        too_many = {"choices": [{"name": str(n), "value": str(n)} for n in range(26)]}
        assert (await http.post(callback, json={"type": 8, "data": too_many})).json()["code"] == 50035
        await asked.response.autocomplete([discord.app_commands.Choice(name="2. Roses", value="2")])
        assert list(await typing) == ["2. Roses"]
        await stage.invoke(ada.id, hall.id, "resume", "2. Roses")
        await until(lambda: len(client.interactions) == 2)
        data = client.interactions[1].data
        assert data["options"] == [{"name": "number", "type": 3, "value": "2"}]
