"""The lists of commands that a bot has set, and which of them a client shows to whom and where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from channels.emulators.telegram.people import Chat, User


class ScopeKind(StrEnum):
    DEFAULT = "default"
    ALL_PRIVATE_CHATS = "all_private_chats"
    ALL_GROUP_CHATS = "all_group_chats"
    ALL_CHAT_ADMINISTRATORS = "all_chat_administrators"
    CHAT = "chat"
    CHAT_ADMINISTRATORS = "chat_administrators"
    CHAT_MEMBER = "chat_member"


@dataclass(frozen=True, slots=True)
class Scope:
    """Whom a list is for; zero where an id does not belong."""

    kind: ScopeKind
    chat_id: int = 0
    user_id: int = 0


@dataclass(frozen=True, slots=True)
class BotCommand:
    name: str
    description: str


@dataclass(slots=True)
class CommandLists:
    """By scope and language code; "" is for people in whose language there is no list. Both ways are counted."""

    lists: dict[tuple[Scope, str], tuple[BotCommand, ...]] = field(default_factory=dict)
    reads: int = 0
    writes: int = 0

    def set(self, scope: Scope, language: str, commands: tuple[BotCommand, ...]) -> None:
        """An empty list is none."""
        self.writes += 1
        if commands:
            self.lists[scope, language] = commands
        else:
            self.lists.pop((scope, language), None)

    def get(self, scope: Scope, language: str) -> tuple[BotCommand, ...]:
        self.reads += 1
        return self.lists.get((scope, language), ())

    def shown(self, user: User, chat: Chat, *, is_administrator: bool) -> tuple[BotCommand, ...]:
        """The first list there is: the narrowest scope, in it the language of the person before no language."""
        for scope in _narrowest_first(user, chat, is_administrator=is_administrator):
            for language in (user.language, ""):
                if found := self.lists.get((scope, language)):
                    return found
        return ()


def _narrowest_first(user: User, chat: Chat, *, is_administrator: bool) -> Iterator[Scope]:
    if chat.user is not None:
        yield Scope(ScopeKind.CHAT, chat.id)
        yield Scope(ScopeKind.ALL_PRIVATE_CHATS)
    else:
        yield Scope(ScopeKind.CHAT_MEMBER, chat.id, user.id)
        if is_administrator:
            yield Scope(ScopeKind.CHAT_ADMINISTRATORS, chat.id)
        yield Scope(ScopeKind.CHAT, chat.id)
        if is_administrator:
            yield Scope(ScopeKind.ALL_CHAT_ADMINISTRATORS)
        yield Scope(ScopeKind.ALL_GROUP_CHATS)
    yield Scope(ScopeKind.DEFAULT)
