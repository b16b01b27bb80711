"""How a running turn tells what its answer looks like so far."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from agent.limits import DRAFT_CHARS_MAX
from agent.runtime.run import showing
from gateway.bus.deliveries import Deliveries
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText, Draft, literal_text
from tests.parts.waiting import until

BLANK = Draft(ReplyAddress("test", "lane", "{}"), SessionKey("test", "u1"), "t1", "t1:1", literal_text(""))
EVERY_S = 0.01


@dataclass
class Wall(Deliveries):
    """A bus on which drafts are read; the first `away` of them get lost."""

    away: int = 0
    told: list[str] = field(default_factory=list)

    async def show_draft(self, draft: Draft) -> None:
        if self.away:
            self.away -= 1
            raise BusUnavailable("away")
        assert (draft.reply_id, draft.turn_id) == (BLANK.reply_id, BLANK.turn_id)
        self.told.append(draft.text)


async def test_the_whole_text_so_far_is_told_each_time_it_grew() -> None:
    wall, text = Wall(), ""
    with showing(wall, BLANK, lambda: CleanText(text), every_s=EVERY_S):
        await asyncio.sleep(3 * EVERY_S)
        text = "This"
        await until(lambda: wall.told == ["This"])
        await asyncio.sleep(3 * EVERY_S)
        text = "This grows"
        await until(lambda: wall.told == ["This", "This grows"])
        text = "Something else"
        await until(lambda: wall.told[2:] == ["Something else"])


async def test_what_is_over_at_once_is_not_told_at_all() -> None:
    wall = Wall()
    with showing(wall, BLANK, lambda: literal_text("quick"), every_s=60.0):
        await asyncio.sleep(0)
    assert wall.told == []


async def test_a_bus_that_is_away_loses_a_draft_and_nothing_else() -> None:
    wall = Wall(away=2)
    with showing(wall, BLANK, lambda: literal_text("This"), every_s=EVERY_S):
        await until(lambda: wall.told == ["This"])


async def test_what_is_too_long_to_be_read_along_is_told_no_further() -> None:
    wall, text = Wall(), "a" * DRAFT_CHARS_MAX
    with showing(wall, BLANK, lambda: CleanText(text), every_s=EVERY_S):
        await until(lambda: len(wall.told) == 1)
        text += "a"
        await asyncio.sleep(3 * EVERY_S)
    assert len(wall.told) == 1
