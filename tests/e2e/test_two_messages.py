"""A password that is announced in one message and said in the next: nobody stores it, no model reads it.

On the running product and its three platforms.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.parts.model_server import serve_model
from tests.parts.product import PLATFORMS, Product, running_product
from tests.scrubbing import draw

PEOPLE = 12


def left_in(product: Product, values: Mapping[int, str]) -> list[str]:
    """Name the files of Trivet that hold one of the values: databases, their logs, the log of the bus."""
    texts = {path.name: path.read_bytes() for path in product.data_dir.rglob("*") if path.is_file()}
    return [name for name, text in texts.items() if any(value.encode() in text for value in values.values())]


@pytest.mark.timeout(300)
@pytest.mark.long
async def test_an_announced_password_is_read_by_nobody(tmp_path: Path) -> None:
    values = {number: draw("<base62:9>!7", seed=number) for number in range(PEOPLE)}
    platforms = itertools.cycle(PLATFORMS)
    async with serve_model() as model, running_product(tmp_path, model=model) as product:
        chats = {number: product.chat(next(platforms), f"Ann {number}") for number in values}

        async def tell(number: int) -> None:
            await chats[number].ask(f"{number}: my password is", f"{number}:")
            await chats[number].ask(f"{values[number]} is all", "is all")

        await asyncio.gather(*map(tell, values))
        await product.until_settled()
        asked = json.dumps(model.requests, ensure_ascii=False)
        assert [number for number, value in values.items() if value in asked] == []
        assert left_in(product, values) == []
        assert all("I removed what looked like a secret" in chat.heard for chat in chats.values())
