"""Calls by litellm's provider classes, held against litellm's own way to make them: on the wire of each vendor, for
every shape of an answer, both hear the same words, calls, counts and errors."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import pytest

from agent.limits import MODEL_EVENTS_AT_ONCE
from agent.models.litellm import LitellmClient
from agent.models.litellm_import import load_litellm
from agent.models.provider_calls import PROVIDERS, ProviderCalls, ServerSentEvents
from agent.models.requests import (
    ModelAnswer,
    ModelProvider,
    ModelRequest,
    PromptMessage,
    StopReason,
    TextDelta,
    Thoughts,
    ToolSpec,
)
from gateway.contracts.errors import (
    ContextTooLong,
    KeyRejected,
    ModelError,
    ModelRejected,
    ModelTooSlow,
    ModelUnavailable,
    QuotaSpent,
)
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import literal_text
from gateway.contracts.sessions import Role, UsagePurpose
from tests.parts.forward_proxy import forward_proxy
from tests.parts.providers import openai
from tests.parts.providers.script import Answer, Call, Fault, FaultKind, Usage
from tests.parts.providers.server import serving
from tests.parts.providers.vendors import VENDORS, always, asked
from tests.parts.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Pydantic serializer warnings")

KEY = SessionKey("telegram", "1")
_OTHERS: Final = (
    "a2a ai21 aiohttp_openai amazon_nova anthropic_text azure azure_ai azure_text bedrock bedrock_mantle bytez "
    "chatgpt clarifai cloudflare cohere cohere_chat compactifai custom custom_openai databricks datarobot "
    "docker_model_runner fal_ai gdc gigachat github_copilot gradient_ai heroku huggingface langflow langgraph "
    "maritalk nlp_cloud oci ollama ollama_chat oobabooga openai_like petals predibase ragflow replicate sagemaker "
    "sagemaker_chat sagemaker_nova sap snowflake text-completion-codestral text-completion-inception "
    "text-completion-openai triton vertex_ai vertex_ai_beta vllm watsonx watsonx_text"
)
BY_LITELLM: Final = frozenset(_OTHERS.split())
"""Providers that need a cloud's login or a signature, have another framing, or none of our wires."""
ROOT: Final = Path(__file__).parents[2]
NOTHING: Final = Answer()
TOOL = ToolSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})


class MiscountedUsage(NamedTuple):
    """What stands where a provider should count tokens."""

    prompt: Any
    completion: Any
    cached: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class Heard:
    """What a caller hears of one answer."""

    deltas: str
    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    ids: tuple[str, ...] = ()
    ending: str = ""
    tokens: tuple[int, ...] = ()
    cost_usd: float = 0.0
    thoughts: Thoughts | None = None
    error: str = ""
    retry_after_s: float | None = None


def asking(model: str, text: str = "hello", *, timeout_s: float = 20.0) -> ModelRequest:
    said = (PromptMessage(Role.USER, literal_text(text)),)
    return ModelRequest(
        model, UsagePurpose.TURN, KEY, literal_text("You are a test."), said, tools=(TOOL,), timeout_s=timeout_s
    )


async def heard(client: ModelProvider, request: ModelRequest) -> Heard:
    deltas = []
    try:
        async for event in client.stream(request):
            if isinstance(event, TextDelta):
                deltas.append(event.text)
    except ModelError as error:
        return Heard("".join(deltas), error=type(error).__name__, retry_after_s=getattr(error, "retry_after_s", None))
    assert isinstance(event, ModelAnswer)
    tokens = (event.tokens.prompt, event.tokens.completion, event.tokens.cached, event.tokens.written)
    return Heard(
        "".join(deltas),
        event.text,
        tuple((call.name, call.arguments) for call in event.calls),
        tuple(call.id for call in event.calls),
        event.ending,
        tokens,
        round(event.cost_usd, 9),
        event.thoughts,
    )


