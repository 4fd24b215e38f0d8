"""Nearly equal texts that say the same, and those that do not."""

import string
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.recall.dedupe import normal
from context_assembler.recall.same_facts import say_the_same
from context_assembler.recall.similar_texts import MAX_EXACT, find_twins
from context_assembler.values.texts.likeness import load_likeness

TWO: dict[str, tuple[str, str]] = {
    "numbers": ("Order 1001 was shipped on 3 May.", "Order 1002 was shipped on 3 May."),
    "a number at a letter": (
        "The meeting is in room A1 today.",
        "The meeting is in room B1 today.",
    ),
    "a letter at a number": (
        "Ada lives in flat 12a, at the end.",
        "Ada lives in flat 12b, at the end.",
    ),
    "a unit": ("The search takes 40ms on average.", "The search takes 40s on average."),
    "a sign": ("It was -5 degrees outside today.", "It was 5 degrees outside today."),
    "an order of numbers": (
        "Ada paid 17 for tea and Bob 71 for it.",
        "Ada paid 71 for tea and Bob 17 for it.",
    ),
    "Arabic digits": (
        "\u0648\u0635\u0644 \u0627\u0644\u0637\u0644\u0628 \u0661\u0660\u0660\u0661 \u0623\u0645\u0633 \u0645\u0633\u0627\u0621",
        "\u0648\u0635\u0644 \u0627\u0644\u0637\u0644\u0628 \u0661\u0660\u0660\u0662 \u0623\u0645\u0633 \u0645\u0633\u0627\u0621",
    ),
    "Chinese numbers": (
        "\u6211\u4eec\u6bcf\u5468\u4e94\u4e2d\u5348\u5728\u516c\u53f8\u5f00\u4f1a\u3002",
        "\u6211\u4eec\u6bcf\u5468\u56db\u4e2d\u5348\u5728\u516c\u53f8\u5f00\u4f1a\u3002",
    ),
    "not": ("Ada is allergic to nuts.", "Ada is not allergic to nuts."),
    "a contraction": ("Ada does eat nuts at breakfast.", "Ada doesn't eat nuts at breakfast."),
    "one more not": (
        "Ada is not vegan. Ada is allergic to nuts.",
        "Ada is not vegan. Ada is not allergic to nuts.",
    ),
    "German": (
        "Ada hat eine Allergie gegen Erdn\u00fcsse.",
        "Ada hat keine Allergie gegen Erdn\u00fcsse.",
    ),
    "French": ("Ada mange des noix le matin.", "Ada ne mange pas des noix le matin."),
    "Russian": (
        "\u0410\u0434\u0430 \u043b\u044e\u0431\u0438\u0442 \u043e\u0440\u0435\u0445\u0438 \u0438 \u0447\u0430\u0439.",
        "\u0410\u0434\u0430 \u043d\u0435 \u043b\u044e\u0431\u0438\u0442 \u043e\u0440\u0435\u0445\u0438 \u0438 \u0447\u0430\u0439.",
    ),
    "Chinese": (
        "\u5c0f\u660e\u5bf9\u82b1\u751f\u8fc7\u654f\uff0c\u8bf7\u6ce8\u610f\u3002",
        "\u5c0f\u660e\u5bf9\u82b1\u751f\u4e0d\u8fc7\u654f\uff0c\u8bf7\u6ce8\u610f\u3002",
    ),
    "Japanese": (
        "\u592a\u90ce\u306f\u6bce\u671d\u30b3\u30fc\u30d2\u30fc\u3092\u98f2\u307f\u307e\u3059\u3002",
        "\u592a\u90ce\u306f\u6bce\u671d\u30b3\u30fc\u30d2\u30fc\u3092\u98f2\u307f\u307e\u305b\u3093\u3002",
    ),
    "Korean": (
        "\ubbfc\uc218\ub294 \ucee4\ud53c\ub97c \ub9c8\uc2e0\ub2e4",
        "\ubbfc\uc218\ub294 \ucee4\ud53c\ub97c \uc548 \ub9c8\uc2e0\ub2e4",
    ),
    "Thai": (
        "\u0e40\u0e02\u0e32\u0e01\u0e34\u0e19\u0e16\u0e31\u0e48\u0e27\u0e44\u0e14\u0e49",
        "\u0e40\u0e02\u0e32\u0e44\u0e21\u0e48\u0e01\u0e34\u0e19\u0e16\u0e31\u0e48\u0e27\u0e44\u0e14\u0e49",
    ),
    "Hindi": (
        "\u0906\u0926\u093e \u091a\u093e\u092f \u092a\u0940\u0924\u0940 \u0939\u0948",
        "\u0906\u0926\u093e \u091a\u093e\u092f \u0928\u0939\u0940\u0902 \u092a\u0940\u0924\u0940 \u0939\u0948",
    ),
}
ONE: dict[str, tuple[str, str]] = {
    "case": ("Order 1001 was NOT shipped.", "order 1001 was not shipped."),
    "marks": ("Order 1001: not shipped, 3 May!", "Order 1001 not shipped; 3 May"),
    "spaces": ("The search takes 40 ms, not more.", "The search  takes 40ms, not more."),
    "spaces in Chinese": (
        "\u8ba2\u5355 1001 \u5df2\u53d1\u8d27\u3002",
        "\u8ba2\u53551001\u5df2\u53d1\u8d27\u3002",
    ),
    "width": ("Order \uff11\uff10\uff10\uff11 was shipped.", "Order 1001 was shipped."),
    "digits of another script": ("Order \u0661\u0660 was shipped.", "Order 10 was shipped."),
    "a typo": ("Order 1001 was shiped on 3 May.", "Order 1001 was shipped on 3 May."),
    "a typo beside a number": (
        "Oder 1001 was shipped on 3 May.",
        "Order 1001 was shipped on 3 May.",
    ),
    "an apostrophe": ("Ada doesn't eat nuts.", "Ada doesnt eat nuts."),
    "not, shortened": ("Ada does not eat nuts.", "Ada doesn\u2019t eat nuts."),
}


