"""What counts as a command."""

from __future__ import annotations

import pytest

from agent.features.commands import Addressee, Offer, with_buttons
from channels.slack.normalize import spelled_out
from gateway.clock import SystemClock
from gateway.contracts.commands import COMMANDS, Command, CommandSpec, find_command
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText, Reply, ReplyKind
from gateway.scrub import Scrubber


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/new", Command("new")),
        ("  /NEW  ", Command("new")),
        ("/title My holiday", Command("title", "My holiday")),
        ("/title@TrivetBot My holiday", Command("title", "My holiday")),
        ("/title\nMy holiday\nin May", Command("title", "My holiday\nin May")),
        ("/compact\u00a0the\nbudget", Command("compact", "the\nbudget")),
        ("\uff0fstop", Command("stop")),
        ("\u200e/stop\u200b", Command("stop")),
        ("\ufeff\u2215stop\u2060 now", Command("stop", "now")),
        ("/Heart-Beat off", Command("heart_beat", "off")),
        ("/base64 x", Command("base64", "x")),
        ("/trivet status", Command("status")),
        ("/TRIVET@bot Status", Command("status")),
        ("/trivet", Command("help")),
        ("/trivet /title x", Command("title", "x")),
        ("/trivet stop at once", Command("stop", "at once")),
        ("/trivet help me with this letter", None),
        ("/trivet hello", None),
        ("/trivet /trivet new", None),
        ("/etc/passwd is what?", None),
        ("/ new", None),
        ("//new", None),
        ("/new, please", None),
        ("/\u017ftop", None),
        ("/\uff4eew", None),
        ("/-new", None),
        (f"/{'x' * 33}", None),
        ("!new", None),
        ("hello /new", None),
        ("", None),
    ],
)
def test_commands_are_told_from_talk(text: str, command: Command | None) -> None:
    """A slash, a name, maybe a bot's name, then white space or nothing: all else is talk."""
    assert find_command(text) == command


@pytest.mark.parametrize("spec", COMMANDS, ids=lambda spec: spec.name)
def test_a_command_that_is_spelled_out_is_read_back(spec: CommandSpec) -> None:
    for command in (Command(spec.name), Command(spec.name, "a b\nc")):
        assert find_command(command.text) == command


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("!stop", "/stop"),
        (" !Title My holiday", "/title My holiday"),
        ("!new\n", "/new"),
        ("!help me", "!help me"),
        ("!important: new", "!important: new"),
        ("!", "!"),
        ("! new", "! new"),
        ("!!new", "!!new"),
        ("/trivet new", "/new"),
        ("/trivet good morning", "good morning"),
    ],
)
def test_slack_takes_what_can_be_typed_in_its_threads(typed: str, said: str) -> None:
    """Its own client keeps slashes for itself, and has none in threads."""
    assert spelled_out(typed) == said


class Codes(SystemClock):
    """Gives the codes that it is told."""

    def __init__(self, *codes: str) -> None:
        self._codes = list(codes)

    def code(self, length: int) -> str:
        return self._codes.pop(0)


def test_a_token_of_a_button_is_none_that_looks_like_a_secret() -> None:
    """One in 15,000 begins as the keys of Scaleway or Brave do: it would be redacted, and the button be dead."""
    key, unlucky, token = SessionKey("telegram", "1"), "SCWP67DENYZKKXKVWM9BRYQKJKD", "HM7CWD2KXT5RBN9QGE4VYJ3SZAF"
    reply = Reply("r", "t", key, ReplyAddress("telegram", "1", "{}"), CleanText("Well?"), ReplyKind.ANSWER, 1)
    clean = Scrubber().scrub
    offered, (button,) = with_buttons(reply, [Offer("Yes", "/yes")], Addressee(key, True), clean, Codes(unlucky, token))
    assert offered.choices[0].command == f"/press {button.token}" == f"/press {token}"


def test_a_rule_that_redacts_every_token_costs_the_button_and_no_more() -> None:
    key = SessionKey("telegram", "1")
    reply = Reply("r", "t", key, ReplyAddress("telegram", "1", "{}"), CleanText("Well?"), ReplyKind.ANSWER, 1)
    offers, nothing = [Offer("Yes", "/yes")], CleanText("[redacted]")
    offered, _ = with_buttons(reply, offers, Addressee(key, True), lambda _: nothing, SystemClock())
    assert [choice.command for choice in offered.choices] == ["/press [redacted]"]
