"""The engine on the Claude Agent SDK: its program is a fake that speaks the real protocol, or the real one failing."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest

from agent import assembly
from agent.engine import Engine, FirstPrompt, Joined, Turn
from agent.limits import IMAGE_TOKENS
from agent.models.catalog import ModelEndpoint
from agent.models.client import ModelClient
from agent.models.demo import ScriptedClient
from agent.models.metering import Planned
from agent.models.requests import ModelFacts, PromptMessage, StopReason
from agent.prompts.library import PROMPTS
from agent.runtime import claude
from agent.runtime.claude import ClaudeEngine, as_messages
from agent.texts import ending_note
from agent.tools.policy import Permission, Policy, PolicyLine, Risk
from agent.tools.tool import Tool
from gateway.clock import SystemClock
from gateway.config.settings import AgentSettings
from gateway.contracts.budgets import Amounts, Measure
from gateway.contracts.context_blocks import Image
from gateway.contracts.errors import (
    BudgetSpent,
    ConfigError,
    ContextTooLong,
    KeyRejected,
    ModelError,
    ModelRejected,
    ModelTooSlow,
    ModelUnavailable,
    QuotaSpent,
)
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, literal_text
from gateway.contracts.sessions import Entry, Role, ToolCall
from gateway.i18n import words_for
from gateway.scrub import Scrubber
from tests.parts.agents import message
from tests.parts.claude_cli import ClaudeCli
from tests.parts.pictures import png
from tests.parts.providers.anthropic import Step, serve_anthropic
from tests.parts.tooling import OPEN, context, registry, tool
from tests.parts.turns import FreeHold, begun_turn
from tests.parts.waiting import until

MODEL = "anthropic/claude-sonnet-4-6"
SECRET = "sk-ant-api03-" + "Zk9" * 30 + "-AAAAAAAA"


class Priced(ScriptedClient):
    def __init__(self, *, sees: bool = True) -> None:
        super().__init__()
        self._sees = sees

    def facts(self, model: str) -> ModelFacts:
        prices = {"prompt": 0.001, "completion": 0.01, "cached": 0.0001}
        return ModelFacts(provider="anthropic", prices_usd=prices, sees=self._sees)


class Shortening:
    """A window that can make a prompt shorter once."""

    def __init__(self, *shorter: PromptMessage) -> None:
        self.shorter = shorter

    async def condensed(
        self, in_flight: Sequence[Entry], *, counted: int, is_refused: bool = False
    ) -> Sequence[PromptMessage] | None:
        assert is_refused
        return self.shorter or None


class Otherwise:
    """The engine for all other models."""

    def __init__(self) -> None:
        self.models: list[str] = []

    async def take_steps(self, turn: Turn, context: Any, first: FirstPrompt) -> None:
        self.models.append(first.model)


class Till:
    """`Gate` and `Ticket` in one: lets everybody in, unless it is closed, and remembers what was paid."""

    def __init__(self, refusal: BudgetSpent | None = None) -> None:
        self.planned: list[Planned] = []
        self.paid: list[Amounts] = []
        self._refusal = refusal

    async def admit(self, owner: SessionKey, plan: Callable[[], Planned]) -> Till:
        if self._refusal is not None:
            raise self._refusal
        self.planned.append(plan())
        return self

    async def renew(self) -> None:
        raise AssertionError("the program tries again by itself")

    async def settle(self, cost: Amounts, *, is_last: bool = False) -> None:
        self.paid.append(cost)

    def settle_soon(self, cost: Amounts) -> None:
        self.paid.append(cost)


class Pictures:
    """A gallery of these images, by their paths."""

    def __init__(self, pictures: Mapping[str, bytes] = {}) -> None:
        self._pictures = pictures

    async def __call__(self, key: SessionKey, path: str) -> bytes | None:
        return self._pictures.get(path)


def user(text: str, *images: str) -> PromptMessage:
    return PromptMessage(Role.USER, CleanText(text), images=tuple(Image(path, "image/png") for path in images))


def left_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def converse(
    *clis: ClaudeCli,
    tools: Sequence[Tool] = (),
    policy: Policy = OPEN,
    prompt: Sequence[PromptMessage] = (user("hello"),),
    window: Shortening | None = None,
    taken: Turn | None = None,
    rounds_max: int = 25,
    asked: Any = None,
    model: str = MODEL,
    otherwise: Otherwise | None = None,
    gate: Till | None = None,
    pictures: Mapping[str, bytes] = {},
    sees: bool = True,
) -> Turn:
    """One turn, each attempt with the next program."""
    runs = iter(clis)
    engine = ClaudeEngine(
        ModelClient(Priced(sees=sees), gate=gate or Till()),
        registry(*tools, policy=policy),
        Scrubber(),
        SystemClock(),
        otherwise=otherwise or Otherwise(),
        gallery=Pictures(pictures),
        rounds_max=rounds_max,
        transport=lambda: next(runs),
    )
    taken = taken or begun_turn()
    first = FirstPrompt(model, literal_text("You are a test."), prompt, window or Shortening())
    await engine.take_steps(taken, asked or context(), first)
    return taken


async def test_an_answer_is_heard_charged_and_counted() -> None:
    """Tokens that came from the prompt cache, and those that went into it, belong to the prompt."""
    taken = await converse(ClaudeCli([Step("Hello to you.")]))
    assert taken.answer == "Hello to you."
    assert [(entry.role, entry.text, entry.turn_id) for entry in taken.entries] == [
        (Role.ASSISTANT, "Hello to you.", "turn-1")
    ]
    (usage,) = taken.usage
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (95, 80, 7)
    assert (usage.cost_usd, usage.model, usage.turn_id) == (0.25, MODEL, "turn-1")
    assert taken.prompt_tokens == 95


async def test_tools_run_through_our_registry() -> None:
    """Call and result are entries under our own names, in order."""
    steps = [Step("Let me add.", [("adder", {"a": 2}), ("adder", {"a": 5})]), Step("Done.")]
    adder = tool("adder", lambda arguments: f"sum {arguments['a'] + 1}", properties={"a": {"type": "integer"}})
    taken = await converse(cli := ClaudeCli(steps), tools=[adder])
    assert cli.results == [("sum 3", False), ("sum 6", False)]
    assert [entry.role for entry in taken.entries] == [Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.ASSISTANT]
    speech, first, second, _ = taken.entries
    assert [(call.name, json.loads(call.arguments)) for call in speech.tool_calls] == [
        ("adder", {"a": 2}),
        ("adder", {"a": 5}),
    ]
    assert [first.tool_call_id, second.tool_call_id] == [call.id for call in speech.tool_calls]
    assert (speech.text, taken.answer) == ("Let me add.", "Done.")


async def test_an_answer_is_shown_while_it_is_made() -> None:
    """What each message has said by then, clean; the next one begins anew."""
    hold, shown = FreeHold(), list[str]()

    async def think(number: int) -> None:
        if number == 1:
            await until(lambda: hold.drafts[0]().startswith("Let me look"), lambda: hold.drafts[0]())
            shown.append(hold.drafts[0]())

    steps = [Step(f"Let me look, the key is {SECRET}, so far so good. " * 3, [("reader", {})]), Step("Nothing there.")]
    taken = await converse(ClaudeCli(steps, think=think), tools=[tool("reader")], taken=begun_turn(hold))
    assert taken.answer == "Nothing there."
    assert SECRET not in shown[0]
    assert "Let me look" not in hold.drafts[0]()


class Joining(FreeHold):
    """Somebody writes as soon as the first tool has run."""

    def __init__(self) -> None:
        super().__init__()
        self._newcomers = [
            Joined(message("rather the blue one"), Entry(Role.USER, literal_text("rather the blue one")))
        ]

    async def join(self) -> Sequence[Joined]:
        newcomers, self._newcomers = self._newcomers, []
        return newcomers


STEERED = [Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.USER, Role.ASSISTANT]


def meeting() -> Tool:
    """A tool that waits until it runs twice at once."""
    both = asyncio.Barrier(2)

    async def meet(_context: Any, _arguments: Any) -> str:
        await both.wait()
        return "met"

    made = tool("meet")
    object.__setattr__(made, "run", meet)
    return made


async def test_tools_of_one_round_run_at_once_and_newcomers_are_told_with_their_results() -> None:
    """In the transcript they follow all of these, and no result holds their words."""
    cli = ClaudeCli([Step("", [("meet", {}), ("meet", {})]), Step("The blue one.")])
    taken = await converse(cli, tools=[meeting()], taken=begun_turn(Joining()))
    assert [entry.role for entry in taken.entries] == STEERED
    assert [entry.text for entry in taken.entries[1:4]] == ["met", "met", "rather the blue one"]
    assert sum("rather the blue one" in text for text, _ in cli.results) == 1
    assert [newcomer.text for newcomer in taken.joined] == ["rather the blue one"]


async def test_only_permitted_tools_are_offered_and_the_others_refused() -> None:
    """The policy stands, whatever the program asks for."""
    policy = Policy((*OPEN.lines, PolicyLine("shell", Permission.DENY)))
    tools = [tool("reader"), tool("shell", risk=Risk.EXECUTE)]
    cli = ClaudeCli([Step("", [("shell", {})]), Step("Pity.")])
    await converse(cli, tools=tools, policy=policy)
    assert {offer["name"] for offer in cli.offered} == {"reader", "read_more"}
    assert cli.results[0][1]


async def test_what_the_model_and_its_tools_say_is_scrubbed() -> None:
    """Text, arguments, results: in the transcript, in the answer, and on the way back to the model."""
    steps = [Step("", [("reader", {"with": SECRET})]), Step(f"Your key is {SECRET}.")]
    taken = await converse(cli := ClaudeCli(steps), tools=[tool("reader", lambda _: f"key={SECRET}")])
    assert SECRET not in str(taken)
    assert SECRET not in str(cli.results)


async def test_a_failed_tool_comes_with_the_note_of_self_correction() -> None:
    def fail(_arguments: Any) -> str:
        raise RuntimeError("inside")

    cli = ClaudeCli([Step("", [("broken", {})]), Step("I see.")])
    taken = await converse(cli, tools=[tool("broken", fail)])
    ((text, is_error),) = cli.results
    assert is_error
    assert "broken failed" in text
    assert "cause" in text
    assert taken.entries[1].is_error


def said_of(prompt: Sequence[PromptMessage]) -> tuple[list[tuple[str, Any]], Any]:
    """The messages of the history, as role and blocks, and the request."""
    conversation = as_messages(prompt, None)
    return [(message["role"], message["content"]) for message in conversation.history], conversation.request


def test_history_becomes_messages_with_calls_and_results_in_pairs() -> None:
    """Ids that repeat are told apart; what is no object stays as it was written; who says nothing has no message."""
    first, second = (ToolCall("c1", "reader", CleanText(arguments)) for arguments in ('{"path": "a"}', "broken"))
    found = PromptMessage(Role.TOOL, literal_text("An order."), tool_call_id="c1")
    silent = PromptMessage(Role.ASSISTANT, literal_text(""))
    prompt = (
        user("What is in a?"),
        PromptMessage(Role.ASSISTANT, literal_text("Let me look."), (first,)),
        found,
        PromptMessage(Role.ASSISTANT, literal_text(""), (second,)),
        found,
        silent,
        user("and now?"),
    )
    history, request = said_of(prompt)
    assert request == "and now?"
    name = "mcp__trivet__reader"
    assert history == [
        ("user", [{"type": "text", "text": "What is in a?"}]),
        (
            "assistant",
            [
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "toolu_1_0", "name": name, "input": {"path": "a"}},
            ],
        ),
        ("user", [{"type": "tool_result", "tool_use_id": "toolu_1_0", "content": "An order."}]),
        ("assistant", [{"type": "tool_use", "id": "toolu_3_0", "name": name, "input": {"arguments": "broken"}}]),
        ("user", [{"type": "tool_result", "tool_use_id": "toolu_3_0", "content": "An order."}]),
    ]


def test_a_prompt_that_ends_with_work_asks_to_go_on() -> None:
    assert said_of((user("only this"),)) == ([], "only this")
    _, request = said_of((user("do it"), PromptMessage(Role.ASSISTANT, literal_text("half done"))))
    assert request.startswith("Go on")


def shows(path: str, data: str) -> list[dict[str, Any]]:
    source = {"type": "base64", "media_type": "image/png", "data": data}
    return [{"type": "text", "text": f"{path}:"}, {"type": "image", "source": source}]


async def test_images_are_shown_below_their_paths() -> None:
    """Where they were sent; of one that is gone the model is told."""
    red = PromptMessage(Role.ASSISTANT, literal_text("Red."))
    prompt = (user("look", "a.png"), red, user("and now?", "b.png", "c.png"))
    pictures, till = {"a.png": b"red", "c.png": b"blue"}, Till()
    taken = await converse(cli := ClaudeCli([Step("Blue.")]), prompt=prompt, pictures=pictures, gate=till)
    assert cli.said_blocks == [
        {"type": "text", "text": "[The image b.png could not be shown to you.]"},
        *shows("c.png", "Ymx1ZQ=="),
        {"type": "text", "text": "and now?"},
    ]
    earlier = as_messages(prompt, dict.fromkeys(prompt[0].images, b"red")).history[0]
    assert earlier["content"] == [*shows("a.png", "cmVk"), {"type": "text", "text": "look"}]
    assert taken.answer == "Blue."
    await converse(ClaudeCli([Step("Blue.")]), prompt=prompt, gate=till)
    with_two, without = till.planned
    assert with_two.most.tokens - without.most.tokens == 2 * IMAGE_TOKENS


def test_a_name_that_a_model_made_up_is_sent_in_signs_that_are_taken() -> None:
    called = ToolCall("c1", "multi_tool_use.parallel", CleanText("{}"))
    history, _ = said_of((user("look"), PromptMessage(Role.ASSISTANT, literal_text(""), (called,)), user("and now?")))
    assert [block["name"] for block in history[1][1]] == ["mcp__trivet__multi_tool_use_parallel"]


async def test_more_images_than_one_request_takes_are_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.limits.CLAUDE_IMAGES_BYTES_MAX", 10)
    prompt = (user("look", "old.png", "new.png"),)
    await converse(cli := ClaudeCli([Step("ok")]), prompt=prompt, pictures={"old.png": b"x" * 6, "new.png": b"y" * 6})
    told = [block.get("text") for block in cli.said_blocks]
    assert told == ["[The image old.png could not be shown to you.]", "new.png:", None, "look"]


async def test_images_that_are_refused_are_left_out_and_the_model_is_told() -> None:
    """Else they would cost their author the conversation. A key that is refused is another matter."""
    refusal = {"is_error": True, "result": "Could not process image", "api_error_status": 400}
    refused, accepted = ClaudeCli([], refusal), ClaudeCli([Step("I see nothing.")])
    taken = await converse(refused, accepted, prompt=(user("look", "a.png"),), pictures={"a.png": b"red"})
    assert taken.answer == "I see nothing."
    assert [block["text"] for block in accepted.said_blocks] == ["[The image a.png could not be shown to you.]", "look"]
    wrong_key = ClaudeCli([], {"is_error": True, "result": "Invalid API key", "api_error_status": 401})
    with pytest.raises(KeyRejected):
        await converse(wrong_key, prompt=(user("look", "a.png"),), pictures={"a.png": b"red"})


async def test_a_model_that_sees_nothing_is_shown_nothing() -> None:
    """What it is told of images, the turn says."""
    pictures, prompt = {"a.png": b"x"}, (user("look", "a.png"),)
    await converse(cli := ClaudeCli([Step("ok")]), prompt=prompt, pictures=pictures, sees=False)
    assert cli.said == ["look"]


async def test_after_the_last_round_tools_are_off_and_the_model_is_told_to_wrap_up() -> None:
    ran: list[int] = []

    def count(_arguments: Any) -> str:
        ran.append(1)
        return "counted"

    counter = tool("counter", count)
    steps = [Step("", [("counter", {})])] * 4 + [Step("That is what I found.")]
    taken = await converse(cli := ClaudeCli(steps), tools=[counter], rounds_max=2)
    assert len(ran) == 2
    assert cli.results[2:] == [(PROMPTS.wrap_up, True)] * 2
    assert taken.answer == "That is what I found."


@pytest.mark.parametrize(
    ("stop", "ending"), [("max_tokens", StopReason.CUT), ("refusal", StopReason.REFUSED), ("end_turn", None)]
)
@pytest.mark.parametrize("said_by_result", [True, False])
async def test_an_answer_that_is_not_whole_is_marked(
    stop: str, ending: StopReason | None, said_by_result: bool
) -> None:
    cli = ClaudeCli(
        [Step("Half of", stop="" if said_by_result else stop)], ending={"stop_reason": stop} if said_by_result else {}
    )
    taken = await converse(cli)
    assert taken.answer == "Half of"
    assert taken.notes == ([ending_note(ending, words_for("en"))] if ending else [])


async def test_no_step_begins_without_a_permit() -> None:
    """Neither the first, nor a tool, nor what the model would do with its result."""
    permits = 0

    async def permit() -> None:
        nonlocal permits
        permits += 1

    asked = context()
    object.__setattr__(asked, "permit", permit)
    await converse(ClaudeCli([Step("", [("reader", {})]), Step("ok")]), tools=[tool("reader")], asked=asked)
    assert permits == 3


async def test_a_turn_without_a_permit_starts_no_program() -> None:
    async def ended() -> None:
        raise asyncio.CancelledError

    asked = context()
    object.__setattr__(asked, "permit", ended)
    cli = ClaudeCli([Step("never")])
    with pytest.raises(asyncio.CancelledError):
        await converse(cli, asked=asked)
    assert cli.said == []


async def test_a_turn_is_reserved_before_the_program_starts_and_settled_for_what_it_cost() -> None:
    till = Till()
    taken = await converse(ClaudeCli([Step("Hello.")]), gate=till)
    (planned,), (paid,) = till.planned, till.paid
    assert planned.begins_turn
    assert planned.most.tokens > 0
    assert paid.tokens == sum(call.prompt_tokens + call.completion_tokens for call in taken.usage) > 0


async def test_at_the_limit_no_program_starts() -> None:
    with pytest.raises(BudgetSpent):
        await converse(gate=Till(BudgetSpent(Measure.TURNS, reset_at_ms=1)))


async def test_a_stop_ends_the_program_and_keeps_what_was_done() -> None:
    """What it had cost by then is in the ledger, by the list of prices."""
    gate = asyncio.Event()

    async def think(number: int) -> None:
        if number == 1:
            await gate.wait()

    cli = ClaudeCli([Step("", [("reader", {})]), Step("never")], think=think)
    taken = begun_turn()
    running = asyncio.create_task(converse(cli, tools=[tool("reader")], taken=taken))
    await until(lambda: len(taken.entries) == 2, lambda: taken)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: cli.is_closed, lambda: cli)
    assert taken.answer is None
    (usage,) = taken.usage
    assert usage.prompt_tokens == 95
    assert usage.cost_usd == pytest.approx(15 * 0.001 + 80 * 0.0001 + 7 * 0.01)


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ({"is_error": True, "result": f"API Error: 529 {SECRET}", "api_error_status": 529}, ModelUnavailable),
        ({"is_error": True, "result": "Invalid API key", "api_error_status": 401}, KeyRejected),
        ({"is_error": True, "result": "Credit balance is too low", "api_error_status": 402}, QuotaSpent),
        ({"is_error": True, "result": "no such model", "api_error_status": 404}, ModelRejected),
        ({"is_error": True, "result": "Prompt is too long", "api_error_status": 400}, ContextTooLong),
        ({"is_error": True, "subtype": "error_max_turns", "result": None}, ModelError),
    ],
)
async def test_failures_are_told_apart_and_say_nothing_of_the_provider(
    ending: dict[str, Any], expected: type[ModelError]
) -> None:
    with pytest.raises(expected) as caught:
        await converse(ClaudeCli([Step("half an answer")], ending))
    assert type(caught.value) is expected
    assert SECRET not in str(caught.value)


async def test_a_prompt_that_is_too_long_is_made_shorter_once() -> None:
    too_long = {"is_error": True, "result": "Prompt is too long", "api_error_status": 400}
    refused, accepted = ClaudeCli([], too_long), ClaudeCli([Step("Better.")])
    taken = await converse(refused, accepted, prompt=(user("long"),), window=Shortening(user("short")))
    assert (taken.answer, accepted.said) == ("Better.", ["short"])
    with pytest.raises(ContextTooLong):
        await converse(ClaudeCli([], too_long), ClaudeCli([], too_long), window=Shortening(user("short")))


async def test_a_step_that_takes_too_long_ends_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step has its whole time, and a tool does not use it up: a person may have been asked."""
    monkeypatch.setattr("agent.limits.ROUND_TIMEOUT_S", 0.6)
    gate = asyncio.Event()

    async def think(number: int) -> None:
        if number == 1:
            await asyncio.Event().wait()

    async def wait(_context: Any, _arguments: Any) -> str:
        await asyncio.sleep(0.7)
        gate.set()
        return "done"

    slow = tool("slow")
    object.__setattr__(slow, "run", wait)
    with pytest.raises(ModelTooSlow):
        await converse(ClaudeCli([Step("", [("slow", {})]), Step("never")], think=think), tools=[slow])
    assert gate.is_set()


