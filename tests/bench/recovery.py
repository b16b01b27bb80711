"""What a kill -9 of an agent process costs the people it was working for."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import Reply, ReplyKind
from gateway.limits import LEASE_TTL_S
from tests.bench.chats import QUESTION
from tests.bench.crew import Crew, open_crew
from tests.bench.figures import Figure, Findings, percentile
from tests.bench.processes import BenchFailed
from tests.bench.sizes import Size
from tests.bench.watching import until

LATENCY_MS: Final = 2_000
RECOVERY_TIMEOUT_S: Final = 60.0
_DOUBLES_AFTER_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Recovery:
    """One kill: seconds from it to each turn's restart elsewhere and to each answer."""

    in_flight: int
    restarts_s: tuple[float, ...]
    answers_s: tuple[float, ...]


class Answers:
    """When each lane was answered, and how often."""

    def __init__(self) -> None:
        self.heard_s: dict[str, float] = {}
        self.times: Counter[str] = Counter()

    def hear(self, reply: Reply) -> None:
        if reply.kind is ReplyKind.ANSWER:
            lane = str(reply.key)
            self.heard_s.setdefault(lane, asyncio.get_running_loop().time())
            self.times[lane] += 1


async def recovery(size: Size) -> Findings:
    """One agent has its hands full, another one is ready, the first one is killed; again and again."""
    answers, recoveries, asked = Answers(), [], 0
    async with open_crew("SQLite", model=f"demo/scripted@{LATENCY_MS}ms", concurrency=2 * size.in_flight) as crew:
        crew.desk.on_reply = answers.hear
        for _ in range(size.kills):
            await crew.hire(2)
            lanes = [f"telegram:{number}" for number in range(asked, asked + size.in_flight)]
            asked += size.in_flight
            recoveries.append(await _killed(crew, lanes, answers))
        await asyncio.sleep(_DOUBLES_AFTER_S)
    return Findings(_figures(size, recoveries, answers, asked))


async def _killed(crew: Crew, lanes: Collection[str], answers: Answers) -> Recovery:
    """All turns are the victim's, because the other one is held still while they are handed out."""
    loop, spare = asyncio.get_running_loop(), crew.agents[1]

    async def are_running() -> bool:
        return len(await crew.floor.owners()) == len(lanes)

    spare.send_signal(signal.SIGSTOP)
    try:
        await asyncio.gather(*(crew.desk.write(SessionKey.parse(lane), QUESTION.format(number=1)) for lane in lanes))
        await until(are_running, within_s=RECOVERY_TIMEOUT_S)
    finally:
        spare.send_signal(signal.SIGCONT)
    killed_s, victim = loop.time(), crew.kill()
    in_flight = Counter((await crew.floor.owners()).values())[victim]
    restarted_s: dict[str, float] = {}

    async def are_answered() -> bool:
        for lane, owner in (await crew.floor.owners()).items():
            if owner != victim:
                restarted_s.setdefault(lane, loop.time())
        return answers.heard_s.keys() >= set(lanes)

    with contextlib.suppress(TimeoutError):  # what is not answered by then is counted as lost
        await until(are_answered, within_s=RECOVERY_TIMEOUT_S)
    answered = (answers.heard_s[lane] for lane in lanes if lane in answers.heard_s)
    return Recovery(
        in_flight, tuple(at_s - killed_s for at_s in restarted_s.values()), tuple(at_s - killed_s for at_s in answered)
    )


def _figures(size: Size, found: Collection[Recovery], answers: Answers, asked: int) -> tuple[Figure, ...]:
    restarts_s = [each_s for recovery in found for each_s in recovery.restarts_s]
    last_s = [max(recovery.answers_s, default=RECOVERY_TIMEOUT_S) for recovery in found]
    if len(restarts_s) < 2:
        raise BenchFailed("no turn was running when its process was killed: the machine is too slow for this")
    kills = f"{size.kills} kills, {min(recovery.in_flight for recovery in found)} to {size.in_flight} turns in flight"
    model = f"of which the model {LATENCY_MS / 1000:.0f} s"
    return (
        Figure("kill -9, turn restarts elsewhere, p50", percentile(restarts_s, 50), "s", note=kills),
        Figure("p95", percentile(restarts_s, 95), "s", aim="restart", note=f"lease {LEASE_TTL_S:g} s"),
        Figure("longest", max(restarts_s), "s"),
        Figure("kill -9, last of all answers, middle", sorted(last_s)[len(last_s) // 2], "s", note=model),
        Figure("longest", max(last_s), "s", aim="answered"),
        Figure("messages never answered", asked - len(answers.times), "", aim="lost", note=f"of {asked}"),
        Figure("answers too many", answers.times.total() - len(answers.times), "", aim="doubled"),
    )
