"""The playground in a real browser, driven as a person would, with the bot's own client on the other side."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser, Page, Route, expect
from telegram import InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity, MessageOriginUser
from telegram.error import RetryAfter, TimedOut

from channels.emulators.serving import PLAYGROUND, serve
from channels.emulators.stage import PlaceKind
from channels.emulators.telegram import TelegramEmulator
from tests.parts.browsing import CONTRAST, PHONE, browser, page, window, write
from tests.parts.platforms import ADMIN_TOKEN, TELEGRAM_TOKEN, TRIES, Ground
from tests.parts.waiting import until

__all__ = ["browser", "page", "window"]

pytestmark = pytest.mark.asyncio(loop_scope="module")


class TestThePage:
    async def test_a_conversation_is_seen_live(self, page: Page, ground: Ground) -> None:
        """What a person writes reaches the bot; typing, answer, edit and deletion show without a reload."""
        await write(page, "How are the tomatoes?")
        said = page.locator(".said li")
        await expect(said).to_have_count(1)
        *_, update = await ground.bot.get_updates(timeout=30)
        assert update.message is not None
        assert update.message.text == "How are the tomatoes?"

        await ground.bot.send_chat_action(ground.ada, "typing")
        await expect(page.get_by_text("bot is typing")).to_be_visible()
        styles = [MessageEntity("bold", 0, 3), MessageEntity("code", 8, 4)]
        answer = await ground.bot.send_message(ground.ada, "Red and ripe", entities=styles)
        await expect(said.nth(1).locator("strong")).to_have_text("Red")
        await expect(said.nth(1).locator(".badge")).to_be_visible()
        await expect(page.get_by_text("bot is typing")).to_be_hidden()
        await ground.bot.edit_message_text("Eaten", chat_id=ground.ada, message_id=answer.message_id)
        await expect(said.nth(1).locator(".text")).to_have_text("Eaten")
        await expect(said.nth(1).locator(".edited")).to_be_visible()
        await ground.bot.delete_message(ground.ada, answer.message_id)
        await expect(said).to_have_count(1)

    async def test_a_visitor_is_offered_something_to_try_and_sends_it_once(self, page: Page, ground: Ground) -> None:
        """Also who presses Enter twice, or goes on writing while it goes out, has said it once."""
        offered = page.get_by_role("list", name="What to try")
        await offered.get_by_role("button", name="split one | two").click()
        field = page.get_by_label("Message", exact=True)
        await expect(field).to_be_focused()
        await expect(field).to_have_value("split one | two")
        hold = asyncio.Event()

        async def held(route: Route) -> None:
            await hold.wait()
            await route.continue_()

        await page.route("**/say", held)
        await field.press("Enter")
        await field.press("Enter")
        await field.press_sequentially("!")
        hold.set()
        await expect(page.locator(".said li")).to_have_count(1)
        await expect(field).to_have_value("!")
        await expect(offered).to_be_hidden()
        await page.get_by_text("Try something").click()
        await offered.get_by_role("button", name="say Hello.").click()
        await expect(page.get_by_label("Place to write in").locator("option:checked")).to_have_text("Kitchen")
        await expect(page.get_by_label("mention the bot")).to_be_checked()
        updates = await ground.bot.get_updates(timeout=1)
        assert [update.message.text for update in updates if update.message] == ["split one | two"]

    async def test_a_button_is_pressed_by_keyboard_and_answered_for_one_person_only(
        self, page: Page, ground: Ground
    ) -> None:
        """The bot hears who pressed; the toast is for that person; without its buttons the message keeps the focus."""
        keyboard = InlineKeyboardMarkup([[InlineKeyboardButton(word, callback_data=word) for word in ("Yes", "No")]])
        sent = await ground.bot.send_message(ground.ada, "May I?", reply_markup=keyboard)
        message = page.locator(".said li").first
        await message.get_by_role("button", name="Yes").focus()
        await page.keyboard.press("Enter")
        *_, update = await ground.bot.get_updates(timeout=30, allowed_updates=["callback_query"])
        query = update.callback_query
        assert query is not None
        assert (str(query.from_user.id), query.data) == (ground.ada, "Yes")
        await query.answer("Noted.")
        await expect(page.get_by_text("Noted.")).to_be_visible()
        await ground.bot.edit_message_text("I may.", chat_id=ground.ada, message_id=sent.message_id)
        await expect(message.get_by_role("group", name="Answers")).to_be_hidden()
        await expect(message).to_be_focused()

    async def test_a_person_can_mention_reply_edit_and_delete(self, page: Page, ground: Ground) -> None:
        await page.get_by_label("Place to write in").select_option(label="Kitchen")
        await page.get_by_label("mention the bot").check()
        await write(page, "lunch?")
        *_, update = await ground.bot.get_updates(timeout=30)
        assert update.message is not None
        assert update.message.text == "@trivet_demo_bot lunch?"
        assert [each.type for each in update.message.entities] == ["mention"]

        await ground.bot.send_message(update.message.chat.id, "Soup.")
        answer = page.locator(".said li").nth(1)
        await answer.hover()
        await answer.get_by_role("button", name="Reply").click()
        await expect(page.get_by_text("Replying to Trivet: Soup.")).to_be_visible()
        await page.get_by_label("mention the bot").uncheck()
        await write(page, "hot?")
        mine = page.locator(".said li").nth(2)
        await expect(mine.locator(".quoted")).to_have_text("Trivet: Soup.")
        *_, update = await ground.bot.get_updates(offset=update.update_id + 1, timeout=30)
        assert update.message is not None
        assert update.message.reply_to_message is not None
        assert update.message.reply_to_message.text == "Soup."

        await mine.hover()
        await mine.get_by_role("button", name="Edit").click()
        await write(page, "cold?")
        await expect(mine.locator(".text")).to_have_text("cold?")
        await mine.hover()
        await mine.get_by_role("button", name="Delete").click()
        await expect(page.locator(".said li")).to_have_count(2)

    async def test_a_message_is_passed_on_to_the_bot(self, page: Page, ground: Ground) -> None:
        """From a group into one's own direct chat, where it says whose it is."""
        kitchen = next(place for place in ground.telegram.places() if place.kind is PlaceKind.GROUP)
        noor = ground.telegram.people()[1]
        await ground.telegram.say(noor.id, kitchen.id, "soup at <noon>")
        await page.get_by_label("Place to write in").select_option(label="Kitchen •")
        message = page.locator(".said > li")
        await message.hover()
        await message.get_by_role("button", name="Forward").click()
        await expect(page.get_by_label("Place to write in").locator("option:checked")).to_have_text("direct chat")
        await expect(page.locator(".said > li .text")).to_have_text("Forwarded from Noor\nsoup at <noon>")
        *_, update = await ground.bot.get_updates(timeout=30, allowed_updates=["message"])
        assert update.message is not None
        assert isinstance(update.message.forward_origin, MessageOriginUser)
        assert (update.message.forward_origin.sender_user.first_name, update.message.text) == ("Noor", "soup at <noon>")

    async def test_people_and_places_can_be_added(self, page: Page, ground: Ground) -> None:
        """A new person gets a direct chat of their own; a new thread goes into the chosen group."""
        await write(page, "only for Ada's chat")
        await page.get_by_role("button", name="Add a person").click()
        await page.get_by_label("Person's name").fill("Mira")
        await page.keyboard.press("Enter")
        await expect(page.get_by_label("Person to write as").locator("option:checked")).to_have_text("Mira")
        await expect(page.locator(".said li")).to_have_count(0)

        await page.get_by_label("Place to write in").select_option(label="Kitchen")
        await page.get_by_role("button", name="New group or thread").click()
        await page.get_by_label("Kind").select_option("thread")
        await page.get_by_label("Name", exact=True).fill("Soup")
        await page.get_by_role("button", name="Add", exact=True).click()
        await expect(page.get_by_label("Place to write in").locator("option:checked")).to_contain_text("Soup")
        await write(page, "first in here")
        await expect(page.locator(".said li")).to_have_count(1)
        *_, update = await ground.bot.get_updates(timeout=30)
        assert update.message is not None
        assert (update.message.is_topic_message, update.message.from_user and update.message.from_user.first_name) == (
            True,
            "Mira",
        )

    async def test_news_in_another_place_is_marked(self, page: Page, ground: Ground) -> None:
        group = next(place for place in ground.telegram.places() if place.kind is PlaceKind.GROUP)
        await ground.telegram.say(ground.ada, group.id, "over here")
        option = page.get_by_label("Place to write in").locator("option").nth(1)
        await expect(option).to_have_text("Kitchen •")
        await page.get_by_label("Place to write in").select_option(index=1)
        await expect(option).to_have_text("Kitchen")

    async def test_a_fault_strikes_once_and_its_switch_goes_back(
        self, page: Page, ground: Ground, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PTB_TIMEDELTA", "1")
        await page.get_by_text("Faults").click()
        switch = page.get_by_role("button", name="429")
        await switch.click()
        await expect(switch).to_have_attribute("aria-pressed", "true")
        with pytest.raises(RetryAfter):
            await ground.bot.send_message(ground.ada, "hello")
        await ground.bot.send_message(ground.ada, "hello again")
        await expect(switch).to_have_attribute("aria-pressed", "false")

    async def test_disconnect_cuts_the_poll(self, page: Page, ground: Ground) -> None:
        poll = asyncio.create_task(ground.bot.get_updates(timeout=30))
        await ground.telegram.updates.has_poll.wait()
        await page.get_by_text("Faults").click()
        await page.get_by_role("button", name="Disconnect").click()
        (failure,) = await asyncio.gather(poll, return_exceptions=True)
        assert "disconnected" in str(failure)

    async def test_markup_that_people_write_stays_text(self, page: Page, ground: Ground) -> None:
        attack = "<img src=x onerror=\"document.title='owned'\"><script>alert(1)</script>"
        await write(page, attack)
        await expect(page.locator(".said li .text")).to_have_text(attack)
        await expect(page.locator(".said li img")).to_have_count(0)
        await expect(page).to_have_title("Trivet playground")

    async def test_the_sessions_behind_the_conversations_are_shown(self, page: Page, ground: Ground) -> None:
        """Key, title, status and count come through this server; the token of the admin API does not."""
        await expect(page.get_by_text("None yet. Write something.")).to_be_visible()
        key = f"telegram:{ground.ada}"
        ground.admin.rows = [
            {"id": "1", "key": key, "title": "Tomatoes in July", "status": "active", "message_count": 2},
            {"id": "2", "key": "slack:U1", "title": "", "status": "running", "message_count": 1},
        ]
        chosen = page.locator(".sessions li[data-chosen=true]")
        await expect(chosen).to_contain_text("Tomatoes in July")
        await expect(chosen).to_contain_text(key)
        await expect(chosen).to_contain_text("active · 2 messages")
        await expect(page.locator(".sessions li").nth(1)).to_contain_text("no title yet")
        await expect(page.locator(".flow summary")).to_have_text("Queue 3 waiting · 1 running · 0 to send")
        board = page.get_by_role("link", name="Task board")
        assert str(await board.get_attribute("href")).endswith("/tasks")
        assert ADMIN_TOKEN not in await page.content()

    async def test_sessions_of_sub_agents_stand_below_the_one_that_they_work_for(
        self, page: Page, ground: Ground
    ) -> None:
        key = f"telegram:{ground.ada}"
        ground.admin.rows = [
            {"id": "3", "key": key, "title": "where the tests are", "channel": "subagent:explore"}
            | {"parent_session_id": "1", "status": "closed", "message_count": 2},
            {"id": "2", "key": "slack:U1", "title": "Trains", "channel": "slack", "message_count": 1},
            {"id": "1", "key": key, "title": "Tomatoes", "channel": "telegram", "message_count": 2},
        ]
        rows = page.locator(".list")
        await expect(rows.locator(".title")).to_have_text(["Trains", "Tomatoes", "where the tests are"])
        await expect(rows.locator(".key")).to_have_text(["slack:U1", key, "subagent:explore"])
        nested = page.locator(".list li li .title")
        await expect(nested).to_be_hidden()
        await page.get_by_text("1 sub-agent").click()
        ground.admin.said = [
            {"kind": "message", "role": "user", "text": "find them", "created_at": "2026-11-27T10:00:00Z"}
            | {"tool_calls": [{"name": "glob", "arguments": "{}"}]}
        ]
        await nested.click()
        await expect(page.locator(".transcript li")).to_contain_text("find them")
        await expect(page.locator(".transcript code")).to_have_text("glob({})")
        await page.get_by_role("button", name="‹ Sessions").click()
        await expect(rows).to_be_visible()

    async def test_a_fake_key_is_shown_as_written_and_as_seen(self, page: Page, ground: Ground) -> None:
        await page.get_by_role("button", name="Paste a fake key").first.click()
        await page.get_by_role("button", name="An assignment").click()
        await expect(page.get_by_label("Message", exact=True)).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator(".said > li")).to_have_count(1)
        (said,) = ground.telegram.said(ground.dm)
        ground.admin.rows = [{"id": "1", "key": f"telegram:{ground.ada}"}]
        seen = 'DB_PASSWORD="[redacted:assignment]"'
        ground.admin.said = [{"message_id": f"telegram:{said.address}", "text": seen}]
        wrote, saw = page.locator(".sides section").nth(0), page.locator(".sides section").nth(1)
        await expect(saw.locator("mark")).to_have_text("[redacted:assignment]")
        await expect(wrote.locator("mark")).to_have_text(said.text)
        await page.get_by_role("button", name="Paste a fake key").first.click()
        await page.get_by_role("button", name="An assignment").click()
        assert await page.get_by_label("Message", exact=True).input_value() != said.text

    async def test_a_trace_is_drawn_hop_by_hop(self, page: Page, ground: Ground) -> None:
        await write(page, "where is it?")
        message = page.locator(".said > li")
        await message.hover()
        await message.get_by_role("button", name="Trace").click()
        hops = page.locator(".hops li b")
        await expect(hops).to_have_text(["written"])
        ground.admin.hops = [{"at": "2099-11-27T10:00:00Z", "name": "turn began", "detail": "t_1, run 1"}]
        await expect(hops).to_have_text(["written", "turn began"])
        ground.admin.hops = [
            {"at": "2099-11-27T10:00:01Z", "name": "turn began", "detail": "t_1, run 2"},
            {"at": "2099-11-27T10:00:02.500000Z", "name": "receipt", "detail": "t_1:1 sent"},
            {"at": "2099-11-27T10:00:02Z", "name": "published", "detail": "t_1:1"},
        ]
        await expect(hops).to_have_text(["written", "turn began", "turn began", "published", "receipt"])
        await expect(page.locator(".verdict")).to_contain_text("Answered once")

    async def test_a_person_becomes_somebody_else_and_reads_another_language(self, page: Page, ground: Ground) -> None:
        role = page.get_by_label("What this person is to the bot")
        await expect(role).to_have_value("stranger")
        await role.select_option("guest")
        await until(lambda: ground.admin.roles == {f"telegram:{ground.ada}": "guest"})
        await role.select_option("stranger")
        await until(lambda: ground.admin.roles == {})
        await page.get_by_label("Language of this person").select_option(label="Deutsch")
        await until(lambda: ground.telegram.people()[0].language == "de")
        await page.get_by_label("Person to write as").select_option(label="Noor")
        await expect(page.get_by_label("Language of this person").locator("option:checked")).to_have_text("English")

    async def test_people_and_the_bot_are_called_by_typing_an_at_sign(self, page: Page, ground: Ground) -> None:
        await page.get_by_label("Place to write in").select_option(label="Kitchen")
        area = page.get_by_label("Message", exact=True)
        await area.focus()
        await page.keyboard.type("hello @tri")
        await expect(page.locator(".menu li")).to_have_text(["@trivet_demo_bot Trivet"])
        await page.keyboard.press("Enter")
        await expect(area).to_have_value("hello @trivet_demo_bot ")
        await page.keyboard.type("there")
        await page.keyboard.press("Enter")
        *_, update = await ground.bot.get_updates(timeout=30)
        assert update.message is not None
        assert [each.type for each in update.message.entities] == ["mention"]

    async def test_on_a_phone_one_pane_fills_the_screen(self, page: Page, ground: Ground) -> None:
        await page.set_viewport_size(PHONE)
        await expect(page.locator("#pane-telegram")).to_be_visible()
        await expect(page.locator("#pane-sessions")).to_be_hidden()
        await page.get_by_role("button", name="Sessions").click()
        await expect(page.locator("#pane-sessions")).to_be_visible()
        await expect(page.locator("#pane-telegram")).to_be_hidden()
        assert await page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]

    async def test_everything_can_be_reached_with_the_keyboard(self, page: Page, ground: Ground) -> None:
        """Tab visits the controls in reading order, and each of them has a name."""
        names = []
        for _ in range(19):
            await page.keyboard.press("Tab")
            names.append(
                await page.evaluate(
                    "(e => e.getAttribute('aria-label') || e.labels?.[0]?.textContent.trim() || e.textContent.trim())"
                    "(document.activeElement)"
                )
            )
        assert names == [
            "Skip to the conversations",
            "Paste a fake key",
            "Person to write as",
            "Add a person",
            "What this person is to the bot",
            "Language of this person",
            "Place to write in",
            "New group or thread",
            "Messages on telegram",
            "Try something",
            "Secrets paste a fake key",
            *(f"{each['topic']} {each['text']}" for each in TRIES),
            "Message",
            "Attach files",
            "mention the bot",
            "Send",
            "Faults",
        ]

    async def test_the_arrow_keys_move_through_the_messages(self, page: Page, ground: Ground) -> None:
        """Tab passes only what the message with the focus offers, not every button of every message."""
        for text in ("one", "two", "three"):
            await write(page, text)
            await expect(page.locator(".said > li", has_text=text)).to_be_visible()
        await page.keyboard.press("Shift+Tab")  # what to try
        await page.keyboard.press("Shift+Tab")
        await expect(page.get_by_label("Messages on telegram")).to_be_focused()
        for key in ("ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowDown", "Tab"):
            await page.keyboard.press(key)
        reply = page.locator(".said > li", has_text="two").get_by_role("button", name="Reply")
        await expect(reply).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Replying to Ada: two")).to_be_visible()
        await expect(page.get_by_label("Message", exact=True)).to_be_focused()

    async def test_a_command_that_is_refused_stays_written(self, page: Page, ground: Ground) -> None:
        await ground.bot.set_my_commands([("new", "begin anew")])
        area = page.get_by_label("Message", exact=True)
        await area.focus()
        await page.keyboard.type("/new")
        await expect(page.locator(".menu li")).to_have_count(1)
        await ground.bot.set_my_commands([])
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_have_text("the menu offers no such command")
        await expect(area).to_have_value("/new")
        assert not await page.evaluate(
            "document.querySelector('.write').scrollWidth > document.querySelector('.write').clientWidth"
        )

    @pytest.mark.long  # the browser waits some seconds before it connects again
    async def test_after_a_restart_the_page_comes_back_by_itself(self, browser: Browser) -> None:
        """With the new world's people, and with what was being written."""
        page, first, second = (
            await browser.new_page(),
            TelegramEmulator(token=TELEGRAM_TOKEN),
            TelegramEmulator(token=TELEGRAM_TOKEN),
        )
        person, area = page.get_by_label("Person to write as"), page.get_by_label("Message", exact=True)
        first.add_person("Ada")
        second.add_person("Ben")
        async with serve({"telegram": first}, playground=True) as served:
            await page.goto(served.url_of(PLAYGROUND))
            await expect(person.locator("option:checked")).to_have_text("Ada")
            await write(page, "hello")
            await expect(page.locator(".said > li")).to_have_count(1)
            await area.fill("are you still")
        await expect(page.locator(".link")).to_have_text("connection lost")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_have_text("The playground does not answer.")
        async with serve({"telegram": second}, playground=True, playground_port=served.ports[PLAYGROUND]):
            await expect(page.locator(".link")).to_have_text("live")
            await expect(person.locator("option:checked")).to_have_text("Ben")
            await expect(page.locator(".said > li")).to_have_count(0)
            await expect(page.get_by_role("alert")).to_be_empty()
            await area.press("Enter")
            await expect(page.locator(".said > li .text")).to_have_text("are you still")
        await page.close()

    async def test_an_answer_grows_and_becomes_the_message(self, page: Page, ground: Ground) -> None:
        """A draft is one bubble, the message takes its place, and only what has settled is read out."""
        bubble = page.locator(".said li")
        for text in ("Toma", "Tomatoes need"):
            await ground.draft(text)
            await expect(bubble.locator(".text")).to_have_text(text)
        await expect(bubble).to_have_attribute("data-draft", "true")
        await expect(page.locator(".news")).to_be_empty()
        await ground.bot.send_message(ground.ada, "Tomatoes need sun.")
        await expect(bubble.locator(".text")).to_have_text("Tomatoes need sun.")
        assert await bubble.get_attribute("data-draft") is None
        await expect(page.locator(".news")).to_have_text("Trivet: Tomatoes need sun.")

    async def test_a_draft_with_a_stop_button_is_stopped(self, page: Page, ground: Ground) -> None:
        """The draft is gone, and the bot is told which."""
        await ground.draft("Tomatoes need", can_stop=True)
        await page.get_by_role("button", name="Stop").click()
        await expect(page.locator(".said li")).to_have_count(0)
        *_, update = await ground.bot.get_updates(timeout=30, allowed_updates=["stopped_message_generation"])
        assert update.api_kwargs["stopped_message_generation"]["draft_id"] == 7

    async def test_the_menu_of_commands_is_used_by_keyboard(self, page: Page, ground: Ground) -> None:
        await ground.bot.set_my_commands([("new", "begin anew"), ("title", "show the title"), ("tasks", "what runs")])
        area = page.get_by_label("Message", exact=True)
        await area.focus()
        await page.keyboard.type("/t")
        options = page.locator(".menu li")
        await expect(options).to_have_text(["/title show the title", "/tasks what runs"])
        await page.keyboard.press("ArrowDown")
        await expect(page.locator(".menu [aria-selected=true]")).to_contain_text("/tasks")
        await page.keyboard.press("Escape")
        await expect(page.locator(".menu")).to_be_hidden()
        await page.keyboard.type("i")
        await expect(options).to_have_text(["/title show the title"])
        await page.keyboard.press("Enter")
        await expect(page.locator(".said li .text")).to_have_text("/title")
        await expect(area).to_have_value("")

    async def test_a_half_dead_link_loses_every_byte_until_it_is_switched_off(self, page: Page, ground: Ground) -> None:
        await page.get_by_text("Faults").click()
        switch = page.get_by_role("button", name="Half-dead link")
        await switch.click()
        await expect(page.locator(".faults .on")).to_have_text("Half-dead link")
        with pytest.raises(TimedOut):
            await ground.bot.send_message(ground.ada, "into the void", read_timeout=0.3)
        await page.get_by_role("button", name="Reset all").click()
        await expect(switch).to_have_attribute("aria-pressed", "false")
        await ground.bot.send_message(ground.ada, "back again")
        await expect(page.locator(".said li .text")).to_have_text("back again")

    async def test_nothing_that_could_act_gets_into_the_page(self, page: Page, ground: Ground) -> None:
        """The page lets in what a message consists of, even if an emulator forgot to escape."""
        hostile = (
            "<p data-x='x()'>one</p><a href='javascript:x()'>two</a><a href='https://example.com'>three</a>"
            "<img src=x alt='four'><script>x()</script><svg><a href='https://x'>five</a></svg>"
            "<iframe src='https://x'></iframe><form><button>six</button></form><b id='x'>seven</b>"
        )
        shown = await page.evaluate(SAFE, hostile)
        assert shown == (
            "<p>one</p><a>two</a>"
            '<a href="https://example.com" target="_blank" rel="noopener noreferrer">three</a>'
            "fourfivesix<b>seven</b>"
        )

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.long_on("light")
    async def test_all_that_is_shown_has_names_roles_and_contrast(
        self, page: Page, ground: Ground, scheme: str
    ) -> None:
        """Everything at once on the page, looked through element by element."""
        await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="yes")]])
        await write(page, "hello")
        await ground.bot.send_document(ground.ada, b"a: 1", filename="a.yaml", reply_markup=keyboard)
        await ground.draft("about to say")
        await ground.bot.set_my_commands([("new", "begin anew")])
        await page.get_by_text("Faults").click()
        await page.get_by_role("button", name="429").click()
        await page.get_by_label("Message", exact=True).focus()
        await page.keyboard.type("/")
        await expect(page.locator(".menu li")).to_have_count(1)
        await expect(page.locator(".said li[data-draft]")).to_have_count(1)
        assert await page.evaluate(FLAWS.replace("CONTRAST", CONTRAST)) == []

    async def test_on_a_phone_whatever_is_touched_is_large_enough(self, page: Page, ground: Ground) -> None:
        await page.set_viewport_size(PHONE)
        await ground.bot.send_message(ground.ada, "x" * 400)
        await page.locator(".said li").focus()
        await page.get_by_text("Faults").click()
        assert await page.evaluate(TOO_SMALL) == []
        assert await page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