def shapes(vendor: str) -> Iterator[Answer | Fault]:
    """Some seventy answers and failures: what can be said, combined, then each ending and each fault."""
    long = ("Es ", "wär", "e ", "schön 🙂", ", said\n\n", "data: ", "[DONE]", "{}", " it.")
    look = Call("look", ('{"at"', ': "the', ' sea"', "}"), "call_a")
    texts: tuple[tuple[str, ...], ...] = ((), ("Hello.",), long)
    calls = ((), (look,), (look, Call("look", ('{"at": "a hill"}',), "call_b"), Call("todo_read", ("{}",), "call_c")))
    for text, call, is_chatty, size in product(texts, calls, (False, True), (0, 5)):
        yield Answer(text, call, is_chatty=is_chatty, bytes_at_once=size)
    written = 40 if vendor == "anthropic" else 0
    for usage in (None, Usage(), Usage(200, 50, 150), Usage(200, 50, 100, written), Usage(90, 60, 0, 0, 30)):
        yield Answer(("Hello.",), usage=usage, thinking=("First ", "I think."))
        yield Answer((), (look,), usage=usage, thinking=("First ", "I think."), hidden="b3BhcXVl")
    for finish in (*VENDORS[vendor].wire.finishes, "a_new_reason", None):
        yield Answer(("Half a", " sentence"), finish=finish)
        yield Answer((), (look,), finish=finish)
    if vendor == "openai":
        yield Answer((), refusal="I will not.")
    if vendor != "gemini":
        finishes = VENDORS[vendor].wire.finishes
        yield Answer((), (Call("look", ('{"at": "the',), "call_a"),), finish=finishes[1])
        yield Answer(("Hello.",), finish=finishes[0], is_cut=True, usage=None)
    for kind in FaultKind:
        yield Fault(kind)
        yield Answer(("Hello.",), fault=Fault(kind))
    yield Fault(FaultKind.RATE_LIMITED, {"Retry-After": "7"})
    yield Answer(("Hello.", " And"), is_cut=True)


def comparable(vendor: str, answer: Answer | Fault, one: Heard) -> Heard:
    """Without what differs by intention: where nothing is counted, each way estimates; Gemini names no calls, so each
    has the name that litellm makes up; and litellm loses Gemini's headers."""
    if isinstance(answer, Answer) and answer.usage is None:
        one = replace(one, tokens=(), cost_usd=0.0)
    if vendor == "gemini":
        one = replace(one, ids=(), retry_after_s=None)
    return one


@pytest.mark.parametrize("name", VENDORS)
async def test_both_ways_hear_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cases, direct, by_litellm = tuple(shapes(name)), [], []
    async with asked(VENDORS[name], always(NOTHING)) as (server, client):
        for answer in cases:
            server.answer = always(answer)
            direct.append(await heard(client, asking(VENDORS[name].model)))
        logged = [record for record in caplog.records if "Unmapped finish_reason" not in record.getMessage()]
        monkeypatch.setattr(ProviderCalls, "prepare", lambda *_: None)
        for answer in cases:
            server.answer = always(answer)
            by_litellm.append(await heard(client, asking(VENDORS[name].model)))
    compared = zip(cases, direct, by_litellm, strict=True)
    assert [
        (case, one, other)
        for case, one, other in compared
        if comparable(name, case, one) != comparable(name, case, other)
    ] == []
    assert len(cases) >= 67
    assert not logged
    assert [body == server.requests[0] for body in server.requests] == [True] * 2 * len(cases)


# --- each ending and each fault, as a turn sees it


OWN, CUT, FILTERED = StopReason.OWN, StopReason.CUT, StopReason.FILTERED
ENDINGS: Final = {
    "openai": {"length": CUT, "content_filter": FILTERED},
    "anthropic": {"max_tokens": CUT, "model_context_window_exceeded": CUT, "pause_turn": CUT, "refusal": FILTERED},
    "gemini": {"MAX_TOKENS": CUT, "STOP": OWN, "MALFORMED_FUNCTION_CALL": OWN},
}
FAULTS: Final = {
    FaultKind.RATE_LIMITED: ModelUnavailable,
    FaultKind.OVERLOADED: ModelUnavailable,
    FaultKind.BROKEN: ModelUnavailable,
    FaultKind.TOO_LONG: ContextTooLong,
    FaultKind.KEY: KeyRejected,
    FaultKind.QUOTA: QuotaSpent,
    FaultKind.INVALID: ModelRejected,
    FaultKind.UNKNOWN_MODEL: ModelRejected,
}


