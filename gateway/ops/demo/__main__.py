"""The composition root of `trivet demo [--headless | --emulators]`."""

from __future__ import annotations

import asyncio
import re
import shlex
import signal
import sys
from collections.abc import Callable, Container, Coroutine, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import httpx

from gateway.config import SCRIPTED_MODEL
from gateway.ops.demo.rig import DemoPorts, Rig, demo_rig, emulators_alone
from gateway.process import EXIT_FAILED, EXIT_OK, run_to_exit

HEADLESS: Final = "--headless"
EMULATORS: Final = "--emulators"
TRIES: Final = (
    {"topic": "What it can show", "text": "help"},
    {"topic": "Memory", "text": "remember my boat is called Teal Heron"},
    {"topic": "Reminders", "text": "/remind in 1 minute look at the boat"},
    {"topic": "Files", "text": 'tool file_write {"path": "notes.md", "content": "# Notes\\n- sails\\n- rope\\n"}'},
    {"topic": "Files, sent", "text": 'tool send_file {"path": "notes.md"}'},
    {"topic": "Approvals", "text": 'tool shell {"command": "date"}'},
    {"topic": "Groups", "text": "say Hello, everybody.", "place": "group"},
    {"topic": "Sub-agents", "text": "Split this over three helpers: read the files, find the tests, write it up"},
    {"topic": "A debate", "text": "orchestrate debate cats | dogs"},
)
"""The messages that the playground offers to send to the demo model."""
_QUIET: Final = {"TRIVET_LOG__LEVEL": "error"}  # the transcript is what one wants to read
_SCRIPTED: Final = {
    **_QUIET,
    "TRIVET_AGENT__MODEL": SCRIPTED_MODEL,
    "TRIVET_ACCESS__DEFAULT": "open",
    "TRIVET_LIMITS__GUEST__TURNS": "0",
}


def main() -> None:
    """Run one kind of demo; the exit code says whether every reply came."""
    asked = sys.argv[1:]
    kind = _play_headless if HEADLESS in asked else _serve_emulators if EMULATORS in asked else _open_playground
    sys.exit(asyncio.run(_until_stopped(kind())))


async def _play_headless() -> int:
    async with demo_rig(_SCRIPTED) as rig:
        missing = await play(rig, _write)
    if missing:
        sys.stderr.write("\n".join(("Missing:", *(f"- {sentence}" for sentence in missing), "")))
        return EXIT_FAILED
    _write("Every reply came, on every platform.")
    return EXIT_OK


async def _open_playground() -> int:
    ports = DemoPorts()
    while True:  # from one new beginning to the next
        async with demo_rig(_QUIET, tries=TRIES, ports=ports) as rig:
            _write(f"Playground: {rig.playground_url}")
            _write(f"Dashboard: {rig.board_url} (sign in with {rig.admin_token})")
            _write(f"Model: {rig.model}. Press Ctrl-C to end.")
            await rig.reset.wait()


async def _serve_emulators() -> int:
    """Write the settings to standard output, so that a shell can read them from a file, and the rest to a person."""
    async with emulators_alone(Path.cwd() / "emulated") as (playground_url, settings):
        for name, value in settings.items():
            _write(f"export {name}={shlex.quote(value)}")
        sys.stderr.write(f"Playground: {playground_url}\n")
        sys.stderr.write("Read the settings in another shell and start `trivet up` there. Press Ctrl-C to end.\n")
        await asyncio.Event().wait()  # until somebody ends it
    return EXIT_OK


async def _until_stopped(demo: Coroutine[Any, Any, int]) -> int:
    """Run the demo; SIGINT and SIGTERM end it in good order."""
    running = asyncio.create_task(demo)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    try:
        return await running
    except asyncio.CancelledError:
        return EXIT_OK if HEADLESS not in sys.argv[1:] else EXIT_FAILED


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


# The demo without a browser: plays the script on every platform, prints what people saw, and says what is missing.


# The texts of the headless demo, and the answers they must get: the same on every platform. Data only.
#
# The words are those that `demo/scripted` understands: say, remember, recall, history, long, split.


class Where(Enum):
    """The places of the demo."""

    DIRECT = "direct message"
    GROUP = "group"
    THREAD = "thread"


SECRET: Final = "-".join(("sk", "proj", "T3BlbkFJq7Xw2Zr9Lm4Vt8Kc1Pd6Hs5Ny0Bg"))
"""Looks like a key and opens nothing; put together here so that no scanner of repositories stumbles over it."""


