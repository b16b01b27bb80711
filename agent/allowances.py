"""What each person may use: what admins decided about it, else the configuration."""

from __future__ import annotations

from dataclasses import replace

from agent.people import People
from gateway.config.limits import Limits
from gateway.contracts.access import Rate
from gateway.contracts.entries import GrantRole
from gateway.contracts.ids import SessionKey
from gateway.contracts.limit_rules import LimitRule
from gateway.contracts.spending import Caps


class Allowances:
    """`agent.usage.metering.Terms`: looks at what the bus shows, so that a decision counts for the next call."""

    def __init__(self, people: People, limits: Limits) -> None:
        self._people = people
        self._limits = limits

    @property
    def pot(self) -> Caps:
        """What all together may take on one day."""
        return self._limits.pot.caps

    async def caps_of(self, owner: SessionKey) -> Caps:
        """What he may take on one day."""
        role, rule = await self._people.limits_of(owner)
        return rule.caps_over(self._limits.caps_of(role))

    async def rate_of(self, owner: SessionKey) -> Rate:
        """How fast he may write."""
        return self._rate(*await self._people.limits_of(owner))

    def of_role(self, role: GrantRole, rule: LimitRule) -> LimitRule:
        """The same of each person of a role, where `rule` was decided about the role."""
        caps, rate = rule.caps_over(self._limits.caps_of(role)), self._rate(role, rule)
        return LimitRule(caps.tokens, caps.nano_usd, caps.turns, rate.per_minute)

    def _rate(self, role: GrantRole, rule: LimitRule) -> Rate:
        configured = self._limits.rate_of(role)
        return configured if rule.per_minute is None else replace(configured, per_minute=rule.per_minute)
