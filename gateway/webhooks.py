"""Events for the operator's webhooks: who is told of them, and what each call says.

An event is a reply like any other, to a channel of its own: it is committed with what it tells of, lies in the outbox
until it has arrived, and is sent again with the same id whichever process dies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from gateway.config.features import Webhook, WebhookEvent
from gateway.contracts.ids import EVENTS, ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText, Reply, ReplyKind, clipped
from gateway.limits import WEBHOOK_TEXT_CHARS_MAX


class WebhookEvents:
    """Makes the replies that tell webhooks of events."""

    def __init__(self, webhooks: Sequence[Webhook] = ()) -> None:
        self._webhooks = webhooks

    def tell(
        self, event: WebhookEvent, subject: str, key: SessionKey, text: CleanText, *, at_ms: int, turn_id: str = ""
    ) -> tuple[Reply, ...]:
        """Return a reply for each webhook that is told of such events. `key` is whom it is about; `subject` is what
        happened to, and makes the id together with the event, so that to say it again says nothing twice. To be
        committed before it is published."""
        return tuple(
            Reply(
                id=(reply_id := f"{event}:{subject}:{webhook.called}"),
                turn_id=turn_id,
                key=key,
                # A lane of its own: an event that a receiver does not take holds up no other.
                address=ReplyAddress(EVENTS, reply_id, _target(webhook, reply_id, event, key, at_ms, turn_id)),
                text=clipped(text, WEBHOOK_TEXT_CHARS_MAX),
                kind=ReplyKind.NOTICE,
                created_at_ms=at_ms,
            )
            for webhook in self._webhooks
            if event in webhook.events
        )


NOBODY_TOLD: Final = WebhookEvents()


def _target(webhook: Webhook, reply_id: str, event: WebhookEvent, key: SessionKey, at_ms: int, turn_id: str) -> str:
    """Write to which webhook an event goes, and what is said of it besides the words."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    said = {"id": reply_id, "type": event.value, "at": at, "key": str(key), "turn_id": turn_id}
    return json.dumps({"webhook": webhook.called, "event": said}, sort_keys=True, separators=(",", ":"))
