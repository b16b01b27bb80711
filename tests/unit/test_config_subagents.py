"""The settings of sub-agents: single types differ where a table says so, and nonsense is told with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.config import load_settings
from gateway.config.show import as_table
from gateway.contracts.errors import ConfigError
from gateway.contracts.profiles import EVERY_TOOL, SUB_TYPE_ROWS
from gateway.scrub import Scrubber

CLEAN = Scrubber().scrub


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no file is."""
    monkeypatch.chdir(tmp_path)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trivet.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_without_a_word_they_are_on_and_as_they_come() -> None:
    subagents = load_settings(None, {}).settings.subagents
    assert (subagents.enabled, subagents.live_max, subagents.limit_s) == (True, 16, 300)
    assert (subagents.confinement, subagents.model, subagents.status_lines) == ("auto", "", True)
    assert subagents.rows(CLEAN) == SUB_TYPE_ROWS


def test_a_table_changes_one_type_where_it_says_something(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '[subagents]\nlive_max = 4\n\n[subagents.types.code]\nlabel = " Smith "\nrounds_max = 3\n'
        'tools = ["file_read", "mcp_docs_search", "file_read"]\n\n'
        '[subagents.types.writer]\nprompt = """\nYou write.\nIn verse.\n"""\n[subagents.types.plan]\n',
    )
    loaded = load_settings(path, {})
    rows = loaded.settings.subagents.rows(CLEAN)
    assert loaded.warnings == ()
    assert loaded.settings.subagents.live_max == 4
    assert (rows["code"].label, rows["code"].rounds_max) == ("Smith", 3)
    assert rows["code"].tools == ("file_read", "mcp_docs_search")
    assert rows["code"].description == SUB_TYPE_ROWS["code"].description
    assert rows["writer"].prompt == "You write.\nIn verse."
    assert {name for name in rows if rows[name] != SUB_TYPE_ROWS[name]} == {"code", "writer"}


def test_a_secret_in_a_prompt_is_taken_out(tmp_path: Path) -> None:
    token = "ghp_" + "Ab3dE6gH9jK2mN5pQ8sT1vW4xY7zA0bC3dE6"
    path = write(tmp_path, f'[subagents.types.code]\nprompt = "Log in with {token}."\n')
    prompt = load_settings(path, {}).settings.subagents.rows(CLEAN)["code"].prompt
    assert prompt is not None
    assert token not in prompt


