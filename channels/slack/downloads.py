"""Files that people sent on Slack: `files.info` says where one is, and the bot token opens it.

A token that may not read a file is sent to a page to log in at, or gets that page with status 200: so what came is
compared with what was promised. The token goes to Slack's own hosts and to nobody else.
"""

from __future__ import annotations

from typing import Any, Final

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from channels.inbound.downloading import (
    ELSEWHERE,
    GONE,
    NOT_FOR_US,
    SOMETHING_ELSE,
    Downloaded,
    belongs_to,
    download,
    is_on,
)
from channels.raw import Raw, integer, mapping, target_fields, text
from channels.slack.errors import api_word
from gateway.contracts.errors import FileRefused
from gateway.contracts.ports import FetchedFile
from gateway.words import sentence

NO_SCOPE: Final = sentence("the app lacks the scope files:read")

_HOSTS: Final = ("slack.com", "slack-files.com", "slack-edge.com")
_GONE_MODES: Final = frozenset({"tombstone", "hidden_by_limit"})
_GONE_WORDS: Final = frozenset({"file_not_found", "file_deleted", "invalid_arguments"})
_SCOPE_WORDS: Final = frozenset({"missing_scope", "not_allowed_token_type"})
_FOREIGN_WORDS: Final = frozenset({"access_denied", "no_permission", "team_access_not_granted", "ekm_access_denied"})
_PAGE: Final = "text/html"


async def fetch(
    client: AsyncWebClient, reference: str, *, api_base: str, bytes_max: int, proxy: str = ""
) -> FetchedFile:
    """The file of a reference (`channels.slack.normalize`). Raises `FileRefused`, `SendFailed`, and what the SDK
    raises."""
    file = await _told(client, text(target_fields(reference).get("id")))
    if file.get("mode") in _GONE_MODES:
        raise FileRefused(GONE)
    if file.get("is_external") is True or file.get("mode") == "external":
        raise FileRefused(ELSEWHERE)
    url = text(file.get("url_private_download")) or text(file.get("url_private"))
    if not url:
        raise FileRefused(NOT_FOR_US)
    if not (is_on(url, *_HOSTS) or belongs_to(url, api_base)):
        raise FileRefused(ELSEWHERE)
    token = {"Authorization": f"Bearer {client.token}"}
    try:
        found = await download(url, bytes_max=bytes_max, headers=token, proxy=proxy)
    except FileRefused as refused:
        raise (FileRefused(NO_SCOPE) if str(refused) == ELSEWHERE else refused) from None
    _check(file, found)
    return FetchedFile(text(file.get("name")) or text(file.get("title")), _media_type(file, found), found.content)


async def _told(client: AsyncWebClient, file_id: str) -> Raw:
    """What Slack says of a file now; a message may have named nothing but its id (Slack Connect)."""
    try:
        answer = await client.files_info(file=file_id)
    except SlackApiError as error:
        word = api_word(error)
        if word in _GONE_WORDS:
            raise FileRefused(GONE) from None
        if word in _SCOPE_WORDS:
            raise FileRefused(NO_SCOPE) from None
        if word in _FOREIGN_WORDS:
            raise FileRefused(NOT_FOR_US) from None
        raise
    data: Any = answer.data
    return mapping(mapping(data).get("file"))


def _check(file: Raw, found: Downloaded) -> None:
    """A page in the place of anything else is the one to log in at; so is one in the place of a page of another
    size, or of something of which nothing is known."""
    said, size = text(file.get("mimetype")), integer(file.get("size"))
    if found.media_type != _PAGE or said.startswith("application/vnd.slack"):
        return
    is_promised = size == len(found.content) if size else said == _PAGE
    if said not in ("", _PAGE) or not is_promised:
        raise FileRefused(SOMETHING_ELSE if said == _PAGE else NO_SCOPE)


def _media_type(file: Raw, found: Downloaded) -> str:
    return text(file.get("mimetype")) or found.media_type
