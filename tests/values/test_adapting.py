"""Which images and documents make way where there are too many."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.values.adapting import adapt_messages, judge_foreign
from context_assembler.values.media.crowding import count_oldest
from context_assembler.values.media.media_rules import MediaRules
from context_assembler.values.messages import Message
from context_assembler.values.parts import Base64Source, Document, Image, Opaque, Text, UrlSource
from context_assembler.values.tool_changes import ASSEMBLER
from tests.providers.drafts import assistant, call, result, results, user
from tests.values.test_image_sizes import encoded, png

SMALL = encoded(png(100, 100))
LARGE = encoded(png(100, 2001))
PDF = Document(source=Base64Source(media_type="application/pdf", data="A" * 400))
NOTE = Document(source=UrlSource(url="https://x"), text="a note")


def rules(**limits: Any) -> MediaRules:
    return MediaRules(
        api="it", file_owner="it", image_types=("image/png",), image_words="PNG", **limits
    )


def kept(talk: list[Message], limits: MediaRules) -> list[list[int]]:
    """Return the places of the media that stay in each message."""
    messages, _ = adapt_messages(talk, judges=(), rules=limits)
    return [
        [place for place, part in enumerate(m.parts) if isinstance(part, Image | Document)]
        for m in messages
    ]


@pytest.mark.parametrize(
    ("weights", "most", "number"),
    [
        ([], 4, 0),
        ([1] * 9, None, 0),
        ([1] * 8, 8, 0),
        ([1] * 9, 8, 2),
        ([1] * 10, 8, 2),
        ([1] * 11, 8, 4),
        ([50, 1, 1], 40, 1),
        ([1, 1, 50], 40, 3),
        ([1, 1], 1, 1),
        ([5, 5], 0, 2),
    ],
)
def test_the_oldest_make_way_in_steps(weights: list[int], most: int | None, number: int) -> None:
    assert count_oldest(weights, most=most) == number


@given(weights=st.lists(st.integers(0, 50), max_size=40), most=st.integers(0, 200))
def test_the_rest_is_never_too_much_and_more_never_bring_one_back(
    weights: list[int], most: int
) -> None:
    numbers = [count_oldest(weights[:end], most=most) for end in range(len(weights) + 1)]

    assert all(sum(weights[number:end]) <= most for end, number in enumerate(numbers))
    assert all(earlier <= later for earlier, later in pairwise(numbers))


def test_as_long_as_a_step_suffices_the_same_images_are_gone() -> None:
    places = [kept([user(*[SMALL] * number)], rules(max_images=8)) for number in range(9, 12)]

    assert places == [[[*range(2, 9)]], [[*range(2, 10)]], [[*range(4, 11)]]]


def test_images_in_results_are_counted_with_the_others() -> None:
    talk = [user(SMALL), assistant(call("c")), results(result("c", SMALL, SMALL)), user(SMALL)]

    messages, rows = adapt_messages(talk, judges=(), rules=rules(max_images=2))

    line = Text("[image left out: image/png; at most 2 images are taken, the oldest make way]")
    assert messages[0].parts == (line,)
    assert messages[2].tool_results[0].content == (line, SMALL)
    assert messages[3] is talk[3]
    assert [(row.id, row.decision, row.rule) for row in rows] == [
        ("said", "shortened", "media.count"),
        ("said", "shortened", "media.count"),
    ]


def test_documents_count_by_their_bytes_and_text_does_not() -> None:
    assert kept([user(PDF, NOTE), user(PDF, NOTE)], rules(max_media_chars=400)) == [[1], [0, 1]]


CROWDS = {
    "few may be large": ([LARGE, SMALL, LARGE], [0, 1, 2]),
    "many may be small": ([SMALL] * 6, [0, 1, 2, 3, 4, 5]),
    "an old large one goes": ([LARGE, SMALL, SMALL, SMALL, SMALL], [1, 2, 3, 4]),
    "the newest stays": ([SMALL, SMALL, SMALL, SMALL, LARGE], [1, 2, 3, 4]),
    "all are large": ([LARGE] * 6, [2, 3, 4, 5]),
    "none can be measured": ([Image(source=UrlSource(url="https://x/y.png"))] * 5, [0, 1, 2, 3, 4]),
}


@pytest.mark.parametrize(("images", "places"), CROWDS.values(), ids=CROWDS.keys())
def test_of_many_images_none_is_large(images: list[Image], places: list[int]) -> None:
    assert kept([user(*images)], rules(crowd_images=4, crowd_side_px=2000)) == [places]


def test_the_same_reason_is_told_once_with_its_number() -> None:
    _, rows = adapt_messages([user(*[SMALL] * 9, id="evt_1")], judges=(), rules=rules(max_images=8))

    assert [(row.id, row.reason) for row in rows] == [
        (
            "evt_1",
            "2 times: An image is left out: at most 8 images are taken, the oldest make way.",
        )
    ]


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "openai_responses", "gemini"])
def test_a_block_that_others_are_told_of_in_words_becomes_text_with_a_row(provider: str) -> None:
    part = Opaque(provider="elsewhere", block={"type": "search_call"}, text="[search: rain]")

    change = judge_foreign(provider=provider)(part, "assistant")

    assert change is not None
    assert change.parts == (Text("[search: rain]"),)
    assert change.decision == "repaired"
    assert change.reason == "A block of elsewhere (search_call) is sent as its text."


def test_a_block_of_the_assembler_s_own_is_for_each_provider_to_spell() -> None:
    part = Opaque(provider=ASSEMBLER, block={"type": "tool_change"}, text="New tools.")

    assert judge_foreign(provider="gemini")(part, "system") is None