@pytest.mark.parametrize("name", VENDORS)
async def test_each_finish_reason_of_a_vendor_has_one_meaning(name: str) -> None:
    vendor, others = VENDORS[name], FILTERED if name == "gemini" else OWN
    expected = {finish: ENDINGS[name].get(finish, others) for finish in vendor.wire.finishes}
    async with asked(vendor, always(NOTHING)) as (server, client):
        meant = {}
        for finish in vendor.wire.finishes:
            server.answer = always(Answer(("Half a sentence",), finish=finish))
            meant[finish] = (await heard(client, asking(vendor.model))).ending
    assert meant == expected


@pytest.mark.parametrize("name", VENDORS)
async def test_each_fault_of_a_vendor_has_one_error(name: str) -> None:
    """Before an answer and in the middle of it; when the vendor wishes to be asked again is known, its words are not
    kept."""
    vendor = VENDORS[name]
    async with asked(vendor, always(NOTHING)) as (server, client):
        for kind, error in FAULTS.items():
            server.answer = always(Fault(kind, {"Retry-After": "7"}, message=""))
            with pytest.raises(error) as raised:
                [event async for event in client.stream(asking(vendor.model))]
            assert type(raised.value) is error
            assert len(str(raised.value)) < 60
            if isinstance(raised.value, ModelUnavailable):
                assert raised.value.retry_after_s == 7
            server.answer = always(Answer(("Hello.",), fault=Fault(kind)))
            in_the_middle = await heard(client, asking(vendor.model))
            assert in_the_middle.deltas == "Hello."
            assert in_the_middle.error in {error.__name__, "ModelUnavailable", "ModelRejected"}


@pytest.mark.parametrize(
    "counts", [("many", "some"), (12.5, 7.5), (-5, -7), (10**30, 5), (2**40, 5), ([120], [40])], ids=str
)
async def test_counts_that_are_none_cost_neither_the_answer_nor_a_budget(counts: tuple[Any, Any]) -> None:
    """Else a person pays three times for an answer that is thrown away, or one answer takes everybody's day."""
    async with asked(VENDORS["openai"], always(NOTHING)) as (server, client):
        server.answer = always(Answer(("Hello.",), usage=cast("Any", MiscountedUsage(*counts))))
        said = await heard(client, asking("openai/gpt-4o-mini"))
    assert (said.text, said.error) == ("Hello.", "")
    assert 0 < said.tokens[0] < 1000


# --- the transport


async def first_delta(client: LitellmClient, request: ModelRequest, heard_it: asyncio.Event) -> None:
    async for _ in client.stream(request):
        heard_it.set()


@pytest.mark.parametrize("name", VENDORS)
async def test_who_stops_listening_hangs_up_at_once(name: str) -> None:
    """In the middle of an answer, too: a provider goes on writing, and counting, as long as somebody listens."""
    async with asked(VENDORS[name], always(Answer(("Hello.",) * 9, stalls_after=6))) as (server, client):
        hears = asyncio.Event()
        listening = asyncio.create_task(first_delta(client, asking(VENDORS[name].model), hears))
        await hears.wait()
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening
        await until(lambda: server.hung_up)


@pytest.mark.parametrize("stalls_after", [0, 6])
async def test_an_answer_that_does_not_go_on_ends_at_the_time_limit_of_its_call(stalls_after: int) -> None:
    async with asked(VENDORS["openai"], always(Answer(("Hello.",) * 9, stalls_after=stalls_after))) as (server, client):
        with pytest.raises(ModelTooSlow):
            [event async for event in client.stream(asking("openai/gpt-4o-mini", timeout_s=0.5))]
        await until(lambda: server.hung_up or not server.requests)  # on a busy machine it is not even asked in time


async def test_an_answer_that_breaks_behind_its_end_is_whole() -> None:
    """Some servers close the connection without a word, when they have said why the answer ends."""
    async with asked(VENDORS["openai"], always(Answer(("Hello.",), finish="stop", is_cut=True))) as (_, client):
        one = await heard(client, asking("openai/gpt-4o-mini"))
    assert (one.text, one.error) == ("Hello.", "")