@dataclass(frozen=True, slots=True)
class DemoStep:
    """Somebody writes, the bot answers (or, with `is_answered` false, has to keep silent).

    All texts of `expects` and none of `forbids` are in the answer, all its messages joined; `messages_min` is the
    number of messages into which the platform's limit has to split it; `ends_with` shows that the answer is
    complete; so many `sub_agents` work on it."""

    who: str
    where: Where
    says: str
    mentions: bool = False
    is_answered: bool = True
    expects: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()
    ends_with: str = ""
    messages_min: int = 1
    sub_agents: int = 0


ADA: Final = "Ada"
BEN: Final = "Ben"
PEOPLE: Final = (ADA, BEN)
LONG_CHARS: Final = 9_000  # over the limit of each platform, so that each has to split
STEPS: Final = (
    DemoStep(ADA, Where.DIRECT, "say Good morning from the demo.", expects=("Good morning from the demo.",)),
    DemoStep(ADA, Where.DIRECT, "remember my boat is called Teal Heron", expects=("Teal Heron",)),
    DemoStep(ADA, Where.DIRECT, f"say my key is {SECRET}", expects=("my key is",), forbids=(SECRET, SECRET[8:])),
    DemoStep(ADA, Where.DIRECT, "history", expects=("4 message(s)",), forbids=(SECRET, SECRET[8:])),
    DemoStep(BEN, Where.DIRECT, "recall boat", forbids=("Teal Heron",)),
    DemoStep(BEN, Where.DIRECT, "history", expects=("2 message(s)",), forbids=("Good morning", "my key is")),
    DemoStep(
        BEN,
        Where.DIRECT,
        f"long {LONG_CHARS}",
        expects=("A long answer of about", "line_40 = 40", "paragraph is number 9 of"),
        ends_with="The end of the long answer.",
        messages_min=2,
    ),
    DemoStep(ADA, Where.GROUP, "nobody asked the bot", is_answered=False),
    DemoStep(ADA, Where.GROUP, "say Hello, group.", mentions=True, expects=("Hello, group.",)),
    DemoStep(BEN, Where.GROUP, "history", mentions=True, expects=("1 message(s)",), forbids=("Hello, group.",)),
    DemoStep(ADA, Where.THREAD, "say Hello, thread.", mentions=True, expects=("Hello, thread.",)),
    DemoStep(
        ADA,
        Where.DIRECT,
        "split say The bow is dry. | say The stern is dry.",
        expects=("The sub-agents answered:", "The bow is dry.", "The stern is dry."),
        sub_agents=2,
    ),
    DemoStep(
        BEN,
        Where.DIRECT,
        "split say The mast stands. | fail",
        expects=("The sub-agents answered: 1 of 2 completed.", "The mast stands.", "failed", "/retry"),
        sub_agents=2,
    ),
)


# The emulated platforms as people in front of them see them, by the playground's control API.


_POLL_S: Final = 0.05
_TIMEOUT_S: Final = 10.0
Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ShownLine:
    """One message of a place, as people see it."""

    id: str
    is_by_bot: bool
    text: str


class PlaygroundClient:
    """One platform. People and places are rows as the control API gives them."""

    def __init__(self, client: httpx.AsyncClient, platform: str) -> None:
        self._client = client
        self.platform = platform

    async def add_person(self, name: str) -> Row:
        """Add a person with a direct chat to the bot."""
        person: Row = await self._post("people", {"name": name})
        return person

    async def direct_place(self, person: Row) -> Row:
        """Return the direct chat of a person with the bot."""
        places: list[Row] = (await self._get("places"))["places"]
        return next(place for place in places if place["kind"] == "dm" and place["person_id"] == person["id"])

    async def add_place(self, kind: str, title: str, *, parent: Row | None = None) -> Row:
        """Add a new group, or a thread in one."""
        given = {"kind": kind, "title": title, "parent_id": parent["id"] if parent else None}
        place: Row = await self._post("places", given)
        return place

    async def say(self, person: Row, place: Row, text: str, *, mention_bot: bool = False) -> None:
        """Write as `person` in `place`."""
        given = {"person_id": person["id"], "place_id": place["id"], "text": text, "mention_bot": mention_bot}
        await self._post("say", given)

    async def answers(self, place: Row) -> list[ShownLine]:
        """List the lines that the bot has said in a place or in a thread of it, oldest first."""
        places: list[Row] = (await self._get("places"))["places"]
        around = [place["id"], *(each["id"] for each in places if each["parent_id"] == place["id"])]
        rows: list[Row] = []
        for place_id in around:
            rows += (await self._get("messages", place=place_id))["messages"]
        lines = {row["id"]: _line(row) for row in sorted(rows, key=lambda row: int(row["at_ms"]))}
        return [line for line in lines.values() if line.is_by_bot]

    async def until(
        self, place: Row, is_enough: Callable[[Sequence[ShownLine]], bool], *, seen: Container[str], timeout_s: float
    ) -> list[ShownLine]:
        """Wait until the bot's lines that are not in `seen`, by id, are enough or time is up; return them."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            fresh = [line for line in await self.answers(place) if line.id not in seen]
            if is_enough(fresh) or asyncio.get_running_loop().time() > deadline:
                return fresh
            await asyncio.sleep(_POLL_S)

    async def _get(self, what: str, **query: str) -> Any:
        return _body(await self._client.get(f"/stage/{self.platform}/{what}", params=query, timeout=_TIMEOUT_S))

    async def _post(self, what: str, given: Row) -> Any:
        return _body(await self._client.post(f"/stage/{self.platform}/{what}", json=given, timeout=_TIMEOUT_S))


def _line(row: Row) -> ShownLine:
    return ShownLine(row["id"], row["author"]["is_bot"], row["text"])


def _body(response: httpx.Response) -> Any:
    response.raise_for_status()
    return response.json()


ANSWER_TIMEOUT_S: Final = 45.0  # a long answer is paced by each platform's own limits
SILENCE_S: Final = 1.0  # how long a bot that was not addressed is watched
TITLE_TIMEOUT_S: Final = 20.0
_CHECK_EVERY_S: Final = 0.1
_SENTINEL: Final = "New Chat"
_LIVE: Final = ("queued", "running")
_AT_WORK: Final = "⏳"
_SHOWN_CHARS: Final = 240
Write: TypeAlias = Callable[[str], None]


@dataclass(slots=True)
class PlayedPlatform:
    """The result of one platform: its transcript, the people's ids, and what was missing."""

    platform: str
    transcript: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    people: dict[str, str] = field(default_factory=dict)


