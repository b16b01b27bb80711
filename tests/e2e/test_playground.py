"""The playground in a real browser, driven as a person would, with the bot's own client on the other side."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect
from telegram import InlineKeyboardButton, InlineKeyboardMarkup
from telegram.error import RetryAfter

from channels.emulators.stage import PlaceKind
from tests.parts.platforms import ADMIN_TOKEN, Ground

pytestmark = pytest.mark.asyncio(loop_scope="module")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_ARGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESK = {"width": 1500, "height": 900}
PHONE = {"width": 390, "height": 780}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """A headless Chromium. Without one on the machine there is nothing to test here, except in CI."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        missing = "no Chromium is installed (Debian: apt-get install chromium)"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=found, args=list(BROWSER_ARGS))
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, ground: Ground) -> AsyncIterator[Page]:
    """The open page; anything it writes to the console as an error fails the test."""
    complaints: list[str] = []
    page = await browser.new_page(viewport={"width": DESK["width"], "height": DESK["height"]})
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    await page.goto(ground.url)
    await expect(page.locator(".link")).to_have_text("live")
    yield page
    await page.close()
    assert complaints == []


async def write(page: Page, text: str) -> None:
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")


class TestThePage:
    async def test_a_conversation_is_seen_live(self, page: Page, ground: Ground) -> None:
        """What a person writes reaches the bot; typing, answer, edit and deletion show without a reload."""
        await write(page, "How are the tomatoes?")
        said = page.locator(".said li")
        await expect(said).to_have_count(1)
        *_, update = await ground.bot.get_updates(timeout=5)
        assert update.message is not None
        assert update.message.text == "How are the tomatoes?"

        await ground.bot.send_chat_action(ground.ada, "typing")
        await expect(page.get_by_text("bot is typing")).to_be_visible()
        answer = await ground.bot.send_message(ground.ada, "<b>Red</b> and <code>ripe</code>", parse_mode="HTML")
        await expect(said.nth(1).locator("strong")).to_have_text("Red")
        await expect(said.nth(1).locator(".badge")).to_be_visible()
        await expect(page.get_by_text("bot is typing")).to_be_hidden()
        await ground.bot.edit_message_text("Eaten", chat_id=ground.ada, message_id=answer.message_id)
        await expect(said.nth(1).locator(".text")).to_have_text("Eaten")
        await expect(said.nth(1).locator(".edited")).to_be_visible()
        await ground.bot.delete_message(ground.ada, answer.message_id)
        await expect(said).to_have_count(1)

    async def test_a_button_is_pressed_by_keyboard_and_answered_for_one_person_only(
        self, page: Page, ground: Ground
    ) -> None:
        """The bot hears who pressed; the toast is for that person; without its buttons the message keeps the focus."""
        keyboard = InlineKeyboardMarkup([[InlineKeyboardButton(word, callback_data=word) for word in ("Yes", "No")]])
        sent = await ground.bot.send_message(ground.ada, "May I?", reply_markup=keyboard)
        message = page.locator(".said li").first
        await message.get_by_role("button", name="Yes").focus()
        await page.keyboard.press("Enter")
        *_, update = await ground.bot.get_updates(timeout=5, allowed_updates=["callback_query"])
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
        *_, update = await ground.bot.get_updates(timeout=5)
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
        *_, update = await ground.bot.get_updates(offset=update.update_id + 1, timeout=5)
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
        *_, update = await ground.bot.get_updates(timeout=5)
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
        await ground.telegram.polled()
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
        rows = page.locator(".sessions li")
        await expect(rows.locator(".title")).to_have_text(["Trains", "Tomatoes", "where the tests are"])
        await expect(rows.locator(".key")).to_have_text(["slack:U1", key, "subagent:explore"])
        await expect(rows.nth(2)).to_have_attribute("data-nested", "true")

    async def test_on_a_phone_one_pane_fills_the_screen(self, page: Page, ground: Ground) -> None:
        await page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
        await expect(page.locator("#pane-telegram")).to_be_visible()
        await expect(page.locator("#pane-sessions")).to_be_hidden()
        await page.get_by_role("button", name="Sessions").click()
        await expect(page.locator("#pane-sessions")).to_be_visible()
        await expect(page.locator("#pane-telegram")).to_be_hidden()
        assert await page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]

    async def test_everything_can_be_reached_with_the_keyboard(self, page: Page, ground: Ground) -> None:
        """Tab visits the controls in reading order, and each of them has a name."""
        names = []
        for _ in range(11):
            await page.keyboard.press("Tab")
            names.append(
                await page.evaluate(
                    "(e => e.getAttribute('aria-label') || e.labels?.[0]?.textContent.trim() || e.textContent.trim())"
                    "(document.activeElement)"
                )
            )
        assert names == [
            "Skip to the conversations",
            "Person to write as",
            "Add a person",
            "Place to write in",
            "New group or thread",
            "Messages on telegram",
            "Message",
            "Attach files",
            "mention the bot",
            "Send",
            "Faults",
        ]

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.long_on("light")
    async def test_small_print_can_be_read_in_both_schemes(self, page: Page, ground: Ground, scheme: str) -> None:
        """Text contrasts with what is behind it by at least 4.5 to 1."""
        await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        await write(page, "hello")
        await ground.bot.send_message(ground.ada, "https://example.com")
        await expect(page.locator(".said li")).to_have_count(2)
        for selector in SMALL_PRINT:
            assert await page.locator(selector).first.evaluate(CONTRAST) >= 4.5, selector


SMALL_PRINT = (
    ".bar label span",
    ".address",
    ".who time",
    ".badge",
    ".said a",
    ".write button",
    "h2",
    ".link",
    ".sessions .board",
)
CONTRAST = """element => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const channels = (color, over) => {
    for (const each of [over, color]) { context.fillStyle = each; context.fillRect(0, 0, 1, 1); }
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const isSeen = color => channels(color, "white").join() !== channels(color, "black").join() ? false : true;
  let behind = element;
  while (behind.parentElement && !isSeen(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
  const light = rgb => rgb.map(c => c / 255).map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const back = getComputedStyle(behind).backgroundColor;
  const [a, b] = [light(channels(getComputedStyle(element).color, back)), light(channels(back, "white"))];
  return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
}"""
