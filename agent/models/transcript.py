"""A session's transcript as a model reads it: turns, tool-call groups, the view, its budget. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import groupby
from typing import Final
from zoneinfo import ZoneInfo

from agent import limits
from agent.models.requests import ModelFacts, PromptMessage
from agent.tokens import entries_tokens
from gateway.contracts.context_blocks import Image, images_in, on_one_line, words_in
from gateway.contracts.messages import CleanText, clipped, joined, literal_text
from gateway.contracts.sessions import Entry, EntryKind, Role, Session

_LOST_RESULT: Final = literal_text("(no result: the call was interrupted)")


def summary_of(view: Sequence[Entry]) -> CleanText | None:
    """Return the summary in front of a view, if it has one."""
    return view[0].text if view and view[0].kind is EntryKind.COMPACTION else None


def said_in(view: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return a view without its summary."""
    return tuple(entry for entry in view if entry.kind is not EntryKind.COMPACTION)


def is_said(entry: Entry) -> bool:
    """Tell whether a person said the entry."""
    return entry.role is Role.USER and entry.kind is EntryKind.MESSAGE


def last_said(view: Sequence[Entry]) -> CleanText:
    """Return what a person said last; empty where nobody has."""
    return next((words_in(entry.text) for entry in reversed(view) if is_said(entry)), literal_text(""))


def has_images(view: Sequence[Entry], turn_id: str) -> bool:
    """Tell whether images came with what was said in that turn."""
    return any(images_in(entry.text) for entry in view if entry.turn_id == turn_id and is_said(entry))


def shown_images(entries: Sequence[Entry]) -> frozenset[Image]:
    """Choose the images that a prompt of these entries shows; of the others it only names the paths.

    Images of a turn are shown with it. When there would be too many, all but a few of the earlier ones are dropped at
    once, so that the beginning of the prompt changes seldom. The choice does not depend on the caller, since turns are
    counted in their order."""
    shown: list[Image] = []
    for turn in turns_of(entries):
        new = [*_images(turn)][-limits.IMAGES_SHOWN_MAX :]
        if len(shown) + len(new) > limits.IMAGES_SHOWN_MAX:
            shown = shown[max(len(shown) - min(limits.IMAGES_KEPT, limits.IMAGES_SHOWN_MAX - len(new)), 0) :]
        shown += new
    return frozenset(shown)


def turns_of(entries: Iterable[Entry]) -> tuple[tuple[Entry, ...], ...]:
    """Group entries into user-led turns: user messages, then everything up to the next user message.

    Consecutive user messages (a batch, or one whose turn failed) belong to one turn; a note begins none. Entries before
    the first user message form a turn of their own."""
    turns: list[list[Entry]] = []
    for entry in entries:
        follows_user = bool(turns) and turns[-1][-1].role is Role.USER
        if not turns or (is_said(entry) and not follows_user):
            turns.append([])
        turns[-1].append(entry)
    return tuple(map(tuple, turns))


