"""Letting each thing be said once."""

import builtins
import itertools
import random
import string
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from context_assembler.recall import similar_texts
from context_assembler.recall.dedupe import dedupe
from context_assembler.recall.similar_texts import (
    MAX_EXACT,
    find_twins,
    sampled_pairs,
    signed_pairs,
    similar_pairs,
)
from context_assembler.values.memories.metadata import CodeMetadata
from context_assembler.values.recall import Candidate
from context_assembler.values.texts.likeness import alike_pairs, load_likeness, plain_likeness
from context_assembler.values.texts.text_signatures import band_keys, shares_in_common, sign_texts
from tests.recall.building import candidate, record

TEXT = "The deployment runs every Friday at noon, after the nightly tests have passed."


def kept(*candidates: Candidate) -> list[tuple[str, tuple[str, ...]]]:
    once = dedupe(candidates, near_duplicate=0.9)
    return [(c.record.id, c.found_in) for c in once.candidates]


def test_the_better_one_stays_and_is_found_wherever_either_was() -> None:
    better = candidate(record("same", id="x"), score=0.9, source="one")
    worse = candidate(record("same", id="x"), score=0.2, source="two")

    assert kept(worse, better) == [("x", ("one", "two"))]


def test_records_of_two_sources_that_are_numbered_alike_are_two() -> None:
    ferry = candidate(record("The ferry leaves at nine.", id="1"), source="wiki/chunks")
    storm = candidate(record("Storms stop all boats.", id="1"), source="desk/chunks")

    assert kept(ferry, storm) == [("1", ("desk/chunks",)), ("1", ("wiki/chunks",))]


@pytest.mark.parametrize("text", [TEXT, f"{TEXT}!"])
def test_one_id_and_one_text_are_one_record_whoever_is_said_to_say_it(text: str) -> None:
    own = candidate(record(TEXT, id="x", author="Ann"), score=0.9, source="own")
    copy = candidate(record(text, id="x", author="ann@example.org"), source="copy")

    assert kept(own, copy) == [("x", ("own", "copy"))]


NEAR = {
    "another mark": TEXT.replace(".", "!"),
    "another case and width": TEXT.upper().replace("F", "\uff26"),
    "other white space": TEXT.replace(" ", "\n  "),
}


@pytest.mark.parametrize("text", NEAR.values(), ids=NEAR.keys())
def test_nearly_equal_texts_are_one(text: str) -> None:
    once = dedupe(
        [candidate(record(TEXT, id="a"), score=0.9), candidate(record(text, id="b"))],
        near_duplicate=0.9,
    )

    assert [c.record.id for c in once.candidates] == ["a"]
    assert [reason for _, reason in once.duplicates] == ["it says nearly what a better one says"]


def test_scripts_without_spaces_are_compared_too() -> None:
    left, right = (
        "部署在每周五中午进行\uff0c前提是夜间测试已经通过。",
        "部署在每周五中午进行\uff0c前提是夜间测试已通过。",
    )

    assert len(kept(candidate(record(left)), candidate(record(right)))) == 1


def test_what_two_people_say_are_two_things() -> None:
    said = [record(TEXT, id=name, author=name) for name in ("Ann", "Bob")]

    assert len(kept(*map(candidate, said))) == 2


def test_one_place_of_a_file_is_shown_once() -> None:
    place = CodeMetadata(path="a.py", symbol="run")
    versions = [
        record("def run(): ...", id="old", kind="code", metadata=place),
        record(
            "async def run(store, clock): return await store()",
            id="new",
            kind="code",
            metadata=place,
        ),
    ]
    other = record(
        "class Walk: pass", id="o", kind="code", metadata=CodeMetadata(path="a.py", symbol="Walk")
    )

    assert len(kept(*map(candidate, [*versions, other]))) == 2


def test_a_duplicate_of_a_duplicate_gives_its_sources_to_the_best() -> None:
    best = candidate(record(TEXT, id="a"), score=0.9, source="one")
    near = candidate(record(f"{TEXT}!", id="b"), score=0.8, source="two")
    same = candidate(record("something else", id="b"), score=0.7, source="two", found_in=("three",))

    assert kept(best, near, same) == [("a", ("one", "two", "three"))]


