"""The operator's other pages in a real browser: sessions, the queue, what was spent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from redis import Redis

from gateway.bus.embedded import EmbeddedValkey
from gateway.contracts.budgets import DAY_MS
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import ModelFault, ModelTrouble
from gateway.contracts.sessions import Usage, UsagePurpose
from tests.contract.store_samples import ANN, BOB, begin, note, outcome, reply, says, talk
from tests.contract.subtask_samples import conversation, opened, said, started
from tests.parts.browsing import CONTRAST, DESK, PHONE, browser
from tests.parts.desks import LOGIN, Office, office
from tests.parts.operator_api import bury

__all__ = ["browser"]

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORDS = "main :is(h1, h2, th, td, dt, dd, a, label, button:enabled, .status, .type, .faint, .speaker)"
WORST_CONTRAST = f"""words => Math.min(...words
    .filter(word => word.checkVisibility() && word.textContent.trim()).map({CONTRAST}))"""
READABLE = 4.5  # text against what is behind it, by the WCAG's rule for small letters


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(
    valkey_server: EmbeddedValkey, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Office]:
    """Served for all tests of the module."""
    async with office(valkey_server, sqlite_template, tmp_path_factory.mktemp("dashboard")) as served:
        yield served


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, desk: Office) -> AsyncIterator[Page]:
    """A window of somebody who knows the password. Anything that it complains of on its console fails the test, but
    that it was refused what cannot be, or told that not all is ready."""
    complaints: list[str] = []
    context = await browser.new_context(http_credentials=LOGIN, viewport=DESK, base_url=desk.url)
    page = await context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield page
    await context.close()
    assert [each for each in complaints if "Failed to load resource" not in each] == []


async def reads_well(page: Page) -> None:
    """Nothing is wider than a phone, and every word stands out by day and by night."""
    await page.set_viewport_size(PHONE)
    assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert await page.locator(WORDS).evaluate_all(WORST_CONTRAST) >= READABLE, scheme
    await page.set_viewport_size(DESK)


@pytest.mark.long
async def test_a_session_is_found_and_opens_with_its_sub_agents_and_all_that_was_said(page: Page, desk: Office) -> None:
    """The newest messages first, those before them when asked for; what comes is there without a reload."""
    attack = "<img src=x onerror=\"document.title='owned'\">"
    session = await conversation(desk.store)
    for number in range(2, 32):
        await talk(desk.store, ANN, attack if number == 31 else f"question {number}", number=number)
    await talk(desk.store, BOB, "hello", number=1)
    parent, _ = await opened(desk.store, session, "k1", "k2")
    await opened(desk.store, parent, "k1x")
    await started(desk.store, "k1")

    await page.goto("/")
    await expect(page).to_have_title("Sessions · Trivet")
    rows = page.get_by_role("table", name="Sessions").get_by_role("row")
    await expect(rows).to_have_count(3)
    await page.get_by_label("Session key").fill("nonsense")
    await page.keyboard.press("Enter")
    await expect(page.locator("#empty")).to_contain_text("“nonsense” is no session key")
    await page.get_by_label("Session key").fill(str(ANN))
    await page.get_by_role("button", name="Find").click()
    await expect(rows).to_have_count(2)
    await expect(rows.last).to_contain_text("⤷ 2 sub-agents")
    cells = await rows.last.get_by_role("cell").all_text_contents()
    assert cells[:-1] == ["telegram", str(ANN), "active", "62", "0", "$0"]
    await reads_well(page)

    await rows.last.get_by_role("link").press("Enter")
    spoken = page.locator("#said li")
    await expect(spoken).to_have_count(50)
    await expect(spoken.nth(-2)).to_contain_text(attack)
    await expect(page.locator("#family li .word")).to_have_text(["running", "waits", "waits"])
    await expect(page.locator("#family li").nth(1)).to_contain_text("sub-agent of label of k1")
    await page.get_by_role("button", name="Earlier messages").click()
    await expect(spoken).to_have_count(62)
    await expect(page.get_by_role("button", name="Earlier messages")).to_be_hidden()
    await expect(spoken.first).to_contain_text("split this up")
    await talk(desk.store, ANN, "one more", number=32)
    await expect(spoken).to_have_count(64)
    await reads_well(page)

    await desk.store.tasks.record("k1x", entries=[said("I look.")], usage=())
    await page.get_by_role("link", name="label of k1x").click()
    await expect(page.locator("#said li .words")).to_have_text(["I look."])
    await expect(page.locator("#parent")).to_have_text("⤷ Sub-agent of label of k1")
    await page.goto("/session?id=none")
    await expect(page.get_by_text("There is no such conversation")).to_be_visible()


async def test_what_the_gateway_told_the_model_is_nobodys_message(page: Page, desk: Office) -> None:
    key = SessionKey("telegram", "4")
    messages = [says(key, "what time is it?", id_="m4")]
    start = await begin(desk.store, "t4", messages)
    done = outcome(start, "t4", messages)
    told = (note("<now>\n12:00\n</now>"), note("<tool-failures>\nclock\n</tool-failures>"))
    await desk.store.turns.commit(replace(done, entries=(*told, *done.entries)))
    await page.goto(f"/session?id={start.session.id}")
    await expect(page.locator("#said .speaker")).to_have_text(["User", "Note", "Note", "Agent"])


async def test_a_dead_letter_is_tried_again_or_dropped_by_whoever_means_it(page: Page, desk: Office) -> None:
    """What waits and for how long stands above, and the newest replies below."""
    for number in (1, 2):
        await bury(desk.bus, replace(says(BOB, f"poison {number}", id_=f"slack:T1:{number}"), received_at_ms=1))
    await desk.bus.operator.report_models({"openai/x": ModelTrouble("openai/x", "openai", ModelFault.KEY, 1)})
    await page.goto("/queue")
    await expect(page.get_by_role("status").first).to_have_text("Looking every 3 seconds")
    letters = page.get_by_role("table", name="Dead letters").get_by_role("row")
    await expect(letters).to_have_count(3)
    await expect(page.locator("#figures .dead")).to_have_text("2")
    await expect(page.locator("#ready")).to_have_text("not ready")
    await expect(page.locator("#reasons")).to_contain_text("telegram: no report")
    await expect(page.locator("#models")).to_contain_text("openai/x: openai does not accept its key")
    await expect(page.locator("#depth-plot svg")).to_be_visible()
    await expect(page.locator("#depth-plot-words")).to_contain_text("now 0, at most 0")
    await reads_well(page)

    sure = page.get_by_role("dialog")
    await letters.filter(has_text="poison 1").get_by_role("button", name="Try again").click()
    await expect(sure).to_contain_text("poison 1")
    await page.keyboard.press("Escape")
    await expect(sure).to_be_hidden()
    assert len(await desk.bus.operator.dead_letters(9)) == 2
    await letters.filter(has_text="poison 1").get_by_role("button", name="Try again").press("Enter")
    await sure.get_by_role("button", name="Yes").click()
    await expect(page.locator("#told")).to_have_text("The message is back on its lane.")
    await expect(letters).to_have_count(2)
    await expect(page.locator("#figures .queued")).to_have_text("1")
    await letters.last.get_by_role("button", name="Drop").click()
    await sure.get_by_role("button", name="Yes").click()
    await expect(page.get_by_text("Nothing was given up.")).to_be_visible()
    assert await desk.bus.operator.dead_letters(9) == []
    assert (await desk.bus.lanes.depth(BOB))[0] == 1


async def test_what_waited_before_the_page_was_opened_is_drawn_at_once(
    page: Page, desk: Office, valkey_server: EmbeddedValkey
) -> None:
    with Redis.from_url(valkey_server.url, protocol=2) as redis:
        seconds, _ = redis.time()
        for age_s, queued in ((480, 2), (240, 7)):
            redis.xadd("{q0}:queued", {"queued": queued, "oldest_ms": 9000}, id=f"{(seconds - age_s) * 1000}-0")
    await page.goto("/queue")
    await expect(page.locator("#depth-plot-words")).to_contain_text(", at most 7 in 8 min")
    await expect(page.locator("#age-plot-words")).to_contain_text(", at most 9 s in 8 min")
    await expect(page.locator("#depth-plot .scale").get_by_text("10 min ago", exact=True)).to_be_visible()
    points = await page.locator("#depth-plot .line").get_attribute("points")
    assert points is not None
    across = [float(point.partition(",")[0]) for point in points.split()]
    width = await page.locator("#depth-plot").evaluate("place => place.clientWidth")
    assert len(across) == 3
    assert across[0] < across[1] < across[2] == width - 2


async def test_a_message_is_followed_by_what_its_author_was_told_to_quote(page: Page, desk: Office) -> None:
    poison = says(ANN, "poison", id_="telegram:bot:1:77")
    sorry = reply(ANN, "sorry (Reference K7QX2M)", id_="t77:dead", turn_id="t77")
    assert await desk.store.turns.give_up(
        turn_id="t77",
        message=poison,
        reply=sorry,
        note=sorry.text,
        reference="K7QX2M",
        letter_id="5-0",
        now_ms=desk.clock.now_ms(),
    )
    await page.goto("/queue")
    hops = page.get_by_role("table", name="What became of a message").locator("tbody tr")
    for quoted in (" k7qx2m", poison.id):
        await page.get_by_label("Reference or id").fill(quoted)
        await page.get_by_role("button", name="Find").click()
        await expect(hops.locator(".name")).to_have_text(["reply committed", "given up"])
        await expect(hops.last.locator(".detail")).to_have_text(f"{poison.id}, error K7QX2M")
    await reads_well(page)
    await page.get_by_label("Reference or id").fill("<b>nobody/..")
    await page.get_by_label("Reference or id").press("Enter")
    await expect(page.get_by_text("Nothing is known of <b>nobody/...")).to_be_visible()
    await expect(hops).to_have_count(0)


@pytest.mark.long
async def test_what_was_spent_stands_by_user_and_by_day_and_of_one_user_alone(page: Page, desk: Office) -> None:
    now_ms = desk.clock.now_ms()
    for number, (key, days_ago, cost) in enumerate(((ANN, 0, 0.5), (ANN, 2, 0.25), (BOB, 0, 0.125), (BOB, 40, 3)), 90):
        session = await talk(desk.store, key, "hello", number=number)
        spent = Usage(key, UsagePurpose.TURN, "m", 1_000, 200, 0, cost, f"t{number}", now_ms - days_ago * DAY_MS)
        await desk.store.sessions.charge([spent], session_id=session.id)
    await page.goto("/usage")
    by_user = page.get_by_role("table", name="By user").locator("tbody tr")
    by_day = page.get_by_role("table", name="By day").locator("tbody tr")
    await expect(by_user).to_have_count(2)
    await expect(by_user.first.get_by_role("cell")).to_have_text(["$0.75", "2,400", "2", "2"])
    await expect(by_day.get_by_role("cell").nth(0)).to_have_text("$0.63")
    await expect(page.locator("#cost-plot g")).to_have_count(30)
    plot = page.locator("#cost-plot")
    width = await plot.evaluate("place => place.clientWidth")
    await expect(plot.locator("svg")).to_have_attribute("width", str(width))
    await expect(page.locator("#cost-plot g").last.locator("title")).to_contain_text("$0.63")
    await reads_well(page)

    await page.get_by_label("Last").select_option("90 days")
    await expect(page.locator("#totals .cost")).to_have_text("$3.88")
    await by_user.get_by_role("button", name=str(BOB)).click()
    await expect(page.get_by_role("status").last).to_have_text(f"Only {BOB}.")
    await expect(by_user).to_have_count(1)
    await expect(page.locator("#totals .cost")).to_have_text("$3.13")
    await page.reload()
    await expect(page.locator("#totals .cost")).to_have_text("$3.13")
    await page.get_by_role("button", name="Show all users").click()
    await expect(by_user).to_have_count(2)