async def test_calls_go_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with forward_proxy() as proxy, asked(VENDORS["openai"], always(Answer(("Hello.",)))) as (server, client):
        for name in ("http_proxy", "no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert (await heard(client, asking("openai/gpt-4o-mini"))).text == "Hello."
        assert proxy.reached == {("plain", server.url.removeprefix("http://"))}
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        await heard(client, asking("openai/gpt-4o-mini"))
        assert len(server.requests) == 2


def fed(*pieces: bytes) -> list[bytes]:
    events = ServerSentEvents()
    return [event for piece in pieces for event in events.feed(piece)] + list(events.flush())


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_events_are_put_together_whatever_the_pieces(size: int) -> None:
    """Lines end as they like, comments and names are skipped, data of several lines is one event, and the last needs
    no empty line."""
    stream = b': hello\n\nevent: ping\ndata: {"a":\ndata: 1}\r\n\r\nid: 7\ndata:{"b": 2}\n\ndata: [DONE]\n\ndata: 3'
    assert fed(*(stream[at : at + size] for at in range(0, len(stream), size))) == [b'{"a":\n1}', b'{"b": 2}', b"3"]


def test_an_event_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.models.provider_calls.MODEL_EVENT_BYTES_MAX", 100)
    with pytest.raises(ModelUnavailable):
        fed(*[b"data: " + b"x" * 9] * 10)
    with pytest.raises(ModelUnavailable):
        fed(*[b"data: xxxxxxxxx\n"] * 10)


def test_a_stream_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words that come as fast as the network takes them filled the memory of an agent process within seconds."""
    monkeypatch.setattr("agent.models.provider_calls.MODEL_STREAM_BYTES_MAX", 100)
    with pytest.raises(ModelUnavailable):
        fed(*[b"data: {}\n\n"] * 20)


async def test_while_events_that_came_at_once_are_read_others_have_their_turn() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with asked(VENDORS["openai"], always(Answer(("Hello.",) * 200, bytes_at_once=1_000_000))) as (_, client):
        deltas = client.stream(asking("openai/gpt-4o-mini"))
        await anext(deltas)
        counting = asyncio.create_task(count())
        rest = [event async for event in deltas]
        counting.cancel()
    assert turns >= len(rest) // MODEL_EVENTS_AT_ONCE > 5


# --- before the first call


FIRST_CALL: Final = """
import asyncio, sys
from agent.model_clients import model_clients
from gateway.config import load_settings
from tests.contract.test_provider_calls import asking, heard

async def main(data_dir, model, url):
    environ = {"TRIVET_DATA_DIR": data_dir, "TRIVET_AGENT__MODEL": model}
    clients = model_clients(load_settings(None, {**environ, "TRIVET_AGENT__API_BASE": url}).settings)
    assert "litellm" not in sys.modules
    if clients.warm_up is not None:
        await clients.warm_up()
        before = set(sys.modules)
        assert (await heard(clients.client, asking(model))).text == "Hello."
        loaded = {name for name in set(sys.modules) - before if name.startswith(("litellm", "openai"))}
        assert not loaded, loaded
    await clients.client.close()
    print(*(name in sys.modules for name in ("litellm", "litellm.main", "openai.resources")))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("model", "loaded"),
    [
        ("openai/gpt-4o-mini", "True False False"),
        ("openai/gpt-5.4", "True True True"),
        ("demo/scripted", "False False False"),
    ],
)
@pytest.mark.long_on("True")
async def test_litellm_is_there_before_the_first_call_and_never_for_the_demo(
    model: str, loaded: str, tmp_path: Path
) -> None:
    """What only litellm's own way to call providers needs is there for models that may need that."""
    async with serving(openai.WIRE, always(Answer(("Hello.",)))) as server:
        assert await said_by(FIRST_CALL, str(tmp_path), model, server.url + "/v1") == loaded


async def said_by(program: str, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "ignore", "-c", program, *arguments),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={
            **os.environ,
            "OPENAI_API_KEY": "key-of-the-test",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "PYTHONHASHSEED": "0",
        },
    )
    said, _ = await process.communicate()
    return said.decode().strip()


