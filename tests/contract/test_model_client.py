"""The way to a model, on the real litellm against a provider on loopback."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

import pytest

from agent.models.catalog import ModelCatalog, ModelEndpoint
from agent.models.client import ModelClient
from agent.models.litellm import LitellmClient, _Gathered
from agent.models.requests import (
    EmbeddingRequest,
    ModelAnswer,
    ModelEvent,
    ModelRequest,
    PromptMessage,
    SpeechRequest,
    StreamRestarted,
    TextDelta,
    ToolSpec,
    TranscriptionRequest,
)
from gateway.contracts.context_blocks import Image
from gateway.contracts.errors import (
    ConfigError,
    ContextTooLong,
    KeyRejected,
    ModelRejected,
    ModelTooSlow,
    ModelUnavailable,
    QuotaSpent,
)
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, literal_text
from gateway.contracts.sessions import Role, ToolCall, UsagePurpose
from tests.parts.model_server import Failure, ModelServer, Recording, call, images_of, serve_model, vector_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Pydantic serializer warnings")


@pytest.fixture
async def provider() -> AsyncIterator[ModelServer]:
    async with serve_model() as model:
        yield model


@pytest.fixture
async def client(provider: ModelServer) -> AsyncIterator[LitellmClient]:
    client = LitellmClient(ModelCatalog(), partial(ModelEndpoint, api_base=provider.url, api_key="key-of-the-test"))
    yield client
    await client.close()


KEY = SessionKey("telegram", "1")


def asking(text: str, *, tools: tuple[ToolSpec, ...] = (), timeout_s: float = 20.0) -> ModelRequest:
    return ModelRequest(
        model="openai/gpt-4o-mini",
        purpose=UsagePurpose.TURN,
        key=KEY,
        system=literal_text("You are a test."),
        messages=(PromptMessage(Role.USER, literal_text(text)),),
        tools=tools,
        timeout_s=timeout_s,
    )


async def events_of(stream: AsyncIterator[ModelEvent]) -> list[ModelEvent]:
    return [event async for event in stream]


async def test_an_answer_is_streamed_once_with_its_usage(client: LitellmClient, provider: ModelServer) -> None:
    """Deltas add up to the answer; tokens, cached ones too, and the price come from the provider's count."""
    provider.cached_tokens = 3
    *deltas, answer = await events_of(client.stream(asking("hello there")))
    assert isinstance(answer, ModelAnswer)
    assert answer.text == "echo: hello there"
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == answer.text
    assert answer.tokens.prompt > 0
    assert answer.tokens.cached == 3
    assert answer.cost_usd > 0
    assert len(provider.requests) == 1


def embedding(*texts: CleanText) -> EmbeddingRequest:
    return EmbeddingRequest("openai/text-embedding-3-small", KEY, texts, timeout_s=20.0)


async def test_garbage_is_looked_for_again_once_litellm_has_come(client: LitellmClient) -> None:
    """It is not while litellm loads; and of what then lives for ever no collection looks at anything."""
    before = gc.get_freeze_count()
    await events_of(client.stream(asking("hello")))
    assert gc.isenabled()
    assert gc.get_freeze_count() > before


async def test_texts_become_vectors_in_their_order(client: LitellmClient, provider: ModelServer) -> None:
    """Whatever order the provider answers in; tokens and price are the provider's."""
    texts = (literal_text("one text"), literal_text("another, longer text"))
    answer = await client.embed(embedding(*texts))
    assert answer.vectors == tuple(tuple(vector_of(text)) for text in texts)
    assert answer.tokens > 0
    assert answer.cost_usd > 0
    assert len(provider.requests) == 1


async def test_a_refused_embedding_is_one_of_our_errors(client: LitellmClient, provider: ModelServer) -> None:
    provider.failures.append(Failure(401))
    with pytest.raises(ModelRejected):
        await client.embed(embedding(literal_text("text")))
    assert len(provider.requests) == 1


async def test_an_embedding_is_tried_again_once(client: LitellmClient, provider: ModelServer) -> None:
    """A person waits for it: one more try, then words alone have to do."""
    waits: list[float] = []

    async def sleep(wait_s: float) -> None:
        waits.append(wait_s)

    retrying = ModelClient(client, embeddings=client, sleep=sleep)
    provider.failures.append(Failure(503))
    assert len((await retrying.embed(embedding(literal_text("text")))).vectors) == 1
    provider.failures.extend([Failure(503), Failure(503)])
    with pytest.raises(ModelUnavailable):
        await retrying.embed(embedding(literal_text("text")))
    assert (len(provider.requests), len(waits)) == (4, 2)


