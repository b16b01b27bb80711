"""A password that was said once, on the running product: processes started since know it, and no tool shows it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from gateway.contracts.ids import WORKSPACES, SessionKey, folder_name
from tests.canary.nests import held, left
from tests.parts.model_server import Body, call, echo, last_user_text, serve_model
from tests.parts.product import Chat, running_product
from tests.scrubbing import draw

VALUE = draw("<base62:9>!7", seed=71)
FORMS = (VALUE, VALUE.encode().hex(), *(hashlib.new(name, VALUE.encode()).hexdigest() for name in ("sha256", "sha1")))


def reads_the_notes(body: Body) -> Body:
    """A model that looks into a file when it is asked to, and says what is there."""
    if body["messages"][-1]["role"] == "tool":
        return {"content": f"It says: {body['messages'][-1]['content']}"}
    if "read my notes" in last_user_text(body):
        return call("file_read", json.dumps({"path": "notes.txt"}))
    return echo(body)


def write_notes(chat: Chat, data_dir: Path) -> None:
    """Put the value, and no word about it, into the person's workspace."""
    key = SessionKey.parse(f"{chat.platform}:{chat.person.id}")
    path = data_dir / WORKSPACES / folder_name(key) / "files" / "notes.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"on the blue note stood {VALUE} in pencil\n")


@pytest.mark.timeout(300)
@pytest.mark.long
async def test_a_password_that_was_said_once_is_shown_to_nobody_again(tmp_path: Path) -> None:
    settings = {"TRIVET_TOOLS__POLICY": '["allow file_read"]', "TRIVET_LOG__LEVEL": "debug"}
    async with serve_model() as model:
        model.answer = reads_the_notes
        async with running_product(tmp_path, model=model, settings=settings, platforms=("telegram",)) as product:
            ann, ben = product.chat("telegram", "Ann"), product.chat("telegram", "Ben")
            await ann.ask(f"my password is {VALUE} ok", "I removed what looked like a secret")
            for role in ("channels", "agent"):
                await product.kill(role)
                assert "I removed what looked like a secret" in await ann.ask(
                    f"{role}: is {VALUE} safe?", f"{role}: is"
                )
            write_notes(ann, product.data_dir)
            assert "on the blue note stood [redacted:named#" in await ann.ask("read my notes", "It says")
            await product.until_settled()
            places = await held(product, model)
            assert "met:telegram:" in places["redis"]
            written = places | left(product)
            notes = [name for name in written if name.endswith("notes.txt")]
            assert [name for name, text in written.items() if any(form in text for form in FORMS)] == notes
            write_notes(ben, product.data_dir)
            assert VALUE in await ben.ask("read my notes", "It says"), "in another chat nobody has said what it is"
