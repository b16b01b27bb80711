"""What people read of us, in their language. English stands in the source and is the key of its translations.

    words = words_for(message.language, message.text, known=session.language)    which language: a value, passed on
    words.say("I do not know /{name}.", name=clean_name)                         one sentence
    words.count("{count} turn", "{count} turns", turns)                          the form that goes with a number
    NOT_OPEN: Final = sentence("This question is no longer open.")               one for later: words.say(NOT_OPEN)

Whoever writes a sentence writes it like that, as a literal, with named placeholders, and runs `make words`; a test
names what has no translation. A sentence whose values are clean (or numbers) is `CleanText`; one with other values is
text to be scrubbed, as ever. Logs, prompts, the operator's API and the command line stay English.
"""

from gateway.words.choosing import language_of, words_for
from gateway.words.commands import about_in, argument_in
from gateway.words.languages import Language, language_named, language_written
from gateway.words.saying import ENGLISH, Sentence, Spoken, Words, sentence

__all__ = [
    "ENGLISH",
    "Language",
    "Sentence",
    "Spoken",
    "Words",
    "about_in",
    "argument_in",
    "language_named",
    "language_of",
    "language_written",
    "sentence",
    "words_for",
]
