"""The parent as its child knows it: whom to ask for models and tools, and who may end it all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from agent.subagents.codec import FrameTooLong
from agent.subagents.frames import (
    Call,
    Chunk,
    ModelCall,
    ModelDelta,
    ModelResult,
    ToChild,
    ToolCall,
    ToolOutcome,
    ToParent,
)

_Answer = TypeVar("_Answer")


class Parent:
    """Asks through `send`, which raises `FrameTooLong`; answers come in by `heard`."""

    def __init__(self, send: Callable[[ToParent], None]) -> None:
        self._send = send
        self._models: dict[str, asyncio.Future[ModelResult]] = {}
        self._tools: dict[str, asyncio.Future[ToolOutcome]] = {}

    async def model(self, call: ModelCall) -> ModelResult:
        """The answer of a model; a prompt that fits into no frame is too long as any other."""
        with _awaited(self._models, call.id) as answer:
            try:
                self._send(call)
            except FrameTooLong as error:
                return ModelResult(call.id, error=str(error), is_too_long=True)
            return await answer

    async def tool(self, call: Call) -> ToolOutcome:
        """What a tool of the parent came to."""
        with _awaited(self._tools, call.id) as answer:
            try:
                self._send(ToolCall(call.id, call.name, call.arguments))
            except FrameTooLong as error:
                return ToolOutcome(call.id, str(error), is_error=True)
            return await answer

    def heard(self, frame: ToChild) -> bool:
        """Take a frame; False for one that answers nothing that was asked."""
        match frame:
            case ModelDelta(id=name, delta=delta) if name in self._models:
                self._send(Chunk(delta))
                return True
            case ModelResult():
                return _settled(self._models, frame.id, frame)
            case ToolOutcome():
                return _settled(self._tools, frame.id, frame)
            case _:
                return False


@contextmanager
def _awaited(waiting: dict[str, asyncio.Future[_Answer]], name: str) -> Iterator[asyncio.Future[_Answer]]:
    waiting[name] = asyncio.get_running_loop().create_future()
    try:
        yield waiting[name]
    finally:
        del waiting[name]


def _settled(waiting: dict[str, asyncio.Future[_Answer]], name: str, answer: _Answer) -> bool:
    if name not in waiting or waiting[name].done():
        return False
    waiting[name].set_result(answer)
    return True
