"""/help, as each role reads it in each language, against files that people read.

After a change that is meant, write them anew and look at the difference:

    .venv/bin/python -m tests.unit.test_help_golden
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from agent.features.commands import help_text
from gateway.contracts.commands import COMMANDS
from gateway.contracts.sessions import GrantRole
from gateway.i18n import Language, Words, argument_in

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "help"
LISTED: Final = [spec for spec in COMMANDS if spec.name not in ("start", "heartbeat")]
OPTION: Final = re.compile(r"[-_\w]{1,32}")
"""What Discord takes as the name of what may follow a command."""


def rendered(language: Language, role: GrantRole) -> str:
    return help_text(role, Words(language), listed=LISTED, can_split=role is not GrantRole.GUEST)


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("role", [GrantRole.GUEST, GrantRole.ADMIN])
def test_help_says_what_the_file_says(language: Language, role: GrantRole) -> None:
    assert rendered(language, role) + "\n" == (GOLDEN / f"{language}-{role}.md").read_text("utf-8")


def test_nobody_is_offered_what_he_may_not_use() -> None:
    guest, member = rendered(Language.EN, GrantRole.GUEST), rendered(Language.EN, GrantRole.MEMBER)
    assert guest == member.partition("\n\nParts of a task")[0]
    assert "/pair" not in guest
    assert "/pair" in rendered(Language.EN, GrantRole.ADMIN)
    assert "\n- /" not in rendered(Language.EN, GrantRole.BLOCKED)


@pytest.mark.parametrize("language", Language)
def test_what_may_follow_can_be_the_name_of_an_option(language: Language) -> None:
    for spec in COMMANDS:
        argument = argument_in(spec, language).lower().replace(" ", "_")
        assert not spec.is_in_menu or not argument or OPTION.fullmatch(argument), argument


def _write() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for language in Language:
        for role in (GrantRole.GUEST, GrantRole.ADMIN):
            (GOLDEN / f"{language}-{role}.md").write_text(rendered(language, role) + "\n", "utf-8")


if __name__ == "__main__":
    _write()
