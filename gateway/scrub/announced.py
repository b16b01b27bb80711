"""After an announcing word: find the value it announces, through signs, quotes and a few other words.

    my password is hunter2!      DB_PASSWORD="…"      {"api_key": "…"}      пароль от почты: …      密码是…

The walk goes from left to right over closed units and never looks back, so it can be interrupted anywhere."""

from __future__ import annotations

import re
from functools import cache, cached_property
from typing import Final

from gateway.scrub.judge import (
    CREDENTIAL_CHARS_MIN,
    MASKED,
    Bond,
    is_jumble,
    is_pass_phrase,
    is_random,
    is_reference,
    is_secret,
    is_unspoken,
)
from gateway.scrub.known import PLACEHOLDER, placeholder_in
from gateway.scrub.rules import SecretSpan
from gateway.scrub.states import State, StepResult
from gateway.scrub.view import is_cjk, unit_end
from gateway.scrub.words import Announcement, KeywordFamily, family_of, holds_announcing, is_announcing, vocabulary

# What may stand between an announcing word and its value, and around the value. Patterns only.
#
# Each is matched within one unit, whose end is its `\Z`; so none depends on how the text arrived.

IDENTIFIER_REST: Final = re.compile(r"[A-Za-z0-9_-]{0,40}", re.ASCII)
FENCE: Final = re.compile(r"`{3,}[a-z]{0,12}\Z")
BULLET: Final = re.compile(r"(?:[-*•|#+]|--|//)\Z|>|[-+](?=<)")
BLOCK_SCALAR: Final = re.compile(r"[|>][+-]?\d?\Z")  # `password: |`, the value is below
CLOSING: Final = re.compile(r"(?:\\{0,3}[\"']|[`*_\])}]){1,6}")
TAG: Final = re.compile(r"<(?P<is_closing>/?)(?:br/?|[A-Za-z][\w:.-]{0,30}(?P<encloses>))>|&nbsp;", re.ASCII)
SECTION: Final = re.compile(r"<!\[CDATA\[")
ATTRIBUTE: Final = re.compile(r"(?P<name>[A-Za-z][\w:.-]{0,20})=\\{0,7}([\"'])[^\"'<>\s]{0,40}\2", re.ASCII)
ASSIGNS: Final = re.compile(
    r";s:\d{1,4}:(?=\\{0,3}\")|[?+.|&:!~]{0,3}={1,3}(?:3D(?=[\s\"']|\Z))?>?|->|<-|:(?!//|:\w)|>(?=[^=>]|\Z)"
)
FALLS_BACK: Final = re.compile(r"(?:\|\||\?\?)\Z")  # `env.TOKEN || '…'`
SAYS: Final = re.compile(r"[-~/]\Z|\|{1,2}|[<>]{2,3}\Z|[-=]{1,3}>\Z|:{2}\Z")
SAYS_AGAIN: Final = re.compile(r"[.,;!?)*/|:]{1,4}\Z")
TRAILS_OFF: Final = re.compile(r"\.{2,3}|[057]\Z|[-/\\+*^_;]{1,4}\Z")  # `the password …`, `enable secret 0 …`
MARK: Final = re.compile(  # arrows and emoji
    r"[\u00a6\u00b7\u2022\u2023\u2190-\u21ff\u2200-\u22ff\u2300-\u23ff\u25a0-\u27bf\u27f0-\u27ff\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff]+"
)
OPENING: Final = re.compile(
    r"[bBrRfFuUN@$]{0,2}(?P<quote>\\{0,7}(?:\"\"\"|'''|\"\"(?=[^\s\"',;:)\]}>.])|''(?=[^\s\"',;:)\]}>.])|[\"'])|`)|\*{1,2}|~~|\|{1,2}|[(\[⟦]|\{(?=\\{0,7}[\"'])"
    r"|<(?=[^<>\s/]{6,64}>)"
)
WRAPPED_IN: Final = re.compile(  # `api_key = String::from("…")`
    r"(?:[\w:.]{1,30}[:.])?(?:\w{0,6}String\w{0,7}|Secret\w{0,6}|from|new|Some|\w*Text|GetBytes|\w{0,4}decode|strdup|\w{0,3}bytes)\((?=\\{0,7}[\"'])"
)
NOTE: Final = re.compile(r"[(\[](?:[^\d()\[\]#\n]|base\d\d|WPA\d){1,60}[)\]](?= ?[:=]| is\b| \S{0,64}\d)")
"""`password (change it!): …`, where no value can be in the note."""

