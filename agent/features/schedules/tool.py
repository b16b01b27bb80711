"""Reminders and scheduled tasks, for the model.

It is a tool that reads, as `todo_write` and `remember` are: it changes nothing but what belongs to the person who
asked, who sees it with /remind and can take it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agent.features.schedules.service import Requester, ScheduleService
from agent.features.schedules.texts import created_text, list_text
from agent.features.schedules.times import Unclear
from agent.limits import SCHEDULE_TEXT_CHARS_MAX
from agent.model.client import ToolSpec
from agent.tools.permissions import Place, Risk
from agent.tools.tool import Tool, ToolContext
from gateway.contracts.errors import ToolError
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import own_words
from gateway.contracts.schedules import ScheduleKind
from gateway.words import ENGLISH

_SCHEDULE: Final = ToolSpec(
    "schedule",
    "Reminders and tasks for later, in this user's time zone. `create` needs `when` and `text`; `when` is a time "
    "alone, in English: “in 30 minutes”, “tomorrow at 8:00”, “2026-12-24 10:00”, “every day at 9:30”, “every Monday "
    "18:00”, “every 2 hours” or “cron 30 9 * * 1-5”. A reminder's text is delivered as it is; the text of a task is "
    "a prompt that you will be given then, with nobody present to ask. Always tell the user the time that the "
    "result names.",
    {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["create", "list", "cancel"]},
            "kind": {"type": "string", "enum": [ScheduleKind.REMINDER.value, ScheduleKind.TASK.value]},
            "when": {"type": "string", "minLength": 1, "maxLength": 200},
            "text": {"type": "string", "minLength": 1, "maxLength": SCHEDULE_TEXT_CHARS_MAX},
            "number": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
        },
        "required": ["action"],
    },
)


def schedule_tools(service: ScheduleService) -> tuple[Tool, ...]:
    """`schedule`, at the same service as /remind."""

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        match arguments["action"]:
            case "create":
                return await _create(service, context, arguments)
            case "cancel":
                return await _cancel(service, context, arguments)
            case _:
                zone, is_zone_known = await service.zone(context.owner)
                found = await service.active(context.owner, place=_seen_from(context))
                return list_text(found, zone, ENGLISH, is_zone_known=is_zone_known)

    def keeps(arguments: Mapping[str, Any]) -> bool:
        return bool(arguments["action"] != "list")

    return (Tool(_SCHEDULE, "tasks", Risk.READ, run, locks=lambda _arguments: ("schedule",), keeps=keeps),)


async def _create(service: ScheduleService, context: ToolContext, arguments: Mapping[str, Any]) -> str:
    if context.address is None:
        raise ToolError("a turn with nobody present schedules nothing: tell the user what you would schedule")
    if "when" not in arguments or "text" not in arguments:
        raise ToolError("create needs `when` and `text`")
    asked_by = context.asked_by or context.owner
    requester = Requester(
        key=context.key,
        address=context.address,
        author_id=asked_by.user,
        author_name=own_words(""),
        is_private=context.place is Place.DM,
        role=context.role,
        cause=context.turn_id,
        place=context.place_ids,
    )
    kind = ScheduleKind(arguments.get("kind", ScheduleKind.REMINDER.value))
    try:
        schedule = await service.order(requester, kind, arguments["when"], arguments["text"])
    except Unclear as problem:
        raise ToolError(f"nothing was scheduled: {problem}") from problem
    _, is_zone_known = await service.zone(context.owner)
    return created_text(schedule, ENGLISH, is_zone_known=is_zone_known)


async def _cancel(service: ScheduleService, context: ToolContext, arguments: Mapping[str, Any]) -> str:
    if "number" not in arguments:
        raise ToolError("cancel needs the `number` that list shows")
    cancelled = await service.cancel(context.owner, arguments["number"], place=_seen_from(context))
    if cancelled is None:
        raise ToolError("nothing is scheduled under that number")
    return f"Cancelled: {cancelled.text}"


def _seen_from(context: ToolContext) -> ReplyAddress | None:
    """The place whose people read what this turn says; None in a direct message. Raises `ToolError` for a turn in a
    group with nobody present, which does not know where it is."""
    if context.place is Place.DM:
        return None
    if context.address is None:
        raise ToolError("a turn in a group with nobody present does not see what is scheduled")
    return context.address
