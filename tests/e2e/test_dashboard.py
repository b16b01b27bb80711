"""The operator's pages in a real browser: what they show, in light, dark and on a phone, without a look at a clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, expect
from redis import Redis

from gateway.bus.embedded import EmbeddedValkey
from gateway.contracts.budgets import DAY_MS
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import ModelFault, ModelTrouble
from gateway.contracts.sessions import Entry, Role, ToolCall, Usage, UsagePurpose
from gateway.telemetry.metrics import ANSWER_SECONDS, MODEL_OUTCOMES, TURNS, Tally
from tests.contract.store_samples import ANN, BOB, begin, note, outcome, reply, says, talk
from tests.contract.subtask_samples import conversation, opened, started
from tests.parts.browsing import CONTRAST, DESK, PHONE, browser
from tests.parts.desks import TOKEN, Office, office, sign_in
from tests.parts.operator_api import make_dead_letter

__all__ = ["browser"]

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORDS = "main :is(h1, h2, th, td, dt, dd, a, b, label, button:enabled, .status, .type, .faint, .by, .avatar, summary)"
WORST_CONTRAST = f"""words => Math.min(...words
    .filter(word => word.checkVisibility() && word.textContent.trim()).map({CONTRAST}))"""
READABLE = 4.5  # text against what is behind it, by the WCAG's rule for small letters


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def dashboard(
    valkey_server: EmbeddedValkey, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Office]:
    """Served for all tests of the module."""
    async with office(valkey_server, sqlite_template, tmp_path_factory.mktemp("dashboard")) as served:
        yield served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def window(browser: Browser, dashboard: Office) -> AsyncIterator[BrowserContext]:
    """A browser that is signed in. An empty page keeps the process alive that draws the others."""
    context = await browser.new_context(viewport=DESK, base_url=dashboard.url)
    await sign_in(context, dashboard.url)
    await context.new_page()
    yield context
    await context.close()


@pytest_asyncio.fixture(loop_scope="module")
async def page(window: BrowserContext) -> AsyncIterator[Page]:
    """A page of somebody who is signed in. Anything that it complains of on its console fails the test, but that
    something could not be had."""
    complaints: list[str] = []
    page = await window.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield page
    await page.close()
    assert [each for each in complaints if "Failed to load resource" not in each] == []


async def reads_well(page: Page) -> None:
    """Nothing is wider than a phone, and every word stands out by day and by night."""
    await page.set_viewport_size(PHONE)
    assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert await page.locator(WORDS).evaluate_all(WORST_CONTRAST) >= READABLE, scheme
    await page.set_viewport_size(DESK)


async def test_an_operator_signs_in_by_the_keyboard_and_out_again(browser: Browser, dashboard: Office) -> None:
    context = await browser.new_context(viewport=DESK, base_url=dashboard.url)
    page = await context.new_page()
    await page.goto("/queue")
    await expect(page.get_by_label("Admin token")).to_be_focused()
    await reads_well(page)
    await page.keyboard.type("wrong")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_have_text("That is not the admin token.")
    await expect(page.get_by_label("Admin token")).to_be_focused()
    await page.keyboard.type(TOKEN)
    await page.keyboard.press("Enter")
    await expect(page).to_have_title("Deliveries · Trivet")
    await page.get_by_role("button", name="Sign out").click()
    await expect(page).to_have_title("Sign in · Trivet")
    await page.goto("/queue")
    await expect(page).to_have_title("Sign in · Trivet")
    await context.close()


async def test_the_overview_draws_the_last_day_at_first_paint_and_keeps_itself_fresh(
    page: Page, dashboard: Office, valkey_server: EmbeddedValkey
) -> None:
    tally = Tally()
    for outcome_ in ("done", "done", "failed"):
        tally.add(TURNS, outcome_)
        tally.time(ANSWER_SECONDS, 900)
    tally.add(MODEL_OUTCOMES, "openai/x", "answered")
    tally.add(MODEL_OUTCOMES, "openai/x", "timeout")
    await dashboard.bus.operator.add_counts(tally.take())
    await dashboard.bus.operator.report_models({"openai/x": ModelTrouble("openai/x", "openai", ModelFault.KEY, 1)})
    with Redis.from_url(valkey_server.url, protocol=2) as redis:
        seconds, _ = redis.time()
        for age_s, queued in ((480, 2), (240, 7)):
            redis.xadd("{q0}:queued", {"queued": queued, "oldest_ms": 9000}, id=f"{(seconds - age_s) * 1000}-0")
    payer = SessionKey("telegram", "6")
    session = await talk(dashboard.store, payer, "hello", number=1)
    now_ms = dashboard.clock.now_ms()
    spent = Usage(payer, UsagePurpose.TURN, "m", 1_000, 200, 0, 0.5, "t90", now_ms)
    await dashboard.store.sessions.charge([spent], session_id=session.id)

    await page.context.route("**/static/*.js", lambda route: route.abort())
    await page.goto("/")
    await expect(page.locator("#now")).to_contain_text("openai/x: openai does not accept its key")
    tiles = page.locator(".tile")
    await expect(tiles.filter(has_text="Time to answer")).to_contain_text("750 ms")
    await expect(tiles.filter(has_text="Model errors")).to_contain_text("of 2 calls in the last hour")
    await expect(tiles.filter(has_text="Cost today")).to_contain_text("$0.50")
    for figure, drawn in (
        ("Answers", ".bar"),
        ("Messages waiting", ".line"),
        ("Cost", ".bar"),
        ("Model errors", ".bad"),
    ):
        await expect(page.locator("figure", has_text=figure).locator(f"svg {drawn}").first).to_be_attached()
    await expect(page.locator("figure", has_text="Messages waiting")).to_contain_text("at most 7 in ten minutes")
    await expect(page.locator("figure", has_text="Answers")).to_contain_text("3 in a day, 1 failed")

    await page.context.unroute_all()
    await page.goto("/")
    await expect(page.locator("#waiting")).to_have_text("0")
    await reads_well(page)
    await dashboard.bus.intake.enqueue(says(BOB, "waits", id_="slack:T1:90"))
    await expect(page.locator("#waiting")).to_have_text("1")
    await dashboard.bus.lanes.stop(BOB)


@pytest.mark.long
async def test_a_conversation_is_found_and_reads_as_a_chat(page: Page, dashboard: Office) -> None:
    """By a word of it, by a name, by nothing; the newest messages first; what comes is there without a reload."""
    attack = "<img src=x onerror=\"document.title='owned'\"> [x](javascript:alert(1)) ![y](http://evil.example/p.png)"
    session = await conversation(dashboard.store)
    for number in range(2, 62):
        await talk(dashboard.store, ANN, attack if number == 61 else f"question {number}", number=number)
    await talk(dashboard.store, BOB, "marmalade for breakfast", number=1)
    await dashboard.bus.operator.note_names({BOB: "Bob Marley", ANN: "Ann Lee"})
    parent, _ = await opened(dashboard.store, session, "k1", "k2")
    await opened(dashboard.store, parent, "k1x")
    await started(dashboard.store, "k1")

    await page.goto("/sessions")
    rows = page.get_by_role("table", name="Conversations").locator("tbody tr")
    for words, found in (("marmalade", "Bob Marley"), ("bob mar", "Bob Marley"), ("QUESTION 7", "Ann Lee")):
        await page.get_by_label("Title, words, person").fill(words)
        await page.keyboard.press("Enter")
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text(found)
    await reads_well(page)
    await page.get_by_label("Cost at least").fill("1000")
    await page.get_by_role("button", name="Search").click()
    await expect(page.get_by_text("No conversation is like that.")).to_be_visible()
    await page.goto("/sessions?since=nonsense")
    await expect(page.get_by_role("alert")).to_contain_text("cannot be")

    await page.goto("/sessions?q=question")
    await rows.get_by_role("link").first.press("Enter")
    said = page.locator("#said .chat > li")
    await expect(said).to_have_count(100)
    await expect(said.nth(-2)).to_contain_text("<img src=x")
    await expect(page.locator("#said img, #said a[href^=javascript]")).to_have_count(0)
    await expect(page.locator("#family li")).to_have_count(3)
    await expect(page.locator("#family .status").first).to_contain_text("running")
    await page.get_by_role("link", name="Earlier messages").click()
    await expect(said.first).to_contain_text("split this up")
    await page.get_by_role("link", name="Newest messages").click()
    await talk(dashboard.store, ANN, "one **more**", number=62)
    await expect(said.nth(-2).locator("strong")).to_have_text("more")
    await reads_well(page)
    await page.get_by_role("link", name="label of k1x").click()
    await expect(page.get_by_text("Sub-agent of")).to_be_visible()
    await page.goto("/session?id=none")
    await expect(page.get_by_text("There is no such conversation")).to_be_visible()


async def test_tools_and_machinery_are_folded(page: Page, dashboard: Office) -> None:
    key = SessionKey("telegram", "4")
    messages = [says(key, "what time is it?", id_="m4")]
    start = await begin(dashboard.store, "t4", messages)
    done = outcome(start, "t4", messages)
    call = ToolCall("c1", "clock", CleanText('{"zone": "UTC"}'))
    used = (
        Entry(Role.ASSISTANT, CleanText("I look."), tool_calls=(call,), turn_id="t4"),
        Entry(Role.TOOL, CleanText("no clock"), tool_call_id="c1", is_error=True, turn_id="t4"),
    )
    await dashboard.store.turns.commit(replace(done, entries=(note("<now>\n12:00\n</now>"), *used, *done.entries)))
    await page.goto(f"/session?id={start.session.id}")
    folded = page.locator("#said summary")
    await expect(folded).to_have_text(["Told to the model", "clock", "Result of a tool, an error"])
    await expect(page.get_by_text("12:00")).to_be_hidden()
    await folded.nth(1).press("Enter")
    await expect(page.get_by_text('"zone": "UTC"')).to_be_visible()


async def test_a_message_is_followed_hop_by_hop_from_wherever_its_id_stands(page: Page, dashboard: Office) -> None:
    poison = says(ANN, "poison", id_="telegram:bot:1:77")
    now_ms = dashboard.clock.now_ms()
    sorry = reply(ANN, "sorry (Reference K7QX2M)", id_="t77:dead", turn_id="t77", created_at_ms=now_ms - 1)
    assert await dashboard.store.turns.give_up(
        turn_id="t77",
        message=poison,
        replies=[sorry],
        note=sorry.text,
        reference="K7QX2M",
        letter_id="5-0",
        now_ms=now_ms,
    )
    hops = page.locator("#hops li")
    await page.goto("/queue")
    await page.get_by_role("table", name="Newest replies").get_by_role("link", name="t77:dead").click()
    await expect(hops.locator("b")).to_have_text(["reply committed", "given up"])
    for quoted in (" k7qx2m", poison.id):
        await page.goto("/queue")
        await page.get_by_label("Reference or id").fill(quoted)
        await page.keyboard.press("Enter")
        await expect(hops.last).to_contain_text(f"{poison.id}, error K7QX2M")
    await reads_well(page)
    await page.get_by_label("Reference or id").fill("<b>nobody/..")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Nothing is known of <b>nobody/...")).to_be_visible()


async def test_a_dead_letter_leads_to_its_trace(page: Page, dashboard: Office) -> None:
    await make_dead_letter(dashboard.bus, replace(says(BOB, "poison 1", id_="slack:T1:1"), received_at_ms=1))
    await page.goto("/queue")
    letter = page.get_by_role("table", name="Dead letters").locator("tbody tr")
    await reads_well(page)
    await letter.get_by_role("link").click()
    await expect(page.locator("#hops li").last).to_contain_text("dead letter")


async def test_people_stand_with_name_role_place_and_usage(page: Page, dashboard: Office) -> None:
    lee = SessionKey("telegram", "7")
    await dashboard.bus.operator.note_names({lee: "Cora Lee"})
    await talk(dashboard.store, lee, "hello", number=1)
    await page.goto("/people")
    await page.get_by_label("Name or key").first.fill("a LEE")
    await page.keyboard.press("Enter")
    rows = page.get_by_role("table", name="People").locator("tbody tr")
    await expect(rows).to_have_count(1)
    await expect(rows.locator(".avatar")).to_have_text("CL")
    await expect(rows).to_contain_text("stranger")
    await reads_well(page)
    await rows.get_by_role("link").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Cora Lee")
    await reads_well(page)
    await page.goto("/person?key=telegram:404")
    await expect(page.get_by_text("Nobody is known by that key.")).to_be_visible()


async def test_what_was_spent_stands_by_user_and_by_day(page: Page, dashboard: Office) -> None:
    now_ms = dashboard.clock.now_ms()
    payer = SessionKey("telegram", "77")
    session = await talk(dashboard.store, payer, "hello", number=1)
    for days_ago, cost in ((0, 0.5), (2, 0.25), (40, 3)):
        spent = Usage(payer, UsagePurpose.TURN, "m", 1_000, 200, 0, cost, f"p{days_ago}", now_ms - days_ago * DAY_MS)
        await dashboard.store.sessions.charge([spent], session_id=session.id)
    await page.goto("/usage")
    await page.get_by_role("searchbox", name="User").fill(str(payer))
    await page.keyboard.press("Enter")
    by_user = page.get_by_role("table", name="By user").locator("tbody tr")
    await expect(by_user.get_by_role("cell")).to_have_text(["$0.75", "2,400", "2", "2"])
    await expect(page.locator("#cost-plot g")).to_have_count(30)
    await reads_well(page)
    await page.get_by_label("Last").select_option("90 days")
    await page.get_by_role("button", name="Show").click()
    await expect(page.locator("#totals")).to_contain_text("$3.75")
