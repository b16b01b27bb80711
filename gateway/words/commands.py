"""The table of commands in people's languages, for /help and for the menus of the platforms."""

from __future__ import annotations

from gateway.contracts.commands import CommandSpec
from gateway.contracts.messages import CleanText
from gateway.words.languages import Language
from gateway.words.saying import Words


def about_in(spec: CommandSpec, language: Language) -> CleanText:
    """What the command does, in at most 100 characters (a test pins it): what every platform's menu takes."""
    return Words(language).say(spec.about)


def argument_in(spec: CommandSpec, language: Language) -> CleanText:
    """What may follow the command, as one or two words; empty for nothing."""
    return Words(language).say(spec.argument) if spec.argument else CleanText("")
