"""Session keys, for any platform's ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contracts.errors import BadSessionKey
from gateway.contracts.ids import SessionKey, SessionScope

_ids = st.text(alphabet="ABCabc019._-", min_size=1, max_size=24)
_channels = st.sampled_from(["telegram", "discord", "slack", "slack.T123", "cli"])
_places = st.lists(_ids, max_size=3).map(tuple)


@given(_channels, _ids, _places)
def test_a_key_survives_its_text_form(channel: str, user: str, place: tuple[str, ...]) -> None:
    key = SessionKey(channel, user, place)
    assert SessionKey.parse(str(key)) == key


@given(_channels, _ids, _places.filter(bool))
def test_a_private_chat_and_a_place_never_share_a_key(channel: str, user: str, place: tuple[str, ...]) -> None:
    """Whatever the scope of places is, a direct message has the bare user key."""
    private = SessionKey.scoped(channel, user, (), SessionScope.PLACE)
    assert str(private) == f"{channel}:{user}"
    assert SessionKey.scoped(channel, user, place, SessionScope.PLACE) != private
    assert SessionKey.scoped(channel, user, place, SessionScope.USER) == private


@given(_channels, _ids, _ids, _places.filter(bool))
def test_a_shared_place_has_one_key_for_all(channel: str, ann: str, ben: str, place: tuple[str, ...]) -> None:
    shared = SessionKey.scoped(channel, ann, place, SessionScope.SHARED)
    assert shared == SessionKey.scoped(channel, ben, place, SessionScope.SHARED)
    assert SessionKey.parse(str(shared)) == shared
    assert shared.owner == shared


@given(_channels, _ids, _places)
def test_the_owner_is_the_user_wherever_he_speaks(channel: str, user: str, place: tuple[str, ...]) -> None:
    assert SessionKey(channel, user, place).owner == SessionKey(channel, user)


@given(st.text(max_size=40))
def test_parsing_refuses_or_agrees(text: str) -> None:
    """No text is silently read as another key."""
    try:
        key = SessionKey.parse(text)
    except BadSessionKey:
        return
    assert str(key) == text


@pytest.mark.parametrize("text", ["", "telegram", "telegram:", ":1", "tele gram:1", "telegram:1/", "telegram:1//2"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(BadSessionKey):
        SessionKey.parse(text)
