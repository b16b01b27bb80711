"""The settings of what people send along."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from gateway.config.section import Section
from gateway.limits import ATTACHMENT_BYTES_CEILING, ATTACHMENT_BYTES_MAX, ATTACHMENTS_MAX

SHOWN_TOKENS_MAX: Final = 12_000  # some twenty pages; each is paid for again in every round
SHOWN_TOKENS_LEAST: Final = 100
RECEIVING_S: Final = 120.0  # twenty megabytes over a poor line, and an hour of talk to be written down
RECEIVING_S_MAX: Final = 300.0  # half of a turn


class Attachments(Section):
    """Files that people send: how large, how many."""

    file_bytes_max: int = Field(
        default=ATTACHMENT_BYTES_MAX,
        ge=1,
        le=ATTACHMENT_BYTES_CEILING,
        description="Of a document or a video that somebody sends; larger ones are not fetched, and their author is "
        "told. Telegram itself hands out 20 MB, a Bot API server of one's own, run with --local, any size.",
    )
    image_bytes_max: int = Field(
        default=ATTACHMENT_BYTES_MAX, ge=1, le=ATTACHMENT_BYTES_MAX, description="The same for an image."
    )
    audio_bytes_max: int = Field(
        default=ATTACHMENT_BYTES_MAX,
        ge=1,
        le=ATTACHMENT_BYTES_MAX,
        description="The same for a voice message and other audio.",
    )
    text_tokens_max: int = Field(
        default=SHOWN_TOKENS_MAX,
        ge=SHOWN_TOKENS_LEAST,
        description="Tokens that the texts of all files of one turn may take of a prompt; never more than a quarter of "
        "it. The file tools read the rest.",
    )
    timeout_s: float = Field(
        default=RECEIVING_S,
        gt=0,
        le=RECEIVING_S_MAX,
        description="Seconds for fetching and reading all files of one turn. What is not there by then is left out.",
    )
    per_message_max: int = Field(
        default=ATTACHMENTS_MAX,
        ge=0,
        le=ATTACHMENTS_MAX,
        description="Files of one message that are fetched, those of what it quotes included; 0: none.",
    )
