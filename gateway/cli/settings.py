"""`trivet config schema|show|env`."""

from __future__ import annotations

import typer

from gateway.cli.options import ConfigOption, loaded_and_warned, say
from gateway.config.show import as_table, env_example, json_schema

app = typer.Typer(no_args_is_help=True, help="Look at the configuration.")


@app.command()
def schema() -> None:
    """Print every key with its type, default and meaning, as a JSON Schema."""
    typer.echo(json_schema())


@app.command()
def show(config: ConfigOption = None) -> None:
    """Print every key with the value in force and where it comes from. Secrets are masked, and of tool servers neither
    arguments nor paths are shown: keys may stand there."""
    say(as_table(loaded_and_warned(config)))


@app.command()
def env() -> None:
    """Print every key as an environment variable, with meaning and default."""
    typer.echo(env_example(), nl=False)
