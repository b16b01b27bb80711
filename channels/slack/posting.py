"""Messages of ours in a workspace: posted, changed, and no longer growing."""

from __future__ import annotations

from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from channels.raw import text
from channels.slack.address import SlackTarget
from channels.slack.blocks import blocks_of
from channels.slack.errors import (
    ALREADY_DELETED,
    CANNOT_BE_CHANGED,
    CANNOT_BE_DELETED,
    STILL_STREAMING,
    api_word,
    delivery_error,
    is_about_streams,
)
from channels.slack.lookup import client_msg_id, metadata_of
from channels.slack.render import SlackChunk
from gateway.contracts.errors import OutcomeUnknown


async def post(client: AsyncWebClient, target: SlackTarget, chunk: SlackChunk, *, send_id: str, plain: bool) -> str:
    """Say it; the `ts`. Our id goes along, by which a look-up knows it. Raises the `DeliveryError` tree."""
    try:
        posted = await client.chat_postMessage(
            channel=target.channel,
            thread_ts=target.thread_ts,
            text=chunk.plain if plain else chunk.text,
            blocks=blocks_of(chunk, plain=plain) or None,
            mrkdwn=not plain,
            unfurl_links=False,
            unfurl_media=False,
            metadata=metadata_of(send_id),
            client_msg_id=client_msg_id(send_id),
        )
    except Exception as error:
        raise delivery_error(error) from error
    return ts_of(posted)


def ts_of(answer: AsyncSlackResponse) -> str:
    """The name of what was posted. Raises `OutcomeUnknown` where Slack says that all is well, and does not tell it."""
    ts = text(answer.get("ts"))
    if not ts:
        raise OutcomeUnknown("Slack does not say what it has posted")
    return ts


async def change(client: AsyncWebClient, target: SlackTarget, chunk: SlackChunk, *, ts: str, plain: bool) -> bool:
    """Put the chunk in the place of all that a message of ours shows; its metadata stay. False: it is gone. Raises the
    `DeliveryError` tree."""
    for may_stream in (True, False):
        try:
            await client.chat_update(
                channel=target.channel,
                ts=ts,
                text=chunk.plain if plain else chunk.text,
                blocks=blocks_of(chunk, plain=plain),
            )
        except Exception as error:
            word = api_word(error)
            if word in CANNOT_BE_CHANGED:
                return False
            if word not in STILL_STREAMING or not may_stream:
                raise delivery_error(error) from error
        else:
            return True
        await stop_stream(client, target, ts=ts)
    return True


async def take_back(client: AsyncWebClient, target: SlackTarget, *, ts: str) -> bool:
    """Delete a message of ours; one that is gone is deleted. False: it is none of ours, or not to be deleted. Raises
    the `DeliveryError` tree."""
    if target.thread_ts:
        await stop_stream(client, target, ts=ts)
    try:
        await client.chat_delete(channel=target.channel, ts=ts)
    except Exception as error:
        word = api_word(error)
        if word in ALREADY_DELETED or word in CANNOT_BE_DELETED:
            return word in ALREADY_DELETED
        raise delivery_error(error) from error
    return True


async def stop_stream(client: AsyncWebClient, target: SlackTarget, *, ts: str, send_id: str = "") -> None:
    """End a stream, whoever began it; what is none, or none any more, is left as it is. Raises the `DeliveryError`
    tree."""
    metadata = metadata_of(send_id) if send_id else None
    try:
        await client.chat_stopStream(channel=target.channel, ts=ts, metadata=metadata)
    except Exception as error:
        if not is_about_streams(error):
            raise delivery_error(error) from error
