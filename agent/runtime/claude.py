"""The engine `claude_sdk`: the Claude Agent SDK takes the steps, with our tools, our policy, our scrubber.

The SDK runs its own command line program, which asks the models. Of that program nothing is used but the loop: its
tools, settings and memories are off, and it lives in a folder of its own that goes with the turn. The whole history
lies there each time, as a session that it goes on with; every call of a tool comes back to our registry."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

import structlog

from agent import limits
from agent.engine import Engine, FirstPrompt, Turn
from agent.models.catalog import ModelEndpoint
from agent.models.client import ModelClient
from agent.models.metering import cost_of, engine_plan
from agent.models.requests import Gallery, PromptMessage, RequestedCall, wire_name
from agent.models.transcript import as_prompt
from agent.prompts.library import PROMPTS
from agent.runtime.claude_events import TOOL_PREFIX, ClaudeRecorder
from agent.tokens import estimate_tokens
from agent.tools.registry import ToolRegistry
from agent.tools.tool import ToolContext
from gateway.contracts.context_blocks import Image
from gateway.contracts.errors import ConfigError, ContextTooLong, ModelError, ModelRejected, ModelTooSlow
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import Role
from gateway.scrub import Scrubber

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, SdkMcpTool, Transport


# A prompt as messages of Anthropic's API: the history, and the newest request. Pure.


Content: TypeAlias = str | list[dict[str, Any]]
"""The content of one message: a text, or blocks of Anthropic's API."""
Shown: TypeAlias = Mapping[Image, bytes]
_GO_ON: Final = "Go on from where you are."


@dataclass(frozen=True, slots=True)
class ClaudeMessages:
    """The messages before the newest request, oldest first, and that request."""

    history: tuple[dict[str, Any], ...]
    request: Content


def as_messages(prompt: Sequence[PromptMessage], shown: Shown | None) -> ClaudeMessages:
    """Write a prompt down. Images are where they were sent; of one that is not among those `shown` it is said that it
    is not. None: the model sees nothing, and what it is told of images its turn says."""
    newest = list(takewhile(lambda message: message.role is Role.USER, reversed(prompt)))
    earlier, ids = prompt[: len(prompt) - len(newest)], dict[str, str]()
    history: list[dict[str, Any]] = []
    for at, message in enumerate(earlier):
        # Ids repeat between turns, and other providers' have other letters: here each has one of its own.
        ids |= {call.id: f"toolu_{at}_{number}" for number, call in enumerate(message.tool_calls)}
        if blocks := _blocks(message, ids, shown):
            role = "assistant" if message.role is Role.ASSISTANT else "user"
            if history and history[-1]["role"] == role:
                history[-1]["content"] += blocks
            else:
                history.append({"role": role, "content": blocks})
    said = [block for message in reversed(newest) for block in _blocks(message, ids, shown)]
    has_images = any(block["type"] != "text" for block in said) or len(said) > len(newest)
    request = said if has_images else "\n\n".join(block["text"] for block in said)
    return ClaudeMessages(tuple(history), request or _GO_ON)


def _blocks(message: PromptMessage, ids: Mapping[str, str], shown: Shown | None) -> list[dict[str, Any]]:
    """Write one message, the images before its text, each below the path that it has in there."""
    if message.role is Role.TOOL:
        answered = ids.get(message.tool_call_id, message.tool_call_id)
        return [{"type": "tool_result", "tool_use_id": answered, "content": message.text or "(nothing)"}]
    blocks: list[dict[str, Any]] = []
    for image in message.images if shown is not None else ():
        if shown and image in shown:
            data = base64.b64encode(shown[image]).decode("ascii")
            source = {"type": "base64", "media_type": image.media_type, "data": data}
            blocks += [_text(f"{image.path}:"), {"type": "image", "source": source}]
        else:
            blocks.append(_text(f"[The image {image.path} could not be shown to you.]"))
    blocks += [_text(message.text)] if message.text.strip() else []
    return blocks + [
        {
            "type": "tool_use",
            "id": ids[call.id],
            "name": TOOL_PREFIX + wire_name(call.name),
            "input": _input(call.arguments),
        }
        for call in message.tool_calls
    ]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _input(arguments: str) -> dict[str, Any]:
    """Read the arguments of a call; what is no object stays as it was written."""
    with suppress(ValueError):
        if isinstance(read := json.loads(arguments), dict):
            return read
    return {"arguments": arguments}


