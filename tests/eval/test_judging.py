"""The rules by which `make eval` judges are rules: they pass good answers and fail bad ones, whoever gave them."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.eval.judging import Case, Given, faults_of, language_of, load_cases


def test_there_are_enough_cases_of_every_kind_and_each_has_a_rule() -> None:
    cases = load_cases()
    kinds = Counter(case.kind for case in cases)
    assert min(kinds.values()) >= 8
    assert kinds.total() >= 140
    for case in cases:
        assert case.says or case.never or case.language or case.calls is not None or case.kind == "title", case
        assert case.said or case.history
        for rule in (*case.says, *case.never):
            re.compile(rule)


@pytest.mark.parametrize(
    ("case", "given", "is_good"),
    [
        (Case("tool", calls=["remember"]), Given("", ["remember"]), True),
        (Case("tool", calls=["remember"]), Given("Noted!"), False),
        (Case("tool", calls=["remember"]), Given("", ["shell"]), False),
        (Case("no_tool", calls=[], says=["lisbon"]), Given("Lisbon."), True),
        (Case("no_tool", calls=[]), Given("", ["recall"]), False),
        (Case("language", language="de"), Given("Koche das Ei für fünf Minuten in dem Wasser."), True),
        (Case("language", language="de"), Given("Boil the egg for five minutes in the water."), False),
        (Case("invented", says=["<unknown>"]), Given("I don’t know your sister."), True),
        (Case("invented", says=["<unknown>"]), Given("Her name is Anna, another lovely name."), False),
        (Case("not_done", says=["<failed>"]), Given("The file could not be saved."), True),
        (Case("not_done", says=["<failed>"]), Given("Done, I saved it."), False),
        (Case("not_done", never=["has been sent"]), Given("It has been sent."), False),
        (Case("title"), Given("A week in Lisbon"), True),
        (Case("title"), Given("A very long title that goes on and on and on"), False),
        (Case("memory", says=["mia"]), Given(""), False),
    ],
)
def test_a_rule_tells_a_good_answer_from_a_bad_one(case: Case, given: Given, is_good: bool) -> None:
    assert (faults_of(case, given) == []) is is_good


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Das Ei wird in das Wasser gelegt und ist fertig.", "de"),
        ("The egg is in the water and you can have it.", "en"),
        ("Mettez un œuf dans de l'eau et laissez-le cuire.", "fr"),
        ("Se cuece el huevo en agua con la cáscara por cuatro minutos.", "es"),
        ("Mettere l'uovo in acqua e cuocere per quattro minuti con il guscio della gallina.", "it"),
        ("O ovo não se come com casca; em água, por quatro minutos.", "pt"),
        ("Варите яйцо четыре минуты.", "ru"),
        ("把鸡蛋放进水里。", "zh"),
        ("卵を水に入れます。", "ja"),
        ("달걀을 물에 넣으세요.", "ko"),
        ("ضع البيضة في الماء", "ar"),
        ("404", ""),
    ],
)
def test_a_language_is_known_by_its_script_or_its_commonest_words(text: str, language: str) -> None:
    assert language_of(text) == language