async def test_another_familys_model_is_left_to_our_own_loop() -> None:
    """A session may have chosen one."""
    otherwise = Otherwise()
    await converse(model="openai/gpt-4o", otherwise=otherwise)
    assert otherwise.models == ["openai/gpt-4o"]


async def test_a_strangers_schema_makes_the_sdk_fetch_nothing() -> None:
    """A `$ref` to somewhere else is not shown to the SDK; our registry checks the arguments as ever."""
    foreign = tool("foreign", properties={"a": {"$ref": "http://127.0.0.1:9/schema"}})
    cli = ClaudeCli([Step("", [("foreign", {"a": 1})]), Step("ok")])
    await converse(cli, tools=[foreign])
    assert "$ref" not in str(cli.offered)


async def test_the_real_program_is_given_nothing_but_our_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No built-in tools, no settings or memories of the machine, a folder of its own, no prompt in its arguments."""
    seen: list[Any] = []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    class Recording(claude_agent_sdk.ClaudeSDKClient):
        def __init__(self, options: Any, transport: Any) -> None:
            seen.append(options)
            super().__init__(options, transport)

    monkeypatch.setattr(claude_agent_sdk, "ClaudeSDKClient", Recording)
    await converse(ClaudeCli([Step("ok")]), tools=[tool("reader")])
    (options,) = seen
    assert options.tools == []
    assert options.setting_sources == []
    assert options.strict_mcp_config
    assert (options.permission_mode, options.model) == ("dontAsk", "claude-sonnet-4-6")
    assert set(options.allowed_tools) == {"mcp__trivet__reader", "mcp__trivet__read_more"}
    assert options.env["CLAUDE_CONFIG_DIR"] == str(options.cwd)
    assert options.cwd.parent == tmp_path
    assert options.system_prompt["type"] == "file"
    assert left_in(tmp_path) == []


def real_engine(api_base: str, *tools: Tool, pictures: Mapping[str, bytes] = {}, **parameters: Any) -> ClaudeEngine:
    """With the program that came with the SDK, for an endpoint with these parameters."""
    return ClaudeEngine(
        ModelClient(Priced(), gate=Till()),
        registry(*tools),
        Scrubber(),
        SystemClock(),
        otherwise=Otherwise(),
        gallery=Pictures(pictures),
        rounds_max=5,
        endpoint_of=partial(ModelEndpoint, api_key="sk-ant-nobody", api_base=api_base, **parameters),
    )


async def ask_real(engine: ClaudeEngine, prompt: Sequence[PromptMessage], taken: Turn) -> None:
    first = FirstPrompt(MODEL, literal_text("You are the keeper of the lighthouse."), prompt, Shortening())
    await engine.take_steps(taken, context(), first)


async def test_the_real_program_that_reaches_nobody_is_a_plain_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says about that is neither an answer nor part of the transcript."""
    monkeypatch.setitem(claude._QUIET, "CLAUDE_CODE_MAX_RETRIES", "0")
    taken = begun_turn()
    with pytest.raises(ModelUnavailable, match="server_error"):
        await ask_real(real_engine("http://127.0.0.1:9"), (user("hello"),), taken)
    assert (taken.answer, taken.entries, taken.usage) == (None, [], [])