ALL_DIRECT_CALLS: Final = """
import asyncio
import sys
from tests.contract.test_provider_calls import NOTHING, PROVIDERS, VENDORS
from tests.contract.test_provider_calls import always, asked, asking, heard, replace, shapes

async def main():
    for name in VENDORS:
        async with asked(VENDORS[name], always(NOTHING)) as (server, client):
            for answer in shapes(name):
                server.answer = always(answer)
                await heard(client, asking(VENDORS[name].model))
        async with asked(VENDORS[name], always(NOTHING), effort="low") as (server, client):
            await heard(client, asking(VENDORS[name].model))
    async with asked(VENDORS["openai"], always(NOTHING)) as (server, client):
        for name in [name for name, one in PROVIDERS.items() if one.wire == "chat"]:
            request = replace(asking(f"{name}/some-model"), temperature=0.5, completion_tokens_max=100)
            await heard(client, request)
    print("litellm.utils" in sys.modules, "litellm.main" in sys.modules)

asyncio.run(main())
"""


@pytest.mark.long
async def test_no_direct_call_and_no_failure_of_one_needs_the_rest_of_litellm() -> None:
    assert await said_by(ALL_DIRECT_CALLS) == "True False"


NAMES: Final = """
import json
import sys
from types import ModuleType
from agent.models.litellm_import import load_litellm
if sys.argv[1] == "in two parts":
    load_litellm().load_rest()
import litellm, litellm.utils, openai
import openai.types.beta, openai.types.chat, openai.types.responses

def shown(value):
    return value.__name__ if isinstance(value, ModuleType) else f"{type(value)} {getattr(value, '__qualname__', '')}"

print("\\n".join(f"{name}: {shown(value)}" for name, value in vars(litellm).items() if not name.startswith("_")))
print(hash(str(json.loads(litellm.utils.claude_json_str))))
for package in (openai.types, openai.types.beta, openai.types.chat, openai.types.responses):
    with open(package.__file__) as file:
        names = [line.split(" as ")[-1].strip(" ,)\\n") for line in file if " as " in line]
    print("\\n".join(f"{package.__name__} {name}: {shown(getattr(package, name))}" for name in names))
"""


@pytest.mark.long
async def test_litellm_in_two_parts_has_the_names_that_it_has_in_one() -> None:
    in_one, in_two = [set((await said_by(NAMES, way)).splitlines()) for way in ("in one", "in two parts")]
    assert len(in_one) > 2_000
    assert {line.partition(":")[0] for line in in_one - in_two} == {"num_retries"}, "which is what we set"


# --- the table of providers


def test_every_provider_of_litellm_is_called_directly_or_is_known_to_need_more() -> None:
    """A new version of litellm brings new providers: each is looked at once."""
    litellm = load_litellm()
    talking = {one.value for one in litellm.module.LlmProviders if litellm.config_of("a-model", one.value) is not None}
    assert set(PROVIDERS) | BY_LITELLM == talking
    assert not set(PROVIDERS) & BY_LITELLM


async def test_what_openai_takes_on_its_responses_api_only_is_left_to_litellm() -> None:
    calls = ProviderCalls(load_litellm())
    costs: dict[str, dict[str, Any]] = calls.litellm.module.model_cost
    names = {
        name for name, one in costs.items() if (one.get("litellm_provider"), one.get("mode")) == ("openai", "responses")
    }
    given = {"messages": [{"role": "user", "content": "hello"}], "api_key": "key-of-the-test"}
    direct = [
        name for name in (*names, "gpt-4o-mini") if calls.prepare({**given, "model": f"openai/{name}"}) is not None
    ]
    await calls.close()
    assert names
    assert direct == ["gpt-4o-mini"]


@pytest.mark.parametrize("name", sorted(name for name, one in PROVIDERS.items() if one.wire == "chat"))
async def test_each_of_many_vendors_gets_the_same_request_as_from_litellm(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(VENDORS["openai"], always(Answer(("Hello.",)))) as (server, client):
        request = replace(asking(f"{name}/some-model"), temperature=0.5, completion_tokens_max=100)
        direct = await heard(client, request)
        assert await heard(client, request) == direct, "with the tools that are kept of the first call"
        monkeypatch.setattr(ProviderCalls, "prepare", lambda *_: None)
        assert await heard(client, request) == direct
    assert direct.text == "Hello."
    assert server.requests[0] == server.requests[1] == server.requests[2]
    assert server.paths[0] == server.paths[1] == server.paths[2]
    assert server.headers[1]["authorization"] == server.headers[2]["authorization"] == "Bearer key-of-the-test"
