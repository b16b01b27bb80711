"""What the API's documentation says is what the API does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.bus.bus import RedisBus
from gateway.ops.admin.http import Malformed, Refusal
from gateway.ops.admin.views import ApiView
from gateway.store import Store
from tests.parts.operator_api import app_of, client_of

ROOT = Path(__file__).parents[2]
OPEN = {"/healthz", "/readyz"}
HOSTILE = ("none", "telegram:1", "a%00b", "%2e%2e", "\N{SNOWMAN}", "x" * 3_000)
QUERIES: tuple[dict[str, str], ...] = (
    {},
    {"limit": "0"},
    {"limit": "x", "state": "asleep"},
    {"key": "nobody"},
    {"offset": "-1", "below": "0"},
)


def routes(documented: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in documented["paths"].items():
        for method, route in methods.items():
            yield method, path, route


@pytest.fixture
def documented(sqlite_store: Store, bus: RedisBus) -> dict[str, Any]:
    return app_of(sqlite_store, bus).openapi()


def test_every_action_of_the_dashboard_is_pressed_in_a_browser_by_a_test() -> None:
    pages = (ROOT / "gateway/ops/admin/pages").glob("*.html")
    offered = {label for page in pages for label in re.findall(r'\bact\("([^"]+)"', page.read_text("utf-8"))}
    pressed = (ROOT / "tests/e2e/test_dashboard_actions.py").read_text("utf-8")
    assert len(offered) > 20
    assert [label for label in offered if f'name="{label}"' not in pressed] == []


def test_every_route_but_health_asks_for_the_token_and_says_so(documented: dict[str, Any]) -> None:
    for _, path, route in routes(documented):
        assert ("security" in route, "401" in route["responses"]) == ((path not in OPEN,) * 2), path
        for shape in route["responses"]["422"].get("content", {}).values():
            assert shape["schema"]["$ref"].endswith("/Malformed")


def test_a_value_is_documented_by_the_names_that_it_is_answered_with(documented: dict[str, Any]) -> None:
    shown = {view.__name__: set(view.model_fields) for view in ApiView.__subclasses__()}
    schemas = documented["components"]["schemas"]
    assert {name: set(schemas[name]["properties"]) for name in shown} == shown


async def test_whatever_is_asked_the_answer_is_one_that_is_documented(
    documented: dict[str, Any], sqlite_store: Store, bus: RedisBus
) -> None:
    """Nothing that cannot be is the server's fault, and every refusal has its documented shape."""
    async with client_of(app_of(sqlite_store, bus)) as client:
        for method, path, route in routes(documented):
            if method == "put" or path in {*OPEN, "/metrics", "/api/v1/tasks/events"}:
                continue
            (name,) = [each["name"] for each in route.get("parameters", ()) if each["in"] == "path"] or [""]
            named: list[tuple[str, dict[str, str]]] = [(each, {}) for each in HOSTILE] if name else []
            for asked_for, query in (*named, *(("none", each) for each in QUERIES)):
                answer = await client.request(method, path.replace(f"{{{name}}}", asked_for), params=query)
                asked = (method, answer.url.raw_path[:90], answer.status_code, answer.text[:200])
                assert str(answer.status_code) in route["responses"], asked
                assert answer.status_code < 500, asked
                if answer.status_code == 422:
                    Malformed.model_validate_json(answer.text)
                elif answer.is_error:
                    Refusal.model_validate_json(answer.text)
