"""Daily limits and what models cost: the meter, what people read about it, /usage, /limits and /queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Protocol

import structlog

from agent.features.access import ROLE_NAMES, People, declined_text
from agent.features.commands import CommandRequest, CommandRow
from agent.limits import WARNED_PERCENT
from agent.models.metering import Planned
from agent.texts import PricesOf, next_message_text
from gateway.access import AccessService
from gateway.bus.operator import Operator
from gateway.config import SCRIPTED_MODEL
from gateway.config.limits import LimitSettings
from gateway.contracts import budgets
from gateway.contracts.access import Rate
from gateway.contracts.errors import BadSessionKey, BudgetSpent, Declined, StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock, QueueFigures
from gateway.contracts.sessions import GrantRole, UsagePurpose
from gateway.i18n import Words, sentence
from gateway.store.usage import SpendingStore, UsageStore
from gateway.tasks import BackgroundTasks, retry_until_available

# What people read about what they spend: that a limit is reached, that little is left, sums. Pure.


_SPENT: Final = {
    budgets.Measure.TOKENS: (
        sentence("That would take more tokens than you have left for today."),
        sentence("That would take more tokens than everybody together has left for today."),
    ),
    budgets.Measure.MONEY: (
        sentence("That would take more budget than you have left for today."),
        sentence("That would take more budget than everybody together has left for today."),
    ),
    budgets.Measure.TURNS: (
        sentence("That would take more turns than you have left for today."),
        sentence("That would take more turns than everybody together has left for today."),
    ),
}
"""Of each measure: somebody's own, and everybody's."""

_NAMES: Final = {
    budgets.Measure.TOKENS: sentence("tokens"),
    budgets.Measure.MONEY: sentence("budget"),
    budgets.Measure.TURNS: sentence("turns"),
}
_PURPOSES: Final = {
    UsagePurpose.TURN: sentence("turn"),
    UsagePurpose.TITLE: sentence("title"),
    UsagePurpose.COMPACTION: sentence("compaction"),
    UsagePurpose.MEMORY: sentence("memory"),
    UsagePurpose.PLAN: sentence("plan"),
    UsagePurpose.EMBEDDING: sentence("embedding"),
    UsagePurpose.SUBAGENT: sentence("subagent"),
}
_MINUTE_MS: Final = 60_000


def spent_sentence(error: BudgetSpent, words: Words, *, now_ms: int) -> str:
    """Tell the author of a message that no more can be answered today."""
    return words.say(
        "{spent} I cannot answer until {time}.",
        spent=words.say(_SPENT[error.measure][error.is_everybodys]),
        time=reset_text(error.reset_at_ms, words, now_ms=now_ms),
    )


def little_left_note(measures: Collection[budgets.Measure], words: Words, *, reset_at_ms: int, now_ms: int) -> str:
    """Write one quiet line under an answer, empty where there is nothing to say."""
    if not measures:
        return ""
    return words.say(
        "> Little is left of your {measures} for today. Renewed at {time}.",
        measures=words.listed(*(words.say(_NAMES[each]) for each in budgets.Measure if each in measures)),
        time=reset_text(reset_at_ms, words, now_ms=now_ms),
    )


def reset_text(reset_at_ms: int, words: Words, *, now_ms: int) -> str:
    """Write when the budget is renewed: `00:00 UTC (in 3 h 20 min)`."""
    hours, minutes = divmod(-(-max(reset_at_ms - now_ms, 0) // _MINUTE_MS), 60)
    moment = f"{datetime.fromtimestamp(reset_at_ms / 1000, UTC):%H:%M}"
    if hours:
        return words.say("{time} UTC (in {hours} h {minutes} min)", time=moment, hours=hours, minutes=minutes)
    return words.say("{time} UTC (in {minutes} min)", time=moment, minutes=minutes)


@dataclass(frozen=True, slots=True)
class Day:
    """The use of today, as it counts against the caps, and the moment at which it is reset."""

    spent: budgets.Amounts
    caps: budgets.Caps
    reset_at_ms: int


def usage_text(
    today: Day, month: Mapping[UsagePurpose, budgets.UsageSum], words: Words, *, now_ms: int, following: str = ""
) -> str:
    """Write the answer to /usage; `following` is what the next message costs."""
    parts = [day_text(words.say("Today"), today, words, now_ms=now_ms), _month_text(month, words), following]
    return "\n\n".join(filter(None, parts))


def everybodys_usage_text(
    today: Day,
    month: Mapping[UsagePurpose, budgets.UsageSum],
    top: Sequence[tuple[SessionKey, budgets.UsageSum]],
    words: Words,
    *,
    now_ms: int,
) -> str:
    """Write the answer to /usage all."""
    parts = [day_text(words.say("Everybody today"), today, words, now_ms=now_ms), _month_text(month, words)]
    if top:
        lines = "\n".join(f"{place}. {owner}: {_sum_text(found, words)}" for place, (owner, found) in enumerate(top, 1))
        parts.append(words.say("**Most this month**") + "\n\n" + lines)
    return "\n\n".join(parts)


def day_text(title: str, today: Day, words: Words, *, now_ms: int) -> str:
    """Write what was spent on a day, and of how much."""
    spent, caps, number = today.spent, today.caps, words.number
    tokens = _of(number(spent.tokens), number(caps.tokens), words, is_capped=caps.tokens > 0)
    cap_usd = budgets.Amounts(nano_usd=caps.nano_usd).usd
    cost = _of(_usd(spent.usd, words), _usd(cap_usd, words), words, is_capped=caps.nano_usd > 0)
    turns = _of(number(spent.turns), number(caps.turns), words, is_capped=caps.turns > 0)
    until = reset_text(today.reset_at_ms, words, now_ms=now_ms)
    head = (
        words.say("**{title}**, until {time}", title=title, time=until)
        if caps.are_open
        else words.say("**{title}**, limits are renewed at {time}", title=title, time=until)
    )
    lines = [
        words.say("- tokens: {spent}", spent=tokens),
        words.say("- cost: {spent}", spent=cost),
        words.say("- turns: {spent}", spent=turns),
    ]
    return "\n".join([head, "", *lines])


def _of(spent: str, cap: str, words: Words, *, is_capped: bool) -> str:
    return words.say("{spent} of {cap}", spent=spent, cap=cap) if is_capped else spent


def _month_text(month: Mapping[UsagePurpose, budgets.UsageSum], words: Words) -> str:
    whole = sum(month.values(), budgets.UsageSum())
    lines = [words.say("**This month**: {sums}", sums=_sum_text(whole, words))]
    by_tokens = sorted(month.items(), key=lambda item: (-item[1].tokens, item[0]))
    if len(by_tokens) > 1:
        lines.append("")
        for purpose, found in by_tokens:
            cost = f"{_tokens(found.tokens, words)}, {_usd(found.cost_usd, words)}"
            lines.append(f"- {words.say(_PURPOSES[purpose])}: {cost}")
    return "\n".join(lines)


def _sum_text(found: budgets.UsageSum, words: Words) -> str:
    tokens = _tokens(found.tokens, words)
    if found.cached_tokens:
        tokens = words.say(
            "{tokens} ({cached} of them cached)", tokens=tokens, cached=words.number(found.cached_tokens)
        )
    turns = words.count("{count} turn", "{count} turns", found.turns)
    return f"{tokens}, {_usd(found.cost_usd, words)}, {turns}"


def _tokens(count: int, words: Words) -> CleanText:
    return words.count("{count} token", "{count} tokens", count)


def _usd(dollars: float, words: Words) -> str:
    """Format dollars: with two places for amounts in dollars and for nothing, with four for amounts in cents."""
    return f"${words.number(dollars, 4 if 0 < dollars < 1 else 2)}"


# Daily limits: who may still ask a model today, who is told that little is left.


_log = structlog.get_logger(__name__)
_LAST_SETTLEMENTS_S = 2.0  # what a process that ends gives them; the rest expires


class DailyTerms(Protocol):
    """The caps of one day."""

    @property
    def pot(self) -> budgets.Caps:
        """Return the caps of all owners together."""

    async def caps_of(self, owner: SessionKey) -> budgets.Caps:
        """Return the caps of one owner."""


class Meter:
    """`agent.models.metering.Gate`: each owner has an allowance, and all share one total.

    Where nothing is limited, the database is not asked."""

    def __init__(self, ledger: SpendingStore, terms: DailyTerms, clock: Clock) -> None:
        self.ledger = ledger
        self.terms = terms
        self.clock = clock
        self.background = BackgroundTasks()
        self._unpriced = {SCRIPTED_MODEL}  # nobody need be told that it costs nothing
        self.near: set[SessionKey] = set()  # whose last call left little of a cap

    async def admit(self, owner: SessionKey, plan: Callable[[], Planned]) -> PaidCall | None:
        """Reserve one call. Raises `BudgetSpent`."""
        own, pot = await self.terms.caps_of(owner), self.terms.pot
        if own.are_open and pot.are_open:
            return None
        planned = plan()
        if (own.nano_usd or pot.nano_usd) and not planned.is_priced:
            self._warn_of_missing_price(planned.model)
        call = PaidCall(self, owner, planned, own, pot)
        try:
            await call.renew()
        except asyncio.CancelledError:
            call.settle_soon(budgets.Amounts())  # it may have been reserved all the same
            raise
        return call

    async def spent(self, owner: SessionKey | None) -> budgets.Amounts | None:
        """Return what counts against today's caps, of one owner or (None) of all together; None where nothing was
        counted."""
        now_ms = self.clock.now_ms()
        return await self.ledger.spent(owner, budgets.day_of(now_ms), now_ms=now_ms)

    async def little_left(self, owner: SessionKey, words: Words) -> str:
        """Write one line that tells `owner`, once per day and measure, that little is left; else nothing."""
        if owner not in self.near:
            return ""
        caps = await self.terms.caps_of(owner)
        now_ms = self.clock.now_ms()
        day = budgets.day_of(now_ms)
        try:
            measures = await self.ledger.warn_once(owner, day, caps=caps, percent=WARNED_PERCENT)
        except StoreError as error:
            _log.warning("limits.not_warned", reason=str(error))
            return ""
        return little_left_note(measures, words, reset_at_ms=budgets.day_begins_ms(day + 1), now_ms=now_ms)

    async def aclose(self) -> None:
        """Let the last settlements be written."""
        await self.background.finish(timeout_s=_LAST_SETTLEMENTS_S)

    def _warn_of_missing_price(self, model: str) -> None:
        if model not in self._unpriced:
            self._unpriced.add(model)
            _log.warning("limits.price_unknown", model=model, counted_as_usd=0)


class PaidCall:
    """`agent.models.metering.Ticket`: one reservation in the ledger, from admission to settlement."""

    def __init__(self, meter: Meter, owner: SessionKey, planned: Planned, own: budgets.Caps, pot: budgets.Caps) -> None:
        self._meter = meter
        self._for_ms = int(planned.for_s * 1000)
        self._own = own
        self._pot = pot
        self._is_settled = False
        self._spent_besides = budgets.Amounts()
        self._reservation = budgets.Reservation(
            id=meter.clock.new_id(),
            owner=owner,
            day=budgets.day_of(meter.clock.now_ms()),
            tokens=planned.most.tokens,
            nano_usd=planned.most.nano_usd,
            expires_at_ms=0,
            turn_id=planned.turn_id,
            begins_turn=planned.begins_turn,
        )

    async def renew(self) -> None:
        """Reserve for as long as one more attempt may take. Raises `BudgetSpent`."""
        now_ms = self._meter.clock.now_ms()
        self._reservation = replace(self._reservation, expires_at_ms=now_ms + self._for_ms)
        found = await self._meter.ledger.reserve(self._reservation, own=self._own, pot=self._pot, now_ms=now_ms)
        if isinstance(found, budgets.BudgetRefusal):
            reset_at_ms = budgets.day_begins_ms(self._reservation.day + 1)
            raise BudgetSpent(found.measure, reset_at_ms=reset_at_ms, is_everybodys=found.is_everybodys)
        self._spent_besides = found

    async def settle(self, cost: budgets.Amounts, *, is_last: bool = False) -> None:
        """Write what it cost. An owner without caps does not wait for it, nor one who has much left after the last call
        of a turn."""
        if self._own.are_open or (is_last and not self._is_near(cost)):
            self.settle_soon(cost)
        else:
            await self._settle(cost)
            self._is_settled = True

    async def _settle(self, cost: budgets.Amounts, *, urgent: bool = True) -> None:
        """Settle. A database that is away does not cost the answer: the reservation expires."""
        try:
            await self._meter.ledger.settle(self._reservation, cost, urgent=urgent)
            self._is_near(cost)
        except StoreError as error:
            _log.warning("limits.not_settled", reason=str(error))

    def _is_near(self, cost: budgets.Amounts) -> bool:
        """Tell whether little of a cap is left after this call, and have `little_left` know."""
        is_near = bool(self._own.reached_by(self._spent_besides + cost, percent=WARNED_PERCENT))
        (self._meter.near.add if is_near else self._meter.near.discard)(self._reservation.owner)
        return is_near

    def settle_soon(self, cost: budgets.Amounts) -> None:
        """Settle in the background, at most once; with the commit of the turn, if that comes soon."""
        if not self._is_settled:
            self._is_settled = True
            self._meter.background.start(self._settle(cost, urgent=False))


# The usage of a person today, for /usage and the notes on limits.


async def today_of(owner: SessionKey | None, book: UsageStore, meter: Meter, *, now_ms: int) -> Day:
    """Return the day of one person, or (None) of everybody: as the limits count it; where nothing is limited, as it was
    charged."""
    day = budgets.day_of(now_ms)
    caps = meter.terms.pot if owner is None else await meter.terms.caps_of(owner)
    counted = None if caps.are_open else await meter.spent(owner)
    if counted is None:
        span = budgets.Period(budgets.day_begins_ms(day), budgets.day_begins_ms(day + 1))
        charged = sum((await book.by_purpose(owner, span)).values(), budgets.UsageSum())
        counted = budgets.Amounts(charged.tokens, budgets.nano_of(charged.cost_usd), charged.turns)
    return Day(counted, caps, budgets.day_begins_ms(day + 1))


# What each person may use: what admins decided about it, else the configuration.


class Allowances:
    """`DailyTerms` from the configuration and from what the bus shows, so that a decision counts for the next call."""

    def __init__(self, people: People, limits: LimitSettings) -> None:
        self._people = people
        self._limits = limits
        self._caps = {role: limits.caps_of(role) for role in GrantRole}

    @property
    def pot(self) -> budgets.Caps:
        """Return what all owners together may use on one day."""
        return self._limits.pot.caps

    async def caps_of(self, owner: SessionKey) -> budgets.Caps:
        """Return what one owner may use on one day."""
        role, rule = await self._people.limits_of(owner)
        return rule.caps_over(self._caps[role])

    async def rate_of(self, owner: SessionKey) -> Rate:
        """Return how fast one owner may write."""
        return self._rate(*await self._people.limits_of(owner))

    def of_role(self, role: GrantRole, rule: budgets.LimitRule) -> budgets.LimitRule:
        """Return the limits of each person of a role, given the `rule` that was decided about the role."""
        caps, rate = rule.caps_over(self._caps[role]), self._rate(role, rule)
        return budgets.LimitRule(caps.tokens, caps.nano_usd, caps.turns, rate.per_minute)

    def _rate(self, role: GrantRole, rule: budgets.LimitRule) -> Rate:
        configured = self._limits.rate_of(role)
        return configured if rule.per_minute is None else replace(configured, per_minute=rule.per_minute)


_TOP_SHOWN: Final = 10


def usage_commands(book: UsageStore, meter: Meter, clock: Clock, prices_of: PricesOf) -> tuple[CommandRow, ...]:
    """Return the row of /usage."""

    async def usage(asked: CommandRequest) -> str:
        now_ms = clock.now_ms()
        if asked.argument.casefold() == "all":
            return await all_of_it(asked, now_ms)
        owner = asked.session.key.owner
        month = await book.by_purpose(owner, _month(now_ms))
        following = next_message_text(asked.session, prices_of(asked.session), asked.words)
        today = await today_of(owner, book, meter, now_ms=now_ms)
        return usage_text(today, month, asked.words, now_ms=now_ms, following=following)

    async def all_of_it(asked: CommandRequest, now_ms: int) -> str:
        if asked.role is not GrantRole.ADMIN:
            return asked.words.say("Only admins may see what everybody uses. /usage shows what you use.")
        if not asked.message.is_private:
            return asked.words.say("That names people: ask me in a direct message.")
        month = _month(now_ms)
        return everybodys_usage_text(
            await today_of(None, book, meter, now_ms=now_ms),
            await book.by_purpose(None, month),
            await book.top(month, limit=_TOP_SHOWN),
            asked.words,
            now_ms=now_ms,
        )

    return (CommandRow("usage", usage),)


def _month(now_ms: int) -> budgets.Period:
    """Return the period from the first of the month, UTC, to this moment."""
    first = datetime.fromtimestamp(now_ms / 1000, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return budgets.Period(int(first.timestamp() * 1000), now_ms + 1)


# /limits: how much people may ask, and how fast they may write; shown and changed by admins.


_SHOWN_MAX: Final = 50  # more than anybody reads in a chat; `trivet access limits` shows all
_FORMS: Final = sentence(
    "Write `/limits`, then a person by key, such as `telegram:123456789`, or `guest`, `member` or `admin`; behind "
    "it what shall be different: `tokens 50000`, `usd 2.50` and `turns 20` are of one day, `rate 10` is messages a "
    "minute. `none` lifts a limit, `default` takes back what was decided about it, `reset` all of it. `/limits list` "
    "shows what was decided."
)


def limits_command(
    keeper: AccessService, allowances: Allowances, people: People, book: UsageStore, meter: Meter, clock: Clock
) -> CommandRow:
    """Return the row of /limits."""

    async def limits(asked: CommandRequest) -> str:
        words = asked.argument.split()
        if words and not asked.message.is_private:
            return asked.words.say("That names people: ask me in a direct message.")
        if words == ["list"]:
            return _list_text(await retry_until_available(keeper.book.limit_rules), asked.words)
        try:
            whom = budgets.limited_named(words[0]) if words else asked.message.author
            if words[1:]:
                await change(whom, words[1:], actor=str(asked.message.author))
        except BadSessionKey:
            return asked.words.say(_FORMS)
        except Declined as error:
            return f"{declined_text(error, asked.words)}\n\n{asked.words.say(_FORMS)}"
        return await shown(whom, asked.words)

    async def change(whom: budgets.Limited, words: Sequence[str], *, actor: str) -> None:
        def changed(before: budgets.LimitRule) -> budgets.LimitRule:
            return budgets.LimitRule() if list(words) == ["reset"] else budgets.rule_changed(before, words)

        await retry_until_available(lambda: keeper.change_limits(whom, changed, actor=actor))

    async def shown(whom: budgets.Limited, words: Words) -> str:
        if isinstance(whom, GrantRole):
            rule = (await retry_until_available(keeper.book.limit_rules)).get(whom, budgets.LimitRule())
            limits = str(allowances.of_role(whom, rule))
            return words.say("Whoever is {role} here: {limits}.", role=words.say(ROLE_NAMES[whom]), limits=limits)
        return await of_person(whom, words)

    async def of_person(owner: SessionKey, words: Words) -> str:
        role, now_ms = await people.role_of(owner), clock.now_ms()
        today = await today_of(owner, book, meter, now_ms=now_ms)
        head = words.say("{person} is {role} here.", person=str(owner), role=words.say(ROLE_NAMES[role]))
        day = day_text(words.say("Today"), today, words, now_ms=now_ms)
        return f"{head} {_rate_text(await allowances.rate_of(owner), words)}\n\n{day}"

    return CommandRow("limits", limits)


def _rate_text(rate: Rate, words: Words) -> str:
    if not rate.per_minute:
        return words.say("No limit of messages a minute.")
    return words.say(
        "{many} messages a minute, and {burst} more that may come at once.", many=rate.per_minute, burst=rate.burst
    )


def _list_text(rules: Mapping[budgets.Limited, budgets.LimitRule], words: Words) -> str:
    lines = [f"- {whom}: {rule}" for whom, rule in rules.items()][:_SHOWN_MAX]
    if not lines:
        return words.say("Nothing was decided about limits: what the configuration says holds.")
    return "\n".join((words.say("What was decided about limits:"), "", *lines))


# /queue: how much there is to do, for admins.


_SECOND_MS: Final = 1000


def queue_command(operator: Operator) -> CommandRow:
    """Return the row of /queue."""

    async def queue(asked: CommandRequest) -> str:
        return _queue_text(await retry_until_available(operator.figures), asked.words)

    return CommandRow("queue", queue)


def _queue_text(figures: QueueFigures, words: Words) -> str:
    oldest_s = figures.oldest_wait_ms // _SECOND_MS
    pending = sum(figures.outbound_pending.values())
    channels = ", ".join(f"{name} {state}" for name, state in sorted(figures.channels_connected.items()))
    number, queued, dead = words.number, words.number(figures.queued), words.number(figures.dead_letters)
    lines = (
        words.say(
            "- messages: {queued}, the oldest has waited for {seconds} s", queued=queued, seconds=number(oldest_s)
        )
        if oldest_s
        else words.say("- messages: {queued}", queued=queued),
        words.say(
            "- lanes: {running} running, {ready} ready, {delayed} delayed",
            running=number(figures.running),
            ready=number(figures.ready),
            delayed=number(figures.delayed),
        ),
        words.say("- replies on their way: {pending}", pending=number(pending)),
        words.say("- dead letters: {dead} (`trivet dead` lists them)", dead=dead)
        if figures.dead_letters
        else words.say("- dead letters: {dead}", dead=dead),
        words.say("- agent processes: {processes}", processes=number(figures.workers_alive)),
        words.say("- channels: {channels}", channels=channels or words.say("none")),
    )
    return "\n".join(lines)
