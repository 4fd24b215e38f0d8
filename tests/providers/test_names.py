import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.values.names import NameRule, respell_names, spell_call_ids
from tests.providers.drafts import assistant, call, result, results, user

RULE = NameRule(pattern=re.compile(r"[a-zA-Z0-9_-]{1,64}"), max_chars=64)
NINE = NameRule(pattern=re.compile(r"[a-zA-Z0-9]{9}"), max_chars=9, keeps_prefix=False)
any_names = st.lists(st.text(max_size=80), max_size=12)
few_ids = st.sampled_from(["c1", "c2", "functions.Bash:0", "", "x" * 200])


@pytest.mark.parametrize("rule", [RULE, NINE], ids=["names", "nine characters"])
@given(names=any_names)
def test_every_spelling_is_taken_and_reads_back(rule: NameRule, names: list[str]) -> None:
    spelled = respell_names(names, rule=rule)

    assert all(map(rule.allows, spelled.values()))
    assert len(set(spelled.values())) == len(set(names))
    assert all(sent == name for name, sent in spelled.items() if rule.allows(name))


@given(names=any_names, data=st.data())
def test_order_does_not_matter(names: list[str], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(names))

    assert respell_names(shuffled, rule=RULE) == respell_names(names, rule=RULE)


def test_a_respelled_name_keeps_its_readable_start() -> None:
    assert respell_names(["fs.read"], rule=RULE)["fs.read"].startswith("fs_read_")
    assert respell_names(["日本"], rule=RULE)["日本"].startswith("_")


def test_a_name_that_looks_like_a_respelled_one_gets_no_double() -> None:
    taken = RULE.respell("fs.read")

    spelled = respell_names(["fs.read", taken], rule=RULE)

    assert spelled[taken] == taken
    assert spelled["fs.read"] != taken


def test_a_repeated_id_gets_a_spelling_per_occurrence_and_results_follow() -> None:
    talk = [
        user("a"),
        assistant(call("c1")),
        results(result("c1", "one")),
        user("b"),
        assistant(call("c1"), call("c1")),
        results(result("c1", "two"), result("c1", "three")),
    ]

    spelled = spell_call_ids(talk, rule=RULE)

    assert spelled[1] == spelled[2] == ("c1",)
    assert spelled[4] == spelled[5]
    assert len({*spelled[1], *spelled[4]}) == 3


def test_a_result_without_a_call_gets_an_id_that_is_taken() -> None:
    talk = [results(result("a.b"), result("ok")), assistant(call("c1")), results(result("c1"))]
    again = [*talk, results(result("c1"))]

    spelled = spell_call_ids(again, rule=RULE)

    assert RULE.allows(spelled[0][0])
    assert spelled[0][1] == "ok"
    assert spelled[3] == ("c1",)


@given(steps=st.lists(few_ids, max_size=10), cut=st.integers(0, 10))
def test_a_longer_history_never_respells_an_earlier_id(steps: list[str], cut: int) -> None:
    talk = [
        message
        for call_id in steps
        for message in (assistant(call(call_id)), results(result(call_id, "ok")))
    ]

    whole = spell_call_ids(talk, rule=RULE)

    assert spell_call_ids(talk[:cut], rule=RULE) == whole[:cut]
    assert all(RULE.allows(own[0]) for own in whole)
    assert len({own[0] for own in whole}) == len(steps)
