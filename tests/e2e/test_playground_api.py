"""The control API that other processes drive the stages with, and the process that serves it all."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from base64 import b64encode
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from telegram import InlineKeyboardButton, InlineKeyboardMarkup

from channels.emulators.discord import DiscordEmulator
from channels.emulators.playground.site import AdminApi, Installation, Playground
from channels.emulators.serving import listening
from channels.emulators.slack import SlackEmulator
from channels.emulators.stage import PlaceKind
from channels.emulators.telegram import TelegramEmulator
from tests.parts.platforms import TELEGRAM_TOKEN, TRIES, Ground

pytestmark = pytest.mark.asyncio(loop_scope="module")


class TestTheControlApi:
    async def test_another_process_can_play_a_whole_scene(self, ground: Ground) -> None:
        http = ground.http
        stage = (await http.get("/stage")).json()
        assert (stage["platforms"], stage["can"], stage["tries"]) == (["telegram"], {"telegram": ["menu"]}, list(TRIES))
        assert (stage["bots"]["telegram"]["handle"], stage["orders"]) == ("trivet_demo_bot", [])
        mira = (await http.post("/stage/telegram/people", json={"name": "Mira"})).json()
        places = (await http.get("/stage/telegram/places")).json()["places"]
        kitchen = next(place for place in places if place["title"] == "Kitchen")
        soup = {"kind": "thread", "title": "Soup", "parent_id": kitchen["id"]}
        thread = (await http.post("/stage/telegram/places", json=soup)).json()
        words = {"person_id": mira["id"], "place_id": thread["id"], "text": "hot?", "mention_bot": True}
        said = (await http.post("/stage/telegram/say", json=words)).json()
        named = {"place_id": thread["id"], "message_id": said["id"]}
        await http.patch("/stage/telegram/messages", json=named | {"text": "cold?"})
        (now,) = (await http.get("/stage/telegram/messages", params={"place": thread["id"]})).json()["messages"]
        assert (said["text"], now["text"], now["edited"]) == ("@trivet_demo_bot hot?", "cold?", True)
        await http.request("DELETE", "/stage/telegram/messages", json=named)
        assert (await http.get("/stage/telegram/messages", params={"place": thread["id"]})).json() == {"messages": []}

    async def test_messages_are_passed_on_and_threads_opened_where_the_platform_has_them(self) -> None:
        slack = SlackEmulator(bot_token="xoxb-stand-in", app_token="xapp-stand-in")
        ada, hall = slack.add_person("Ada"), slack.add_place(PlaceKind.GROUP, "Hall")
        telegram = TelegramEmulator(token=TELEGRAM_TOKEN)
        site = Playground({"slack": slack, "telegram": telegram})
        async with httpx.AsyncClient(transport=httpx.ASGITransport(site.app), base_url="http://localhost") as http:
            can = (await http.get("/stage")).json()["can"]
            assert (can["slack"], can["telegram"]) == (["menu", "thread"], ["menu"])
            said = await slack.say(ada.id, hall.id, "Who has the key?")
            asked = {"person_id": ada.id, "place_id": hall.id, "message_id": said.id}
            thread = (await http.post("/stage/slack/thread", json=asked | {"title": "key"})).json()
            assert (thread["root_id"], thread["parent_id"]) == (said.id, hall.id)
            shared = (await http.post("/stage/slack/share", json=asked | {"to_id": thread["id"]})).json()
            assert shared["place_id"] == thread["id"]
            refused = await http.post("/stage/telegram/thread", json=asked | {"title": "key"})
            assert (refused.status_code, list(refused.json())) == (400, ["error"])

    async def test_names_that_are_typed_become_mentions(self) -> None:
        """In the vendor's form, but not in code, and only the names of somebody who is there."""
        slack, discord = SlackEmulator(bot_token="xoxb-stand-in", app_token="xapp-stand-in"), DiscordEmulator(token="x")
        for stage in (slack, discord):
            ada, hall = stage.add_person("Ada"), stage.add_place(PlaceKind.GROUP, "Hall")
            said = await stage.say(ada.id, hall.id, "@trivet, ask @ada! Not `@ada`, @adam or a@ada.org")
            assert said.text == "@Trivet, ask @Ada! Not `@ada`, @adam or a@ada.org"
            assert said.html.count('class="mention"') == 2

    async def test_only_a_button_that_is_shown_can_be_pressed(self, ground: Ground) -> None:
        keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="yes")]])
        sent = await ground.bot.send_message(ground.ada, "May I?", reply_markup=keyboard)
        (said,) = (await ground.http.get("/stage/telegram/messages", params={"place": ground.dm})).json()["messages"]
        assert said["buttons"] == [{"id": "yes", "label": "Yes"}]
        pressed = {"person_id": ground.ada, "place_id": ground.dm, "message_id": str(sent.message_id)}
        wrong = await ground.http.post("/stage/telegram/press", json=pressed | {"button_id": "no"})
        assert (wrong.status_code, wrong.json()) == (400, {"error": "the message shows no such button"})
        assert (await ground.http.post("/stage/telegram/press", json=pressed | {"button_id": "yes"})).json() == {}
        *_, update = await ground.bot.get_updates(timeout=30, allowed_updates=["callback_query"])
        assert update.callback_query is not None

    async def test_a_command_is_chosen_from_the_menu_in_the_persons_language(self, ground: Ground) -> None:
        await ground.bot.set_my_commands([("title", "show or set the title")])
        await ground.bot.set_my_commands([("title", "den Titel zeigen")], language_code="de")
        here = {"person_id": ground.ada, "place_id": ground.dm}
        assert (await ground.http.post("/stage/telegram/language", json=here | {"language": "de-AT"})).json() == {}
        asked = {"person": ground.ada, "place": ground.dm}
        menu = (await ground.http.get("/stage/telegram/menu", params=asked)).json()["menu"]
        assert menu == [{"name": "title", "about": "den Titel zeigen", "argument": "", "suggests": False}]
        chosen = here | {"name": "title", "argument": "Soup"}
        assert (await ground.http.post("/stage/telegram/invoke", json=chosen)).json() == {}
        said = (await ground.http.get("/stage/telegram/messages", params={"place": ground.dm})).json()["messages"]
        assert said[-1]["text"] == "/title Soup"
        typing = asked | {"name": "title", "typed": "s"}
        refused = await ground.http.get("/stage/telegram/suggest", params=typing)
        assert refused.status_code == 400

    async def test_a_file_is_offered_as_a_download(self, ground: Ground) -> None:
        """Under its name and never as a page: what a model made must not run beside the stage."""
        page = b"<script>alert(1)</script>"
        sent = await ground.bot.send_document(ground.ada, page, filename="größe.html", caption="look")
        asked = {"place": ground.dm, "message": str(sent.message_id), "number": "0"}
        answer = await ground.http.get("/stage/telegram/file", params=asked)
        assert answer.content == page
        assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''gr%C3%B6%C3%9Fe.html"
        assert answer.headers["x-content-type-options"] == "nosniff"
        for wrong in ({"number": "1"}, {"number": "x"}, {"message": "999"}, {"place": "nowhere"}):
            assert (await ground.http.get("/stage/telegram/file", params=asked | wrong)).status_code == 404

    async def test_people_send_files_by_it(self, ground: Ground) -> None:
        """Without words, too; what is no file is said to be none."""
        photo = {"name": "cat.jpg", "media_type": "image/jpeg", "base64": b64encode(b"meow").decode()}
        words = {"person_id": ground.ada, "place_id": ground.dm}
        said = (await ground.http.post("/stage/telegram/say", json=words | {"files": [photo, photo]})).json()
        assert said["files"] == ["cat.jpg"]
        asked = {"place": ground.dm, "message": said["id"], "number": "0"}
        assert (await ground.http.get("/stage/telegram/file", params=asked)).content == b"meow"
        updates = await ground.bot.get_updates(timeout=30, allowed_updates=["message"])
        albums = {update.message.media_group_id for update in updates if update.message and update.message.photo}
        assert len(albums) == 1
        for wrong in ("x", ["x"], [photo | {"base64": "%"}], [{"name": "a"}]):
            answer = await ground.http.post("/stage/telegram/say", json=words | {"files": wrong})
            assert (answer.status_code, set(answer.json())) == (400, {"error"})

    async def test_events_are_told_from_the_moment_of_asking(self, ground: Ground) -> None:
        async with ground.http.stream("GET", "/stage/telegram/events") as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == ": watching"
            await ground.telegram.say(ground.ada, ground.dm, "hello")
            data = [line async for line in _until_data(lines)]
        event = json.loads(data[-1].removeprefix("data: "))
        assert (event["platform"], event["kind"], event["said"]["text"]) == ("telegram", "said", "hello")

    async def test_faults_are_set_all_or_none(self, ground: Ground) -> None:
        changed = await ground.http.patch("/stage/telegram/faults", json={"rate_limit": 2, "other": {"conflict": 1}})
        assert (changed.json()["rate_limit"], ground.telegram.faults.other) == (2, {"conflict": 1})
        for wrong in ({"rate_limit": 0, "nonsense": 1}, {"rate_limit": "many"}, {"blocked": 1}, {"other": {"x": "y"}}):
            assert (await ground.http.patch("/stage/telegram/faults", json=wrong)).status_code == 400
        assert ground.telegram.faults.rate_limit == 2

    @pytest.mark.parametrize(
        ("path", "body", "status"),
        [
            ("/stage/irc/say", {}, 404),
            ("/stage/telegram/say", {}, 400),
            ("/stage/telegram/say", {"person_id": "7", "place_id": "x", "text": "hi"}, 400),
            ("/stage/telegram/places", {"kind": "dm", "title": "x"}, 400),
            ("/stage/telegram/places", {"kind": "palace", "title": "x"}, 400),
            ("/stage/telegram/people", {"name": ""}, 400),
        ],
    )
    async def test_bad_input_gets_one_sentence(
        self, ground: Ground, path: str, body: dict[str, object], status: int
    ) -> None:
        answer = await ground.http.post(path, json=body)
        assert (answer.status_code, list(answer.json())) == (status, ["error"])

    async def test_half_a_character_is_refused(self, ground: Ground) -> None:
        """Clients that cut texts by their units may send one; no answer could ever hold it."""
        said = {"person_id": ground.ada, "place_id": ground.dm, "text": "half of a smile: \ud83d"}
        headers = {"Content-Type": "application/json"}
        answer = await ground.http.post("/stage/telegram/say", content=json.dumps(said), headers=headers)
        assert (answer.status_code, answer.json()) == (400, {"error": "text holds half a character"})

    async def test_foreign_pages_cannot_reach_in(self, ground: Ground) -> None:
        """Another host name (DNS rebinding) and a plain form (cross-site request) are both refused."""
        rebound = await ground.http.get("/stage", headers={"Host": "evil.example"})
        form = await ground.http.post("/stage/telegram/people", data={"name": "Mallory"})
        assert (rebound.status_code, form.status_code) == (400, 400)
        assert "default-src 'self'" in (await ground.http.get("/")).headers["content-security-policy"]

    async def test_a_wrong_admin_token_is_said_and_not_hidden(self, ground: Ground) -> None:
        async with listening(ground.admin.app) as port:
            site = Playground({}, Installation(AdminApi(f"http://127.0.0.1:{port}", "wrong")))
            async with httpx.AsyncClient(transport=httpx.ASGITransport(site.app), base_url="http://localhost") as http:
                given = await http.get("/admin/sessions")
                assert (given.status_code, given.json()) == (502, {"error": "the admin API answered 401"})
                assert (await http.get("/stage")).json()["board"] == f"http://127.0.0.1:{port}/tasks"

    async def test_only_what_the_page_shows_is_read_of_the_admin_api(self, ground: Ground) -> None:
        assert (await ground.http.get("/admin/sessions")).json() == []
        for path in ("settings", "sessions/1/tree", "pairings", "sessions/../settings"):
            assert (await ground.http.get(f"/admin/{path}")).status_code == 404

    async def test_what_changes_something_wants_the_pages_own_token(self) -> None:
        given: list[str] = []

        async def give(order: str) -> list[dict[str, object]]:
            given.append(order)
            return [{"at_ms": 1, "what": order}]

        site = Playground({}, Installation(orders=("kill-agent",), give=give))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(site.app), base_url="http://localhost") as http:
            token = (await http.get("/")).text.partition('name="page-token" content="')[2].partition('"')[0]
            kill = {"order": "kill-agent"}
            for wrong in ({}, {"X-Page-Token": "PAGE-TOKEN"}):
                assert (await http.post("/order", json=kill, headers=wrong)).status_code == 403
                assert (await http.put("/admin/grants/x:1", json={"role": "admin"}, headers=wrong)).status_code == 403
            assert given == []
            own = {"X-Page-Token": token}
            answer = await http.post("/order", json=kill, headers=own)
            assert (answer.json(), given) == ({"happened": [{"at_ms": 1, "what": "kill-agent"}]}, ["kill-agent"])
            assert (await http.post("/order", json={"order": "reset"}, headers=own)).status_code == 400
            assert (await http.post("/order", data=kill, headers=own)).status_code == 400