async def play(rig: Rig, write: Write) -> list[str]:
    """Play everything; each transcript goes to `write`. Returns what is missing, one sentence each."""
    async with httpx.AsyncClient(base_url=rig.playground_url, trust_env=False) as client:
        platforms: list[str] = (await client.get("/stage")).raise_for_status().json()["platforms"]
        played = await asyncio.gather(*(_play_platform(PlaygroundClient(client, name)) for name in platforms))
    headers = {"Authorization": f"Bearer {rig.admin_token}"}
    async with httpx.AsyncClient(base_url=rig.admin_url, headers=headers, trust_env=False) as admin:
        sessions = await _titled_sessions(admin)
        leaks = await _leaks(admin, sessions)
        tasks: list[Row] = (await admin.get("/api/v1/tasks", params={"limit": 200})).raise_for_status().json()
    missing = [sentence for platform in played for sentence in platform.missing] + leaks
    for platform in played:
        own = [session for session in sessions if session["channel"] == platform.platform]
        missing += _check_sessions(platform, own)
        worked = [task for task in tasks if str(task["key"]).startswith(f"{platform.platform}:")]
        missing += _check_tasks(platform, worked)
        told = (*platform.transcript, "", *_session_lines(own), "", *_task_lines(worked), "")
        write("\n".join((f"=== {platform.platform} ===", *told)))
    return missing


async def _play_platform(stage: PlaygroundClient) -> PlayedPlatform:
    played = PlayedPlatform(stage.platform)
    people = {name: await stage.add_person(name) for name in PEOPLE}
    played.people = {name: str(person["id"]) for name, person in people.items()}
    group = await stage.add_place("group", "Boat club")
    thread = await stage.add_place("thread", "Regatta", parent=group)
    for step in STEPS:
        place = await stage.direct_place(people[step.who]) if step.where is Where.DIRECT else None
        place = place or (group if step.where is Where.GROUP else thread)
        lines, problems = await _play_step(stage, step, people[step.who], place)
        played.transcript += _transcript(step, place, lines)
        played.missing += [
            f"{stage.platform}, {step.where.value}, {step.who}: {step.says[:40]!r}: {problem}" for problem in problems
        ]
    return played


async def _play_step(
    stage: PlaygroundClient, step: DemoStep, person: Row, place: Row
) -> tuple[list[ShownLine], list[str]]:
    seen = {line.id for line in await stage.answers(place)}
    await stage.say(person, place, step.says, mention_bot=step.mentions)
    if not step.is_answered:
        lines = await stage.until(place, bool, seen=seen, timeout_s=SILENCE_S)
        return lines, ["the bot answered although nobody addressed it"] if lines else []
    lines = await stage.until(place, lambda found: _is_settled(step, found), seen=seen, timeout_s=ANSWER_TIMEOUT_S)
    return lines, problems_of(step, lines)


def _is_settled(step: DemoStep, lines: Sequence[ShownLine]) -> bool:
    """Tell whether the answer is right, and no line above it says any more that somebody is at work."""
    return not problems_of(step, lines) and not any(_AT_WORK in line.text for line in lines)


