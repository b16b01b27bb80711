"""The settings of limits: for each user, for users of one role, for all together."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from gateway.config.section import Section, setting
from gateway.contracts.access import Rate
from gateway.contracts.budgets import COUNT_MAX, PER_MINUTE_MAX, USD_MAX, Caps, nano_of
from gateway.contracts.sessions import GrantRole

PerMinute = Annotated[int, Field(ge=0, le=PER_MINUTE_MAX)]
Count = Annotated[int, Field(ge=0, le=COUNT_MAX)]
Usd = Annotated[float, Field(ge=0, le=USD_MAX, allow_inf_nan=False)]

GUEST_TURNS: Final = 50  # a long day of somebody who tries it out
GUEST_TOKENS: Final = 2_000_000  # of them, with some rounds of tools; also where a model's price is not known
GUEST_USD: Final = 2.0
POT_TOKENS: Final = 100_000_000  # some ten thousand turns
OWNER_DISK_MB: Final = 2_048  # four full workspaces
ALL_DISK_MB: Final = 20_480  # ten people who fill theirs; operators with more of them have larger disks
FREE_DISK_MB: Final = 1_024  # the database, the bus and logs go on for a while when files may not
POT_USD: Final = 25.0  # what an operator can bear who looks once a day


class Allowance(Section):
    """The allowance of one UTC day. Zero: no limit."""

    tokens: Count = setting(0, "a whole number, 0 or more")
    """Tokens of models, in and out, per UTC day: of each user, or of all in the pot. 0: no limit."""
    usd: Usd = setting(0.0, "a number of dollars, 0 or more")
    """US dollars for models per UTC day: of each user, or of all in the pot. 0: no limit."""
    turns: Count = setting(0, "a whole number, 0 or more")
    """Turns that ask a model per UTC day: of each user, or of all in the pot. 0: no limit."""

    @property
    def caps(self) -> Caps:
        """Return the same in the ledger's units."""
        return Caps(self.tokens, nano_of(self.usd), self.turns)


class RoleAllowance(Section):
    """The differences of one role's users."""

    tokens: Count | None = setting(None, "empty or a whole number, 0 or more")
    """Tokens per UTC day for each user of this role. 0: no limit. Empty: as limits.user.tokens."""
    usd: Usd | None = setting(None, "empty or a number of dollars, 0 or more")
    """US dollars per UTC day for each user of this role. 0: no limit. Empty: as limits.user.usd."""
    turns: Count | None = setting(None, "empty or a whole number, 0 or more")
    """Turns per UTC day for each user of this role. 0: no limit. Empty: as limits.user.turns."""
    messages_per_minute: PerMinute | None = setting(None, f"empty or a whole number from 0 to {PER_MINUTE_MAX}")
    """Messages a minute from each user of this role. 0: no limit. Empty: as limits.messages_per_minute; of admins, no
    limit."""

    def over(self, general: Allowance) -> Allowance:
        """Return the day's limits as said here, else as said in general."""
        return general.model_copy(update=self.model_dump(exclude_none=True, exclude={"messages_per_minute"}))


class GuestAllowance(RoleAllowance):
    """Of guests, whom nobody knows: limited by default."""

    tokens: Count | None = setting(GUEST_TOKENS, "a whole number, 0 or more")
    """Tokens per UTC day for each guest; by default no more than limits.user.tokens. 0: no limit."""
    usd: Usd | None = setting(GUEST_USD, "a number of dollars, 0 or more")
    """US dollars per UTC day for each guest; by default no more than limits.user.usd. 0: no limit."""
    turns: Count | None = setting(GUEST_TURNS, "a whole number, 0 or more")
    """Turns per UTC day for each guest; by default no more than limits.user.turns. 0: no limit."""

    def over(self, general: Allowance) -> Allowance:
        """Return the limits of guests; where nothing is said of them, the stricter of default and general limit."""
        own = super().over(general)
        usual = {"tokens", "usd", "turns"} - self.model_fields_set
        return own.model_copy(
            update={name: min(filter(None, (getattr(own, name), getattr(general, name)))) for name in usual}
        )


class GlobalAllowance(Allowance):
    """Of all together: limited by default, so that nothing that goes wrong costs more than a day."""

    tokens: Count = setting(POT_TOKENS, "a whole number, 0 or more")
    """Tokens of models, in and out, per UTC day, of all users together. 0: no limit."""
    usd: Usd = setting(POT_USD, "a number of dollars, 0 or more")
    """US dollars for models per UTC day, of all users together. 0: no limit."""


class DiskSettings(Section):
    """The space for files of conversations: what people send, what tools, programs and sub-agents write."""

    owner_mb: int = Field(default=OWNER_DISK_MB, ge=0)
    """Megabytes that all conversations of one user may hold together, each at most 512. 0: no limit."""
    all_mb: int = Field(default=ALL_DISK_MB, ge=0)
    """Megabytes that the conversations of all users may hold together. 0: no limit."""
    free_mb: int = Field(default=FREE_DISK_MB, ge=0)
    """Megabytes that stay free on the disk of data_dir: below, no file is fetched or written for anybody, and new
    messages stay with their platform where Trivet's own Valkey or SQLite is there. 0: no limit."""


class LimitSettings(Section):
    """The cost of a day, the rate of messages, the space for files. By default a day of guests and of all together is
    limited."""

    messages_per_minute: PerMinute = setting(20, f"a whole number from 0 to {PER_MINUTE_MAX}")
    """Messages a minute from each user, who is told when to go on. Commands such as /stop have a limit of their own,
    edits and redelivered messages do not count, an album counts once. Admins are not limited. 0: nobody is."""
    messages_burst: PerMinute = setting(5, f"a whole number from 0 to {PER_MINUTE_MAX}")
    """How many more than that may come at once after a quiet minute."""
    commands_per_minute: PerMinute = setting(30, f"a whole number from 0 to {PER_MINUTE_MAX}")
    """Commands such as /stop and /status, and presses of buttons, a minute from each user, who is told when to go on; a
    /stop that finds what to stop does not count. Admins are not limited. 0: nobody is."""
    commands_burst: PerMinute = setting(10, f"a whole number from 0 to {PER_MINUTE_MAX}")
    """How many more than that may come at once after a quiet minute. The last five are for /stop."""
    user: Allowance = Allowance()
    guest: GuestAllowance = GuestAllowance()
    member: RoleAllowance = RoleAllowance()
    admin: RoleAllowance = RoleAllowance()
    pot: GlobalAllowance = GlobalAllowance()
    disk: DiskSettings = DiskSettings()

    def caps_of(self, role: GrantRole) -> Caps:
        """Return the caps of each user of `role`; a blocked user gets no more than a guest."""
        own = {GrantRole.MEMBER: self.member, GrantRole.ADMIN: self.admin}.get(role, self.guest)
        return own.over(self.user).caps

    def rate_of(self, role: GrantRole) -> Rate:
        """Return the rate of messages of each user of `role`; a blocked user is no faster than a guest."""
        general = 0 if role is GrantRole.ADMIN else self.messages_per_minute
        own = {GrantRole.MEMBER: self.member, GrantRole.ADMIN: self.admin}.get(role, self.guest).messages_per_minute
        return Rate(general if own is None else own, self.messages_burst)

    def command_rate_of(self, role: GrantRole) -> Rate:
        """Return the rate of commands and button presses of each user of `role`."""
        return Rate(0 if role is GrantRole.ADMIN else self.commands_per_minute, self.commands_burst)
