"""`trivet init`: the first command on a new machine."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from gateway.cli.options import ConfigOption, private_file, say
from gateway.config import process_environment
from gateway.config.loading import CONFIG_VARIABLE, DEFAULT_FILE
from gateway.contracts.errors import ConfigError
from gateway.init.writing import configuration_text


def init(config: ConfigOption = None) -> None:
    """Ask for tokens and a model, try each of them, and write the configuration file."""
    from gateway.init.checks import Trying  # noqa: PLC0415 - start-up: only this needs the doctor's clients
    from gateway.init.interview import Interview  # noqa: PLC0415 - as above

    environ = process_environment()
    path = (config or Path(environ.get(CONFIG_VARIABLE) or DEFAULT_FILE)).expanduser()
    if path.exists():
        raise ConfigError(f"{path} is there already: `trivet doctor` looks at it, --config names another")
    with TemporaryDirectory() as folder:
        blank = Path(folder, DEFAULT_FILE)
        blank.touch()
        interview = Interview(_Typed(), Trying(blank, environ))
        answers = interview.held(str(path))
    with private_file(path, "--config") as file:
        file.write(configuration_text(answers).encode())
    interview.show_what_next(str(path))


class _Typed:
    """`gateway.init.interview.Terminal` on this process's own. What is piped in cannot be hidden and needs not be."""

    def show(self, text: str) -> None:
        say(text)

    def ask(self, asks: str, *, default: str = "", is_secret: bool = False) -> str:
        typed: str = typer.prompt(
            asks, default=default, show_default=bool(default), hide_input=is_secret and sys.stdin.isatty()
        )
        return typed.strip()