def test_likeness_is_no_chain() -> None:
    texts = ["a" * 100, "a" * 90 + "b" * 10, "a" * 80 + "b" * 20]

    names = kept(
        *(
            candidate(record(text, id=text[-20:]), score=1 - at / 10)
            for at, text in enumerate(texts)
        )
    )

    assert [name for name, _ in names] == [texts[0][-20:], texts[2][-20:]]


texts = st.lists(st.text("ab 日", max_size=24), max_size=12)


@given(texts, st.randoms(use_true_random=False))
def test_the_order_of_the_candidates_makes_no_difference(
    given_texts: list[str], chance: random.Random
) -> None:
    candidates = [
        candidate(record(text, id=str(at)), score=at / 20) for at, text in enumerate(given_texts)
    ]
    shuffled = chance.sample(candidates, len(candidates))

    assert dedupe(candidates, near_duplicate=0.9) == dedupe(shuffled, near_duplicate=0.9)


@given(st.text("abcé日\n ", max_size=80), st.text("abcé日\n ", max_size=80))
@example("a" * 9, "a" * 6 + " " * 5)  # right on the bound
def test_our_own_likeness_is_that_of_rapidfuzz(left: str, right: str) -> None:
    fast = load_likeness()(left, right, 0.6)
    own = plain_likeness(left, right, 0.6)

    assert (own if own >= 0.6 else 0) == pytest.approx(fast)


def many_texts() -> list[str]:
    chance = random.Random(7)
    words = ["".join(chance.choices(string.ascii_lowercase, k=6)) for _ in range(400)]
    originals = [" ".join(chance.choices(words, k=30)) for _ in range(MAX_EXACT)]
    copies = [text.replace(text.split()[3], "changed") for text in originals[:40]]
    return [*originals, *copies]


def missing(*names: str) -> object:
    real = builtins.__import__

    def load(name: str, *rest: object, **more: object) -> object:
        if name.partition(".")[0] in names:
            raise ImportError(name)
        return real(name, *rest, **more)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]

    return load


@pytest.mark.parametrize(
    "absent",
    [(), ("rapidfuzz",), ("rapidfuzz", "numpy")],
    ids=["packages", "numpy", "none"],
)
def test_among_many_texts_the_copies_are_found(
    absent: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtins, "__import__", missing(*absent))

    pairs = similar_pairs(many_texts(), least=0.9)

    assert pairs == [(at, MAX_EXACT + at) for at in range(40)]


def changed(chance: random.Random, text: str, changes: int, letters: str) -> str:
    """Return the text with characters put in, taken out or replaced."""
    chars = list(text)
    for _ in range(changes):
        at = chance.randrange(len(chars))
        chars[at : at + chance.choice([0, 1])] = chance.choice(["", chance.choice(letters)])
    return "".join(chars)


