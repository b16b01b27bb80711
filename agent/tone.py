"""How a message sounds, as one hint for the model. Pure (agent.md section 3).

Whole words only: "hello" is not "hell", "planet" is not "plan". Words and phrases stand in the table below, for
several languages; scripts that do not part their words are searched as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from agent.limits import TONE_CHARS_MAX
from gateway.contracts.messages import CleanText, own_words


class Tone(StrEnum):
    """What a message sounds like, the first that fits."""

    FRUSTRATED_ERROR = "frustrated+error"
    FRUSTRATED = "frustrated"
    ERROR = "error"
    BRAINSTORMING = "brainstorming"
    NONE = "none"


TONE_HINTS: Final[Mapping[Tone, CleanText]] = {
    Tone.FRUSTRATED_ERROR: own_words(
        "The person sounds frustrated, and something fails. Acknowledge that in a few words, then go straight to the "
        "cause and the fix. No lecture."
    ),
    Tone.FRUSTRATED: own_words("The person sounds frustrated. Be calm, brief and concrete; no lecture, no cheer."),
    Tone.ERROR: own_words("The person reports that something fails. Find the cause first, then give the fix."),
    Tone.BRAINSTORMING: own_words("The person is thinking aloud. Offer several different ideas before judging any."),
}

_FRUSTRATED_WORDS: Final = """
    hell | damn | dammit | damnit | wtf | ffs | ugh+ | a+rgh+ | grr+ | frustrated | frustrating | annoyed | annoying
    ridiculous | useless | infuriating | maddening | fed up | sick of | tired of this | hate this | hate it when
    waste of time | nothing works | not again | give up | giving up | drives? me (?:crazy|mad|nuts)
    still (?:broken|failing|fails|not working|doesn't work|does not work|the same)
    keeps? (?:failing|crashing|breaking)
    (?:third|fourth|fifth|tenth|hundredth) time | why (?:won't|can't) (?:it|this) just
    verdammt\\w* | scheiße | scheiss\\w* | frustriert | frustrierend | nervt | nervig | genervt | zum kotzen
    schon wieder | immer noch nicht | nichts funktioniert | ich geb\\w* auf | bescheuert
    merde | putain | énervant | énervée? | frustrée? | frustrant | ras le bol | j'en ai marre | n'importe quoi
    mierda | joder | frustrad[oa] | frustrante | hart[oa] de | maldit[oa] | estoy hart[oa]
    porra | irritante | não aguento | cazzo | accidenti | maledett[oa] | non ne posso più | frustrat[oa]
    чёрт | черт | блин | бесит | достал[оаи]? | надоел[оаи]? | задолбал\\w* | опять не | сколько можно
    kurwa | wkurza\\w* | lanet | yeter artık | sinir bozucu
"""
_FRUSTRATED_SIGNS: Final = "气死|烦死|崩溃了|受够了|该死|イライラ|うんざり|ムカつく|いい加減にして|짜증|미치겠|열받"

_ERROR_WORDS: Final = """
    errors? | exceptions? | traceback | stack ?trace | crash(?:es|ed|ing)? | bugs? | buggy | fail(?:s|ed|ing|ures?|ure)?
    broken | doesn't work | does not work | don't work | isn't working | is not working | not working | won't start
    stopped working | segfault | segmentation fault | kernel panic | core dumped | timed out | exit code [1-9]\\d*
    http [45]\\d\\d
    fehler | fehlermeldung | fehlgeschlagen | absturz | abgestürzt | stürzt ab | kaputt | funktioniert (?:\\w+ )?nicht
    geht nicht | klappt nicht
    erreurs? | plantage | ne (?:marche|fonctionne) (?:pas|plus) | échec | échoué
    errore?s? | error[ei] | falla | fallo | falló | no funciona | roto | rota
    erros? | falhou | falha | quebrad[oa] | não funciona | não está funcionando | non funziona | guasto
    ошибк[аиуе] | ошибок | сбой | упал[оаи]? | падает | вылетает | не работает | сломал(?:ся|ось|ась|ись) | исключение
    błąd | błędy | nie działa | hata | çalışmıyor
"""
_ERROR_SIGNS: Final = (
    "报错|错误|出错|异常|失败|崩溃|不工作|没反应|エラー|例外|失敗|落ちる|動かない|動きません|오류|에러|실패|안 돼|안돼"
)
_ERROR_NAMES: Final = re.compile(r"(?<!\w)[A-Z]\w*(?:Error|Exception)(?!\w)")

_BRAINSTORMING_WORDS: Final = """
    brainstorm(?:ing)? | ideas? | what if | plan | planning | imagine | explore | options | alternatives
    possibilities | suggestions? | pros and cons | think (?:aloud|out loud|through) | how might we | let's think
    inspire | inspiration
    ideen? | was wäre wenn | was wäre, wenn | planen | überleg\\w* | vorschl(?:ag|äge) | möglichkeiten | alternativen
    idées? | et si on | imaginons | pistes | propositions
    ideas? | qué tal si | y si hacemos | imagina | opciones | alternativas | sugerencias | lluvia de ideas
    ideias? | sugestões | opções | idee | suggerimenti | immagina | opzioni
    идея | идеи | идей | а что если | что если | варианты | предложения | придума\\w* | мозговой штурм
    pomysł\\w* | a co jeśli | fikir | fikirler | öneri\\w* | ya şöyle
"""
_BRAINSTORMING_SIGNS: Final = "头脑风暴|点子|想法|如果我们|方案|建议|アイデア|案を|提案|ブレスト|아이디어|제안"


def tone_of(text: str) -> Tone:
    """The tone of the beginning of a message: frustration and errors before ideas, the first match wins."""
    plain = unicodedata.normalize("NFC", text[:TONE_CHARS_MAX]).replace("’", "'")
    is_frustrated = _FRUSTRATED.search(plain) is not None
    is_error = _ERROR.search(plain) is not None or _ERROR_NAMES.search(plain) is not None
    if is_frustrated:
        return Tone.FRUSTRATED_ERROR if is_error else Tone.FRUSTRATED
    if is_error:
        return Tone.ERROR
    return Tone.BRAINSTORMING if _BRAINSTORMING.search(plain) is not None else Tone.NONE


def _compiled(words: str, signs: str) -> re.Pattern[str]:
    """Whole words in any case, or signs anywhere. A hyphen or an apostrophe holds a word together."""
    phrases = [phrase.strip() for line in words.strip().splitlines() for phrase in line.split(" | ")]
    spaced = "|".join(phrases).replace(" ", r"\s+")
    return re.compile(rf"(?<![\w'-])(?:{spaced})(?![\w'-])|(?:{signs})", re.IGNORECASE)


_FRUSTRATED: Final = _compiled(_FRUSTRATED_WORDS, _FRUSTRATED_SIGNS)
_ERROR: Final = _compiled(_ERROR_WORDS, _ERROR_SIGNS)
_BRAINSTORMING: Final = _compiled(_BRAINSTORMING_WORDS, _BRAINSTORMING_SIGNS)
