"""Making a context smaller, the least relevant first."""

from context_assembler.recall.compress import Compressed, Condense, compress_items
from context_assembler.recall.format_items import make_layout
from context_assembler.values.recall import RecalledMemory
from tests.recall.building import NOW, record

LAYOUT = make_layout(now=NOW, order="best_first", states={})


def shown(name: str, *, words: int, score: float) -> RecalledMemory:
    text = " ".join([name, *["word"] * (words - 1)])
    return RecalledMemory(
        record=record(text, id=name),
        source="memories",
        score=score,
        text=text,
        tokens=words + 1,
        scores={},
        found_in=("memories",),
    )


ITEMS = [shown("best", words=30, score=0.9), shown("worst", words=30, score=0.1)]


async def compressed(target: int, condense: Condense | None = None) -> Compressed:
    return await compress_items(
        ITEMS,
        target_tokens=target,
        layout=LAYOUT,
        count_text=lambda text: len(text.split()),
        condense=condense,
    )


async def test_what_fits_stays_as_it_is() -> None:
    smaller = await compressed(1_000)

    assert smaller.items == tuple(ITEMS)
    assert smaller.shortened == ()


async def test_the_lowest_score_is_cut_to_a_third_first() -> None:
    smaller = await compressed(70)

    assert [i.record.id for i in smaller.shortened] == ["worst"]
    assert [i.is_truncated for i in smaller.items] == [False, True]
    assert smaller.items[1].tokens <= 10


async def test_what_still_does_not_fit_is_left_out_from_the_end() -> None:
    smaller = await compressed(25)

    assert [i.record.id for i in smaller.items] == ["best"]
    assert [i.record.id for i in smaller.left_out] == ["worst"]
    assert [i.record.id for i in smaller.shortened] == ["best"]


async def test_where_nothing_fits_nothing_is_left() -> None:
    smaller = await compressed(2)

    assert (smaller.markdown, smaller.token_count, smaller.items) == ("", 0, ())


async def test_a_summarizer_says_it_briefly() -> None:
    async def condense(text: str, max_tokens: int) -> str:
        return f"{text.split(maxsplit=1)[0]} in {max_tokens}"

    smaller = await compressed(70, condense)

    assert smaller.items[1].text == "worst in 10"


async def test_a_summary_that_is_too_long_is_not_taken() -> None:
    async def condense(text: str, max_tokens: int) -> str:
        return text * 2

    smaller = await compressed(70, condense)

    assert smaller.items[1].text.startswith("worst word")
    assert smaller.items[1].tokens <= 10


async def test_what_cannot_be_said_more_briefly_is_left_out() -> None:
    tiny = [shown("a", words=1, score=0.9), shown("b", words=1, score=0.1)]

    smaller = await compress_items(
        tiny, target_tokens=13, layout=LAYOUT, count_text=lambda text: len(text.split())
    )

    assert [i.record.id for i in smaller.items] == ["a"]
    assert smaller.shortened == ()
