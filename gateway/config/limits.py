"""The settings of daily limits: for each user, for users of one role, for all together."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from gateway.config.section import Section, expecting
from gateway.contracts.entries import GrantRole
from gateway.contracts.spending import Caps, nano_of

_USD_MAX: Final = 1_000_000.0  # its nanodollars, summed over all users, still fit into a database's integer
_COUNT_MAX: Final = 10**15

_Count = Annotated[int, Field(ge=0, le=_COUNT_MAX)]
_Usd = Annotated[float, Field(ge=0, le=_USD_MAX, allow_inf_nan=False)]


class Allowance(Section):
    """What one UTC day may take. Zero: no limit."""

    tokens: _Count = Field(
        default=0,
        description="Tokens of models, in and out, per UTC day: of each user, or of all in the pot. 0: no limit.",
        json_schema_extra=expecting("a whole number, 0 or more"),
    )
    usd: _Usd = Field(
        default=0.0,
        description="US dollars for models per UTC day: of each user, or of all in the pot. 0: no limit.",
        json_schema_extra=expecting("a number of dollars, 0 or more"),
    )
    turns: _Count = Field(
        default=0,
        description="Turns that ask a model per UTC day: of each user, or of all in the pot. 0: no limit.",
        json_schema_extra=expecting("a whole number, 0 or more"),
    )

    @property
    def caps(self) -> Caps:
        """The same in the ledger's units."""
        return Caps(self.tokens, nano_of(self.usd), self.turns)


class RoleAllowance(Section):
    """Where the users of one role differ from the others."""

    tokens: _Count | None = Field(
        default=None,
        description="Tokens per UTC day for each user of this role. 0: no limit. Empty: as limits.user.tokens.",
        json_schema_extra=expecting("empty or a whole number, 0 or more"),
    )
    usd: _Usd | None = Field(
        default=None,
        description="US dollars per UTC day for each user of this role. 0: no limit. Empty: as limits.user.usd.",
        json_schema_extra=expecting("empty or a number of dollars, 0 or more"),
    )
    turns: _Count | None = Field(
        default=None,
        description="Turns per UTC day for each user of this role. 0: no limit. Empty: as limits.user.turns.",
        json_schema_extra=expecting("empty or a whole number, 0 or more"),
    )

    def over(self, general: Allowance) -> Allowance:
        """What is said here, else what is said in general."""
        return general.model_copy(update=self.model_dump(exclude_none=True))


class Limits(Section):
    """What a day may cost. Nothing is limited unless it is said here."""

    user: Allowance = Allowance()
    guest: RoleAllowance = RoleAllowance()
    member: RoleAllowance = RoleAllowance()
    admin: RoleAllowance = RoleAllowance()
    pot: Allowance = Allowance()

    def caps_of(self, role: GrantRole) -> Caps:
        """For each user of `role`; whoever is blocked gets no more than a guest."""
        own = {GrantRole.MEMBER: self.member, GrantRole.ADMIN: self.admin}.get(role, self.guest)
        return own.over(self.user).caps

    @property
    def are_open(self) -> bool:
        """True when nobody is limited."""
        return self.pot.caps.are_open and all(self.caps_of(role).are_open for role in GrantRole)
