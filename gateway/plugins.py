"""The plug-in API, version 1: what packages of other people may add to Trivet, and how it is loaded.

A package lists what it adds as entry points of `trivet.tools`, `trivet.commands`, `trivet.hooks` and `trivet.channels`,
and its top module has `TRIVET_PLUGIN_API = 1`. Nothing is imported of a package that `plugins.enabled` does not name.
What is broken is logged and left out. `docs/extend/plugins.md` is the manual, `examples` holds a package of each kind.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import KW_ONLY, dataclass, field, replace
from importlib import import_module
from threading import BoundedSemaphore, Thread
from typing import Any, Final, Literal, get_args, get_type_hints

import structlog
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from gateway.contracts.commands import COMMANDS, CommandSpec, HelpTopic
from gateway.contracts.errors import FailureCause, PluginBroken
from gateway.contracts.errors import ToolError as ToolError
from gateway.contracts.ids import EVENTS, SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import GrantRole
from gateway.limits import HOOK_CHARS_MAX, HOOK_REST_S, HOOK_TIMEOUT_S, PLUGIN_THREADS_MAX
from gateway.packages import HookPoint, PluginKind, PluginPart, enabled_parts, parts_of

API_VERSION: Final = 1
DECLARATION: Final = "TRIVET_PLUGIN_API"
RiskName = Literal["read", "write", "execute", "network", "spend"]

_log = structlog.get_logger(__name__)
_ABOUT_CHARS_MAX: Final = 100  # as of our own commands
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_OUR_CHANNELS: Final = frozenset({"telegram", "discord", "slack", "api", "cli", EVENTS})
_OUR_COMMANDS: Final = frozenset(spec.name for spec in COMMANDS)


@dataclass(frozen=True, slots=True)
class Caller:
    """The person for whom a tool or a command runs, and the conversation in which that was asked for."""

    person: SessionKey
    conversation: SessionKey
    role: GrantRole
    is_private: bool
    language: str = ""


# Tools: a function whose annotations are the schema of its arguments, and whose docstring is what the model reads.


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A function as a tool, as `tool` made it. Its entry point gives it its name."""

    function: Callable[..., Any]
    description: str
    risk: RiskName
    category: str
    timeout_s: float | None
    is_foreign: bool
    arguments: type[BaseModel] = field(repr=False)
    caller: str
    """The name of the parameter that takes the `Caller`; "" for none."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function itself, as the tests of a plug-in do."""
        return self.function(*arguments, **named)

    @property
    def schema(self) -> dict[str, Any]:
        """Describe the arguments in JSON Schema."""
        schema: dict[str, Any] = _untitled(self.arguments.model_json_schema())
        return schema

    async def run(self, caller: Caller, arguments: Mapping[str, Any]) -> str:
        """Run the tool; a result that is no text is given as JSON. Raises `ToolError`, and what the function raises."""
        try:
            checked = self.arguments.model_validate(arguments)
        except ValidationError as error:
            said = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise ToolError(said, FailureCause.ARGUMENTS) from None
        named = {name: getattr(checked, name) for name in self.arguments.model_fields}
        result = await call(self.function, **named, **({self.caller: caller} if self.caller else {}))
        return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)