SAFE = """async html => {
  const { safe } = await import("/static/safe.js");
  const box = document.createElement("div");
  box.append(safe(html));
  return box.innerHTML;
}"""
# What is wrong with the page as it stands: controls without a name, ids twice, labels for nothing, faint text.
FLAWS = """() => {
  const contrast = CONTRAST;
  const isSeen = e => e.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const told = e => `${e.tagName}.${e.className} ${e.textContent.trim().slice(0, 30)}`;
  const all = [...document.querySelectorAll("body *")].filter(isSeen);
  const named = e => e.getAttribute("aria-label") || e.labels?.[0]?.textContent.trim() || e.alt || e.textContent.trim();
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  const refs = ["aria-controls", "aria-describedby", "aria-activedescendant", "aria-labelledby", "for"];
  const hasText = e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  return [
    ...all.filter(e => e.matches("button, a[href], input, select, textarea, summary, [role], img, section, nav"))
      .filter(e => e.alt !== "" && !["status", "alert"].includes(e.role) && !named(e))
      .map(e => `no name: ${told(e)}`),
    ...ids.filter((id, n) => ids.indexOf(id) !== n).map(id => `twice: #${id}`),
    ...refs.flatMap(ref => all.filter(e => e.hasAttribute(ref) && !document.getElementById(e.getAttribute(ref)))
      .map(e => `${ref} of nothing: ${told(e)}`)),
    ...["main", "header", "nav", "h1"].filter(tag => !document.querySelector(tag)).map(tag => `no ${tag}`),
    ...all.filter(e => hasText(e) && !e.closest("[aria-hidden], .hidden, .skip, option") && contrast(e) < 4.5)
      .map(e => `faint (${contrast(e).toFixed(2)}): ${told(e)}`),
  ];
}"""
TOO_SMALL = """() => [...document.querySelectorAll("button, select, input, textarea, summary, .files a")]
  .filter(e => e.checkVisibility({ opacityProperty: true }) && !e.closest(".skip"))
  .map(e => [e.type === "checkbox" ? e.labels[0] : e, e.getBoundingClientRect()])
  .map(([e]) => [e.className || e.textContent, Math.round(e.getBoundingClientRect().height)])
  .filter(([, height]) => height < 44)"""