OPEN_NOTE: Final = re.compile(r"[(\[](?:[^\d()\[\]#\n]|base\d\d|WPA\d){0,60}[)\]]? ?\Z")
TYPE_SIGN: Final = re.compile(r"&(?:str\b|(?=[A-Z])|[a-z_]+\Z)|!!\w{1,12}\Z|\[\d{0,4}\](?==?\Z)|\[\]byte\((?=[\"'`])")
WORD: Final = re.compile(
    r"(?!(?:[^\W\d_]+-){3})[^\W\d_](?:[^\W\d_]|[\u0900-\u0dff]|['-](?=[^\W\d_])){0,23}(?=[:=,.;?!؟]?\Z|(?:\*\*|:\*\*|\")\Z)"
)
ANOTHER_NAME: Final = re.compile(r"[a-z]{2,}(?:[A-Z][a-z]*)+")  # `credentialsId`: what is assigned is its value
PHRASE: Final = re.compile(r"[a-z]{4,12}(?:-[a-z]{4,12}){2,}\b")
NUMBER: Final = re.compile(  # a PIN or the code of a message, and no year
    r"(?:\d{3} \d{3}|(?:[A-Z]-?|#)?(?!(?:19|20)\d\d\b)(?:\d{4,8}[A-F*#]?|\d{3,5}-\d{3,5}|\d{1,4}(?:-\d{1,4}){2,3}))"
    r"[.,;!)]{0,2}\Z"
)
SPEAKER: Final = re.compile(r"[^\W\d_][\w.-]{0,24}:\Z")  # who answers, at the beginning of the line below a question
NAMED_THING: Final = re.compile(r"(?:[^\W\d_]{2,24}[_-]?\d{1,2}|[a-z]{1,20}[._][a-z]{1,20})(?=[?:]?\Z)")  # `for db12`
THING: Final = re.compile(r"\d[A-Z]{1,3}(?=:?\Z)")  # `2FA`, which no word is
GLUED: Final = re.compile(r"[^\W\d_]{1,12}(?=[:=])")
ADDRESS: Final = re.compile(  # a host or a mail address: what a secret may be for
    r"(?:[\w.+-]{1,40}@[\w-]{1,30}|[A-Za-z][\w-]{0,30})(?:\.[A-Za-z][\w-]{0,30}){0,3}\.[A-Za-z-]{2,24}(?=:?\Z)",
    re.ASCII,
)
NO_VALUE: Final = re.compile(
    r"\d{1,6} (?:k?m|ft|met(?:er|re)s?|м|метр\w*|kg)\b|(?<=PASS: )(?:Test[A-Z_]|test[-_])\w+"
    r"|(?:(?<=NOPASSWD: )|(?<=NOPASSWD:))\w"
    r"|[1-9]\d{5}(?: is (?:the area|(?:the |for )?[A-Z])|(?:,|(?<=ode: \d{6})) [A-Z][a-z]{2,16},? [A-Z])"
)
OPEN_MEASURE: Final = re.compile(r"\d{1,6}(?:(?: \w{0,7}){0,3}|,? ?(?:[A-Z][a-z]{0,16}(?:,? ?)?)?)\Z")
"""`the pass is 2350 m`, and what may become so; the name of a test; an Indian postal code and its place."""

SPLIT_NUMBER: Final = re.compile(r"[0-9]{3}[ -][0-9]{3}(?![ -]?[0-9])\b")

NEXT_NAME: Final = re.compile(r"(?:[^\W\d_]{2,24}_){0,4}([^\W\d_]{2,24})(?=[=:])")
SCHEME_AND_VALUE: Final = re.compile(r"[A-Za-z-]{3,16} (?:token=)?(?=\S+\Z)")
NAME_AND_VALUE: Final = re.compile(r"[^/:|]{1,64}[/:|](?!/)")

