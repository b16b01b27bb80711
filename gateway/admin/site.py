"""The operator's pages: templates and static files, nothing built, nothing from elsewhere.

The browser asks for a name and a password; the password is the admin token.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fastapi import APIRouter, FastAPI, HTTPException
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette import status

_PAGES: Final = Path(__file__).parent / "pages"
_MEDIA_TYPES: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_FILE_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}


def site(app: FastAPI) -> APIRouter:
    """The pages, and what they are made of."""
    router = APIRouter(include_in_schema=False)
    pages = Environment(loader=FileSystemLoader(_PAGES), autoescape=True, undefined=StrictUndefined)
    files = _static_files()

    def shown(page: str, *, under: str = "", **said: object) -> HTMLResponse:
        """`under`: the page in the navigation that it belongs to, if it is not there itself."""
        text = pages.get_template(f"{page}.html").render(version=app.version, page=under or page, **said)
        return HTMLResponse(text, headers=_PAGE_HEADERS)

    @router.get("/")
    async def first() -> RedirectResponse:
        return RedirectResponse("/sessions")

    @router.get("/sessions")
    async def sessions() -> HTMLResponse:
        return shown("sessions")

    @router.get("/session")
    async def session() -> HTMLResponse:
        """Which one stands in the query: a browser gives its password to what lies beside a page that asked for it,
        not to what lies above, and the API would be above /sessions/{id}."""
        return shown("session", under="sessions")

    @router.get("/tasks")
    async def tasks() -> HTMLResponse:
        return shown("tasks")

    @router.get("/queue")
    async def queue() -> HTMLResponse:
        return shown("queue")

    @router.get("/usage")
    async def usage() -> HTMLResponse:
        return shown("usage")

    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        if name not in files:
            raise HTTPException(status.HTTP_404_NOT_FOUND, "there is no such file")
        return Response(files[name], media_type=_MEDIA_TYPES[Path(name).suffix], headers=_FILE_HEADERS)

    @router.get("/api/openapi.json")
    async def openapi() -> JSONResponse:
        return JSONResponse(app.openapi())

    @router.get("/api/docs")
    async def docs() -> HTMLResponse:
        return shown("docs", api=app.openapi())

    return router


def _static_files() -> Mapping[str, bytes]:
    """By name. They are few and small, and nobody can ask for any other."""
    return {path.name: path.read_bytes() for path in (_PAGES / "static").iterdir() if path.suffix in _MEDIA_TYPES}
