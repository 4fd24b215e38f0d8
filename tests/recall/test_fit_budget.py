"""Choosing what is shown within a budget."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.recall.cutting import cut_text
from context_assembler.recall.fit_budget import BudgetRules, Fitted, divide_room, fit_budget
from context_assembler.recall.format_items import make_layout
from context_assembler.tokens.bpe import count_bpe
from context_assembler.values.memories.kinds import KINDS, MemoryKind
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.recall import Candidate
from tests.recall.building import NOW, candidate, hours_ago, record

LAYOUT = make_layout(now=NOW, order="best_first", states={})


def count_words(text: str) -> int:
    return len(text.split())


def count_o200k(text: str) -> int:
    return count_bpe(text, encoding="o200k_base")


def fit(
    candidates: Sequence[Candidate],
    *,
    max_tokens: int = 1_000,
    limit: int = 100,
    shares: dict[MemoryKind, float | str] | None = None,
    largest_share: float = 1.0,
) -> Fitted:
    rules = BudgetRules(
        max_tokens=max_tokens, limit=limit, shares=shares or {}, largest_share=largest_share
    )
    return fit_budget(candidates, rules=rules, layout=LAYOUT, count_text=count_words)


def words(count: int, *, name: str, **fields: object) -> Candidate:
    score = fields.pop("score", 0.5)
    assert isinstance(score, float)
    text = " ".join([name, *["word"] * (count - 1)])
    return candidate(record(text, id=name, **fields), score=score)


ROOMS: dict[str, tuple[dict[MemoryKind, float | str], dict[MemoryKind, int]]] = {
    "weights": ({"memories": 1, "code": 3}, {"memories": 25, "code": 75}),
    "one is missing": ({"memories": 1}, {"memories": 50, "code": 50}),
    "a percentage first": ({"memories": "20%", "code": 7}, {"memories": 20, "code": 80}),
    "percentages alone": ({"memories": "20%", "code": "30%"}, {"memories": 20, "code": 30}),
    "too many percent": ({"memories": "100%", "code": "100%"}, {"memories": 50, "code": 50}),
    "nothing": ({"memories": 0, "code": 0}, {"memories": 0, "code": 0}),
}


@pytest.mark.parametrize(("shares", "rooms"), ROOMS.values(), ids=ROOMS.keys())
def test_the_budget_is_divided_by_kind(
    shares: dict[MemoryKind, float | str], rooms: dict[MemoryKind, int]
) -> None:
    assert divide_room(["memories", "code", "code"], shares=shares, tokens=100) == rooms


def test_what_does_not_fit_is_passed_over_and_the_next_tried() -> None:
    fitted = fit(
        [words(5, name="first"), words(60, name="long"), words(4, name="last")], max_tokens=40
    )

    assert [shown.record.id for shown in fitted.items] == ["first", "last"]
    assert [reason for _, reason in fitted.left_out] == ["there was no room left in the budget"]


def test_no_item_takes_more_than_its_part_of_the_share() -> None:
    fitted = fit([words(500, name="long")], max_tokens=200, largest_share=0.25)

    [shown] = fitted.items
    assert shown.tokens <= 50
    assert shown.text.endswith("[…] (full text: long)")
    assert fitted.ran_out_of_room


def test_a_short_item_is_shown_whole_whatever_its_part_of_the_share() -> None:
    rules = BudgetRules(max_tokens=200, limit=9, shares={}, largest_share=0.25, whole_tokens=80)

    fitted = fit_budget(
        [words(70, name="short"), words(90, name="long")],
        rules=rules,
        layout=LAYOUT,
        count_text=count_words,
    )

    assert [shown.is_truncated for shown in fitted.items] == [False, True]
    assert fitted.items[1].tokens <= 50


def test_what_a_kind_leaves_unused_goes_to_the_others() -> None:
    many = [words(10, name=f"m{at}") for at in range(20)]
    code = words(3, name="c", kind="code")

    fitted = fit([*many, code], max_tokens=260, shares={"memories": 1, "code": 9})

    assert len(fitted.items) > 15


def test_each_kind_has_its_share_whatever_ranks_above_it() -> None:
    many = [words(10, name=f"m{at:02}", score=0.9) for at in range(40)]
    value = words(10, name="v", kind="values", score=0.1)

    fitted = fit([*many, value], max_tokens=150)

    assert fitted.items[-1].record.id == "v"


def test_the_limit_is_the_most_items() -> None:
    fitted = fit([words(3, name=f"m{at}") for at in range(5)], limit=2)

    assert [shown.record.id for shown in fitted.items] == ["m0", "m1"]
    assert {reason for _, reason in fitted.left_out} == {"the limit of items was reached"}
    assert not fitted.ran_out_of_room


def test_where_nothing_fits_the_context_is_empty() -> None:
    fitted = fit([words(30, name="m")], max_tokens=1)

    assert (fitted.markdown, fitted.token_count, fitted.items) == ("", 0, ())
    assert fitted.ran_out_of_room


def test_a_counter_that_adds_up_to_more_is_obeyed() -> None:
    rules = BudgetRules(max_tokens=100, limit=9, shares={}, largest_share=1.0)

    def count_squares(text: str) -> int:
        return len(text.split()) ** 2 // 4

    fitted = fit_budget(
        [words(3, name=f"m{at}") for at in range(9)],
        rules=rules,
        layout=LAYOUT,
        count_text=count_squares,
    )

    assert fitted.token_count <= 100
    assert fitted.left_out


def any_record(kind: MemoryKind, text: str, hours: float, author: str | None) -> MemoryRecord:
    return record(text, id="x", kind=kind, created_at=hours_ago(hours), author=author)


records = st.builds(
    any_record,
    kind=st.sampled_from(list(KINDS)),
    text=st.text("ab\n#<>`.! 日\U0001f600", max_size=120) | st.text(max_size=200),
    hours=st.sampled_from([-1, 0, 30, 9_000]),
    author=st.none() | st.just("Ann"),
)


@given(st.lists(records, max_size=12), st.integers(1, 120), st.sampled_from([0.25, 1.0]))
def test_the_budget_is_never_exceeded_and_nothing_gets_lost(
    given_records: list[MemoryRecord], max_tokens: int, largest_share: float
) -> None:
    candidates = [candidate(r, score=1 - at / 20, order=at) for at, r in enumerate(given_records)]
    rules = BudgetRules(max_tokens=max_tokens, limit=10, shares={}, largest_share=largest_share)

    fitted = fit_budget(candidates, rules=rules, layout=LAYOUT, count_text=count_o200k)

    assert count_o200k(fitted.markdown) == fitted.token_count <= max_tokens
    assert len(fitted.items) + len(fitted.left_out) == len(candidates)


def test_what_says_nothing_is_left_out_for_that() -> None:
    fitted = fit([candidate(record(" \n", id="blank"))])

    assert [reason for _, reason in fitted.left_out] == ["it says nothing"]
    assert not fitted.ran_out_of_room


CUTS = {
    "at a sentence": ("One two. Three four five.", 17, "One two. […]"),
    "at a word": ("alpha bravo charlie delta", 18, "alpha bravo […]"),
    "inside a word": ("a" * 40, 10, "aaaaaa […]"),
    "at a full stop of another script": ("前の文。後の文です。", 9, "前の文。 […]"),
    "nowhere": ("alpha", 3, ""),
}


@pytest.mark.parametrize(("text", "chars", "expected"), CUTS.values(), ids=CUTS.keys())
def test_texts_are_cut_where_something_ends(text: str, chars: int, expected: str) -> None:
    assert cut_text(text, fits=lambda cut: len(cut) <= chars, reference="") == expected


def test_a_boundary_that_counts_more_is_passed_over() -> None:
    cut = cut_text(
        "One. Two three", fits=lambda text: text != "One. […]" and len(text) < 12, reference=""
    )

    assert cut == "One. Tw […]"
