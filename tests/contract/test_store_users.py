"""Grants and todos, on SQLite and PostgreSQL: what belongs to a user, and to nobody else."""

from __future__ import annotations

from dataclasses import replace

from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Grant, GrantRole, Todo, TodoState
from gateway.store import Store
from tests.contract.store_samples import ANN, ANN_IN_GROUP, BOB

# --- grants


async def test_the_newest_decision_about_a_user_counts(store: Store) -> None:
    ann = Grant(ANN, GrantRole.MEMBER, "telegram:9", 1)
    bob = Grant(BOB, GrantRole.GUEST, "pairing", 2)
    await store.access.put_grant(ann)
    await store.access.put_grant(bob)
    assert await store.access.grants() == [ann, bob]
    blocked = replace(ann, role=GrantRole.BLOCKED, created_at_ms=3)
    await store.access.put_grant(blocked)
    assert await store.access.grants() == [bob, blocked]


async def test_a_decision_made_in_a_group_is_about_the_user(store: Store) -> None:
    await store.access.put_grant(Grant(ANN_IN_GROUP, GrantRole.BLOCKED, "telegram:9", 1))
    assert [grant.key for grant in await store.access.grants()] == [ANN]


# --- todos


async def test_a_task_list_is_replaced_as_a_whole(store: Store) -> None:
    tasks = [
        Todo(2, CleanText("cook"), TodoState.PENDING),
        Todo(1, CleanText("shop"), TodoState.IN_PROGRESS),
        Todo(10, CleanText("eat"), TodoState.DONE),
    ]
    await store.transcript.replace_todos(ANN, tasks)
    assert [task.text for task in await store.transcript.todos(ANN)] == ["shop", "cook", "eat"]
    await store.transcript.replace_todos(ANN, tasks[:1])
    assert await store.transcript.todos(ANN) == tasks[:1]
    await store.transcript.replace_todos(ANN, [])
    assert await store.transcript.todos(ANN) == []


async def test_task_lists_are_private(store: Store) -> None:
    await store.transcript.replace_todos(ANN, [Todo(1, CleanText("mine"), TodoState.PENDING)])
    await store.transcript.replace_todos(BOB, [Todo(1, CleanText("his"), TodoState.PENDING)])
    await store.transcript.replace_todos(BOB, [])
    assert [task.text for task in await store.transcript.todos(ANN)] == ["mine"]
    assert await store.transcript.todos(BOB) == []
