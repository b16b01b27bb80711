"""Which update Telegram is asked for, across restarts and across its own change of ids."""

from __future__ import annotations

import pytest

from channels.telegram.connection import GOOD_FOR_MS, Offset

NOW_MS = 1_700_000_000_000


def test_an_offset_survives_a_restart() -> None:
    offset = Offset(700_000_001, NOW_MS)
    assert Offset.parse(offset.as_text()) == offset
    assert offset.valid_at(NOW_MS + 1_000) == 700_000_001


def test_after_days_without_an_update_everything_is_asked_for() -> None:
    """The next id may be any number by then, a lower one too."""
    assert Offset(700_000_001, NOW_MS).valid_at(NOW_MS + GOOD_FOR_MS) == 0


@pytest.mark.parametrize("record", [None, "", "many", "5", "5@", "-5@7"])
def test_without_a_readable_record_everything_is_asked_for(record: str | None) -> None:
    assert Offset.parse(record).valid_at(NOW_MS) == 0