def history_lines(history: Sequence[Mapping[str, Any]], session_id: str) -> str:
    """Write the history as a session that the program goes on with: its own form, which it promises to nobody. The
    version of the SDK is pinned, and tests hold the real program against it."""
    ids = [str(UUID(int=number)) for number in range(1, len(history) + 1)]
    lines = (
        {
            "type": message["role"],
            "uuid": own,
            "parentUuid": before,
            "sessionId": session_id,
            "isSidechain": False,
            "timestamp": "1970-01-01T00:00:00.000Z",
            "message": message if message["role"] == "user" else {**message, "id": f"msg_{own}", "type": "message"},
        }
        for own, before, message in zip(ids, (None, *ids), history, strict=False)
    )
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


_log = structlog.get_logger(__name__)
_FAMILY: Final = ("anthropic/", "claude-")
_SERVER: Final = TOOL_PREFIX.split("__")[1]
_QUIET: Final = {
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_COMPACT": "1",
    "CLAUDE_CODE_MAX_RETRIES": str(len(limits.MODEL_BACKOFF_S)),
}
"""The program talks to the models' API and to nobody else, tries as often as we do, and leaves it to us to make a
conversation shorter."""
_EFFORTS: Final = {"minimal": "low", "low": "low", "medium": "medium", "high": "high"}
"""The program's names of `reasoning_effort`; `none` switches thinking off."""


def load_sdk() -> ModuleType:
    """Import the SDK, only where it was chosen. Raises `ConfigError` where it is not installed."""
    try:
        import claude_agent_sdk  # noqa: PLC0415 - an extra, and only those who chose it load it
    except ModuleNotFoundError as error:
        raise ConfigError(
            "agent.engine is claude_sdk, and the extra `claude` is not installed: run "
            "`.venv/bin/pip install -e '.[claude]'` in the folder of Trivet, or set agent.engine to litellm"
        ) from error
    return claude_agent_sdk


def is_claude(model: str) -> bool:
    """Tell whether this engine can answer with a model of that name."""
    return model.startswith(_FAMILY)