def plain(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Blocks without marks for caches; the program writes a text alone as a string."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [{name: value for name, value in block.items() if name != "cache_control"} for block in blocks]


async def test_the_real_program_on_an_api_of_our_own() -> None:
    """System prompt, history and tools arrive; a tool runs; the answer, its tokens and its entries come back."""
    reader = tool("reader", lambda arguments: f"The lamp is {arguments['colour']}.", properties={"colour": {}})
    async with serve_anthropic([Step("", [("reader", {"colour": "red"})]), Step("It is red.")]) as api:
        taken = begun_turn()
        call = ToolCall("c1", "reader", CleanText('{"colour": "blue"}'))
        prompt = (
            user("My name is Ann."),
            PromptMessage(Role.ASSISTANT, literal_text("Hello Ann."), (call,)),
            PromptMessage(Role.TOOL, literal_text("It was blue."), tool_call_id="c1"),
            PromptMessage(Role.ASSISTANT, literal_text("It was blue.")),
            user("The lamp?"),
        )
        await ask_real(real_engine(api.url, reader), prompt, taken)
    assert taken.answer == "It is red."
    assert [entry.role for entry in taken.entries] == [Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert taken.entries[1].text == "The lamp is red."
    first, second = (request for request in api.requests if request.get("tools"))
    assert "keeper of the lighthouse" in json.dumps(first["system"])
    assert [message["role"] for message in first["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    told = as_messages(prompt, None).history
    assert [plain(message["content"]) for message in first["messages"][:4]] == [
        plain(message["content"]) for message in told
    ]
    assert {offer["name"] for offer in first["tools"]} == {"mcp__trivet__reader", "mcp__trivet__read_more"}
    assert "The lamp is red." in json.dumps(second["messages"])
    assert (taken.usage[0].prompt_tokens, taken.usage[0].completion_tokens) == (2 * 30, 2 * 5)


async def test_the_real_program_shows_images() -> None:
    async with serve_anthropic([Step("It is red.")]) as api:
        taken, picture = begun_turn(), png(16)
        engine = real_engine(api.url, tool("reader"), pictures={"inbox/a.png": picture})
        await ask_real(engine, (user("What colour is it?", "inbox/a.png"),), taken)
    assert taken.answer == "It is red."
    (request,) = (request for request in api.requests if request.get("tools"))
    blocks = [block for message in request["messages"] for block in message["content"]]
    (shown,) = (block for block in blocks if block["type"] == "image")
    assert base64.b64decode(shown["source"]["data"]) == picture
    told = [block["text"] for block in blocks if block["type"] == "text"]
    assert "inbox/a.png:" in told
    assert "What colour is it?" in told


async def test_the_real_program_calls_tools_at_once_passes_newcomers_on_and_streams() -> None:
    hold = Joining()
    steps = [
        Step("Let me see what there is in the lighthouse.", [("meet", {}), ("meet", {})]),
        Step("It is the blue one, which hangs above the door of the house."),
    ]
    async with serve_anthropic(steps) as api:
        taken = begun_turn(hold)
        await ask_real(real_engine(api.url, meeting()), (user("which lamp?"),), taken)
    assert [entry.role for entry in taken.entries] == STEERED
    assert [entry.text for entry in taken.entries[1:4]] == ["met", "met", "rather the blue one"]
    _, second = (request for request in api.requests if request.get("tools"))
    assert json.dumps(second["messages"]).count("rather the blue one") == 1
    assert hold.drafts[0]()


@pytest.mark.parametrize(
    ("effort", "thinking", "passed_on"),
    [("none", "disabled", "high"), ("minimal", "adaptive", "low"), ("medium", "adaptive", "medium")],
)
async def test_the_real_program_thinks_and_writes_as_much_as_its_entry_says(
    effort: str, thinking: str, passed_on: str
) -> None:
    async with serve_anthropic([Step("It is red.")]) as api:
        engine = real_engine(api.url, reasoning_effort=effort, max_tokens=1_234)
        await ask_real(engine, (user("What colour?"),), begun_turn())
    (request,) = (request for request in api.requests if request.get("tools"))
    assert request["max_tokens"] == 1_234
    assert (request["thinking"]["type"], request["output_config"]["effort"]) == (thinking, passed_on)


def test_without_the_extra_the_start_stops_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)
    with pytest.raises(ConfigError, match=r"pip install -e '\.\[claude\]'"):
        claude.load_sdk()


def test_the_engine_needs_a_model_it_can_answer_with() -> None:
    def engine_of(model: str) -> Engine:
        settings = AgentSettings(model=model, engine="claude_sdk")
        others = (registry(), Scrubber(), SystemClock(), Pictures())
        return assembly._engine(settings, ModelClient(Priced(), gate=Till()), ModelEndpoint, *others)

    with pytest.raises(ConfigError, match=r"agent\.model is openai/gpt-4o"):
        engine_of("openai/gpt-4o")
    assert isinstance(engine_of(MODEL), ClaudeEngine)


def test_an_entry_whose_temperature_the_program_cannot_pass_on_is_refused_at_the_start() -> None:
    def engine_of(temperature: float | None = None) -> Engine:
        settings = AgentSettings(model="careful", engine="claude_sdk")
        others = (registry(), Scrubber(), SystemClock(), Pictures())
        endpoint_of = partial(ModelEndpoint, MODEL, temperature=temperature)
        return assembly._engine(settings, ModelClient(Priced()), lambda _name: endpoint_of(), *others)

    with pytest.raises(ConfigError, match=r"models\.careful\.temperature: .* takes none"):
        engine_of(temperature=0.2)
    assert isinstance(engine_of(), ClaudeEngine)
