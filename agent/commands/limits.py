"""/limits: how much people may ask, and how fast they may write; shown and changed by admins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from agent.allowances import Allowances
from agent.commands.access import ROLE_NAMES, declined_text
from agent.commands.table import Asked, CommandRow, Done
from agent.people import People
from agent.usage.metering import Meter
from agent.usage.sentences import day_text
from agent.usage.today import today_of
from gateway.contracts.access import Rate
from gateway.contracts.entries import GrantRole
from gateway.contracts.errors import BadSessionKey, Declined
from gateway.contracts.ids import SessionKey
from gateway.contracts.limit_rules import Limited, LimitRule, limited_named, rule_changed
from gateway.contracts.ports import Clock
from gateway.doorkeeper import Doorkeeper
from gateway.retry import retry_until_available
from gateway.store.usage import UsageStore
from gateway.words import Words, sentence

_SHOWN_MAX: Final = 50  # more than anybody reads in a chat; `trivet access limits` shows all
_FORMS: Final = sentence(
    "Write `/limits`, then a person by his key, such as `telegram:123456789`, or `guest`, `member` or `admin`; behind "
    "it what shall be different: `tokens 50000`, `usd 2.50` and `turns 20` are of one day, `rate 10` is messages a "
    "minute. `none` lifts a limit, `default` takes back what was decided about it, `reset` all of it. `/limits list` "
    "shows what was decided."
)


def limits_command(
    keeper: Doorkeeper, allowances: Allowances, people: People, book: UsageStore, meter: Meter, clock: Clock
) -> CommandRow:
    """The row of /limits."""

    async def limits(asked: Asked) -> Done:
        words = asked.argument.split()
        if words and not asked.message.is_private:
            return Done(asked.words.say("That names people: ask me in a direct message."))
        if words == ["list"]:
            return Done(_list_text(await retry_until_available(keeper.limits), asked.words))
        try:
            whom = limited_named(words[0]) if words else asked.message.author
            if words[1:]:
                await change(whom, words[1:], actor=str(asked.message.author))
        except BadSessionKey:
            return Done(asked.words.say(_FORMS))
        except Declined as error:
            return Done(f"{declined_text(error, asked.words)}\n\n{asked.words.say(_FORMS)}")
        return Done(await shown(whom, asked.words))

    async def change(whom: Limited, words: Sequence[str], *, actor: str) -> None:
        def changed(before: LimitRule) -> LimitRule:
            return LimitRule() if list(words) == ["reset"] else rule_changed(before, words)

        await retry_until_available(lambda: keeper.change_limits(whom, changed, actor=actor))

    async def shown(whom: Limited, words: Words) -> str:
        if isinstance(whom, GrantRole):
            rule = (await retry_until_available(keeper.limits)).get(whom, LimitRule())
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


def _list_text(rules: Mapping[Limited, LimitRule], words: Words) -> str:
    lines = [f"- {whom}: {rule}" for whom, rule in rules.items()][:_SHOWN_MAX]
    if not lines:
        return words.say("Nothing was decided about limits: what the configuration says holds.")
    return "\n".join((words.say("What was decided about limits:"), "", *lines))
