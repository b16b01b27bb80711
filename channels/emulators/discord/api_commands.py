"""REST: the commands that people may run, everywhere or in one guild."""

from __future__ import annotations

from typing import Final

from starlette.responses import JSONResponse, Response

from channels.emulators.discord.api import Call, Route
from channels.emulators.discord.api_messages import NO_CONTENT
from channels.emulators.discord.commands import check_all, registered, without_localizations
from channels.emulators.discord.errors import forbidden, unknown
from channels.emulators.discord.interactions import Interactions
from channels.emulators.discord.world import World
from channels.emulators.traffic import Json

_CREATED: Final = 201
_DISCORDS_OWN: Final = ("id", "application_id", "version", "guild_id")


class CommandsApi:
    def __init__(self, *, world: World, interactions: Interactions, application_id: int) -> None:
        self._world = world
        self._interactions = interactions
        self._application_id = application_id

    def routes(self) -> list[Route]:
        app = "/applications/{application_id}"
        routes = []
        for path in (f"{app}/commands", app + "/guilds/{guild_id}/commands"):
            one = path + "/{command_id}"
            routes += [
                Route("GET", path, self.list_all),
                Route("POST", path, self.add),
                Route("PUT", path, self.replace_all),
                Route("GET", one, self.show),
                Route("PATCH", one, self.edit),
                Route("DELETE", one, self.delete),
            ]
        return routes

    async def list_all(self, call: Call) -> Response:
        known = self._known(self._scope(call))
        if call.query.get("with_localizations", "").lower() in ("1", "true"):
            return JSONResponse(known)
        return JSONResponse([without_localizations(command) for command in known])

    async def replace_all(self, call: Call) -> Response:
        """All at once: what is not in the list is gone; what is keeps its id."""
        scope = self._scope(call)
        commands = [self._kept(body, scope) for body in check_all(call.body_list or [])]
        self._interactions.commands[scope] = commands
        return JSONResponse(commands)

    async def add(self, call: Call) -> Response:
        """A command of a name that exists takes its place, with 200."""
        scope = self._scope(call)
        body = registered(call.body)
        others = [command for command in self._known(scope) if command["name"] != body["name"]]
        status = 200 if len(others) < len(self._known(scope)) else _CREATED
        command = self._kept(body, scope)
        check_all([*others, body])
        self._interactions.commands[scope] = [*others, command]
        return JSONResponse(command, status)

    async def show(self, call: Call) -> Response:
        return JSONResponse(self._one(call))

    async def edit(self, call: Call) -> Response:
        """What the body does not name stays."""
        scope, before = self._scope(call), self._one(call)
        changed = registered(before | call.body) | {name: before[name] for name in _DISCORDS_OWN if name in before}
        changed["version"] = str(self._world.new_id())
        known = [changed if command["id"] == before["id"] else command for command in self._known(scope)]
        self._interactions.commands[scope] = known
        return JSONResponse(changed)

    async def delete(self, call: Call) -> Response:
        scope, gone = self._scope(call), self._one(call)
        self._interactions.commands[scope] = [command for command in self._known(scope) if command["id"] != gone["id"]]
        return Response(status_code=NO_CONTENT)

    def _scope(self, call: Call) -> int | None:
        if call.id("application_id") != self._application_id:
            raise forbidden(50001)
        if "guild_id" not in call.path:
            return None
        if call.id("guild_id") not in self._world.guilds:
            raise forbidden(50001)
        return call.id("guild_id")

    def _known(self, scope: int | None) -> list[Json]:
        return self._interactions.commands.get(scope, [])

    def _one(self, call: Call) -> Json:
        found = [command for command in self._known(self._scope(call)) if command["id"] == call.path["command_id"]]
        if not found:
            raise unknown("application command")
        return found[0]

    def _kept(self, body: Json, scope: int | None) -> Json:
        """A command of that name and type keeps its id, and its version if nothing about it changed."""
        same = (c for c in self._known(scope) if (c["type"], c["name"]) == (body["type"], body["name"]))
        before = next(same, None)
        if before is not None and {key: before[key] for key in before if key not in _DISCORDS_OWN} == body:
            return before
        own: Json = {
            "id": before["id"] if before else str(self._world.new_id()),
            "application_id": str(self._application_id),
            "version": str(self._world.new_id()),
        }
        return own | body | ({} if scope is None else {"guild_id": str(scope)})
