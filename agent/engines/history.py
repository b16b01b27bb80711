"""A prompt as one request, for an engine whose model can be told its history but not given it. Pure.

Each line of the history is one JSON object, so that nothing anybody said can pass for a turn of somebody else.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from agent.model.client import PromptMessage
from gateway.contracts.alongside import Image
from gateway.contracts.entries import Role

_GO_ON: Final = "Go on from where the history ends."
_ABOUT: Final = "What was said and done in this conversation so far, oldest first, one JSON object a line:"


def as_text(prompt: Sequence[PromptMessage]) -> str:
    """The newest request, after a `<history>` of everything before it. Clean, since its parts are."""
    newest = list(takewhile(lambda message: message.role is Role.USER, reversed(prompt)))
    earlier = prompt[: len(prompt) - len(newest)]
    request = "\n\n".join(message.text for message in reversed(newest)) or _GO_ON
    if not earlier:
        return request
    return "\n".join(("<history>", _ABOUT, *map(_line, earlier), "</history>", "", request))


def with_images(said: str, images: Sequence[Image], shown: Mapping[Image, bytes]) -> list[dict[str, Any]]:
    """Put the images before what is said, each below the path that it has in there, as blocks of Anthropic's API. Of
    one that is not among those `shown` it is said that it is not."""
    blocks: list[dict[str, Any]] = []
    for image in images:
        if image in shown:
            data = base64.b64encode(shown[image]).decode("ascii")
            source = {"type": "base64", "media_type": image.media_type, "data": data}
            blocks += [_text(f"{image.path}:"), {"type": "image", "source": source}]
        else:
            blocks.append(_text(f"[The image {image.path} could not be shown to you.]"))
    return [*blocks, _text(said)]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _line(message: PromptMessage) -> str:
    fields: dict[str, object] = {"role": message.role.value, "text": message.text}
    if message.tool_calls:
        fields["calls"] = [{"id": call.id, "tool": call.name, "with": call.arguments} for call in message.tool_calls]
    if message.tool_call_id:
        fields["answers"] = message.tool_call_id
    return json.dumps(fields, ensure_ascii=False).replace("<", "\\u003c")  # no text ends the history early