@dataclass(eq=False, repr=False)
class ClaudeEngine:
    """`Engine` on the Claude Agent SDK. A session's model of another family is left to `otherwise`.

    What joins a turn on its way (`queue.mode = "steer"`) is told to the model with the next result of a tool: the SDK's
    loop is its own, and takes nothing else in between.

    Of the fall-backs of `client` the first Claude model counts that is called as the model is. `transport` None: the
    program that came with the SDK. Raises `ConfigError` if there is no SDK."""

    client: ModelClient
    tools: ToolRegistry
    scrubber: Scrubber
    clock: Clock
    _: KW_ONLY
    otherwise: Engine
    gallery: Gallery
    rounds_max: int
    endpoint_of: Callable[[str], ModelEndpoint] = ModelEndpoint
    transport: Callable[[], Transport] | None = None
    _working: set[asyncio.Task[None]] = field(init=False, default_factory=set)
    """Also those that nobody waits for any more."""

    def __post_init__(self) -> None:
        self._sdk = load_sdk()
        self._others = tuple(other for other in map(self.endpoint_of, self.client.fallbacks) if is_claude(other.model))

    async def take_steps(self, turn: Turn, context: ToolContext, first: FirstPrompt) -> None:
        """Fill `turn` until it has an answer. Raises the `ModelError` tree."""
        if not is_claude(self.endpoint_of(first.model).model):
            await self.otherwise.take_steps(turn, context, first)
            return
        context = replace(context, suspension=None)  # its loop goes on until there is an answer: it cannot yield
        try:
            await self._answer(turn, context, first)
        except ContextTooLong:
            anew = await first.window.condensed(turn.entries, counted=turn.prompt_tokens, is_refused=True)
            if anew is None:
                raise
            await self._answer(turn, context, replace(first, messages=anew))

    async def _answer(self, turn: Turn, context: ToolContext, first: FirstPrompt) -> None:
        """Show the images of the prompt, too, to a model that sees. If they are refused it is asked once more without
        them, and told so: they are in every prompt that follows."""
        prompt = first.messages
        tokens = estimate_tokens(first.system) + sum(map(_tokens, prompt))
        images = tuple(dict.fromkeys(image for message in prompt for image in message.images))
        if not images or not self.client.facts(first.model).sees:
            await self._attempt(turn, context, first, as_messages(prompt, None), tokens)
            return
        shown = await self._shown(context, images)
        entries = len(turn.entries)
        try:
            said = await asyncio.to_thread(as_messages, prompt, shown)
            await self._attempt(turn, context, first, said, tokens + limits.IMAGE_TOKENS * len(shown))
        except ModelRejected as error:
            if not shown or error.needs_operator or len(turn.entries) > entries:
                raise
            _log.warning("model.images_refused", model=first.model, reason=str(error))
            await self._attempt(turn, context, first, as_messages(prompt, {}), tokens)

    async def _shown(self, context: ToolContext, images: Sequence[Image]) -> Mapping[Image, bytes]:
        """Load the images that still exist: as many of the newest as fit into one request."""
        shown: dict[Image, bytes] = {}
        room = limits.CLAUDE_IMAGES_BYTES_MAX
        for image in reversed(images):
            content = await self.gallery(context.key, image.path)
            if content is not None and len(content) <= room:
                shown[image] = content
                room -= len(content)
        return shown

    async def _attempt(
        self, turn: Turn, context: ToolContext, first: FirstPrompt, said: ClaudeMessages, tokens: int
    ) -> None:
        """Ask once, with a prompt of so many tokens."""
        await context.permit()
        model = first.model
        prices_usd = self.client.facts(model).prices_usd
        plan = partial(engine_plan, model, tokens, prices_usd, limits.TURN_TIMEOUT_S, context.turn_id)
        ticket = await self.client.gate.admit(context.key.owner, plan) if self.client.gate else None
        charged = len(turn.usage)
        hearing = ClaudeRecorder(
            self._sdk, turn, context, self.scrubber, self.clock, model=model, prices_usd=prices_usd
        )
        with self.client.health.watching(model):
            working = asyncio.create_task(self._converse(turn, hearing, context, first, said))
            self._working.add(working)
            working.add_done_callback(self._ended)
            try:
                await asyncio.shield(working)
            except asyncio.CancelledError:
                working.cancel()  # once: a second one would cut short how the program is ended
                raise
            finally:
                hearing.charge()
                if ticket is not None:
                    ticket.settle_soon(cost_of(turn.usage[charged:]))
            hearing.conclude()

    def _ended(self, working: asyncio.Task[None]) -> None:
        self._working.discard(working)
        if not working.cancelled():
            working.exception()  # or asyncio would complain that nobody looked

    async def _converse(
        self, turn: Turn, hearing: ClaudeRecorder, context: ToolContext, first: FirstPrompt, said: ClaudeMessages
    ) -> None:
        transport = self.transport() if self.transport is not None else None
        try:
            with TemporaryDirectory(prefix="trivet-claude-") as folder:
                async with asyncio.timeout(limits.ROUND_TIMEOUT_S) as deadline:
                    sdk_tools = _SdkTools(
                        self._sdk, self.tools, turn, context, hearing, deadline, rounds_max=self.rounds_max
                    )
                    options = self._options(sdk_tools.offered(), first, said.history, Path(folder))
                    async with self._sdk.ClaudeSDKClient(options, transport=transport) as client:
                        with turn.hold.showing(hearing.draft.so_far):
                            await self._listen(client, said.request, hearing, deadline)
        except TimeoutError:
            raise ModelTooSlow(limits.ROUND_TIMEOUT_S) from None
        except self._sdk.ResultError:
            return  # the result was heard, and says more
        except self._sdk.ClaudeSDKError as error:  # its text may hold the prompt
            raise ModelError(f"the Claude CLI failed: {type(error).__name__}") from None

    async def _listen(
        self, client: ClaudeSDKClient, content: Content, hearing: ClaudeRecorder, deadline: asyncio.Timeout
    ) -> None:
        """Say `content` and hear all that follows. Who stops listening has the model's call hung up."""
        try:
            await client.query(_message(content))
            async for message in client.receive_response():
                _begin_again(deadline)
                hearing.hear(message)
        except asyncio.CancelledError:
            with suppress(TimeoutError, self._sdk.ClaudeSDKError):
                async with asyncio.timeout(limits.CUT_GRACE_S):
                    await client.interrupt()
            raise

    def _options(
        self, tools: Sequence[SdkMcpTool[Any]], first: FirstPrompt, history: Sequence[Mapping[str, Any]], folder: Path
    ) -> ClaudeAgentOptions:
        prompt = folder / "system.md"  # not an argument of the program: all of the machine can read those
        prompt.write_text(first.system, "utf-8")
        session = folder / "projects" / self._sdk.project_key_for_directory(folder) / f"{UUID(int=0)}.jsonl"
        if history:
            session.parent.mkdir(parents=True)
            session.write_text(history_lines(history, session.stem), "utf-8")
        endpoint = self.endpoint_of(first.model)
        others = (other.model for other in self._others if other.is_called_as(endpoint))
        effort = endpoint.reasoning_effort
        options: ClaudeAgentOptions = self._sdk.ClaudeAgentOptions(
            tools=[],
            mcp_servers={_SERVER: self._sdk.create_sdk_mcp_server(_SERVER, tools=list(tools))},
            strict_mcp_config=True,
            allowed_tools=[TOOL_PREFIX + tool.name for tool in tools],
            permission_mode="dontAsk",
            setting_sources=[],
            system_prompt={"type": "file", "path": str(prompt)},
            max_turns=self.rounds_max + limits.WRAP_UP_ROUNDS if self.rounds_max else None,
            model=_bare(endpoint.model),
            fallback_model=next((_bare(other) for other in others if _bare(other) != _bare(endpoint.model)), None),
            effort=_EFFORTS.get(effort),
            thinking={"type": "disabled"} if effort == "none" else None,
            include_partial_messages=True,
            resume=session.stem if history else None,
            cwd=folder,
            env={**_QUIET, **_access(endpoint), **_bounds(endpoint), "CLAUDE_CONFIG_DIR": str(folder)},
            extra_args={"no-session-persistence": None, "disable-slash-commands": None},
            stderr=lambda line: _log.debug("claude.said", line=line),
        )
        return options