def anybody(_left: int, _right: int) -> bool:
    return True


@pytest.mark.parametrize(("left", "right"), TWO.values(), ids=TWO.keys())
def test_other_facts_are_two_things(left: str, right: str) -> None:
    assert not say_the_same(normal(left), normal(right))
    assert not say_the_same(normal(right), normal(left))
    assert find_twins([left, right], least=0.5, may_be_twins=anybody) == {}
    assert load_likeness()(normal(left), normal(right), 0.5) >= 0.5  # else nothing is shown


@pytest.mark.parametrize(("left", "right"), ONE.values(), ids=ONE.keys())
def test_the_same_fact_is_one_thing(left: str, right: str) -> None:
    assert say_the_same(normal(left), normal(right))
    assert say_the_same(normal(right), normal(left))


WORDS = st.lists(st.text(string.ascii_letters, min_size=3), min_size=1, max_size=9)


@given(WORDS, st.integers(), st.data())
def test_a_letter_that_is_left_out_changes_no_fact(
    words: list[str], number: int, data: st.DataObject
) -> None:
    text = normal(f"{' '.join(words)} makes {number} of xx")
    at = data.draw(st.integers(0, len(words[0]) - 1))

    assert say_the_same(text, text)
    assert say_the_same(text, f"{text}!")
    assert say_the_same(f"qq{text}", f"qq{text[:at]}q{text[at:]}")
    assert not say_the_same(text, text.replace(f" {number} ", f" {number + 1} "))


def test_facts_of_a_crowd_are_told_apart() -> None:
    texts = [f"the order {1_000 + at // 2} was shipped to the customer in may" for at in range(400)]
    assert len(texts) > MAX_EXACT

    twins = find_twins(texts, least=0.9, may_be_twins=anybody)

    assert twins == {at + 1: at for at, _ in list(pairwise(range(401)))[::2]}


def test_lines_of_one_form_are_compared_with_those_of_the_same_numbers_alone() -> None:
    lines = [
        f"get /api/v1/users/{number * 7 % 990} 200 in {number % 89} ms" for number in range(900)
    ]
    asked: list[tuple[int, int]] = []

    def may_be_twins(left: int, right: int) -> bool:
        asked.append((left, right))
        return True

    twins = find_twins([*lines, *lines], least=0.9, may_be_twins=may_be_twins)

    assert twins == {number + len(lines): number for number in range(len(lines))}
    assert len(asked) <= 2 * len(lines)
