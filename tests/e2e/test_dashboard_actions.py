"""Each action of the dashboard, pressed in a real browser, on a Trivet that runs in front of emulated platforms."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect
from redis import Redis

from gateway.bus.embedded import embedded_url
from gateway.contracts.envelope import encode
from gateway.contracts.ids import SessionKey
from tests.contract.store_samples import says
from tests.parts.browsing import DESK, browser
from tests.parts.product import Chat, Product, running_product
from tests.parts.waiting import until

__all__ = ["browser"]

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240), pytest.mark.long]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def product(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Product]:
    """One for all tests of the module, to which strangers are let in by code."""
    folder = tmp_path_factory.mktemp("product")
    async with running_product(folder, settings={"TRIVET_ACCESS__DEFAULT": "pairing"}, platforms=("telegram",)) as runs:
        yield runs


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, product: Product) -> AsyncIterator[Page]:
    """A window of somebody who is signed in, by the form."""
    context = await browser.new_context(viewport=DESK, base_url=f"http://127.0.0.1:{product.port}")
    page = await context.new_page()
    await page.goto("/")
    await page.get_by_label("Admin token").fill(product.admin_token)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    yield page
    await context.close()


async def press(page: Page, button: Locator, done: str | re.Pattern[str]) -> None:
    """Press a button, leave it when asked, press it again and mean it; the page says what was done."""
    sure, told = page.get_by_role("dialog"), page.locator("#told")
    await button.click()
    await expect(sure).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(sure).to_be_hidden()
    await button.click()
    await sure.locator("#yes").click()
    await expect(told).to_have_text(done)


async def audited(product: Product) -> list[tuple[str, str]]:
    return [(line["action"], line["subject"]) for line in await product.api("/api/v1/audit", limit=500)]


async def member(page: Page, product: Product, name: str) -> Chat:
    """Somebody who writes, is told a code, and is let in on the page of people."""
    chat = product.chat("telegram", name)
    await chat.ask("hello")
    await page.goto("/people")
    row = page.get_by_role("table", name="Waiting to be let in").locator("tbody tr", has_text=name)
    await row.get_by_role("combobox").select_option("member")
    await press(page, row.get_by_role("button", name="Let in"), f"{name} is let in.")
    await chat.ask(f"say I am {name}", f"I am {name}")
    return chat


def key_of(chat: Chat) -> str:
    return f"telegram:{chat.person.id}"


async def open_session(page: Page, product: Product, chat: Chat) -> str:
    (session,) = await product.api("/api/v1/sessions", key=key_of(chat))
    await page.goto(f"/session?id={session['id']}")
    return str(session["id"])


async def test_a_stranger_is_let_in_or_turned_down(page: Page, product: Product) -> None:
    ada = await member(page, product, "Ada")
    await expect(page.locator("h1")).to_have_text("People")
    bob = product.chat("telegram", "Bob")
    await bob.ask("let me in")
    await page.reload()
    row = page.get_by_role("table", name="Waiting to be let in").locator("tbody tr", has_text="Bob")
    await press(page, row.get_by_role("button", name="Turn down"), "Bob is turned down.")
    actions = [action for action, _ in await audited(product)]
    assert len(actions) == 2, actions
    assert await product.api("/api/v1/pairings") == []
    assert ada.heard


async def test_a_role_a_block_and_limits_count_for_the_next_message(page: Page, product: Product) -> None:
    cleo = await member(page, product, "Cleo")
    person = f"/person?key={key_of(cleo)}"
    await page.goto(person)
    await page.get_by_role("combobox", name="Role").select_option("admin")
    await press(page, page.get_by_role("button", name="Change role"), re.compile("Cleo|telegram:.* is admin now."))
    await expect(page.locator(".facts")).to_contain_text("admin")
    await press(page, page.get_by_role("button", name="Block"), re.compile("is blocked."))
    before = len(cleo.answers)
    await cleo.say("say hidden")
    await press(page, page.get_by_role("button", name="Unblock"), re.compile("is not blocked any more."))
    await expect(page.locator(".facts")).to_contain_text("stranger")
    await page.get_by_role("combobox", name="Role").select_option("member")
    await press(page, page.get_by_role("button", name="Change role"), re.compile("is member now."))
    await cleo.ask("say again", "again")
    assert "hidden" not in "\n".join(cleo.answers[before:])

    await page.get_by_label("Tokens").fill("1")
    await press(page, page.get_by_role("button", name="Set limits"), "The limits are set.")
    await cleo.ask("say too much")
    assert "too much" not in cleo.answers[-1]
    await press(page, page.get_by_role("button", name="As configured"), "The limits are as configured.")
    await cleo.ask("say enough", "enough")
    subjects = {subject for _, subject in await audited(product)}
    assert f"user:{key_of(cleo)}" in subjects
    await press(page, page.get_by_role("button", name="Withdraw the role"), "The role is withdrawn.")


async def test_a_conversation_is_stopped_answered_again_compacted_and_written_to(page: Page, product: Product) -> None:
    dora = await member(page, product, "Dora")
    id_ = await open_session(page, product, dora)
    await dora.say("slow 60 say never")
    await product.until_running(1)
    await press(page, page.get_by_role("button", name="Stop"), "Stopped.")
    await product.until_settled()
    assert "never" not in dora.heard

    for _ in range(3):
        await dora.ask("long 9000")
        await product.until_settled()
    await dora.ask("say first", "first")
    answers = len(dora.answers)
    await press(page, page.get_by_role("button", name="Answer again"), "The last message is answered once more.")
    await until(lambda: len(dora.answers) > answers, lambda: f"another answer: {dora.answers}")
    await press(page, page.get_by_role("button", name="Compact"), "It is compacted when its turn comes.")
    await expect(page.locator("#said summary", has_text="Summary of what came before")).to_be_visible()

    await page.get_by_label("Message").fill("This is **Grace** of the team.")
    await press(page, page.get_by_role("button", name="Send"), "It is on its way to the chat.")
    await dora.until_answered("Grace")
    await expect(page.locator("#said [data-role=operator] strong")).to_have_text("Grace")
    await dora.ask("say thanks", "thanks")
    assert dora.heard.count("Grace of the team") == 1
    done = [action for action, subject in await audited(product) if subject == f"session:{id_}"]
    assert done == ["session.say", "session.compact", "session.retry", "session.stop"]


async def test_what_is_remembered_and_scheduled_is_forgotten_and_cancelled(page: Page, product: Product) -> None:
    emil = await member(page, product, "Emil")
    await emil.ask("remember Emil likes plums")
    await emil.ask("/remind in 2 hours water the plums")
    person = f"/person?key={key_of(emil)}"
    await page.goto(person)
    await press(page, page.get_by_role("button", name="Forget"), "It is forgotten.")
    await expect(page.get_by_text("Nothing is remembered of this person.")).to_be_visible()
    await page.goto("/schedules")
    row = page.get_by_role("table", name="Schedules").locator("tbody tr", has_text="water the plums")
    await press(page, row.get_by_role("button", name="Cancel"), "It is cancelled.")
    await expect(row).to_have_count(0)
    assert {("memory.forget", f"user:{key_of(emil)}"), ("schedule.cancel", f"user:{key_of(emil)}")} <= set(
        await audited(product)
    )


async def test_everything_of_a_person_is_exported_and_erased(page: Page, product: Product) -> None:
    fay = await member(page, product, "Fay")
    await page.goto(f"/person?key={key_of(fay)}")
    async with page.expect_download() as downloading:
        await page.get_by_role("link", name="Export as JSON").click()
    download = await downloading.value
    assert b"I am Fay" in await asyncio.to_thread((await download.path()).read_bytes)
    await press(page, page.get_by_role("button", name="Erase everything"), re.compile("is erased."))
    assert await product.api("/api/v1/sessions", key=key_of(fay)) == []
    assert key_of(fay) not in {person["key"] for person in await product.api("/api/v1/people")}
    assert ("user.erase", "erased") in await audited(product)


async def test_somebody_is_let_in_by_the_key_or_by_the_code_that_the_bot_told(page: Page, product: Product) -> None:
    gus, ivy = product.chat("telegram", "Gus"), product.chat("telegram", "Ivy")
    code = re.search(r"\b[A-Z0-9]{8}\b", await ivy.ask("let me in"))
    assert code is not None
    await page.goto("/people")
    await page.get_by_text("Let in somebody by a code or a key").click()
    await page.get_by_label("Key", exact=True).fill(key_of(gus))
    await press(page, page.get_by_role("button", name="Give the role"), f"{key_of(gus)} is member now.")
    await gus.ask("say at once", "at once")
    await page.get_by_text("Let in somebody by a code or a key").click()
    await page.get_by_label("Code").fill(code[0].lower())
    await press(page, page.locator("details").get_by_role("button", name="Let in"), "Ivy is let in.")
    await ivy.ask("say by code", "by code")


async def test_what_is_looked_for_is_found_and_nothing_else(page: Page, product: Product) -> None:
    """By each field of each page that has some."""
    joy = await member(page, product, "Joy")
    rows = page.get_by_role("table").first.locator("tbody tr")
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()

    async def look(path: str, field: str, value: str, button: str = "Show") -> None:
        await page.goto(path)
        await page.get_by_label(field).fill(value)
        await page.get_by_role("search").get_by_role("button", name=button).click()

    for field, found, missed in (("Channel", "telegram", "slack"), ("To", tomorrow, "2020-01-01")):
        await look("/sessions", field, missed, "Search")
        await expect(page.get_by_text("No conversation is like that.")).to_be_visible()
        await look("/sessions", field, found, "Search")
        await expect(page.get_by_role("table", name="Conversations")).to_contain_text("Joy")
    await look("/sessions", "From", tomorrow, "Search")
    await expect(page.get_by_text("No conversation is like that.")).to_be_visible()
    await look("/audit", "About", f"user:{key_of(joy)}")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("access.grant")
    await page.goto("/logs")
    lines = page.locator(".lines li:not([data-level=warning], [data-level=error], [data-level=critical])")
    await expect(lines.first).to_be_visible()
    await page.get_by_label("From").select_option("warning")
    await page.get_by_role("button", name="Show").click()
    await expect(lines).to_have_count(0)
    for path, told in (("/models", "demo/scripted"), ("/skills", "built in")):
        await page.goto(path)
        await expect(rows.first).to_contain_text(told)


async def test_what_is_refused_is_said_and_changes_nothing(page: Page, product: Product) -> None:
    await page.goto("/people")
    await page.get_by_text("Let in somebody by a code or a key").click()
    await page.get_by_label("Code").fill("NOSUCHCO")
    await page.locator("details").get_by_role("button", name="Let in").click()
    await page.locator("#yes").click()
    await expect(page.locator("#told")).to_contain_text("Nothing was changed: no person waits with the code NOSUCHCO")


async def test_limits_places_and_types_change_while_it_runs(page: Page, product: Product) -> None:
    await page.goto("/settings")
    guest = page.locator(".card", has=page.get_by_role("heading", name="Guest"))
    await guest.get_by_label("Turns").fill("7")
    await press(page, guest.get_by_role("button", name="Set limits"), "The limits of each guest are set.")
    assert (await product.api("/api/v1/limits"))[0]["turns"] == 7
    await press(page, guest.get_by_role("button", name="As configured"), "The limits of each guest are as configured.")
    await page.get_by_role("textbox", name="Place").fill("telegram:-100456")
    await page.get_by_role("combobox", name="Who is heard there").select_option("admins")
    await press(page, page.get_by_role("button", name="Set who is heard"), "telegram:/-100456: admins.")
    place = page.get_by_role("table", name="Places").locator("tbody tr")
    await press(page, place.get_by_role("button", name="As configured"), "The place is as configured.")

    row = page.get_by_role("table", name="Types of sub-agents").locator("tbody tr", has_text="explore").first
    await row.get_by_label("Rounds of explore").fill("3")
    await press(page, row.get_by_role("button", name="Set rounds"), "explore has 3 rounds now.")
    await press(page, row.get_by_role("button", name="Switch off"), "explore is switched off.")
    await expect(row).to_contain_text("switched off")
    await press(page, row.get_by_role("button", name="As configured"), "explore is as configured.")

    await page.get_by_label("Part of a name").fill("admin_token")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("table", name="Settings").locator("tbody tr")).to_have_count(1)
    assert product.admin_token not in await page.content()
    await page.goto("/audit")
    await expect(page.get_by_role("table", name="Audit")).to_contain_text("sub-type.change")


async def test_a_program_is_let_in_shown_its_token_once_and_removed(page: Page, product: Product) -> None:
    await page.goto("/clients")
    await page.get_by_label("Name").fill("shop")
    await page.get_by_label("Turns").fill("5")
    done = re.compile(r"^api:shop-\w{6} is member now\. Its token, .*: trivet_client_token_[\w-]{43}\.shop-\w{6}$")
    await press(page, page.get_by_role("button", name="Let in"), done)
    token = ((await page.locator("#told").text_content()) or "").split()[-1]
    [client] = await product.api("/api/v1/clients")
    await page.reload()
    row = page.get_by_role("table", name="Programs").locator("tbody tr", has_text=client["key"])
    await expect(row).to_contain_text("by admin")
    assert token not in await page.content()
    await press(page, row.get_by_role("button", name="Remove"), f"{client['key']} is removed.")
    await expect(page.get_by_text("None yet.")).to_be_visible()


async def test_the_logs_show_what_every_process_said_as_it_comes_and_of_one_turn(page: Page, product: Product) -> None:
    hal = await member(page, product, "Hal")
    await page.goto("/logs?q=nothing-says-this-yet")
    await expect(page.get_by_text("Nothing like that was logged")).to_be_visible()
    await page.goto("/logs")
    await expect(page.locator(".lines li").first).to_be_visible()
    await page.goto(f"/trace?id={key_of(hal)}")
    await expect(page.locator("#hops b", has_text="turn began").first).to_be_visible()
    link = page.get_by_role("link", name="What was logged about this turn")
    turn = (await link.get_attribute("href") or "").partition("q=")[2]
    await link.click()
    await expect(page.get_by_label("Part of a line")).to_have_value(turn)


async def test_a_dead_letter_is_tried_again_or_dropped(page: Page, product: Product) -> None:
    with Redis.from_url(embedded_url(product.data_dir), protocol=2) as redis:
        for number in (1, 2):
            lost = says(SessionKey("telegram", "404"), f"poison {number}", id_=f"telegram:bot:404:{number}")
            letter = {"e": encode(lost), "reason": "attempts", "attempts": 4, "error": "boom"}
            await asyncio.to_thread(redis.xadd, "{q0}:dlq", letter)
    await page.goto("/queue")
    letters = page.get_by_role("table", name="Dead letters").locator("tbody tr")
    await press(
        page,
        letters.filter(has_text="poison 1").get_by_role("button", name="Try again"),
        "The message is back on its lane.",
    )
    await press(page, letters.filter(has_text="poison 2").get_by_role("button", name="Drop"), "The message is dropped.")
    await expect(page.get_by_text("Nothing was given up.")).to_be_visible()
    assert {"dead-letter.retry", "dead-letter.drop"} <= {action for action, _ in await audited(product)}