async def _message(content: Content) -> AsyncIterator[dict[str, Any]]:
    """Yield one user message, in the form in which the SDK takes one that has more than a text in it."""
    yield {"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": None}


def _tokens(message: PromptMessage) -> int:
    return estimate_tokens(message.text) + sum(estimate_tokens(call.arguments) for call in message.tool_calls)


def _access(endpoint: ModelEndpoint) -> dict[str, str]:
    """Return the variables by which the program calls an endpoint. With a key of ours, a token of the environment stays
    out of it."""
    given = {
        "ANTHROPIC_API_KEY": endpoint.api_key,
        "ANTHROPIC_BASE_URL": endpoint.api_base,
        "ANTHROPIC_CUSTOM_HEADERS": "\n".join(f"{name}: {value}" for name, value in endpoint.headers.items()),
    }
    kept = {name: value for name, value in given.items() if value}
    return kept | ({"ANTHROPIC_AUTH_TOKEN": ""} if endpoint.api_key else {})


def _bounds(endpoint: ModelEndpoint) -> dict[str, str]:
    """Return the variable that bounds an answer of the program."""
    return {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(endpoint.max_tokens)} if endpoint.max_tokens else {}


def _bare(model: str) -> str:
    return model.removeprefix("anthropic/")


@dataclass(eq=False, repr=False)
class _SdkTools:
    """Our tools as the SDK calls them: several at once, under the policy and inside the envelope of the registry, whose
    locks keep apart what writes to one place."""

    sdk: ModuleType
    tools: ToolRegistry
    turn: Turn
    context: ToolContext
    hearing: ClaudeRecorder
    deadline: asyncio.Timeout
    _: KW_ONLY
    rounds_max: int
    _calls: int = field(init=False, default=0)
    _running: int = field(init=False, default=0)
    _slots: asyncio.Semaphore = field(init=False, default_factory=lambda: asyncio.Semaphore(limits.TOOLS_PARALLEL_MAX))
    _joining: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    def offered(self) -> list[SdkMcpTool[Any]]:
        """List the tools that the policy allows in this turn. The program calls only those at once that it believes to
        read; which of ours may be is for the registry to say."""
        at_once = self.sdk.ToolAnnotations(readOnlyHint=True)
        return [
            self.sdk.SdkMcpTool(
                spec.name, spec.description, _without_references(spec.schema), self._handler(spec.name), at_once
            )
            for spec in self.tools.specs_for(self.context)
        ]

    def _handler(self, name: str) -> Callable[[Any], Any]:
        async def handle(arguments: Any) -> dict[str, Any]:
            async with self._slots:
                with self._clock_stopped():
                    text, is_error = await self._run(name, arguments)
                    await self.context.permit()  # what is returned makes the model take its next step
            return {"content": [_text(text), *map(_text, await self._newcomers())], "is_error": is_error}

        return handle

    async def _run(self, name: str, arguments: Any) -> tuple[str, bool]:
        if self.rounds_max and self.hearing.rounds > self.rounds_max:
            return PROMPTS.wrap_up, True
        self._calls += 1
        call = RequestedCall(f"{self.context.turn_id}:{self._calls}", name, self.hearing.cleaned(arguments))
        (result,) = await self.tools.run_round(self.context, (call,))
        note = self.tools.note_on(self.context, (result,))
        return "\n\n".join(filter(None, (result.text, note))), result.is_error

    async def _newcomers(self) -> tuple[CleanText, ...]:
        """Let in who joins the turn, and return what the model is told of it, after the result of a tool."""
        async with self._joining:
            newcomers = await self.turn.join()
        if not newcomers:
            return ()
        (told,) = as_prompt([newcomer.entry for newcomer in newcomers])
        return (self.hearing.let_in([newcomer.entry for newcomer in newcomers], told.text),)

    @contextmanager
    def _clock_stopped(self) -> Iterator[None]:
        """Stop the clock of the model for the length of the block: a tool has limits of its own, and a person who is
        asked may take longer than any model."""
        self._running += 1
        self.deadline.reschedule(None)
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                _begin_again(self.deadline)


def _begin_again(deadline: asyncio.Timeout) -> None:
    """Give the next step its whole time, unless the time is over already."""
    if not deadline.expired():
        deadline.reschedule(asyncio.get_running_loop().time() + limits.ROUND_TIMEOUT_S)


def _without_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema, or that of any object if it has a `$ref`: the SDK would fetch what a stranger's reference
    points to. Our own check of the arguments still uses the full schema."""
    is_open = '"$ref"' in json.dumps(dict(schema))
    return {"type": "object", "properties": {}} if is_open else dict(schema)
