"""Who is let in, for any mixture of configuration, grants and rules of places."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from gateway.contracts.access import (
    RANKS,
    AccessPolicy,
    Admittance,
    Audience,
    ChannelPolicy,
    PlaceRule,
    StrangerRule,
    admit,
    levels_of,
)
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import GrantRole

IDS = ("1", "2", "3")
PEOPLE = [SessionKey("discord", id_) for id_ in IDS]
LEVELS = levels_of("discord", "10", ("20", "30"))
PLACES = [(), levels_of("discord", "", ("20",)), LEVELS[:2], LEVELS]

some_ids = st.frozensets(st.sampled_from(IDS))
rules = st.builds(
    PlaceRule,
    audience=st.none() | st.sampled_from(Audience),
    lets_guests=st.none() | st.booleans(),
    tools=st.none() | st.lists(st.sampled_from(("a", "b", "c")), unique=True).map(tuple),
    roles=st.none() | st.lists(st.sampled_from(("r", "s")), unique=True).map(tuple),
)
changes = st.dictionaries(st.sampled_from(LEVELS), rules)
words = st.none() | st.sampled_from((*(role.value for role in GrantRole), "emperor", ""))
policies = st.builds(
    AccessPolicy,
    rule=st.sampled_from(StrangerRule),
    admins=st.frozensets(st.sampled_from(PEOPLE)),
    channels=st.builds(
        ChannelPolicy,
        rule=st.none() | st.sampled_from(StrangerRule),
        users=some_ids,
        blocked=some_ids,
        places=st.frozensets(st.sampled_from(("10", "20", "30", "99"))),
    ).map(lambda channel: {"discord": channel}),
    places=changes,
)
people, places = st.sampled_from(PEOPLE), st.sampled_from(PLACES)


@given(policies, people, words, places, changes)
def test_an_admin_by_configuration_is_never_locked_out(
    policy: AccessPolicy,
    person: SessionKey,
    word: str | None,
    levels: tuple[SessionKey, ...],
    changed: Mapping[SessionKey, PlaceRule],
) -> None:
    if person in policy.admins:
        assert admit(person, word, policy, policy.place(levels, changed)) is Admittance.ADMITTED


@given(policies, people, words, places, changes)
def test_whatever_denies_wins(
    policy: AccessPolicy,
    person: SessionKey,
    word: str | None,
    levels: tuple[SessionKey, ...],
    changed: Mapping[SessionKey, PlaceRule],
) -> None:
    """A block, in the configuration or granted, a role that nobody knows, a place that is closed at any level."""
    if person in policy.admins:
        return
    admittance = admit(person, word, policy, policy.place(levels, changed))
    if person.user in policy.channels["discord"].blocked or word in ("blocked", "emperor", ""):
        assert admittance is Admittance.BLOCKED
    said = [changed.get(level, PlaceRule()).over(policy.places.get(level, PlaceRule())) for level in levels]
    if any(rule.audience is Audience.NOBODY for rule in said):
        assert admittance in (Admittance.BLOCKED, Admittance.SILENT_HERE)


@given(policies, people, words, places, changes, st.frozensets(st.sampled_from(("r", "s", "t"))))
def test_who_is_let_in_has_a_reason(
    policy: AccessPolicy,
    person: SessionKey,
    word: str | None,
    levels: tuple[SessionKey, ...],
    changed: Mapping[SessionKey, PlaceRule],
    roles: frozenset[str],
) -> None:
    """A role of his own, an open door, a place for guests or for his role on the platform; and in a place, enough of a
    role for its audience."""
    place = policy.place(levels, changed)
    if admit(person, word, policy, place, roles) is not Admittance.ADMITTED or person in policy.admins:
        return
    role = policy.role_of(person, word)
    assert role is not GrantRole.BLOCKED
    if place.roles and role is None:
        assert set(place.roles) & set(roles)
    else:
        assert role or policy.rule_for(person) is StrangerRule.OPEN or (levels and place.lets_guests)
    rank = RANKS.index(role or GrantRole.GUEST)
    assert place.audience is not Audience.NOBODY
    assert place.audience is not Audience.ADMINS or rank == 3
    assert place.audience is not Audience.MEMBERS or rank >= 2


@given(policies, people, words, changes)
def test_direct_messages_know_no_places(
    policy: AccessPolicy, person: SessionKey, word: str | None, changed: Mapping[SessionKey, PlaceRule]
) -> None:
    assert policy.place((), changed) == policy.place((), {})
    assert admit(person, word, policy, policy.place((), changed)) not in (Admittance.NOT_HERE, Admittance.SILENT_HERE)


@given(policies, changes)
def test_a_narrower_place_allows_no_tool_that_a_wider_one_denies(
    policy: AccessPolicy, changed: Mapping[SessionKey, PlaceRule]
) -> None:
    def allowed(levels: tuple[SessionKey, ...]) -> set[str]:
        ceilings = policy.place(levels, changed).ceilings
        return {tool for tool in ("a", "b", "c") if all(tool in ceiling for ceiling in ceilings)}

    assert allowed(LEVELS) <= allowed(LEVELS[:2]) <= allowed(LEVELS[:1])


@given(policies, changes)
def test_only_listed_places_are_spoken_in_and_those_with_an_audience_of_their_own(
    policy: AccessPolicy, changed: Mapping[SessionKey, PlaceRule]
) -> None:
    listed = policy.channels["discord"].places
    said = [changed.get(level, PlaceRule()).over(policy.places.get(level, PlaceRule())) for level in LEVELS]
    is_known = not listed or listed & {"10", "20", "30"} or any(rule.audience for rule in said)
    if not is_known:
        assert policy.place(LEVELS, changed).audience is Audience.NOBODY


@given(st.sampled_from(("slack.T1", "slack.T2")), some_ids)
def test_a_bare_id_names_nobody_of_a_workspace(channel: str, listed: frozenset[str]) -> None:
    """Other workspaces may have the same one."""
    policy = AccessPolicy(StrangerRule.CLOSED, channels={"slack": ChannelPolicy(users=listed | {"slack.T1:3"})})
    assert policy.role_of(SessionKey(channel, "1"), None) is None
    assert (policy.role_of(SessionKey(channel, "3"), None) is GrantRole.MEMBER) == (channel == "slack.T1")