async def test_a_tool_call_comes_whole(client: LitellmClient, provider: ModelServer) -> None:
    """Name, id and arguments of a call survive the streaming; tools reach the provider as functions."""
    provider.answer = lambda _body: call("todo_read", '{"a": 1}', "call_7")
    tool = ToolSpec("todo_read", "Read.", {"type": "object", "properties": {}})
    answer = (await events_of(client.stream(asking("go", tools=(tool,)))))[-1]
    assert isinstance(answer, ModelAnswer)
    assert [(made.id, made.name, made.arguments) for made in answer.calls] == [("call_7", "todo_read", '{"a": 1}')]
    assert provider.requests[0]["tools"][0]["function"]["name"] == "todo_read"


async def test_a_tool_round_reaches_the_provider_in_its_own_shape(client: LitellmClient, provider: ModelServer) -> None:
    """An assistant's calls and their results go out with matching ids."""
    made = ToolCall("c1", "recall", literal_text("{}"))
    request = ModelRequest(
        "openai/gpt-4o-mini",
        UsagePurpose.TURN,
        KEY,
        literal_text("s"),
        (
            PromptMessage(Role.USER, literal_text("q")),
            PromptMessage(Role.ASSISTANT, literal_text(""), (made,)),
            PromptMessage(Role.TOOL, literal_text("nothing"), tool_call_id="c1"),
        ),
    )
    await events_of(client.stream(request))
    *_, assistant, result = provider.requests[0]["messages"]
    assert assistant["tool_calls"][0]["id"] == result["tool_call_id"] == "c1"


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Failure(500), ModelUnavailable),
        (Failure(503), ModelUnavailable),
        (Failure(429, "slow down"), ModelUnavailable),
        (Failure(429, "You exceeded your current quota", "insufficient_quota"), QuotaSpent),
        (Failure(402, "Insufficient Balance"), QuotaSpent),
        (Failure(401, "bad key key-of-the-test"), KeyRejected),
        (Failure(403, "this key may not use that model"), KeyRejected),
        (Failure(400, "API key not valid. Please pass a valid API key."), KeyRejected),
        (Failure(404, "no such model"), ModelRejected),
        (Failure(400, "bad request"), ModelRejected),
        (Failure(400, "maximum context length is 8192 tokens", "context_length_exceeded"), ContextTooLong),
    ],
)
async def test_failures_are_told_apart(
    client: LitellmClient, provider: ModelServer, failure: Failure, expected: type[Exception]
) -> None:
    """Only what may pass by itself is retryable; no error text repeats the provider's words or the key."""
    provider.failures.append(failure)
    with pytest.raises(expected) as caught:
        await events_of(client.stream(asking("hello")))
    assert type(caught.value) is expected
    assert "key-of-the-test" not in str(caught.value)
    assert len(provider.requests) == 1  # litellm itself never tries again


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After-Ms": "1500", "Retry-After": "2"}, 1.5),
        ({"Date": "Wed, 21 Oct 2015 07:28:00 GMT", "Retry-After": "Wed, 21 Oct 2015 07:28:40 GMT"}, 40),
        ({"Date": "Wed, 21 Oct 2015 07:28:00 GMT", "Retry-After": "Wed, 21 Oct 2015 07:27:00 GMT"}, 0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:40 +99999999999999"}, None),
    ],
)
async def test_the_wait_a_provider_asks_for_is_known(
    client: LitellmClient, provider: ModelServer, headers: dict[str, str], wait_s: float | None
) -> None:
    """In seconds, in milliseconds, or as a date, which counts from the provider's own clock."""
    provider.failures.append(Failure(429, headers=headers))
    with pytest.raises(ModelUnavailable) as caught:
        await events_of(client.stream(asking("hello")))
    assert caught.value.retry_after_s == wait_s


async def test_a_provider_that_cannot_be_reached_is_unavailable() -> None:
    """A refused connection may pass by itself."""
    client = LitellmClient(ModelCatalog(), partial(ModelEndpoint, api_base="http://127.0.0.1:9/v1", api_key="k"))
    with pytest.raises(ModelUnavailable):
        await events_of(client.stream(asking("hello")))
    await client.close()


