"""Images that are too large to be shown to a model, made smaller."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

from PIL import Image, ImageOps

from agent.limits import IMAGE_PIXELS_MAX, IMAGE_SIDE_SHOWN

_QUALITY = 85

Image.MAX_IMAGE_PIXELS = IMAGE_PIXELS_MAX  # of what is unpacked; twice as many are refused


def pieces(content: bytes) -> Iterator[bytes]:
    """The first picture of it as a JPEG, upright."""
    with Image.open(BytesIO(content)) as opened:
        opened.draft("RGB", (IMAGE_SIDE_SHOWN, IMAGE_SIDE_SHOWN))
        upright = ImageOps.exif_transpose(opened)
        upright.thumbnail((IMAGE_SIDE_SHOWN, IMAGE_SIDE_SHOWN))
        written = BytesIO()
        _on_white(upright).save(written, "JPEG", quality=_QUALITY)
    yield written.getvalue()


def _on_white(image: Image.Image) -> Image.Image:
    """JPEG knows no transparency."""
    if "A" not in image.getbands() and "transparency" not in image.info:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    ground = Image.new("RGBA", layer.size, "white")
    ground.alpha_composite(layer)
    return ground.convert("RGB")
