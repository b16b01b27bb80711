"""Keys as data, holdings, names of processes, ledger rows: the parts of the bus without I/O."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.bus import scripts
from gateway.bus.deliveries import ledger_fields, ledger_row
from gateway.bus.heartbeat import ProcessName
from gateway.bus.keys import DECLARED, DEDUPE_BUCKETS, KeyKind, ShardKeys, kind_of, lane_handle, shard_number
from gateway.bus.lanes import Holdings
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import DeliveryRecord, DeliveryState
from gateway.contracts.ports import Cancel, CancelKind
from gateway.limits import DEDUPE_BUCKET_H, DEDUPE_WINDOW_H


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.name)
def test_a_key_is_known_by_its_name(kind: KeyKind) -> None:
    named = kind.__get__(ShardKeys(3), ShardKeys)  # type: ignore[attr-defined]
    key = named if isinstance(named, str) else named(7)
    assert key.startswith("{q3}:")
    assert kind_of(key) is kind


def test_a_foreign_key_is_not_ours() -> None:
    assert kind_of("session:1") is None
    assert kind_of("{q0}:unheard-of") is None


def test_all_lanes_of_a_user_share_a_shard() -> None:
    lanes = ["telegram:1", "telegram:1/-100", "telegram:1/-100/7"]
    assert len({shard_number(SessionKey.parse(lane), 16) for lane in lanes}) == 1
    assert len({shard_number(SessionKey("telegram", str(user)), 16) for user in range(200)}) == 16


def test_a_handle_names_lane_and_owner() -> None:
    assert lane_handle(SessionKey.parse("telegram:1/-100")) == "telegram:1/-100\x1ftelegram:1"


def test_the_dedupe_buckets_cover_the_window_from_any_moment() -> None:
    """An id seen at the very end of a bucket is still found a whole window later."""
    assert (DEDUPE_BUCKETS - 1) * DEDUPE_BUCKET_H >= DEDUPE_WINDOW_H


def test_every_script_has_its_own_name_and_digest() -> None:
    every = scripts.all_scripts()
    assert len({script.sha for script in every}) == len({script.name for script in every}) == len(every)
    assert all("#!lua" not in script.text for script in every)


def cancel_word(fence: int, kind: str = "stop") -> str:
    return f"{kind}\x1ftelegram:1\x1f{fence}"


STOP, RESTART = Cancel("telegram:1", CancelKind.STOP), Cancel("telegram:1", CancelKind.RESTART)


def test_a_cancel_is_told_once_and_only_to_the_turn_it_meant() -> None:
    held = Holdings()
    held.take("w", "telegram:1", 5, 1)
    assert held.cancelled("w", [cancel_word(4)]) == ()
    assert held.cancelled("w", [cancel_word(5), cancel_word(5)]) == (STOP,)
    assert held.cancelled("w", [cancel_word(5)]) == ()


def test_a_stop_outdoes_a_restart_but_not_the_other_way_round() -> None:
    held = Holdings()
    held.take("w", "telegram:1", 5, 1)
    assert held.cancelled("w", [cancel_word(5, "restart"), cancel_word(5, "restart")]) == (RESTART,)
    assert held.cancelled("w", [cancel_word(5), cancel_word(5, "restart")]) == (STOP,)


def test_a_cancel_that_overtakes_its_claim_is_kept() -> None:
    held = Holdings()
    assert held.cancelled("w", [cancel_word(5)]) == ()
    held.take("w", "telegram:1", 5, 1)
    assert held.cancelled("w", []) == (STOP,)


def test_a_cancel_of_a_newer_release_does_not_silence_the_others() -> None:
    held = Holdings()
    held.take("w", "telegram:1", 5, 1)
    assert held.cancelled("w", [cancel_word(5, "pause"), cancel_word(5)]) == (STOP,)


def test_a_worker_that_begins_anew_holds_nothing() -> None:
    held = Holdings()
    held.take("w", "telegram:1", 5, 1)
    held.take("v", "telegram:2", 6, 1)
    held.forget("w")
    assert held.messages("w", "telegram:1", 5) is None
    assert held.known_fence("w") == 0
    assert held.messages("v", "telegram:2", 6) == 1


def test_dropping_an_old_lease_leaves_the_new_one() -> None:
    held = Holdings()
    held.take("w", "telegram:1", 6, 2)
    held.drop("w", "telegram:1", 5)
    assert held.messages("w", "telegram:1", 6) == 2


def test_a_running_process_is_not_known_dead() -> None:
    me = ProcessName.of_this_process()
    assert not me.knows_dead(me.sign("channels"))


def test_an_ended_process_is_known_dead_even_if_its_number_is_used_again() -> None:
    me = ProcessName.of_this_process()
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert me.knows_dead(ProcessName(me.machine, child.pid, 1).sign("channels"))
    assert me.knows_dead(ProcessName(me.machine, os.getpid(), me.started + 1).sign("channels"))


@pytest.mark.parametrize("signed", ["channels", "", "channels@", "channels@elsewhere.1.1", "a@b.c.d", "@..", "x@.1.1"])
def test_nobody_is_judged_without_knowledge(signed: str) -> None:
    """Another machine's processes, or a name nobody signed, are left to their lease."""
    assert not ProcessName.of_this_process().knows_dead(signed)
    assert not ProcessName("", 1, 1).knows_dead(signed)


@given(
    st.builds(
        DeliveryRecord,
        reply_id=st.text(),
        state=st.sampled_from(DeliveryState),
        attempt=st.integers(0, 10),
        next_chunk=st.integers(0, 100),
        chunks=st.integers(0, 100),
        platform_ids=st.lists(st.text()).map(tuple),
        updated_at_ms=st.integers(0, 2**53),
        reason=st.text(),
    )
)
def test_a_ledger_row_survives_redis(record: DeliveryRecord) -> None:
    words = [word if isinstance(word, bytes) else str(word).encode() for word in ledger_fields(record)]
    assert ledger_row(record.reply_id, dict(zip(words[::2], words[1::2], strict=True))) == record


def test_a_script_has_the_functions_of_its_preludes_that_it_calls_and_no_others() -> None:
    defined = re.compile(r"^local function (\w+)", re.MULTILINE)
    preludes = Path(scripts.__file__).parent.glob("lua/prelude*")
    shared = {name for prelude in preludes for name in defined.findall(prelude.read_text())}
    for script in scripts.all_scripts():
        called = {name for name in shared if re.search(rf"(?<!function )(?<![\w.]){name}\(", script.text)}
        assert shared & set(defined.findall(script.text)) == called, script.name