def tool(
    *, risk: RiskName, category: str = "plug-ins", timeout_s: float | None = None, is_foreign: bool = True
) -> Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function with annotations and a docstring. `risk` is the worst that it can do, by which
    `tools.policy` decides. What it returns counts as the words of others unless `is_foreign` is False. A parameter of
    type `Caller` is filled by us and not by the model. Raises `TypeError` for a function that does not tell enough."""
    if risk not in get_args(RiskName):
        raise TypeError(f"risk must be one of {', '.join(get_args(RiskName))}")

    def made(function: Callable[..., Any]) -> FunctionTool:
        hints = get_type_hints(function, include_extras=True)
        callers = [name for name, hint in hints.items() if hint is Caller]
        fields: dict[str, Any] = {}
        for name, parameter in inspect.signature(function).parameters.items():
            if name in callers:
                continue
            if name not in hints or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise TypeError(f"{function.__name__}: the parameter {name} needs an annotation, and * is not possible")
            fields[name] = (hints[name], ... if parameter.default is parameter.empty else parameter.default)
        arguments = create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)
        described = _described(function)
        return FunctionTool(
            function, described, risk, category, timeout_s, is_foreign, arguments, callers[0] if callers else ""
        )

    return made


def _described(function: Callable[..., Any]) -> str:
    if not (text := inspect.getdoc(function)):
        raise TypeError(f"{function.__name__} needs a docstring, which says what it is for")
    return text


def _untitled(schema: Any) -> Any:
    """Leave the titles out that pydantic gives to everything: the model pays for each word."""
    if isinstance(schema, list):
        return [_untitled(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _untitled(value) for key, value in schema.items() if key != "title" or not isinstance(value, str)}


# Commands: a function of what follows the command's name and of the person who said it.


@dataclass(frozen=True, slots=True)
class FunctionCommand:
    """A function as a slash command, as `command` made it. Its entry point gives it its name."""

    function: Callable[[str, Caller], Any]
    about: str
    argument: str
    role: GrantRole

    def __call__(self, argument: str, caller: Caller) -> Any:
        """Call the function itself, as the tests of a plug-in do."""
        return self.function(argument, caller)

    def spec(self, name: str) -> CommandSpec:
        """Return its row of /help under this name."""
        return CommandSpec(name, self.about, self.argument, role=self.role, is_in_menu=False, topic=HelpTopic.AGENT)


def command(
    *, argument: str = "", role: str = GrantRole.GUEST
) -> Callable[[Callable[[str, Caller], Any]], FunctionCommand]:
    """Make a command of a function that returns its answer. Persons of `role` or more may use it; /help shows them the
    first line of its docstring, and `argument` as the name of what may follow. Raises `TypeError`, `ValueError`."""

    def made(function: Callable[[str, Caller], Any]) -> FunctionCommand:
        about = _described(function).partition("\n")[0].rstrip(".")
        if len(about) > _ABOUT_CHARS_MAX:
            raise ValueError(f"the first line of the docstring has more than {_ABOUT_CHARS_MAX} characters")
        return FunctionCommand(function, about, argument, GrantRole(role))

    return made


# Hooks: functions that see what passes, and may change it. Each has little time, and none can hold anything up.


@dataclass(frozen=True, slots=True)
class HookEvent:
    """The argument of a hook. Its text holds no secret that we know. `id` is that of the message, the turn or the
    reply; after a crash the same id may come again. `outcome` is `sent`, `failed` or `unknown` on delivery."""

    point: HookPoint
    text: CleanText
    conversation: SessionKey
    id: str
    outcome: str = ""


Clean = Callable[[str], CleanText]


@dataclass(eq=False, repr=False)
class Hooks:
    """The hooks that a process calls, in the order of `plugins.enabled`, each with its name and point. `count_failure`
    is told the name of one that failed.

    A hook that raises is logged, counted and skipped; one that takes longer than `timeout_s` is then left alone for
    HOOK_REST_S, so that no queue forms before it. Nothing is raised, and what hooks return is scrubbed."""

    hooks: Sequence[tuple[str, HookPoint, Callable[[HookEvent], Any]]]
    count_failure: Callable[[str], None]
    _: KW_ONLY
    timeout_s: float = HOOK_TIMEOUT_S
    _rests_until_s: dict[str, float] = field(init=False, default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.hooks)

    async def replaced(self, event: HookEvent, clean: Clean) -> CleanText:
        """Return the text as the hooks of this point leave it, one after the other."""
        for name, function in self._of(event.point):
            if said := await self._said(name, function, event):
                event = replace(event, text=clean(said))
        return event.text

    async def gathered(self, event: HookEvent, clean: Clean) -> tuple[CleanText, ...]:
        """Return what the hooks of this point say of the event."""
        said = [await self._said(name, function, event) for name, function in self._of(event.point)]
        return tuple(clean(each) for each in said if each)

    def _of(self, point: HookPoint) -> Iterator[tuple[str, Callable[[HookEvent], Any]]]:
        return ((name, function) for name, its_point, function in self.hooks if its_point is point)

    async def _said(self, name: str, function: Callable[[HookEvent], Any], event: HookEvent) -> str:
        """Return what a hook says; "" for nothing, and where it failed."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._rests_until_s.get(name, now_s):
            return ""
        limit = asyncio.timeout(self.timeout_s)
        try:
            async with limit:
                said = await call(function, event)
            if said is not None and not isinstance(said, str):
                raise TypeError(f"it returned {type(said).__name__}, neither text nor None")
            if said and len(said) > HOOK_CHARS_MAX:
                raise ValueError(f"it returned {len(said)} characters, and {HOOK_CHARS_MAX} are the most")
            return said if said and said.strip() else ""
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
        except Exception as error:  # noqa: BLE001 - named boundary, a plug-in: whatever it was, the message goes on
            _log.exception("hook.failed", hook=name, reason=type(error).__name__)
        if limit.expired():
            self._rests_until_s[name] = now_s + self.timeout_s + HOOK_REST_S
        self.count_failure(name)
        return ""


NO_HOOKS: Final = Hooks((), lambda _name: None)


def load_hooks(packages: Sequence[str], points: Iterable[HookPoint], count_failure: Callable[[str], None]) -> Hooks:
    """Import the hooks of these points, and no others. As every process does this once, a package that is not installed
    is told of here."""
    for package in packages:
        try:
            parts_of(package)
        except PluginBroken as error:
            _log.error("plugin.broken", reason=str(error))
    wanted = (*points, None)  # one without a point is broken, which is told
    found = [part for part in enabled_parts(packages, PluginKind.HOOKS) if part.point in wanted]
    hooks = [(f"{part.package}:{part.name}", part.point, each) for part, each in _loaded(found) if part.point]
    return Hooks(hooks, count_failure)


