"""The text of a configuration file from answers. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import groupby

from gateway.config.catalog import catalog

_HEAD = "# Written by `trivet init`. `trivet config schema` says what else there is."


def configuration_text(answers: Mapping[str, str]) -> str:
    """TOML for settings by their keys, each a text or, where the setting is a list, texts with commas between them."""
    rows = sorted((*key.rpartition(".")[::2], text) for key, text in answers.items())
    tables = [
        "\n".join((f"[{table}]", *(f"{name} = {_value(f'{table}.{name}', text)}" for _, name, text in of_table)))
        for table, of_table in groupby(rows, key=lambda row: row[0])
    ]
    return "\n\n".join((_HEAD, *tables)) + "\n"


def _value(key: str, text: str) -> str:
    if catalog()[key].is_list:
        return f"[{', '.join(_quoted(each.strip()) for each in text.split(',') if each.strip())}]"
    return _quoted(text)


def _quoted(text: str) -> str:
    """A basic string of TOML, which JSON writes alike but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
