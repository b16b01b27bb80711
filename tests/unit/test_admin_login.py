"""Who may use the operator's port in a browser: the login, its cookie, and the token of each form."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.bus.bus import RedisBus
from gateway.limits import SIGN_IN_S
from gateway.ops.admin.http import AdminToken
from gateway.store import Store
from tests.doubles import ManualClock
from tests.parts.operator_api import TOKEN, app_of, client_of, signed_in

OURS = {"Sec-Fetch-Site": "same-origin"}
ACTS = (("DELETE", "/api/v1/dead-letters/0-0"), ("POST", "/api/v1/dead-letters/0-0/retry"))
READS = ("/api/v1/tasks", "/api/v1/sessions", "/api/v1/people", "/api/v1/overview", "/api/v1/audit", "/metrics")
PAGES = ("/", "/sessions", "/session?id=x", "/people", "/person?key=telegram:1", "/queue", "/trace?id=x", "/tasks")


@pytest.fixture
async def browser(sqlite_store: Store, bus: RedisBus) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who has not signed in."""
    async with client_of(app_of(sqlite_store, bus)) as client:
        client.headers.pop("Authorization")
        yield client


async def test_who_is_not_signed_in_is_sent_to_the_form_and_back_again(browser: httpx.AsyncClient) -> None:
    sent = await browser.get("/person?key=telegram:1")
    assert (sent.status_code, sent.headers["location"]) == (303, "/login?next=%2Fperson%3Fkey%3Dtelegram%3A1")
    form = await browser.get(sent.headers["location"])
    assert 'value="/person?key=telegram:1"' in form.text
    said = {"token": f" {TOKEN} ", "next": "/person?key=telegram:1"}
    answer = await browser.post("/login", data=said, headers=OURS)
    assert (answer.status_code, answer.headers["location"]) == (303, "/person?key=telegram:1")


@pytest.mark.parametrize("wanted", ["https://evil.example", "//evil.example", "/\\evil.example", ""])
async def test_the_form_leads_to_no_other_site(browser: httpx.AsyncClient, wanted: str) -> None:
    answer = await browser.post("/login", data={"token": TOKEN, "next": wanted}, headers=OURS)
    assert answer.headers["location"] == "/"


async def test_a_wrong_token_gets_no_cookie_and_is_told_so(browser: httpx.AsyncClient) -> None:
    answer = await browser.post("/login", data={"token": "wrong"}, headers=OURS)
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
    assert "That is not the admin token." in answer.text


@pytest.mark.parametrize(
    "headers", [{}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil"}, {"Origin": "http://["}]
)
async def test_nobody_signs_others_in_from_elsewhere(browser: httpx.AsyncClient, headers: dict[str, str]) -> None:
    assert (await browser.post("/login", data={"token": TOKEN}, headers=headers)).status_code == 403


async def test_the_cookie_is_for_this_site_alone_and_no_script_reads_it(browser: httpx.AsyncClient) -> None:
    _, cookie = await signed_in(browser)
    parts = {part.strip().lower() for part in cookie.split(";")}
    assert {"httponly", "samesite=strict", f"max-age={SIGN_IN_S}", "path=/"} <= parts
    assert TOKEN not in cookie


@pytest.mark.parametrize("headers", [OURS, {"Referer": "http://admin/tasks"}])
async def test_our_pages_may_read(browser: httpx.AsyncClient, headers: dict[str, str]) -> None:
    await signed_in(browser)
    for path in READS:
        assert (await browser.get(path, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Referer": "http://admin/tasks"},
        {"Referer": "http://evil/tasks"},
        {"Referer": "http://evil/http://admin/"},
    ],
)
async def test_nobody_else_reads_on_their_behalf(browser: httpx.AsyncClient, headers: dict[str, str]) -> None:
    await signed_in(browser)
    for path in READS:
        answer = await browser.get(path, headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"][:6]) == (401, "Bearer")


@pytest.mark.parametrize("headers", [OURS, {"Origin": "http://admin"}])
async def test_a_form_of_ours_may_change_something(browser: httpx.AsyncClient, headers: dict[str, str]) -> None:
    """404: there is no such letter, which only they hear who may ask."""
    form_token, _ = await signed_in(browser)
    for method, path in ACTS:
        answer = await browser.request(method, path, headers=headers | {"Trivet-Form-Token": form_token})
        assert answer.status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://admin"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://evil"},
        {"Origin": "null"},
        {"Referer": "http://admin/queue"},
        {},
    ],
)
async def test_a_form_token_from_elsewhere_changes_nothing(browser: httpx.AsyncClient, headers: dict[str, str]) -> None:
    form_token, _ = await signed_in(browser)
    for method, path in ACTS:
        answer = await browser.request(method, path, headers=headers | {"Trivet-Form-Token": form_token})
        assert answer.status_code == 401


async def test_each_sign_in_has_its_own_form_token(browser: httpx.AsyncClient) -> None:
    earlier, _ = await signed_in(browser)
    browser.cookies.clear()
    await signed_in(browser)
    answer = await browser.request(*ACTS[0], headers=OURS | {"Trivet-Form-Token": earlier})
    assert answer.status_code == 401


async def test_who_signs_out_is_out(browser: httpx.AsyncClient) -> None:
    form_token, _ = await signed_in(browser)
    assert (await browser.post("/logout", headers=OURS)).status_code == 401
    assert (await browser.post("/logout", headers=OURS | {"Trivet-Form-Token": form_token})).status_code == 204
    assert not browser.cookies
    assert (await browser.get("/")).status_code == 303


def test_a_cookie_ends_in_time_and_with_the_token() -> None:
    clock = ManualClock(at_ms=20_000)
    door, other = AdminToken(TOKEN, clock), AdminToken("another token", clock)
    session = door.new_session()
    assert door.is_signed(session)
    assert not other.is_signed(session)
    assert not door.is_signed(session.replace(session[0], "9", 1))
    assert not any(map(door.is_signed, ("", ".", "..", f"{session}0", "9.x.é")))
    clock.at_ms += SIGN_IN_S * 1000
    assert not door.is_signed(session)


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_loads_nothing_from_elsewhere_and_lies_in_no_frame(browser: httpx.AsyncClient, path: str) -> None:
    await signed_in(browser)
    page = await browser.get(path)
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["referrer-policy"] == "same-origin"
    assert page.headers["cache-control"] == "no-store"
    assert " style=" not in page.text
    assert (await browser.get("/static/..%2fshell.html")).status_code == 404