@pytest.mark.parametrize("chars", [30, 120, 500])
@pytest.mark.parametrize(
    "letters", [string.ascii_lowercase + "    ", "".join(map(chr, range(0x4E00, 0x5200)))]
)
def test_hardly_a_pair_is_missed_and_none_is_wrong(letters: str, chars: int) -> None:
    chance = random.Random(chars)
    texts = ["".join(chance.choices(letters, k=chars)) for _ in range(220)]
    texts += [changed(chance, text, chance.randint(0, chars // 8), letters) for text in texts[:80]]
    every = itertools.combinations(range(len(texts)), 2)
    exact = set(alike_pairs(texts, every, least=0.9))

    found = set(similar_pairs(texts, least=0.9))

    assert len(exact) > 40
    assert found <= exact
    assert len(found) >= 0.97 * len(exact)


def test_what_was_compared_before_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)
    texts = ["".join(chance.choices(string.ascii_lowercase + " ", k=200)) for _ in range(150)]
    texts += [changed(chance, text, 3, string.ascii_lowercase) for text in texts[:50]]
    other = chance.sample(texts, len(texts))
    expected = similar_pairs(texts, least=0.9)
    assert len(expected) >= 49

    for most in (4_096, 150, 210):  # all are known, too many at once, some are let go
        monkeypatch.setattr(similar_texts, "_MOST_KNOWN", most)
        similar_pairs(other[:120], least=0.9)
        assert similar_pairs(texts, least=0.9) == expected


def test_of_a_crowd_that_says_one_thing_one_stays() -> None:
    marks = [
        "".join(string.ascii_lowercase[int(digit)] for digit in f"{at:03}") for at in range(400)
    ]
    crowd = [
        candidate(record(f"{TEXT} ({mark})", id=str(at)), score=at) for at, mark in enumerate(marks)
    ]

    assert [name for name, _ in kept(*crowd)] == ["399"]


def test_empty_texts_are_alike_and_hold_no_others_up() -> None:
    texts = ["", *many_texts()[:MAX_EXACT], "", "a", "b"]

    assert similar_pairs(texts, least=0.9) == [(0, MAX_EXACT + 1)]


def test_a_text_and_its_double_share_all_pieces_and_are_two() -> None:
    texts = [*many_texts()[:MAX_EXACT], many_texts()[0] * 3]

    assert similar_pairs(texts, least=0.9) == []


def test_pieces_that_all_share_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similar_texts, "_CROWD", 1)

    assert list(sampled_pairs(["abcdefgh", "abcdefgh"])) == []


@settings(max_examples=20)
@given(st.lists(st.text("xyz", min_size=1, max_size=9), max_size=12))
def test_equal_texts_share_a_sample(given_texts: list[str]) -> None:
    pairs = set(sampled_pairs(given_texts))

    for left, text in enumerate(given_texts):
        for right in range(left + 1, len(given_texts)):
            assert text != given_texts[right] or (left, right) in pairs


def test_of_long_texts_both_ends_are_compared() -> None:
    middle = "m" * 50_000

    assert similar_pairs([f"a{middle}b" * 2, f"a{middle}c" * 2], least=0.9) == [(0, 1)]


crowds = st.lists(st.text("ab", max_size=9), max_size=12)


@pytest.mark.parametrize("copies", [1, 8], ids=["each pair", "by signatures"])
@given(given_texts=crowds, apart=st.integers(1, 3))
def test_a_twin_is_the_first_that_nobody_stands_for(
    copies: int, given_texts: list[str], apart: int
) -> None:
    texts = given_texts * copies
    expected: dict[int, int] = {}
    for left, right in similar_pairs(texts, least=0.8):
        if left not in expected and right not in expected and (right - left) % apart == 0:
            expected[right] = left

    twins = find_twins(texts, least=0.8, may_be_twins=lambda one, two: (two - one) % apart == 0)

    assert twins == expected


def test_a_crowd_is_compared_with_its_first_alone() -> None:
    asked: list[tuple[int, int]] = []

    def note(left: int, right: int) -> bool:
        asked.append((left, right))
        return True

    twins = find_twins(["the same"] * MAX_EXACT, least=0.9, may_be_twins=note)

    assert set(twins.values()) == {0}
    assert len(asked) == len(twins) == MAX_EXACT - 1


WORDS = ["ferry", "harbour", "noon", "storm", "boat", "梨子", "a"]
LEAST_SHARE = 0.2001
BRIEF = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)


@settings(max_examples=30)
@given(
    given_texts=st.lists(st.one_of(BRIEF, st.just(TEXT)), min_size=2, max_size=90),
    most=st.sampled_from([1, 3, 64]),
)
def test_the_pairs_that_are_compared_share_a_band(given_texts: list[str], most: int) -> None:
    signatures = sign_texts(np, given_texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(similar_texts, "_MOST_IN_BAND", most)
        patch.setattr(similar_texts, "_LEAST_SHARE", LEAST_SHARE)

        found = set(signed_pairs(np, given_texts, least=0.75))

    assert found == {
        (left, right)
        for left, right in pairs_in_bands(signatures, most=most)
        if may_be_alike(given_texts[left], given_texts[right])
        and shares_in_common(np, signatures[[left]], signatures[[right]])[0] >= LEAST_SHARE
    }


def pairs_in_bands(signatures: Any, *, most: int) -> set[tuple[int, int]]:
    """Return which share a band: in a crowd each with the first, and with some behind it."""
    pairs: set[tuple[int, int]] = set()
    keys, says_enough = band_keys(np, signatures, step=2)
    for band in range(keys.shape[1]):
        places_by_key: dict[int, list[int]] = {}
        for place in np.flatnonzero(says_enough[:, band]).tolist():
            places_by_key.setdefault(int(keys[place, band]), []).append(place)
        for places in places_by_key.values():
            for at, right in enumerate(places):
                pairs.update((left, right) for left in {*places[max(at - most, 0) : at]})
                if at > most:
                    pairs.add((places[0], right))
    return pairs


def may_be_alike(left: str, right: str) -> bool:
    return 2 * min(len(left), len(right)) >= 0.75 * (len(left) + len(right))