async def test_a_call_ends_at_its_time_limit(client: LitellmClient, provider: ModelServer) -> None:
    """A provider that stalls costs no more than the request allows."""
    provider.latency_s = 5
    with pytest.raises(ModelTooSlow):
        await events_of(client.stream(asking("hello", timeout_s=0.2)))


async def test_retries_outlive_a_bad_moment(client: LitellmClient, provider: ModelServer) -> None:
    """Two failures, a stream cut in the middle among them, then the answer; what was shown is voided."""
    waits: list[float] = []

    async def sleep(wait_s: float) -> None:
        waits.append(wait_s)

    provider.failures.extend([Failure(429, headers={"Retry-After": "3"}), Failure(200)])
    events = await events_of(ModelClient(client, sleep=sleep).stream(asking("hello")))
    assert 3 <= waits[0] <= 3.3  # never less, and not the same for all who were refused at once
    restart = next(at for at, event in enumerate(events) if isinstance(event, StreamRestarted))
    shown = "".join(event.text for event in events[restart:] if isinstance(event, TextDelta))
    assert isinstance(events[-1], ModelAnswer)
    assert shown == events[-1].text == "echo: hello"
    assert len(provider.requests) == 3


async def test_retries_end(client: LitellmClient, provider: ModelServer) -> None:
    """Three tries, then the failure is the turn's."""

    async def sleep(_wait_s: float) -> None:
        return

    provider.failures.extend([Failure(500)] * 5)
    with pytest.raises(ModelUnavailable):
        await events_of(ModelClient(client, sleep=sleep).stream(asking("hello")))
    assert len(provider.requests) == 3


async def test_what_cannot_pass_is_not_tried_again(client: LitellmClient, provider: ModelServer) -> None:
    """A rejected key is rejected once."""
    provider.failures.extend([Failure(401)] * 3)
    with pytest.raises(ModelRejected):
        await events_of(ModelClient(client).stream(asking("hello")))
    assert len(provider.requests) == 1


def test_the_catalog_knows_windows_and_names() -> None:
    """From litellm's own file, without importing litellm; unknown names are refused with an example."""
    catalog = ModelCatalog()
    assert catalog.facts("openai/gpt-4o-mini").context_window == 128_000
    assert catalog.facts("ollama/something-local").context_window == 0
    catalog.check_name("ollama/something-local")
    with pytest.raises(ConfigError, match="demo/scripted"):
        catalog.check_name("nonsense/foo")


async def test_litellm_logs_only_through_us(client: LitellmClient, capfd: pytest.CaptureFixture[str]) -> None:
    """Its own handlers would write what the model says to standard error, past every scrubber."""
    logger = logging.getLogger("LiteLLM")
    await events_of(client.stream(asking("a word from the prompt")))
    logger.debug("a word from the prompt")
    logger.error("a word from the prompt")
    assert (logger.handlers, logger.propagate) == ([], True)
    assert "a word from the prompt" not in capfd.readouterr().err


# --- images and recordings

CAT = Image("inbox/1-cat.png", "image/png")


class Shelf:
    """A gallery with one picture for one person."""

    async def __call__(self, key: SessionKey, path: str) -> bytes | None:
        return b"a picture" if (key, path) == (KEY, CAT.path) else None


@pytest.fixture
async def eyes(provider: ModelServer) -> AsyncIterator[LitellmClient]:
    client = LitellmClient(
        ModelCatalog(), partial(ModelEndpoint, api_base=provider.url, api_key="key-of-the-test"), gallery=Shelf()
    )
    yield client
    await client.close()


def looking(model: str = "openai/gpt-4o-mini", image: Image = CAT) -> ModelRequest:
    said = PromptMessage(Role.USER, literal_text("what is it?"), images=(image,))
    return replace(asking(""), model=model, messages=(said,))


async def test_an_image_leaves_as_its_bytes_beside_the_words(eyes: LitellmClient, provider: ModelServer) -> None:
    await events_of(ModelClient(eyes).stream(looking()))
    assert provider.requests[-1]["messages"][-1] == {
        "role": "user",
        "content": [
            {"type": "text", "text": "what is it?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,YSBwaWN0dXJl"}},
        ],
    }


