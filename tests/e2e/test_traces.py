"""One message through the whole product is one trace at a collector, and not a word of it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.telemetry.spans import trace_number
from tests.parts.collector import Collector, attributes_of, collecting
from tests.parts.model_server import Body, call, last_user_text, serve_model
from tests.parts.product import running_product
from tests.parts.waiting import until

SAID = "please look at marigolds"
ANSWERED = "the periwinkles are fine"
ARGUED = "chrysanthemum"
NAME = "Wilhelmina"
TOKEN = "Bearer snapdragon-collector"
ALL = {"message", "wait", "turn", "chat openai/gpt-4o-mini", "execute_tool recall", "deliver", "send"}


def gardener(body: Body) -> Body:
    """Calls a tool that there is and one that there is not, then answers."""
    if last_user_text(body).endswith(SAID) and body["messages"][-1]["role"] == "user" and body.get("tools"):
        names = [tool["function"]["name"] for tool in body["tools"]]
        known = call("recall", f'{{"query": "{ARGUED}"}}')["tool_calls"]
        assert "recall" in names, names
        return {"tool_calls": [*known, *call(f"no_{ARGUED}", "{}", "call_2")["tool_calls"]]}
    return {"content": ANSWERED}


@pytest.mark.timeout(240)  # processes start slowly on a busy machine
@pytest.mark.long
async def test_one_message_is_one_trace_without_a_word(tmp_path: Path) -> None:
    """From Telegram's update through the channels, the lane, the agent, its model and tools, back to Telegram."""
    async with collecting() as collector, serve_model() as model:
        model.answer = gardener
        settings = {
            "TRIVET_TELEMETRY__OTLP_ENDPOINT": collector.url,
            "TRIVET_TELEMETRY__OTLP_HEADERS": f'["Authorization={TOKEN}"]',
        }
        async with running_product(tmp_path, model=model, settings=settings, platforms=("telegram",)) as product:
            ada = product.chat("telegram", NAME)
            await ada.ask(SAID, ANSWERED)
            await until(
                lambda: names_in(collector) >= ALL, lambda: f"{ALL - names_in(collector)}\n{product.log[-3000:]}"
            )
            log = product.log
        check_one_trace(collector)
        check_order(collector)
        check_names(collector)
        sent = b"\n".join(collector.bodies)
        for word in (SAID, ANSWERED, ARGUED, NAME, "marigolds", "periwinkles", ada.person.id, *product.secrets):
            assert word.encode() not in sent, word
        assert collector.tokens == {TOKEN}
        assert TOKEN.partition(" ")[2] not in log


def names_in(collector: Collector) -> set[str]:
    return {span.name for span in collector.spans}


def check_one_trace(collector: Collector) -> None:
    """All belong to the turn, and each to the one that it should."""
    (root,) = collector.named("message")
    number = trace_number(str(attributes_of(root)["trivet.turn_id"]))
    assert {span.trace_id for span in collector.spans} == {number.to_bytes(16)}
    by_id = {span.span_id: span.name for span in collector.spans}
    assert len(by_id) == len(collector.spans)
    parents = {span.name: by_id.get(span.parent_span_id, "") for span in collector.spans}
    assert root.parent_span_id == b""
    assert {name: parents[name] for name in ("wait", "turn", "deliver", "send")} == {
        "wait": "message",
        "turn": "message",
        "deliver": "message",
        "send": "deliver",
    }
    assert {parents[name] for name in parents if name.startswith(("chat", "execute_tool"))} == {"turn"}


def check_order(collector: Collector) -> None:
    """Nothing ends before it began, what belongs to the turn lies in it, and delivery follows it."""
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in collector.spans)
    (message,), (wait,), (turn,), (deliver,), (send,) = map(
        collector.named, ("message", "wait", "turn", "deliver", "send")
    )
    assert message.start_time_unix_nano == wait.start_time_unix_nano
    assert wait.end_time_unix_nano == turn.start_time_unix_nano
    assert turn.end_time_unix_nano == message.end_time_unix_nano
    assert turn.end_time_unix_nano <= deliver.start_time_unix_nano <= send.start_time_unix_nano
    for tool in collector.named("execute_tool recall"):
        assert turn.start_time_unix_nano <= tool.start_time_unix_nano
        assert tool.end_time_unix_nano <= turn.end_time_unix_nano


def check_names(collector: Collector) -> None:
    """The conventions for generative AI; a tool that is none has no name."""
    told = attributes_of(collector.named("chat openai/gpt-4o-mini")[0])
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.provider.name"] == "openai"
    assert int(told["gen_ai.usage.input_tokens"]) > 0
    (unknown,) = collector.named("execute_tool other")
    assert attributes_of(unknown)["error.type"] == "tool_error"
    assert attributes_of(collector.named("turn")[0])["trivet.turn.state"] == "done"
    assert attributes_of(collector.named("deliver")[0])["trivet.delivery.state"] == "sent"
