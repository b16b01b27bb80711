"""getUpdates, webhooks, and answers to button presses."""

from __future__ import annotations

from typing import Final

from channels.emulators.telegram.backstage import Backstage
from channels.emulators.telegram.call import Call
from channels.emulators.telegram.errors import bad_request, conflict
from channels.emulators.telegram.methods.method import Method
from channels.emulators.telegram.people import Json
from channels.emulators.telegram.updates import BATCH_MAX
from channels.emulators.telegram.webhook import CONNECTIONS_MAX, checked_hook

CALLBACK_ANSWER_S: Final = 30.0
CALLBACK_TEXT_MAX: Final = 200
_NEW_KINDS: Final = ("stopped_message_generation",)


async def get_updates(backstage: Backstage, call: Call) -> list[Json]:
    if backstage.webhook.hook is not None:
        raise conflict(
            "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
        )
    if backstage.take("conflict"):
        raise conflict("terminated by other getUpdates request; make sure that only one bot instance is running")
    _allow(backstage, call)
    limit = call.number("limit", BATCH_MAX)
    return await backstage.updates.poll(
        offset=call.number("offset"),
        limit=limit if 1 <= limit <= BATCH_MAX else BATCH_MAX,
        timeout_s=0 if backstage.switch("hasty_polls") else max(0, call.number("timeout")),
        is_guarded=bool(backstage.switch("loop_guard")),
    )


async def set_webhook(backstage: Backstage, call: Call) -> bool:
    if not call.text("url"):
        return await delete_webhook(backstage, call)
    hook = checked_hook(call.text("url"), call.text("secret_token"), call.number("max_connections", CONNECTIONS_MAX))
    _allow(backstage, call)
    if call.flag("drop_pending_updates"):
        backstage.updates.clear()
    backstage.updates.end_polls(conflict("terminated by setWebhook request"))
    backstage.webhook.set(hook)
    return True


async def delete_webhook(backstage: Backstage, call: Call) -> bool:
    if call.flag("drop_pending_updates"):
        backstage.updates.clear()
    backstage.webhook.delete()
    return True


async def get_webhook_info(backstage: Backstage, call: Call) -> Json:
    return backstage.webhook.as_json()


async def answer_callback_query(backstage: Backstage, call: Call) -> bool:
    query_id, text = call.text("callback_query_id"), call.text("text")
    press = backstage.callbacks.get(query_id)
    if press is None or backstage.world.now() - press.at_s > CALLBACK_ANSWER_S:
        raise bad_request("query is too old and response timeout expired or query ID is invalid")
    if len(text) > CALLBACK_TEXT_MAX:
        raise bad_request("MESSAGE_TOO_LONG")
    press.is_answered = True
    if text:
        backstage.show_toast(press, text)
    return True


def _allow(backstage: Backstage, call: Call) -> None:
    rows = call.rows("allowed_updates")
    if rows is not None:
        known = rows if not backstage.switch("before_10_3") else [each for each in rows if each not in _NEW_KINDS]
        backstage.updates.allow([str(each) for each in known])


METHODS: Final = (
    Method("getUpdates", get_updates),
    Method("setWebhook", set_webhook),
    Method("deleteWebhook", delete_webhook),
    Method("getWebhookInfo", get_webhook_info),
    Method("answerCallbackQuery", answer_callback_query),
)