BARE_KEY: Final = re.compile(  # `the key 4fT…`: nothing says that it is one but itself
    r"(?=[a-z0-9]*[A-Z])(?=[A-Z0-9]*[a-z])(?=(?:[A-Za-z]*[0-9]){2})[A-Za-z0-9]{24,}[\"'`.,;:!?)]*\Z", re.ASCII
)
PLAIN: Final = re.compile(r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{2,}\Z")  # neither a word nor a sign that could be passed
DASHES: Final = "—–"
QUESTION_MARKS: Final = "?？؟"
OPENING_MARKS: Final = "¿¡“”«»„‘’「『《【（）】…"


# The value itself: how far it goes, bare or in quotes.

VALUE_CHARS_MAX: Final = 512
QUOTED_CHARS_MAX: Final = 160

KEPT_ELSEWHERE: Final = ("arn:", "op://", "vault:")  # so begins where a secret is kept: it may speak of secrets
_BARE_VALUE: Final = re.compile(
    r"(?:[^\"'`<>\\%{\[]++|\{(?!(?:code|noformat)\})|\[(?!/[a-z]+\])"
    r"|\\(?![nrtu\"'\\])|%(?!0[aAdD9]|20|%)|[<>](?![/a-zA-Z]))+"
)
_TRAILING: Final = re.compile(r"[.,;:)\]}>*|?~&]+\Z|(?<=[A-Za-z0-9])_{1,2}\Z")
_NEXT_PAIR: Final = re.compile(r"[;,&](?=[A-Za-z_][\w. -]{0,30}[=:])|\\u0026|&amp;|&&", re.ASCII)
_NEXT_FIELD: Final = re.compile(r"&(?=[a-z_]{1,24}=)")  # a sentence may hold an `&`, a field of a form may not
_NEXT_THING: Final = re.compile(r"[;,|&]|\\u0026")
NEXT_SECRET: Final = re.compile(
    r"\$?[()\[\]{}]|\|{2,}|/{0,2}(?:https?|wss?|s?ftps?|smtps?|postgres(?:ql)?|mysql|mongodb|rediss?|amqps?)(?:\+\w{1,9})?://"
)
"""What a value without quotes may be glued to, and what no value that was drawn at random holds."""

_LINE_ENDS: Final = ("", "\n", "\r", "`", "<", "\\", "。", "，", '"', "'")
"""Behind these nothing but markup follows on the line."""


def without_followers(text: str, at: int, stop: int, *, is_personal: bool, is_assigned: bool) -> int:
    """Return the end of the value without a full stop, a bracket or the next pair that follows it."""
    following = _NEXT_THING if not is_personal else _NEXT_PAIR if is_assigned else _NEXT_FIELD
    if cut := following.search(text, at + 1, stop):
        stop = cut.start()
    while stop > at and text[stop - 1] in ".,;:)]}>*|?~&_" and (trailing := _TRAILING.search(text, at, stop)):
        if text[trailing.start()] == ")" and "(" in text[at : trailing.start()]:
            break
        stop = trailing.start()
    if not is_personal and stop > at and text[stop - 1] == "!":
        stop -= 1
    return stop


@cache
def closing_of(quote: str) -> re.Pattern[str]:
    """Return the pattern of the quote that ends what `quote` began: as many backslashes, full pairs not counted."""
    backslashes = len(quote) - len(quote.lstrip("\\"))
    return re.compile(rf"(?<!\\)(?:\\{{{2 * (backslashes + 1)}}})*{re.escape(quote)}")


_NEXT_ITEM: Final = re.compile(r"\\{0,3}[\"'`][\s,]{0,64}(?:(?<=\n)[-+>#*|]\s{1,32})?[bfru@]?(?P<quote>\\{0,3}[\"'`])")
_NEXT_PART: Final = re.compile(
    r"\\{0,3}[\"'`][ \t]{0,4}(?:(?:\\{1,4}|[+.&])?[ \t]{0,4}\r?\n[ \t>|#+*/-]{2,40}|[+.&]|\.\.)[ \t]{0,4}[bfru@]?"
    r"(?P<quote>\\{0,3}[\"'`])"
)
"""Between the parts of a string, on one line or on several (`"…" + "…"`)."""

_NEXT_ITEM_CHARS_MAX: Final = 80
_FILLERS_MAX: Final = 6
_OF_MANY: Final = "sийы"  # so a word for several secrets ends, behind which a number counts them (`passwords 456531 …`)
_NEWLINES_MAX: Final = 3
_CJK_WORDS_CHARS_MAX: Final = 12
REACH_CHARS: Final = 120  # how far from the announcing word a value may begin
_OF_PAIRS: Final = frozenset(["auth", "networkcredential", "passwordauthentication", "usernamepasswordcredentials"])
"""`auth=('bob', '…')`: a name, then its password."""

_JUDGED_CHARS: Final = 96  # a longer value is judged by its beginning
_BEFORE_NEXT_CHARS_MIN: Final = 8
_CONNECTING_CHARS_MAX: Final = 160  # nothing between a word and its value is longer
_QUOTES: Final = "\"'`"
_AFTER_SIGN: Final = ("", " ", "\n", *_QUOTES)
"""Behind a sign that assigns, one of these says that the sign is over, as a letter or a digit does."""

_NAME: Final = re.compile(r"[\w.-]+\Z")
_NAME_CHARS_MAX: Final = 64
_NAMED_KEY_CHARS_MIN: Final = 16  # somebody's key (`acme_key`) may be shorter than the judge asks of a vague word


class AnnouncedValue(State):
    """State: an announcing word was read, its value is expected."""

    POSITIONS = ("_begun_at", "token_at")

    token_at: int | None = None  # where a secret begins that is known by its own form: no value there needs a judgement
    _is_pair_open = _is_argument = _is_named = _needs_end_tag = _must_be_quoted = False
    _is_other_thing = False  # `pass this level: …`: the sign assigns to another word
    _bond_of_complement: Bond | None = None
    _is_question = False  # it ended with a question mark: only the next line can say the value
    _is_for_something = False  # the word is over, what follows tells of another thing (`the password for the type box`)
    _is_exchanged = False  # `change my password from …`: the new one may follow, behind "to"
    _is_again = False  # one value was said, perhaps another follows (`…, no wait, …`, `… or …`)
    _is_new_clause = False  # another clause or sentence began: only what looks like a password is one
    _fillers = 0
    _newlines = 0
    _is_below = _in_list = False
    _is_fresh = True
    _before: str | None = None  # what stands before the word's end, while it is still there: a list may be long
    _quote = _rest_read = _list_quote = ""

    def __init__(self, word: Announcement, bond: Bond = Bond.ADJACENT) -> None:
        self._word = word
        self._bond = max(bond, Bond.SAID) if word.is_header else bond
        self._family, self._begun_at, self._needs_sign = word.family, word.end, word.needs_sign

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> StepResult:
        """See `State.step`."""
        if self._before is None:
            self._before = text[max(0, self._begun_at - _NAME_CHARS_MAX) : self._begun_at]
        if self._is_fresh:
            self._is_fresh = False
            is_spaced = self._word.is_spaced and self._family is not KeywordFamily.SCHEME
            rest = IDENTIFIER_REST.match(text, at, end if is_spaced else at)
            self._rest_read = rest.group() if rest else ""
            if self._rest_read and (vocabulary().denies_after.match(self._rest_read) or self._is_said_better()):
                return StepResult(at, is_over=True)
            at += len(self._rest_read)
        while at < end:
            if self._list_quote:
                return self._next_item(text, at, end, is_last=is_last)
            if at - self._begun_at > REACH_CHARS:
                return StepResult(at, is_over=True)
            if text[at] == " " and not self._is_question:
                at += 1
                continue
            if text[at] in "([" and self._bond < Bond.SAID:
                if note := NOTE.match(text, at, end):
                    at = note.end()
                    continue
                if not is_last and OPEN_NOTE.match(text, at, end):
                    return StepResult(at, waits=True)
            moved = self._connect(text, at, end)
            if moved is None:
                return StepResult(at, is_over=True)
            if moved == at:
                outcome = self._value(text, at, end, is_last=is_last)
                if isinstance(outcome, StepResult):
                    return outcome
                moved = outcome
            at = moved
        return StepResult(at)

    def _next_item(self, text: str, at: int, end: int, *, is_last: bool) -> StepResult:
        """Read on in a list of quoted values, from the quote that ends one."""
        while found := (_NEXT_ITEM if self._in_list else _NEXT_PART).match(text, at, end):
            self._quote = found["quote"]
            item = self._quoted(text, found.end(), end, is_last=is_last)
            if isinstance(item, StepResult):
                return StepResult(at, waits=True) if item.waits else item
            if item is None:
                return StepResult(at, is_over=True)
            at = item
        is_open = not is_last and end - at < _NEXT_ITEM_CHARS_MAX and not text[at:end].strip(" \t\r\n,\"'`\\+.&>|#*/-")
        return StepResult(at, waits=True) if is_open else StepResult(at, is_over=True)

    def _is_said_better(self) -> bool:
        """Tell whether another announcing word ends the identifier and so counts (`key_passphrase`, `key-password`)."""
        tail = re.split("[_-]|(?<=[a-z])(?=[A-Z])", self._rest_read)[-1].lower()
        is_joined = self._rest_read[:1] in ("_", "-") or family_of(tail) is KeywordFamily.PERSONAL
        return self._family is not KeywordFamily.PERSONAL and is_joined and is_announcing(tail)

    # --- from the word to the value

    def _connect(self, text: str, at: int, end: int) -> int | None:
        """Return the position after one connecting piece; `at` itself if a value may begin here; None to give up."""
        char = text[at]
        if self._is_question and char not in "\r\n":
            return self._pass_clause(at) if char == " " else None
        if self._is_again and (char in "\r\n=" or (char == ":" and self._bond < Bond.SAID and not self._is_new_clause)):
            return None
        if self._is_again and (sign := SAYS_AGAIN.match(text, at, unit_end(text, at, min(end, at + 8)))):
            return sign.end()
        if char == "\n":
            return self._pass_newline(at)
        if char.isspace() or char in OPENING_MARKS:
            return at + 1
        if char in DASHES:
            self._say()
            return at + 1
        if is_cjk(char):
            return self._pass_cjk(text, at, unit_end(text, at, min(end, at + _CJK_WORDS_CHARS_MAX + 1)))
        if self._quote:
            return at
        if char in "=:" and (text[at + 1 : at + 2].isalnum() or text[at + 1 : at + 2] in _AFTER_SIGN):
            self._bond, self._needs_end_tag = Bond.LOOSE if self._is_other_thing else Bond.ASSIGNED, False
            return at + 1
        unit = unit_end(text, at, min(end, at + _CONNECTING_CHARS_MAX))
        if named := vocabulary().value_name.match(text, at, unit):
            self._must_be_quoted = False
            return named.end()
        if self._bond_of_complement is not None and (thing := THING.match(text, at, unit)):
            return self._pass_complement(thing.end())
        if self._bond_of_complement is None and PLAIN.match(text, at, unit):
            return at
        return self._pass_word(text, at, unit) if char.isalpha() else self._pass_sign(text, at, unit)

    @cached_property
    def _is_asked(self) -> bool:
        """Tell whether the sentence of the word asks for the value; a question at the end of its line does as well."""
        return self._word.is_asked

    def _say(self) -> None:
        self._bond = max(self._bond, Bond.SAID)

    def _pass_newline(self, at: int) -> int | None:
        """Pass a line break: a value may follow below its name, but then it must have the line to itself."""
        if not (self._word.word or self._word.is_pair):  # the value of an option stands on its line
            return None
        self._newlines += 1
        self._is_below = True
        if self._is_question:
            self._is_asked, self._is_question = True, False
        if self._family is KeywordFamily.PERSONAL and self._is_asked:
            self._say()
        elif self._bond < Bond.SAID and (not self._word.is_heading or self._fillers):
            self._bond = Bond.LOOSE
        return at + 1 if self._newlines <= _NEWLINES_MAX else None

    def _pass_sign(self, text: str, at: int, unit: int) -> int | None:
        char = text[at]
        if char in QUESTION_MARKS and unit == at + 1:
            self._is_question = True
            return unit
        is_clause = unit == at + 1 and (char in ".;!" or (char == "," and self._fillers > 0))
        if is_clause and (far := self._pass_clause(at)) is not None:
            return far
        if (char in ".;?!" and unit == at + 1) or (char == "[" and PLACEHOLDER.match(text, at, unit)):
            return None
        if self._is_below and text[at - 1].isspace() and (bullet := BULLET.match(text, at, unit)):
            return bullet.end()
        if char == "`" and self._bond >= Bond.SAID and (fence := FENCE.match(text, at, unit)):
            self._is_below = True
            return fence.end()
        if char in "|>" and self._bond == Bond.ASSIGNED and (block := BLOCK_SCALAR.match(text, at, unit)):
            return block.end()
        if char in "<&" and (markup := TAG.match(text, at, unit) or SECTION.match(text, at, unit)):
            if markup.re is TAG and markup["encloses"] is not None and not markup["is_closing"]:
                self._say()
                self._needs_end_tag = True
            return markup.end()
        if char == ",":
            return self._pass_comma(text, at)
        if char not in _QUOTES and (assigns := ASSIGNS.match(text, at, unit)):
            self._bond = Bond.ASSIGNED
            self._needs_end_tag = assigns.group() == ">"
            return assigns.end()
        if char in "&![" and (type_sign := TYPE_SIGN.match(text, at, unit)):
            return type_sign.end()
        if char > "\x7f" and (mark := MARK.match(text, at, unit)):
            self._say()
            return mark.end()
        if self._bond < Bond.ASSIGNED and (loose := self._pass_loose_sign(text, at, unit)):
            return loose
        return self._open(text, at, unit)

    def _pass_clause(self, at: int) -> int | None:
        """Pass the end of a clause, behind which people may still tell what they chose; None where nobody does."""
        if self._family is not KeywordFamily.PERSONAL or self._bond is Bond.ASSIGNED or self._is_below:
            return None
        self._is_again = self._is_new_clause = True
        self._is_question, self._bond, self._fillers = False, Bond.LOOSE, 0
        return at + 1

    def _pass_loose_sign(self, text: str, at: int, unit: int) -> int | None:
        """Skip a sign that is between a word and its value but assigns nothing."""
        if falls_back := FALLS_BACK.match(text, at, unit):
            self._bond = Bond.ASSIGNED
            self._must_be_quoted = True
            return falls_back.end()
        if says := SAYS.match(text, at, unit):
            self._say()
            return says.end()
        if beside := TRAILS_OFF.match(text, at, unit):
            return beside.end()
        closing = CLOSING.match(text, at, unit)
        return closing.end() if closing and self._fillers == 0 and at - self._begun_at <= len(self._rest_read) else None

    def _pass_comma(self, text: str, at: int) -> int | None:
        """Pass a comma between two quoted things: the second may be the value of the first."""
        is_said = self._bond is Bond.SAID and self._family is KeywordFamily.PERSONAL
        if (self._bond >= Bond.SAID and not is_said) or (self._fillers and not self._must_be_quoted):
            return None
        self._must_be_quoted = not is_said and (self._family is not KeywordFamily.PERSONAL or text[at - 1] in _QUOTES)
        is_number = self._word.word in vocabulary().numbers and not self._must_be_quoted
        is_argument = self._is_argument or self._word.is_argument
        self._bond = Bond.SAID if is_argument else Bond.ADJACENT if is_number else Bond.LOOSE
        return at + 1

    def _open(self, text: str, at: int, unit: int) -> int:
        """Skip the quote or bracket around a value, if there is one."""
        opening = OPENING.match(text, at, unit)
        if opening is None:
            return at
        is_option = not (self._word.word or self._word.is_pair)
        is_said = bool(self._word.word) and self._family is KeywordFamily.PERSONAL and self._bond is Bond.SAID
        is_said = is_said and opening["quote"] != "`"  # which marks any word of code
        if opening["quote"] and (self._bond == Bond.ASSIGNED or self._must_be_quoted or is_option or is_said):
            self._quote = opening["quote"]
        elif opening.group() == "<":
            self._bond = Bond.LOOSE
        elif opening.group() == "(" and self._word.word in _OF_PAIRS:
            self._bond, self._is_pair_open = Bond.ASSIGNED, True
        elif opening.group() in ("[", "(") and self._bond == Bond.ASSIGNED:
            self._in_list = True
        return opening.end()

    def _pass_cjk(self, text: str, at: int, unit: int) -> int | None:
        words = text[at:unit]
        if len(words) > _CJK_WORDS_CHARS_MAX or vocabulary().denies_after_cjk.match(words):
            return None
        if vocabulary().announcing_cjk.search(words):
            return None
        self._fillers += 2
        if vocabulary().says_cjk.search(words):
            self._say()
        elif self._bond < Bond.SAID:
            self._bond = Bond.LOOSE
        return unit if self._fillers <= _FILLERS_MAX else None

    def _pass_word(self, text: str, at: int, unit: int) -> int | None:
        if self._fillers == 0 and self._bond < Bond.ASSIGNED and (attribute := ATTRIBUTE.match(text, at, unit)):
            return None if is_announcing(attribute["name"].lower()) else attribute.end()
        if self._is_below and (speaker := SPEAKER.match(text, at, unit)) and self._is_asked:
            return speaker.end()
        word = WORD.match(text, at, unit)
        if word is None:
            if self._bond is Bond.ASSIGNED and (wrapped := WRAPPED_IN.match(text, at, unit)):
                return wrapped.end()
            if (glued := GLUED.match(text, at, unit)) and glued.group().lower() in vocabulary().says:
                return glued.end()
            if self._bond_of_complement is not None:
                is_thing = self._bond < Bond.SAID or text[unit - 1] == "?" or self._is_asked
                thing = NAMED_THING if is_thing and not self._is_exchanged else ADDRESS
                if address := ADDRESS.match(text, at, unit) or thing.match(text, at, unit):
                    return self._pass_complement(address.end())
            return self._open(text, at, unit)
        if word.group().lower() in vocabulary().types:
            self._bond = Bond.LOOSE
            return word.end() + (text[word.end() : word.end() + 1] == "?")
        if self._word.is_header and len(word.group()) >= CREDENTIAL_CHARS_MIN:
            return at
        is_phrase = PHRASE.match(text, at, unit) is not None
        if self._is_below or (self._bond == Bond.ASSIGNED and (is_phrase or self._rest_read or self._word.is_constant)):
            return at
        if is_phrase and self._bond is Bond.SAID and self._word.word in vocabulary().phrases:
            return at
        return self._pass_filler(text, word.group(), word.end(), at)

    def _pass_complement(self, end: int) -> int:
        """Pass what the secret is for (`for the mail server`); it does not loosen the bond."""
        if self._bond_of_complement is not None:
            self._bond = self._bond_of_complement
            self._bond_of_complement = None
            self._is_named = True
            self._needs_sign = self._needs_sign and self._family is KeywordFamily.PERSONAL
        return end

    def _pass_filler(self, text: str, word: str, end: int, at: int) -> int | None:
        words = vocabulary()
        lowered = word.lower()
        if self._is_again:
            is_carried = lowered in words.carries
            self._fillers += not (self._is_new_clause and is_carried)
            if self._is_new_clause:
                is_said = lowered in words.says or (is_carried and lowered in words.corrects)
                is_near = self._fillers < 2 or self._bond is Bond.ADJACENT
                self._bond = Bond.ADJACENT if is_said and is_near else self._bond if is_carried else Bond.LOOSE
            elif lowered in words.again or lowered in words.corrects:
                self._bond = Bond.SAID if lowered in words.corrects else max(self._bond, Bond.ADJACENT)
            elif lowered not in words.carries and lowered not in words.says:
                self._bond = Bond.LOOSE
            is_other = lowered in words.announcing or holds_announcing(lowered)
            return end if not is_other and self._fillers <= _FILLERS_MAX else None
        if is_announcing(lowered.rpartition("-")[2]):
            is_key = lowered == "key" and self._family is KeywordFamily.KEY and self._bond == Bond.ASSIGNED
            return end if is_key else None
        if lowered in words.says and self._bond < Bond.SAID:
            self._must_be_quoted = self._is_other_thing = False
            if lowered in words.complements:
                self._bond_of_complement, self._is_for_something = self._bond, not self._is_exchanged
            else:
                self._bond_of_complement = None
            self._bond = Bond.SAID
            return end
        is_free, is_carried = self._bond_of_complement is None, self._bond >= Bond.SAID and lowered in words.carries
        is_other_name = is_free and ANOTHER_NAME.fullmatch(word) and text[end : end + 1] in (":", "=")
        is_denied = is_free and not self._is_for_something and words.denies_after.fullmatch(lowered)
        if is_other_name or self._rest_read.startswith("-") or (is_denied and not is_carried):
            return None
        is_regular = word.islower() or word.istitle() or word.isupper()
        is_plain = is_regular and not (self._bond >= Bond.SAID and is_unspoken(word))
        if not is_plain and is_secret(word, self._family, self._bond, is_quoted=False):
            return at
        self._fillers += 1
        self._is_exchanged = lowered in words.exchanged
        thing = lowered.rpartition("'")[2] + " "
        if self._family is KeywordFamily.VAGUE and thing[:-1].partition("-")[0] in words.certain_after:
            self._family = KeywordFamily.KEY
            self._needs_sign = False
        elif self._family is KeywordFamily.CODE and words.of_codes.match(thing):
            self._family = KeywordFamily.PERSONAL
            self._pass_complement(end)
        elif lowered in words.complements and self._bond < Bond.SAID:
            self._bond_of_complement = self._bond
            self._bond, self._is_for_something = Bond.LOOSE, not self._is_exchanged
        elif lowered in words.numbers:
            self._needs_sign = False
        elif (
            (is_loose := lowered not in words.carries) or lowered in words.locked or words.of_codes.match(thing)
        ) and (is_free or lowered not in words.users):
            if self._bond_of_complement is None and lowered not in words.locked and is_loose:
                self._bond = Bond.LOOSE
                self._is_other_thing |= self._needs_sign and lowered in words.sentence
            self._pass_complement(end)
        return end if self._fillers <= _FILLERS_MAX else None

    # --- the value

    def _value(self, text: str, at: int, end: int, *, is_last: bool) -> StepResult | int:
        """Judge what is at `at`; return where to read on if it was only the name of a pair."""
        if at == self.token_at and not (self._in_list or self._is_pair_open):
            return StepResult(at, is_over=True)
        is_glued = self._word.is_spaced and at == self._begun_at + len(self._rest_read)
        if is_glued or (self._must_be_quoted and not self._quote):
            return StepResult(at, is_over=True)
        limit = min(end, at + VALUE_CHARS_MAX)
        if self._needs_sign and self._bond < Bond.SAID:
            if self._family is KeywordFamily.PERSONAL:
                self._bond = Bond.LOOSE
            elif self._bond is not Bond.ADJACENT or not BARE_KEY.match(text, at, unit_end(text, at, limit)):
                return StepResult(at, is_over=True)
        if not self._word.is_spaced and at == self._begun_at:
            self._say()
        if self._quote:
            quoted = self._quoted(text, at, end, is_last=is_last)
            if quoted is not None:
                return quoted
        elif not is_last and OPEN_MEASURE.match(text, at, end):
            return StepResult(at, waits=True)
        elif NO_VALUE.match(text, at, end):
            return StepResult(at, is_over=True)
        if (name := NEXT_NAME.match(text, at, end)) and is_announcing(name[1].lower()):
            return StepResult(at, is_over=True)
        is_split = self._word.word in vocabulary().numbers and SPLIT_NUMBER.match(text, at, end)
        bare = is_split or _BARE_VALUE.match(text, at, unit_end(text, at, limit))
        whole = bare.end() if bare else at
        if placeholder := placeholder_in(text, at, whole):
            return StepResult(placeholder.end(), is_over=True)
        if text.startswith(KEPT_ELSEWHERE, at):
            return StepResult(whole, is_over=True)
        if self._is_below and text[whole : whole + 1] not in _LINE_ENDS:
            self._bond = Bond.LOOSE
        return self._bare(text, at, whole, end)

    def _bare(self, text: str, at: int, whole: int, end: int) -> StepResult:
        """Judge a value without quotes."""
        is_assigned = self._bond == Bond.ASSIGNED
        if self._family is KeywordFamily.CODE and not (is_assigned or self._word.is_pair):
            return StepResult(at, is_over=True)
        is_ended = not self._needs_end_tag or text.startswith("</", whole)
        if is_assigned and self._word.is_constant and is_ended and is_jumble(text[at:whole]):
            return StepResult(whole, is_over=True, cut=SecretSpan(at, whole, self._family.rule))
        is_chosen = self._family is KeywordFamily.PERSONAL or self._word.is_header
        is_one_of_pairs = is_assigned or self._word.is_header
        stop = without_followers(text, at, whole, is_personal=is_chosen, is_assigned=is_one_of_pairs)
        if self._word.is_pair and (name := NAME_AND_VALUE.match(text, at, stop)):
            at = name.end()
        is_section = text.startswith("]]", stop)
        if self._needs_end_tag and text.startswith("</", whole) and not is_section:
            stop = whole
        elif self._needs_end_tag and not self._is_below and not is_section:
            return StepResult(at, is_over=True)
        if not self._is_secret(text[at : min(stop, at + _JUDGED_CHARS)]):
            stop = self._before_next(text, at, stop)
            if stop == at or not self._is_secret(text[at : min(stop, at + _JUDGED_CHARS)]):
                return StepResult(at, is_over=True)
        is_row = self._is_below and text[at:stop].count(",") > 1
        is_count = self._bond is Bond.ADJACENT and text[at:stop].isdigit() and text[self._begun_at - 1] in _OF_MANY
        is_thing = self._is_asked and self._fillers > 0 and text.startswith("?", stop)
        if is_row or is_count or is_thing or self._repeats_its_name(text[at:stop]):
            return StepResult(at, is_over=True)
        if stop == at + VALUE_CHARS_MAX and (rest := _BARE_VALUE.match(text, stop, unit_end(text, stop, end))):
            stop = rest.end()
        replacement = None
        if self._is_exchanged:
            replacement = AnnouncedValue(self._word._replace(end=stop), Bond.ADJACENT)
            replacement._fillers = _FILLERS_MAX
        elif self._family is KeywordFamily.PERSONAL and not (self._needs_end_tag or text.startswith("\n", stop, end)):
            replacement = AnnouncedValue(self._word._replace(end=stop, needs_sign=False, is_constant=False), Bond.LOOSE)
            replacement._is_again, replacement._is_fresh = True, False
        cut = SecretSpan(at, stop, self._family.rule)
        return StepResult(stop, is_over=replacement is None, cut=cut, becomes=replacement)

    def _repeats_its_name(self, value: str) -> bool:
        """Tell whether the value is the name that it is assigned to, in another spelling (`API_KEY = "api-key"`)."""
        before, rest = self._before or "", self._rest_read
        if value[-1].isalnum() and value[-1].lower() != (before + rest)[-1:].lower():
            return False
        name = _NAME.search(before)
        return name is not None and _squeezed(name.group() + rest).endswith(_squeezed(value))

    @staticmethod
    def _before_next(text: str, at: int, stop: int) -> int:
        """Return where a value ends that something is glued to which is none of it; `at` if nothing is."""
        behind = NEXT_SECRET.search(text, at + _BEFORE_NEXT_CHARS_MIN, stop)
        if behind is None or MASKED.match(text, behind.start()):
            return at
        stop = without_followers(text, at, behind.start(), is_personal=False, is_assigned=True)
        return stop if behind.group().endswith("/") or is_random(text[at:stop]) else at

    def _is_secret(self, value: str) -> bool:
        things = vocabulary().things if self._is_new_clause else ()
        if not self._quote and (is_reference(value) or value.lower().startswith(things)):
            return False
        is_long = self._family is KeywordFamily.VAGUE and len(value) >= _NAMED_KEY_CHARS_MIN
        family = KeywordFamily.KEY if is_long and (self._is_named or self._word.is_named) else self._family
        words = vocabulary()
        is_short = self._bond is Bond.ASSIGNED and self._word.word in words.codes and not self._quote
        is_number = self._word.word in words.numbers and (
            NUMBER.match(value) is not None or (is_short and len(value) == 3 and value.isdigit())
        )
        if is_number and self._family is KeywordFamily.PERSONAL and self._bond >= Bond.ADJACENT:
            return True
        if self._word.word in words.phrases and self._bond is Bond.SAID and PHRASE.fullmatch(value):
            return is_pass_phrase(value.replace("-", " "))
        if self._word.word in words.codes and not any(map(str.isdigit, value)):
            return False
        is_set = self._word.is_constant and self._bond is Bond.ASSIGNED and not self._is_below
        is_quoted, is_constant = bool(self._quote) or is_set, is_set and not self._rest_read
        return is_secret(value, family, self._bond, is_quoted=is_quoted, is_constant=is_constant)

    def _quoted(self, text: str, at: int, end: int, *, is_last: bool) -> StepResult | int | None:
        """Read a value in quotes, spaces included. None: the quote does not close, read the value as unquoted."""
        limit = min(end, at + QUOTED_CHARS_MAX)
        closing = closing_of(self._quote).search(text, at, limit)
        stop = closing.end() - len(self._quote) if closing else limit
        newline = text.find("\n", at, closing.start() if closing else limit)
        if placeholder := placeholder_in(text, at, newline if newline >= 0 else closing.start() if closing else limit):
            if self._in_list and placeholder.span() == (at, stop):  # the list went on behind its secret, too
                self._list_quote = self._quote
                return stop
            return StepResult(placeholder.end(), is_over=True)
        if closing is None or newline >= 0:
            is_decided = newline >= 0 or end - at >= QUOTED_CHARS_MAX or is_last
            return None if is_decided else StepResult(at, waits=True)
        is_key = self._must_be_quoted or text.startswith("{", at - len(self._quote) - 1)
        if (is_key and text.startswith(":", closing.end())) or text.startswith(("==", "!="), closing.end()):
            return StepResult(at, is_over=True)
        if self._family is KeywordFamily.KEY and (scheme := SCHEME_AND_VALUE.match(text, at, stop)):
            at = scheme.end()
            if self._word.word == "authorization":
                self._family, self._bond = KeywordFamily.SCHEME, Bond.SAID
        value = text[at:stop]
        if is_jumble(value) and not value.startswith(("-----", *KEPT_ELSEWHERE)):
            is_cut = True
        elif any(map(str.isspace, value)):
            is_cut = self._family is KeywordFamily.PERSONAL and is_pass_phrase(value)
        else:
            is_cut = self._is_secret(value)
        is_cut = is_cut and not self._repeats_its_name(value)
        self._list_quote = self._quote if self._in_list or is_cut else ""
        if is_cut:
            return StepResult(stop, cut=SecretSpan(at, stop, self._family.rule))
        if self._in_list:
            return stop
        if not self._is_pair_open:
            return StepResult(at, is_over=True)
        self._is_pair_open, self._quote = False, ""
        self._family, self._bond, self._is_argument = KeywordFamily.PERSONAL, Bond.ADJACENT, True
        return closing.end()


def _squeezed(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()