def problems_of(step: DemoStep, lines: Sequence[ShownLine]) -> list[str]:
    """List in words what an answer lacks; empty when it is right. Pure."""
    if not lines:
        return ["no answer"]
    text = "\n".join(line.text for line in lines)
    found = [f"{wanted!r} is not in the answer" for wanted in step.expects if wanted not in text]
    found += [f"{secret[:4]}… should not be in the answer" for secret in step.forbids if secret in text]
    if len(lines) < step.messages_min:
        found.append(f"{len(lines)} message(s) instead of at least {step.messages_min}")
    if step.ends_with and step.ends_with not in lines[-1].text:
        found.append("the end of the answer is missing")
    if any(line.text.count("```") % 2 for line in lines):
        found.append("a code block was torn apart")
    numbers = [int(number) for number in re.findall(r"paragraph is number (\d+) of", text)]
    if numbers != list(range(1, len(numbers) + 1)):
        found.append("paragraphs are missing or out of order")
    return found


async def _titled_sessions(admin: httpx.AsyncClient) -> list[Row]:
    """List all sessions, once each has a title of its own or time is up."""
    deadline = asyncio.get_running_loop().time() + TITLE_TIMEOUT_S
    while True:
        sessions: list[Row] = (await admin.get("/api/v1/sessions", params={"limit": 500})).raise_for_status().json()
        if sessions and all(session["title"] != _SENTINEL for session in sessions):
            return sessions
        if asyncio.get_running_loop().time() > deadline:
            return sessions
        await asyncio.sleep(_CHECK_EVERY_S)


async def _leaks(admin: httpx.AsyncClient, sessions: Sequence[Row]) -> list[str]:
    """List the sessions whose stored transcript holds a forbidden text."""
    forbidden = {text for step in STEPS for text in step.forbids if text in step.says}
    found = []
    for session in sessions:
        path = f"/api/v1/sessions/{session['id']}/messages"
        body: str = (await admin.get(path, params={"limit": 500})).raise_for_status().text
        found += [f"{session['key']}: a secret is in the transcript" for text in forbidden if text in body]
    return found


def _check_sessions(played: PlayedPlatform, sessions: Sequence[Row]) -> list[str]:
    keys = {session["key"] for session in sessions}
    found = [f"{session['key']}: no title appeared" for session in sessions if session["title"] == _SENTINEL]
    for name, person_id in played.people.items():
        direct = f"{played.platform}:{quote(person_id, safe='@!$')}"  # no key holds a colon or slash of an id
        if direct not in keys:
            found.append(f"{played.platform}: no session {direct} for {name}'s direct messages")
        if not any(key.startswith(f"{direct}/") for key in keys):
            found.append(f"{played.platform}: no session of {name} in the group")
    return found


def _check_tasks(played: PlayedPlatform, tasks: Sequence[Row]) -> list[str]:
    """Check that every part of a job that was split is on the task board, and over."""
    asked = sum(step.sub_agents for step in STEPS)
    found = [] if len(tasks) == asked else [f"{played.platform}: {len(tasks)} sub-agents instead of {asked}"]
    return found + [
        f"{played.platform}: a sub-agent is still {task['state']}" for task in tasks if task["state"] in _LIVE
    ]


def _task_lines(tasks: Sequence[Row]) -> list[str]:
    """Write the tasks as the task board has them, in the order in which they were asked for."""
    return [
        f"sub-agent {task['type']}  {task['state']:<9}  {task['duration_ms'] / 1000:4.1f} s  {task['tokens']:>4} tokens"
        f"  {task['confinement']}  {task['label']}" + (f": {task['reason']}" if task["reason"] else "")
        for task in sorted(tasks, key=lambda task: str(task["created_at"]))
    ]


def _transcript(step: DemoStep, place: Row, lines: Sequence[ShownLine]) -> list[str]:
    said = f"@bot {step.says}" if step.mentions else step.says
    shown = [f"[{step.where.value}] {step.who}: {said}"]
    if not lines:
        return [*shown, f"[{step.where.value}] (silence)"]
    for number, line in enumerate(lines, 1):
        part = f" {number}/{len(lines)}, {len(line.text)} characters" if len(lines) > 1 else ""
        shown.append(f"[{step.where.value}] bot{part}: {_short(line.text)}")
    return shown


def _session_lines(sessions: Sequence[Row]) -> list[str]:
    rows = sorted((str(session["key"]), str(session["title"]), int(session["message_count"])) for session in sessions)
    width = max((len(key) for key, _, _ in rows), default=0)
    return [f"session {key:<{width}}  {count:>2} entries  title: {title}" for key, title, count in rows]


def _short(text: Any) -> str:
    line = " | ".join(part for part in str(text).splitlines() if part.strip())
    return line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}…"


if __name__ == "__main__":
    run_to_exit(main)