# A plug-in's function is called where it hurts least: a coroutine in the event loop, any other on a thread of its own.

_THREADS: Final = BoundedSemaphore(PLUGIN_THREADS_MAX)


async def call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Return what the function of a plug-in returns. A thread that does not end is left running when this is cancelled;
    it holds up neither the event loop nor the end of the process. Raises what it raises; an attempt to end the process
    becomes `RuntimeError`, and so does a call while too many threads hang."""
    if inspect.iscoroutinefunction(function):
        try:
            return await function(*arguments, **named)
        except (SystemExit, KeyboardInterrupt) as error:
            raise RuntimeError(type(error).__name__) from error
    if not _THREADS.acquire(blocking=False):
        raise RuntimeError(f"{PLUGIN_THREADS_MAX} calls of plug-ins hang already")
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(result)
        else:
            is_plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
            answer.set_exception(error if is_plain else RuntimeError(type(error).__name__))

    def work() -> None:
        result: Any = None
        failed: BaseException | None = None
        try:
            result = function(*arguments, **named)
        except BaseException as error:  # noqa: BLE001 - named boundary, a plug-in: raised again where it was called
            failed = error
        finally:
            _THREADS.release()
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, failed)

    Thread(target=copy_context().run, args=(work,), name="plug-in", daemon=True).start()
    return await answer


# What is installed becomes what is used.


def load_part(part: PluginPart) -> Any:
    """Import it: a `FunctionTool` or our own `Tool`, a `FunctionCommand`, a function, or the module of a channel.
    Raises `PluginBroken`."""
    try:
        needed = getattr(import_module(part.entry.module.partition(".")[0]), DECLARATION, None)
        found = part.entry.load() if needed == API_VERSION else None
    except (Exception, SystemExit) as error:
        raise part.broken(f"it cannot be imported ({type(error).__name__}: {error})") from error
    if needed is None:
        raise part.broken(f"its top module lacks {DECLARATION} = {API_VERSION}")
    if needed != API_VERSION:
        raise part.broken(f"it was made for version {needed!r} of the plug-in API, this Trivet has {API_VERSION}")
    if problem := _problem(part, found):
        raise part.broken(problem)
    return found


def describe(part: PluginPart) -> str:
    """Import it, and say in a few words what it may do. Raises `PluginBroken`."""
    found = load_part(part)
    if part.kind is PluginKind.TOOLS:
        return f"risk {found.risk}"
    return f"for {found.role.value}s and above" if part.kind is PluginKind.COMMANDS else ""


def _problem(part: PluginPart, found: Any) -> str:
    """Say in a clause why this is no such part; "" if it is."""
    if part.kind is PluginKind.HOOKS:
        if part.point is None:
            return f"its name must begin with one of {', '.join(HookPoint)}"
        return "" if callable(found) else "it is no function"
    if not _NAME.fullmatch(part.name):
        return "its name must be lower case letters, digits and underscores, 32 at most"
    match part.kind:
        case PluginKind.TOOLS:
            own = getattr(getattr(found, "spec", None), "name", "")
            is_tool = isinstance(found, FunctionTool) or (own == part.name and hasattr(found, "risk"))
            return "" if is_tool else "it is no tool of that name: put @tool(risk=...) above its function"
        case PluginKind.COMMANDS:
            if part.name in _OUR_COMMANDS:
                return "Trivet has a command of that name"
            return "" if isinstance(found, FunctionCommand) else "put @command() above its function"
        case PluginKind.CHANNELS:
            if part.name in _OUR_CHANNELS:
                return "Trivet has a channel of that name"
            lacks = [name for name in ("Account", "open_adapter") if not hasattr(found, name)]
            return f"its module lacks {' and '.join(lacks)}" if lacks else ""


def load_parts(packages: Iterable[str], kind: PluginKind) -> Iterator[tuple[PluginPart, Any]]:
    """Import what these packages add of one kind. What is broken, or has the name of one before, is logged and left
    out."""
    return _loaded(enabled_parts(packages, kind))


def _loaded(parts: Iterable[PluginPart]) -> Iterator[tuple[PluginPart, Any]]:
    taken: dict[str, str] = {}
    for part in parts:
        try:
            found = load_part(part)
        except PluginBroken as error:
            _log.error("plugin.broken", reason=str(error))
            continue
        name = f"{part.package}:{part.name}" if part.kind is PluginKind.HOOKS else part.name
        if name in taken:
            _log.error("plugin.broken", reason=f"{part.package} and {taken[name]} both add {part.kind.value} {name}")
            continue
        taken[name] = part.package
        _log.info("plugin.loaded", package=part.package, version=part.version, kind=part.kind.value, name=part.name)
        yield part, found