def with_whole_groups(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Put every assistant tool call directly before its results, in call order: providers refuse anything else.

    Results without a call are dropped; calls without a result (a run that was killed) get one that says so."""
    whole: list[Entry] = []
    # Each entry that is no result, with the results that follow it by call id (ids repeat between turns).
    groups: list[tuple[Entry, dict[str, Entry]]] = []
    for entry in entries:
        if entry.role is not Role.TOOL:
            groups.append((entry, {}))
        elif groups:
            groups[-1][1][entry.tool_call_id] = entry
    for speech, results in groups:
        whole.append(speech)
        whole.extend(results.get(call.id) or _lost(call.id, speech) for call in speech.tool_calls)
    return tuple(whole)


def as_prompt(entries: Iterable[Entry]) -> tuple[PromptMessage, ...]:
    """Convert entries to prompt messages; neighbouring user entries become one message, as providers expect.

    In such a message our notes come before what people said, so that their words come last."""
    messages: list[PromptMessage] = []
    whole = with_whole_groups(entries)
    shown = shown_images(whole)
    for is_said_to_us, group in groupby(whole, lambda entry: entry.role is Role.USER):
        if is_said_to_us:
            ordered = sorted(group, key=lambda entry: entry.kind is not EntryKind.NOTE)
            text = joined(*(entry.text for entry in ordered), by="\n\n")
            images = tuple(image for image in _images(ordered) if image in shown)
            messages.append(PromptMessage(Role.USER, text, images=images))
        else:
            messages.extend(PromptMessage(one.role, one.text, one.tool_calls, one.tool_call_id) for one in group)
    return tuple(messages)


def _images(entries: Iterable[Entry]) -> Iterator[Image]:
    """List the images that people sent, and those that came with a tool's result and are noted behind it."""
    for entry in entries:
        if entry.role is Role.USER:
            yield from images_in(entry.text)


def _lost(call_id: str, entry: Entry) -> Entry:
    return Entry(Role.TOOL, _LOST_RESULT, seq=entry.seq, tool_call_id=call_id, is_error=True)


# How a message sounds, as one hint for the model. Pure (agent.md section 3).
#
# Whole words only: "hello" is not "hell", "planet" is not "plan". Words and phrases are in the table below, for
# several languages; scripts that do not part their words are searched as they are.


class Tone(StrEnum):
    """The tone of a message, the first that fits."""

    FRUSTRATED_ERROR = "frustrated+error"
    FRUSTRATED = "frustrated"
    ERROR = "error"
    BRAINSTORMING = "brainstorming"
    NONE = "none"


TONE_HINTS: Final[Mapping[Tone, CleanText]] = {
    Tone.FRUSTRATED_ERROR: literal_text(
        "The person sounds frustrated, and something fails. Acknowledge that in a few words, then go straight to the "
        "cause and the fix. No lecture."
    ),
    Tone.FRUSTRATED: literal_text("The person sounds frustrated. Be calm, brief and concrete; no lecture, no cheer."),
    Tone.ERROR: literal_text("The person reports that something fails. Find the cause first, then give the fix."),
    Tone.BRAINSTORMING: literal_text("The person is thinking aloud. Offer several different ideas before judging any."),
}

_FRUSTRATED_WORDS: Final = """
    hell | damn | dammit | damnit | wtf | ffs | ugh+ | a+rgh+ | grr+ | frustrated | frustrating | annoyed | annoying
    ridiculous | useless | infuriating | maddening | fed up | sick of | tired of this | hate this | hate it when
    waste of time | nothing works | not again | give up | giving up | drives? me (?:crazy|mad|nuts)
    still (?:broken|failing|fails|not working|doesn't work|does not work|the same)
    keeps? (?:failing|crashing|breaking)
    (?:third|fourth|fifth|tenth|hundredth) time | why (?:won't|can't) (?:it|this) just
    verdammt\\w* | scheiße | scheiss\\w* | frustriert | frustrierend | nervt | nervig | genervt | zum kotzen
    i (?:already )?told you | told you \\w+ times | how many times | not what i (?:asked|meant|wanted) | on my nerves
    you ignored
    habe? (?:ich )?doch (?:schon )?gesagt | wie oft noch | schon wieder | immer noch nicht | nichts funktioniert
    ich geb\\w* auf | bescheuert
    toujours pas ça | m'agace | pénible | je t'ai (?:déjà )?(?:dit|demandé) | combien de fois | merde | putain
    énervant | énervée? | frustrée? | frustrant | ras le bol | j'en ai marre | n'importe quoi
    otra vez lo mismo | ya te (?:he dicho|dije) | te dije | mierda | joder | frustrad[oa] | frustrante | hart[oa] de
    maldit[oa] | estoy hart[oa]
    porra | irritante | não aguento | cazzo | accidenti | maledett[oa] | non ne posso più | frustrat[oa]
    сколько раз | я же (?:просил[аи]?|говорил[аи]?|сказал[аи]?) | чёрт | черт | блин | бесит | достал[оаи]?
    надоел[оаи]? | задолбал\\w* | опять не | сколько можно
    kurwa | wkurza\\w* | lanet | yeter artık | sinir bozucu
"""
_FRUSTRATED_SIGNS: Final = (
    "气死|烦死|我(?:要|快要|快|都|真的)?崩溃|受够了|该死|又错了|真是服了|说过好几遍|说了多少遍|老是不听|"
    "イライラ|うんざり|ムカつく|いい加減にして|짜증|미치겠|열받"
)

_ERROR_WORDS: Final = """
    errors? | exceptions? | traceback | stack ?trace | crash(?:es|ed|ing)? | bugs? | buggy | fail(?:s|ed|ing|ures?|ure)?
    broken | doesn't work | does not work | don't work | isn't working | is not working | not working | won't start
    stopped working | segfault | segmentation fault | kernel panic | core dumped | timed out | exit code [1-9]\\d*
    (?:http|status|error|returns?|gives? me|get|getting) [45]\\d\\d | [45]\\d\\d error | exits? with | bad gateway
    deadlock\\w* | hangs | freezes | undefined | race conditions? | memory leaks? | (?:access|permission) denied
    won't (?:open|load|run|compile|connect|work) | (?:can't|cannot) connect | rejected | fires twice | loops forever
    stopped \\w+ing | blank page | loads blank | unexpected (?:token|end|identifier) | null instead
    fehler | fehlermeldung | fehlgeschlagen | absturz | abgestürzt | stürzt ab | kaputt | funktioniert (?:\\w+ )?nicht
    geht nicht | klappt nicht | (?:lädt|geht|startet|läuft|reagiert)\\b.{0,30} nicht mehr | meckert | läuft nicht
    hängt sich auf | endlosschleife\\w* | endlos | abgelehnt | scheiter[nt]\\w*
    stürz(?:t|en)\\b.{0,40}\\bab | schläg(?:t|en)\\b.{0,40}\\bfehl | verliert\\b.{0,30}\\b(?:nachrichten|daten)
    (?:startet|lädt|kompiliert|antwortet|findet\\b.{0,30}) nicht | verklemmung\\w* | speicherleck\\w*
    page blanche | est faux | time-?out | erreurs? | plantage | plante | plantent | échec | échoue | échouent | échoué
    fuites? de mémoire | interblocage
    ne (?:marche|fonctionne|démarre|compile|charge|répond|renvoie|s'ouvre) (?:pas|plus|rien)
    errore?s? | error[ei] | falla | fallan | fallando | fallo | falló | roto | rota | interbloqueo
    condición de carrera
    no (?:funciona|devuelve|termina|arranca|carga|abre|responde|compila|conecta) | fuga de memoria
    no hace nada | colgad[oa] | me da (?:null|undefined)
    se (?:cierra|cuelga|bloquea|congela|cae) (?:sol[oa]|al|cuando|cada)
    erros? | falhou | falha | quebrad[oa] | não funciona | não está funcionando | non funziona | guasto
    пуст\\w+ страниц\\w* | приходит null | зависает | виснет | падают | вылетают | бесконечн\\w+ цикл
    цикл бесконечн\\w* | взаимоблокировк\\w* | утечк\\w+ памяти
    не (?:видит|запускается|открывается|загружается|находит|отвечает|подключается|компилируется|собирается)
    ошибк[аиуе] | ошибкой | ошибок | сбой | упал[оаи]? | падает | вылетает | не работает | сломал(?:ся|ось|ась|ись)
    исключение
    błąd | błędy | nie działa | hata | çalışmıyor
"""
_ERROR_SIGNS: Final = (
    "报错|错误|出错|异常|失败|崩溃|不工作|没反应|溢出|死锁|连接不上|连不上|"
    "打不开|卡死|闪退|不动了|一片空白|是null|返回\\s?[45]\\d\\d|[Aa]ccess denied|"
    "エラー|例外|失敗|落ちる|動かない|動きません|오류|에러|실패|안 돼|안돼"
)
_ERROR_NAMES: Final = re.compile(r"(?<!\w)[A-Z]\w*(?:Error|Exception)(?!\w)")

_NO_FAILURE: Final = """
    standard errors? | error (?:bars?|rates?) | margins? of error | trial and error | type (?:i|ii|1|2) errors?
    crash courses?
    (?:error|exception) handling | with the exception of | without exception | bug bount(?:y|ies)
    error(?:es)? est[aá]ndar | error típico | margen de error | manejo de errores
    erreurs?[ -]types? | marge d'erreur | gestion des erreurs
    стандартн\\w+ ошиб\\w+ | ошибк\\w+ (?:среднего|выборки) | обработк\\w+ (?:ошибок|исключений)
"""
"""Terms with a word for a failure in them, which report none."""
_NO_FAILURE_SIGNS: Final = "标准错误|错误处理|异常处理|例外処理|エラー処理|예외 처리"

_BRAINSTORMING_WORDS: Final = """
    brainstorm(?:ing)? | ideas? | what if (?:we|i|you|they|there) | pros and cons | think (?:aloud|out loud|through)
    how might we | let's (?:think|plan|imagine|explore) | imagine (?:if|that|we) | explore (?:ideas|options|ways)
    (?:any|some|your) (?:suggestions|alternatives) | suggestions for | what are (?:my|our) options | inspire me
    ideen? | was wäre,? wenn | lass uns (?:überlegen|planen) | vorschläge für | hast du vorschläge
    idées? | et si on | imaginons | quelques pistes | des propositions (?:de|pour)
    ideas? | qué tal si | y si hacemos | imagina que | qué opciones tenemos | sugerencias para | lluvia de ideas
    ideias? | sugestões (?:de|para) | idee | suggerimenti per | immagina che
    идея | идеи | идей | а что если | что если | предложи варианты | придума\\w* | мозговой штурм
    pomysł\\w* | a co jeśli | fikir | fikirler | önerileri\\w* | ya şöyle
"""
_BRAINSTORMING_SIGNS: Final = (
    "头脑风暴|点子|出主意|有什么想法|如果我们|想几个|有什么建议|アイデア|案を|提案|ブレスト|아이디어|제안"
)


def tone_of(text: str) -> Tone:
    """Detect the tone of the beginning of a message: frustration and errors before ideas, the first match wins."""
    plain, is_error = _beginning(text), reports_failure(text)
    if _FRUSTRATED.search(plain):
        return Tone.FRUSTRATED_ERROR if is_error else Tone.FRUSTRATED
    if is_error:
        return Tone.ERROR
    return Tone.BRAINSTORMING if _BRAINSTORMING.search(plain) is not None else Tone.NONE


def reports_failure(text: str) -> bool:
    """Tell whether the beginning of a message says that something fails."""
    told = _TERMS.sub(" ", _beginning(text))
    return _ERROR.search(told) is not None or _ERROR_NAMES.search(told) is not None


def _beginning(text: str) -> str:
    return unicodedata.normalize("NFC", text[: limits.TONE_CHARS_MAX]).replace("’", "'")


def _compiled(words: str, signs: str) -> re.Pattern[str]:
    """Compile a pattern of whole words in any case, or signs anywhere. A hyphen or an apostrophe is part of a word."""
    phrases = [phrase.strip() for line in words.strip().splitlines() for phrase in line.split(" | ")]
    spaced = "|".join(phrases).replace(" ", r"\s+")
    return re.compile(rf"(?<![\w'-])(?:{spaced})(?![\w'-])|(?:{signs})", re.IGNORECASE)


_FRUSTRATED: Final = _compiled(_FRUSTRATED_WORDS, _FRUSTRATED_SIGNS)
_ERROR: Final = _compiled(_ERROR_WORDS, _ERROR_SIGNS)
_TERMS: Final = _compiled(_NO_FAILURE, _NO_FAILURE_SIGNS)
_BRAINSTORMING: Final = _compiled(_BRAINSTORMING_WORDS, _BRAINSTORMING_SIGNS)


# The model's view of a session: which part of the transcript, in which form. Pure.
#
# system prompt (byte-stable inside a session) [history, oldest first, always user-led; the summary folded into its
# first message] the newest user message, with a preamble of what changes from turn to turn
#
# Providers keep what they have read of a prompt and charge a tenth for it, as long as the next prompt begins with the
# same bytes. So a preamble is stored with its turn, as a note, and is in every later prompt at the place it had in
# the first: a preamble that only the newest message had would void all that came after it.


_OUTPUT_SHARE_UNKNOWN: Final = 4  # a model whose output limit is unknown: leave a quarter of what is planned
_BEFORE: Final = literal_text("(The conversation began before this.)")
_OUTPUT_SHARE_MAX: Final = 2  # never more than half, however much a model may write


@dataclass(frozen=True, slots=True)
class PromptBudget:
    """Tokens of one prompt: `window` is what the model can read, `planned` what a prompt and its answer are to fill of
    it, `usable` the prompt's part, `an_image` what each image that is shown takes of it: nothing where the model sees
    none. What cannot be made shorter may exceed `planned`, never `window`."""

    window: int
    planned: int
    usable: int
    an_image: int = 0


def budget_of(facts: ModelFacts, *, window_override: int = 0, context_budget: int = 0) -> PromptBudget:
    """Compute `usable = planned - min(20 000, the model's output limit)`, but never less than half of `planned`.

    `planned` is `context_budget`, or (0) the smaller of 100,000 tokens and 60 % of the window; windows of up to 32,000
    are used whole."""
    window = window_override or facts.context_window or limits.UNKNOWN_WINDOW_TOKENS
    usual = min(
        limits.CONTEXT_BUDGET_TOKENS, max(int(window * limits.CONTEXT_BUDGET_SHARE), limits.CONTEXT_BUDGET_TOKENS_MIN)
    )
    planned = min(context_budget or usual, window)
    output = facts.output_max or planned // _OUTPUT_SHARE_UNKNOWN
    usable = planned - min(limits.RESERVE_TOKENS_MAX, output, planned // _OUTPUT_SHARE_MAX)
    return PromptBudget(window, planned, usable, limits.IMAGE_TOKENS if facts.sees else 0)


def next_prompt_tokens(fixed_tokens: int, view: Sequence[Entry], session: Session, *, an_image: int = 0) -> int:
    """Estimate the size of the next prompt: the provider's count of the last one plus an estimate of what came after
    it; where nothing was counted (or a compaction made the count void), an estimate of it all. `fixed_tokens` are the
    system prompt and the tools, which every count holds; each image shown takes `an_image`."""
    newest_seq = view[0].seq if summary_of(view) is not None else 0
    if session.prompt_tokens and session.prompt_seq > newest_seq:
        added = [entry for entry in view if entry.seq > session.prompt_seq]
        return session.prompt_tokens + entries_tokens(added) + an_image * len(shown_images(added))
    return fixed_tokens + entries_tokens(view) + an_image * len(shown_images(view))


def build_prompt(entries: Sequence[Entry]) -> tuple[PromptMessage, ...]:
    """Build the prompt from a view and from the entries of the turn so far; the summary is folded into its first
    message.

    Nothing in view is ever left out of a prompt. It is always user-led, and the next prompt begins with the same
    messages."""
    summary = summary_of(entries)
    messages = list(as_prompt(said_in(entries)))
    if not messages or messages[0].role is not Role.USER:
        messages.insert(0, PromptMessage(Role.USER, _BEFORE))
    if summary is not None:
        folded = joined(literal_text("<summary>\n"), summary, literal_text("\n</summary>\n\n"), messages[0].text)
        messages[0] = replace(messages[0], text=folded)
    return tuple(messages)


def preamble(
    now_ms: int,
    *,
    tone: Tone = Tone.NONE,
    memory: CleanText | None = None,
    advice: Sequence[CleanText] = (),
    lost: CleanText | None = None,
    unseen: CleanText | None = None,
    name: CleanText | None = None,
    zone: str = "",
) -> CleanText:
    """Write what changes from turn to turn and therefore must not be in the system prompt: the time (also on the clock
    of the person, whose `zone` is known), the person's `name` and tone, a block of `memory` that marks itself as data,
    the `advice` of plug-ins, what is `lost` of an earlier attempt, and that an image is `unseen`."""
    parts = [memory] if memory else []
    parts += (joined(literal_text("<advice>\n"), each, literal_text("\n</advice>")) for each in advice)
    if tone is not Tone.NONE:
        parts.append(joined(literal_text("<tone>\n"), TONE_HINTS[tone], literal_text("\n</tone>")))
    if lost:
        parts.append(joined(literal_text("<interrupted>\n"), lost, literal_text("\n</interrupted>")))
    if unseen:
        parts.append(joined(literal_text("<unseen>\n"), unseen, literal_text("\n</unseen>")))
    moment = CleanText(_moment(now_ms, zone))
    if name:
        moment = joined(
            moment, literal_text(', from "'), clipped(on_one_line(name), limits.NAME_CHARS_MAX), literal_text('"')
        )
    parts.append(joined(literal_text("<now>\n"), moment, literal_text("\n</now>")))
    return joined(*parts, by="\n\n")


def _moment(now_ms: int, zone: str) -> str:
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    utc = f"{moment:%A %Y-%m-%d %H:%M} UTC"
    return f"{utc} ({moment.astimezone(ZoneInfo(zone)):%A %H:%M} in {zone})" if zone else utc
