"""The settings of what people send along."""

from __future__ import annotations

from pydantic import Field

from gateway.config.section import Section
from gateway.limits import ATTACHMENT_BYTES_MAX, ATTACHMENTS_MAX


class Attachments(Section):
    """Files that people send: how large, how many."""

    file_bytes_max: int = Field(
        default=ATTACHMENT_BYTES_MAX,
        ge=1,
        le=ATTACHMENT_BYTES_MAX,
        description="Of a document or a video that somebody sends; larger ones are not fetched, and their author is "
        "told.",
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
    per_message_max: int = Field(
        default=ATTACHMENTS_MAX,
        ge=0,
        le=ATTACHMENTS_MAX,
        description="Files of one message that are fetched, those of what it quotes included; 0: none.",
    )
