"""Logging: no secret reaches the output, whichever way and library it came through."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from gateway.scrub import Scrubber
from gateway.telemetry.logs import QUIET, UNPRINTABLE, ScrubbingFormatter, configure_logs
from tests.parts.logs import logging_put_back
from tests.scrubbing import draw

SECRET = draw("ghp_<base62:36>", seed=11)
OWN = "the operator's own phrase"


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    """What was logged."""
    stream = io.StringIO()
    with logging_put_back():
        configure_logs(Scrubber([OWN], placeholder_key=b"k"), level="debug", as_json=True, output=stream)
        yield stream


class TestStandardLibrary:
    def test_message(self, output: io.StringIO) -> None:
        logging.getLogger("a_library.http").warning("token %s refused", SECRET)
        line = json.loads(output.getvalue())
        assert SECRET not in output.getvalue()
        assert line["event"].startswith("token [redacted:github#")
        assert line["logger"] == "a_library.http"

    def test_extra_fields(self, output: io.StringIO) -> None:
        logging.getLogger("a_library").error("no", extra={"header": {"Authorization": f"Bearer {SECRET}"}})
        assert SECRET not in output.getvalue()
        assert "header" in json.loads(output.getvalue())

    def test_a_field_whose_name_announces_a_password(self, output: io.StringIO) -> None:
        logging.getLogger("a").error("no", extra={"password": "hunter2"})
        assert "hunter2" not in output.getvalue()
        assert json.loads(output.getvalue())["password"].startswith("[redacted:")

    def test_traceback(self, output: io.StringIO) -> None:
        try:
            raise RuntimeError(f"bad key {SECRET}")
        except RuntimeError:
            logging.getLogger("a_library.client").exception("failed")
        assert SECRET not in output.getvalue()
        assert "RuntimeError" in json.loads(output.getvalue())["exception"]

    def test_known_values(self, output: io.StringIO) -> None:
        logging.getLogger("a_library.client").info("using %r", OWN)
        assert OWN not in output.getvalue()
        assert "[redacted:known#" in output.getvalue()

    def test_a_record_that_cannot_be_formatted_is_told_without_its_content(self) -> None:
        formatter = ScrubbingFormatter(Scrubber(), logging.Formatter())
        line = formatter.format(logging.LogRecord("a", logging.INFO, __file__, 1, "%d", (SECRET,), None))
        assert SECRET not in line
        assert UNPRINTABLE in line

    def test_loggers_that_print_addresses_are_quiet(self, output: io.StringIO) -> None:
        for name in QUIET:
            logging.getLogger(name).info("GET https://api.telegram.org/bot1:x/getMe")
        assert output.getvalue() == ""


class TestStructlog:
    def test_event_and_values(self, output: io.StringIO) -> None:
        structlog.get_logger("x").warning("key %s", SECRET, token=SECRET, count=3)
        line = json.loads(output.getvalue())
        assert SECRET not in output.getvalue()
        assert line["count"] == 3
        assert line["token"] == line["event"].removeprefix("key ")

    def test_context_of_a_turn_is_on_every_line(self, output: io.StringIO) -> None:
        with structlog.contextvars.bound_contextvars(turn_id="t1"):
            structlog.get_logger("x").info("one")
            logging.getLogger("y").info("two")
        lines = [json.loads(line) for line in output.getvalue().splitlines()]
        assert [line["turn_id"] for line in lines] == ["t1", "t1"]

    def test_levels_below_the_setting_are_dropped(self, output: io.StringIO) -> None:
        logging.getLogger().setLevel("ERROR")
        structlog.get_logger("x").info("quiet")
        assert output.getvalue() == ""

    def test_libraries_do_not_tell_at_debug_what_they_carry(self, output: io.StringIO) -> None:
        """There they write content in pieces, in which nobody recognises a secret."""
        logging.getLogger("slack_sdk.socket_mode").debug("half a sec")
        logging.getLogger("channels.slack").debug("ours")
        structlog.get_logger("agent.runtime.worker").debug("ours too")
        assert [json.loads(line)["event"] for line in output.getvalue().splitlines()] == ["ours", "ours too"]

    def test_console_form_is_scrubbed_as_well(self, output: io.StringIO) -> None:
        configure_logs(Scrubber(), as_json=False, output=output)
        structlog.get_logger("x").info("hello", token=SECRET)
        assert SECRET not in output.getvalue()
        assert "hello" in output.getvalue()

    def test_one_line_stays_valid_json_when_a_key_file_is_cut_out_of_it(self, output: io.StringIO) -> None:
        key = draw("-----BEGIN PRIVATE KEY-----\n<base64:64>\n<base64:64>", seed=3)
        structlog.get_logger("x").info("loaded", key=key, path="/etc/key")
        line = json.loads(output.getvalue())
        assert line["path"] == "/etc/key"
        assert key.splitlines()[1] not in output.getvalue()
