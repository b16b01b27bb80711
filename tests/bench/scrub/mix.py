"""Ordinary messages as people write them to a bot, in English, Russian and Chinese; a few hold a secret.

The mix that the goals are stated for: 500 characters (some 760 bytes), two of a hundred with a secret, two of
three with a word such as key, token or secret. Drawn from a seed, so that every engine reads the same.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.scrubbing import TOKENS, fill

MESSAGE_CHARS: Final = 500
_SECRET_SHARE: Final = 0.02
_TALK_SHARE: Final = 0.63
_LANGUAGES: Final = ("en",) * 10 + ("ru",) * 6 + ("zh",) * 4

_CHAT: Final[Mapping[str, tuple[str, ...]]] = {
    "en": (
        "So {day} we went to the market and bought some apples, pears and a very old lamp.",
        "It was raining but nobody minded, and the train at {n}:{n} was on time for once.",
        "Can you move the meeting to {day}? Anna and Jo are away until the {n}th.",
        "I read the report again; the numbers on page {n} do not add up, see https://example.org/reports/{n}/summary.",
        "The build fails on main since commit {hex} with `TypeError: expected str, got None`.",
        "Please summarise the attached file and list the three most important points.",
        "He said the restaurant on 5th Avenue costs about ${n}.50 per person, which is fine with me.",
        "Let's deploy version {n}.{n}.{n} on {day} evening, after the backup has finished.",
        "What would you recommend for a weekend in Lisbon with two kids (6 and {n})?",
        "def total(rows): return sum(row.price * row.count for row in rows)  # looks right to me",
        "Unfortunately the understanding between the departments isn't what it used to be...",
        "ticket OPS-{n}{n}: the container restarts every {n} minutes, exit code 137, memory limit 512Mi",
    ),
    "ru": (
        "Вчера мы ходили на рынок и купили яблоки, груши и очень старую лампу.",
        "Шёл дождь, но никто не возражал, а поезд в {n}:{n} пришёл вовремя.",
        "Можно перенести встречу на {day}? Анна и Олег в отпуске до {n} числа.",
        "Отчёт лежит здесь: https://example.org/reports/{n}, цифры на странице {n} не сходятся.",
        "Сборка падает с коммита {hex}, ошибка TypeError, посмотри, пожалуйста.",
        "Сделай краткое изложение файла и назови три главные мысли.",
        "Ресторан стоит примерно {n}00 рублей на человека, меня это устраивает.",
        "Давай выкатим версию {n}.{n} вечером, когда закончится резервное копирование.",
    ),
    "zh": (
        "昨天我们去了市场，买了一些苹果、梨和一盏很旧的灯。",
        "下着雨，但没有人介意，{n}点{n}分的火车这次准时到了。",
        "会议可以改到{n}号吗？小王和小李那天不在公司。",
        "报告在 https://example.org/reports/{n} 里，第{n}页的数字对不上，请再看一遍。",
        "从提交 {hex} 开始构建失败，错误是 TypeError，麻烦看一下。",
        "请总结附件的内容，并列出最重要的三点。",
        "那家餐厅人均大概{n}0块，我觉得可以接受。",
        "我们晚上备份完成以后再发布 {n}.{n} 版本吧。",
    ),
}
_TALK: Final[Mapping[str, tuple[str, ...]]] = {
    "en": (
        "The key point is that the team agreed on the budget for next year.",
        "I think the token limit is the problem, the model stops after {n}00 tokens.",
        "It is no secret that Jonathan wants to move to Rotterdam next summer.",
        "Did you reset the password for the printer? Ask the front desk for help.",
        "Where do I find the API key in the settings of the new dashboard?",
        "Rotate the signing key every ninety days and keep the old token for a week.",
        "The secret of a good soup is patience, and fresh vegetables from the garden.",
    ),
    "ru": (
        "Ключевой вопрос в том, кто будет отвечать за бюджет в следующем году.",
        "Я забыл пароль от принтера, кому написать, чтобы его сбросили?",
        "Где в настройках найти токен для нового бота? В документации не нашёл.",
        "Это не секрет, что Олег хочет переехать в другой город этим летом.",
        "Ключ от квартиры у соседа, он дома после {n} часов.",
    ),
    "zh": (
        "密码我昨天已经改了，请大家重新登录一下系统。",
        "新的密钥要在设置页面里面申请，审批大概需要两天。",
        "令牌的有效期是多久？文档里没有写清楚，麻烦确认一下。",
        "关键的问题是谁来负责明年的预算，我们下周讨论。",
    ),
}
_GIVEN: Final[Mapping[str, tuple[str, ...]]] = {
    "en": ("here is the key: {secret} thanks", "use {secret} for now", "TOKEN={secret}", "(it is {secret})."),
    "ru": ("вот ключ: {secret} спасибо", "мой токен {secret}.", "TOKEN={secret}"),
    "zh": ("密钥是{secret}，谢谢", "用这个 {secret} 登录", "TOKEN={secret}"),
}
_DAYS: Final = ("Monday", "Tuesday", "Friday", "Sunday")


@dataclass(frozen=True, slots=True)
class Message:
    """A text, and the secret in it (empty: none)."""

    text: str
    secret: str = ""


def messages(count: int, *, seed: int) -> Sequence[Message]:
    """So many messages of the mix."""
    rng = random.Random(seed)
    return [_message(rng) for _ in range(count)]


def _message(rng: random.Random) -> Message:
    language = rng.choice(_LANGUAGES)
    secret = fill(rng.choice(list(TOKENS.values())), rng) if rng.random() < _SECRET_SHARE else ""
    pieces = []
    if rng.random() < _TALK_SHARE:
        pieces.append(_filled(rng.choice(_TALK[language]), rng))
    if secret:
        pieces.append(rng.choice(_GIVEN[language]).replace("{secret}", secret))
    while sum(map(len, pieces)) + len(pieces) < MESSAGE_CHARS:
        pieces.append(_filled(rng.choice(_CHAT[language]), rng))
    if not secret:
        rng.shuffle(pieces)
    return Message(" ".join(pieces)[: max(MESSAGE_CHARS, len(secret) + 60)], secret)


def _filled(sentence: str, rng: random.Random) -> str:
    while "{n}" in sentence:
        sentence = sentence.replace("{n}", str(rng.randrange(10, 60)), 1)
    return sentence.replace("{day}", rng.choice(_DAYS)).replace("{hex}", fill("<hex:8>", rng))