class TestTheProcess:
    async def test_it_says_where_everything_is_and_ends_with_its_starter(self) -> None:
        process = await _start()
        assert process.stdout is not None
        assert process.stdin is not None
        ready = json.loads(await process.stdout.readline())
        async with httpx.AsyncClient() as http:
            telegram = ready["telegram"]
            me = await http.get(f"{telegram['api_base']}/bot{telegram['token']}/getMe")
            assert me.json()["result"]["is_bot"] is True
            assert "Trivet playground" in (await http.get(ready["playground"])).text
            people = (await http.get(f"{ready['playground']}/stage/telegram/people")).json()["people"]
            assert [person["name"] for person in people] == ["Ada", "Noor", "Gus", "Sam"]
            assert ready["roles"][f"telegram:{people[0]['id']}"] == "admin"
            assert f"telegram:{people[3]['id']}" not in ready["roles"]
        process.stdin.close()
        assert await process.wait() == 0

    @pytest.mark.long
    async def test_sigterm_ends_it_too(self) -> None:
        process = await _start()
        assert process.stdout is not None
        await process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0

    async def test_a_taken_port_is_one_clear_sentence(self) -> None:
        async with listening(Starlette()) as port:
            process = await _start("--port", str(port))
            _, complaint = await process.communicate()
        assert process.returncode == 1
        assert complaint.decode().startswith(f"The playground cannot listen on port {port}: ")
        assert complaint.count(b"\n") == 1


async def _until_data(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    async for line in lines:
        yield line
        if line.startswith("data: "):
            return


async def _start(*args: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "channels.emulators", *args, stdin=pipe, stdout=pipe, stderr=pipe
    )