async def test_a_model_that_sees_nothing_gets_the_words_alone(eyes: LitellmClient, provider: ModelServer) -> None:
    """So does every other one, of an image that is gone, or that is not its user's."""
    gone = replace(looking(image=Image("inbox/gone.png", "image/png")))
    for request in (looking("openai/gpt-3.5-turbo"), gone, replace(looking(), key=SessionKey("telegram", "2"))):
        await events_of(ModelClient(eyes).stream(request))
        assert provider.requests[-1]["messages"][-1] == {"role": "user", "content": "what is it?"}


async def test_what_the_operator_says_of_a_model_counts(provider: ModelServer) -> None:
    """Nobody else knows what a model of his own can do."""
    client = LitellmClient(
        ModelCatalog(),
        partial(ModelEndpoint, api_base=provider.url, api_key="key"),
        gallery=Shelf(),
        sees={"openai/my-own": True},
    )
    assert client.facts("openai/my-own").sees
    assert not client.facts("openai/another").sees
    await events_of(ModelClient(client).stream(looking("openai/my-own")))
    assert len(images_of(provider.requests[-1])) == 1
    await client.close()


async def test_a_prompt_refused_for_its_image_is_sent_once_more_without(
    eyes: LitellmClient, provider: ModelServer
) -> None:
    """Or the conversation would be lost: the image stands in every prompt that follows. Each call has its permit."""
    permits: list[int] = []

    async def permit() -> None:
        permits.append(len(provider.requests))

    provider.failures.append(Failure(400, "image was not valid"))
    client = ModelClient(eyes)
    *_, answer = await events_of(client.stream(replace(looking(), permit=permit)))
    assert isinstance(answer, ModelAnswer)
    assert answer.text == "echo: what is it?"
    assert [len(images_of(body)) for body in provider.requests] == [1, 0]
    assert permits == [0, 1]


async def test_a_recording_is_written_down(client: LitellmClient, provider: ModelServer) -> None:
    """The provider gets the bytes under a name that tells their format; its seconds are what it costs."""
    request = TranscriptionRequest("openai/whisper-1", KEY, "recording.ogg", "audio/ogg", b"OggS", language="pt-BR")
    answer = await client.transcribe(request)
    assert answer.text == "what was said"
    assert answer.cost_usd == pytest.approx(3 * 0.0001)
    assert provider.heard == [Recording("whisper-1", "recording.ogg", b"OggS", "pt")]


async def test_a_busy_provider_is_asked_twice_to_write_down_and_no_more(
    client: LitellmClient, provider: ModelServer
) -> None:
    async def at_once(_seconds: float) -> None:
        """Nobody waits in a test."""

    retrying = ModelClient(client, transcriptions=client, sleep=at_once)
    request = TranscriptionRequest("openai/whisper-1", KEY, "recording.ogg", "audio/ogg", b"OggS")
    provider.failures.append(Failure(503))
    assert (await retrying.transcribe(request)).text == "what was said"
    provider.failures.extend([Failure(503)] * 2)
    with pytest.raises(ModelUnavailable):
        await retrying.transcribe(request)
    provider.failures.append(Failure(401))
    with pytest.raises(ModelRejected):
        await retrying.transcribe(request)
    assert len(provider.heard) == 5


async def test_a_text_is_spoken_in_the_voice_and_form_that_were_asked_for(
    client: LitellmClient, provider: ModelServer
) -> None:
    """It is paid by the character."""
    request = SpeechRequest("openai/tts-1", KEY, "good morning", voice="alloy")
    answer = await ModelClient(client, speech=client).speak(request)
    assert answer.content == b"OggS good morning"
    assert answer.cost_usd == pytest.approx(12 * 15e-6)
    asked = provider.requests[-1]
    assert (asked["model"], asked["voice"], asked["response_format"]) == ("tts-1", "alloy", "opus")


async def test_between_chunks_that_came_at_once_others_have_their_turn() -> None:
    """Else a provider that is quick holds up everybody until the end of its answer."""

    async def at_once() -> AsyncIterator[object]:
        for _ in range(100):
            yield object()

    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    assert len([chunk async for chunk in _Gathered().with_refusals(at_once())]) == 100
    counting.cancel()
    assert turns >= 99