def test_the_environment_holds_the_tables_as_json_and_wins_key_by_key(tmp_path: Path) -> None:
    path = write(tmp_path, '[subagents.types.code]\nlabel = "Smith"\nrounds_max = 3\n')
    told = json.dumps({"code": {"rounds_max": 4}, "general": {"tools": [EVERY_TOOL]}})
    loaded = load_settings(path, {"TRIVET_SUBAGENTS__TYPES": told})
    row = loaded.settings.subagents.rows(CLEAN)["code"]
    assert (row.label, row.rounds_max) == ("Smith", 4)
    assert loaded.sources["subagents.types.code.rounds_max"] == "TRIVET_SUBAGENTS__TYPES"
    assert loaded.sources["subagents.types.code.label"] == f"{path} line 2"


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ('[subagents.types.coder]\nlabel = "x"', "line 2: subagents.types", "explore, general, plan, code"),
        ("[subagents.types.coder]", "line 1: subagents.types", "explore, general, plan, code"),
        ("[subagents]\ntypes = 5", "line 2: subagents.types", "tables named by the types"),
        ("[subagents.types]\ncode = 5", "line 2: subagents.types.code", "must be a table"),
        ("[subagents.types.code]\nrounds_max = -1", "line 2: subagents.types.code.rounds_max", "from 1 to 50"),
        ("[subagents.types.code]\nrounds_max = 0", "line 2: subagents.types.code.rounds_max", "from 1 to 50"),
        ("[subagents.types.code]\nrounds_max = true", "line 2: subagents.types.code.rounds_max", "from 1 to 50"),
        ("[subagents.types.code]\nrounds_max = 2.5", "line 2: subagents.types.code.rounds_max", "from 1 to 50"),
        ('[subagents.types.code]\nprompt = "  "', "line 2: subagents.types.code.prompt", "1 to 16000 characters"),
        ('[subagents.types.code]\nlabel = ""', "line 2: subagents.types.code.label", "1 to 60 characters"),
        ('[subagents.types.code]\nlabel = "a\\nb"', "line 2: subagents.types.code.label", "one line"),
        ('[subagents.types.code]\ntools = "shell"', "line 2: subagents.types.code.tools", "names of tools"),
        ('[subagents.types.code]\ntools = ["rm -rf"]', "line 2: subagents.types.code.tools", "names of tools"),
        ('[subagents.types.code]\ntools = ["file_raed"]', "line 2: subagents.types.code.tools", "names of tools"),
        ('[subagents.types.code]\ntools = ["*", "shell"]', "line 2: subagents.types.code.tools", "names of tools"),
        ("[subagents]\nlimit_s = 9", "line 2: subagents.limit_s", "from 10 to 3600"),
        ("[subagents]\nlive_max = 0", "line 2: subagents.live_max", "from 1 to 256"),
        ('[subagents]\nconfinement = "none"', "line 2: subagents.confinement", "auto, bubblewrap, landlock, plain"),
    ],
)
def test_nonsense_is_told_with_its_place_and_what_was_expected(
    tmp_path: Path, text: str, place: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as told:
        load_settings(write(tmp_path, text), {})
    assert f"{place} must be" in str(told.value)
    assert expected in str(told.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("code", "subagents.types must be tables"),
        ("[]", "subagents.types must be tables"),
        ('{"coder": {}}', "but coder was found"),
        ('{"code": {"rounds_max": "3"}}', "subagents.types.code.rounds_max must be a whole number"),
    ],
)
def test_nonsense_in_the_environment_is_told_too(text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=r"^TRIVET_SUBAGENTS__TYPES: ") as told:
        load_settings(None, {"TRIVET_SUBAGENTS__TYPES": text})
    assert expected in str(told.value)


def test_a_slip_of_the_pen_in_a_key_is_warned_of(tmp_path: Path) -> None:
    path = write(tmp_path, "[subagents.types.code]\nround_max = 3\n")
    (warning,) = load_settings(path, {}).warnings
    assert warning.endswith("is ignored: did you mean subagents.types.code.rounds_max?")


def test_what_is_changed_is_shown_key_by_key_with_its_source(tmp_path: Path) -> None:
    path = write(tmp_path, f'[subagents.types.code]\nrounds_max = 3\nprompt = "{"word " * 500}"\n')
    rows = {line.split()[0]: line for line in as_table(load_settings(path, {})).splitlines()}
    assert rows["subagents.types.code.rounds_max"].split()[1:] == ["3", str(path), "line", "2"]
    assert len(rows["subagents.types.code.prompt"]) < 500
    assert "subagents.types" not in rows


def test_a_type_has_the_model_of_its_table_else_the_one_of_all_else_its_own(tmp_path: Path) -> None:
    own = load_settings(None, {}).settings.subagents.rows(CLEAN)
    assert [name for name, row in own.items() if row.model == "cheap"] == ["explore", "research", "reviewer"]
    path = write(tmp_path, '[subagents.types.explore]\nmodel = ""\n[subagents.types.code]\nmodel = "cheap"\n')
    rows = load_settings(path, {}).settings.subagents.rows(CLEAN)
    assert (rows["explore"].model, rows["code"].model, rows["research"].model) == ("", "cheap", "cheap")
    path = write(tmp_path, '[subagents]\nmodel = "ollama/a"\n[subagents.types.code]\nmodel = "cheap"\n')
    rows = load_settings(path, {}).settings.subagents.rows(CLEAN)
    assert (rows["explore"].model, rows["code"].model, rows["writer"].model) == ("ollama/a", "cheap", "ollama/a")
