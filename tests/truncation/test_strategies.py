"""What the strategies keep, shorten and drop, by example."""

from contextlib import suppress
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.errors import ContextOverflowError
from context_assembler.ports import Turn
from context_assembler.truncation import TRUNCATIONS, Truncator
from tests.truncation.talk import (
    COUNTER,
    agent_run,
    assistant,
    call,
    calling,
    cut,
    ids,
    note,
    numbered,
    result,
    shown,
    size_of,
    small_talk,
    summary,
    text,
    total,
    user,
    words,
)

every_strategy = pytest.mark.parametrize("strategy", TRUNCATIONS)


def calls_of(turn: Turn) -> list[str]:
    return [part["call_id"] for part in turn["parts"] if part["type"] == "tool_call"]


@every_strategy
def test_a_pair_goes_or_stays_as_a_whole(strategy: str) -> None:
    talk = numbered([user(words(60)), *calling(("c1", words(40))), assistant("ok"), user("next")])

    kept = cut(talk, 60, strategy, on_overflow="shorten")

    assert kept.turns[-1] is talk[-1]
    assert any(map(calls_of, kept.turns)) == any(t["role"] == "tool" for t in kept.turns)
    assert total(kept.turns) == kept.tokens <= 60


def test_an_earlier_task_too_large_for_the_room_is_shortened_and_reported() -> None:
    talk = numbered([user(words(60)), assistant("ok"), user("next")])

    kept = cut(talk, 50)

    assert "60 tokens in full" in shown(kept.turns[0])
    [entry] = [entry for entry in kept.entries if entry.id == "m1"]
    assert entry.decision == "shortened"
    assert "the user's task had to be shortened" in entry.reason
    assert ids(cut(talk, 50, "simple")) == ["m3"]


def test_a_last_message_too_large_is_named_unless_it_may_be_shortened() -> None:
    talk = numbered([user("old"), assistant("ok"), user(words(60))])

    with pytest.raises(ContextOverflowError, match="last user message") as caught:
        cut(talk, 50)
    shortened = cut(talk, 50, on_overflow="shorten")

    assert "m3" in caught.value.culprit
    assert "on_overflow='shorten'" in caught.value.remedy
    assert "60 tokens in full" in shown(shortened.turns[-1])


@given(
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=6),
    percent=st.integers(20, 99),
    results=st.integers(1, 90),
)
@settings(max_examples=60)
def test_nothing_is_shortened_for_less_than_the_marker_costs(
    sizes: list[int], percent: int, results: int
) -> None:
    talk = numbered([*(user(words(size)) for size in sizes), *calling(("c1", words(results)))])

    with suppress(ContextOverflowError):
        kept = cut(talk, total(talk) * percent // 100, on_overflow="shorten")
        for entry in kept.entries:
            if entry.decision == "shortened":
                assert entry.tokens_before - (entry.tokens_after or 0) >= 16


@every_strategy
@pytest.mark.parametrize("on_overflow", ["error", "shorten"])
@pytest.mark.parametrize("spare", [0, 1, 2])
def test_marker_and_clock_go_before_a_word_of_the_user(
    strategy: str, on_overflow: str, spare: int
) -> None:
    task, question = user(words(40)), user(words(60))
    talk = numbered([task, note("It is noon."), assistant("ok"), question, note("It is one.")])
    room = total([task, question] if strategy == "smart" else [question]) + spare

    kept = cut(talk, room, strategy, on_overflow=on_overflow)

    assert kept.turns == ([talk[0], talk[3]] if strategy == "smart" else [talk[3]])
    clocks = [entry for entry in kept.entries if entry.id == "m5"]
    assert [(one.decision, one.tokens_after) for one in clocks] == [("dropped", 0)]
    assert kept.tokens == total(kept.turns) <= room


def test_a_result_is_never_shortened_below_its_stub() -> None:
    talk = numbered([user("do it"), *calling(("c9", words(5000)))])

    with pytest.raises(ContextOverflowError, match="c9"):
        cut(talk, 150, stub_tokens=200)

    assert cut(talk, 300, stub_tokens=200).tokens <= 300


@every_strategy
@pytest.mark.parametrize("cache_stable", [True, False])
def test_one_task_and_a_long_run_keeps_the_task_and_the_newest_exchanges(
    strategy: str, cache_stable: bool
) -> None:
    run = agent_run(14, size=120)

    kept = cut(run, 600, strategy, cache_stable=cache_stable)

    assert kept.turns[0] is run[0]
    assert kept.turns[-4:] == run[-4:]
    assert kept.tokens <= 600


def test_a_result_in_flight_that_is_too_large_keeps_head_tail_and_its_full_size() -> None:
    talk = numbered([user("old"), assistant("old"), user("do it"), *calling(("c9", words(5000)))])

    kept = cut(talk, 800)

    said = shown(kept.turns[-1])
    assert kept.turns[-1]["parts"][0]["call_id"] == "c9"
    assert said.startswith("w0 ")
    assert said.endswith(" w4999")
    assert "5,000 tokens in full" in said
    assert 500 < kept.tokens <= 800
    assert kept.entries[-1].rule == "overflow.shorten"


@every_strategy
def test_a_single_message_larger_than_the_room_is_shortened_or_named(strategy: str) -> None:
    talk = numbered([user(words(5000))])

    with pytest.raises(ContextOverflowError, match="5,002"):
        cut(talk, 500, strategy)
    kept = cut(talk, 500, strategy, on_overflow="shorten")

    assert ids(kept) == ["m1"]
    assert shown(kept.turns[0]).endswith(" w4999")


def test_arguments_in_flight_are_shortened_after_results_and_stay_an_object() -> None:
    asked: Turn = {"role": "assistant", "parts": [call("c1", path="a", content=words(900))]}
    answered: Turn = {"role": "tool", "parts": [result("c1", text(words(300)))]}

    kept = cut(numbered([user("go"), asked, answered]), 300)

    arguments = kept.turns[1]["parts"][0]["arguments"]
    assert arguments["path"] == "a"
    assert "characters in full" in arguments["content"]
    assert "300 tokens in full" in shown(kept.turns[2])


def test_what_a_tool_returned_is_shortened_before_what_the_model_said() -> None:
    asked, answered = calling(("c1", words(900)))
    told: Turn = {**asked, "parts": [text(words(100)), *asked["parts"]]}

    kept = cut(numbered([user("go"), told, answered]), 300)

    assert kept.turns[1]["parts"] == told["parts"]
    assert "900 tokens in full" in shown(kept.turns[2])


def test_what_the_model_said_beside_its_calls_is_shortened_at_last() -> None:
    asked, answered = calling(("c1", "ok"))
    parts = [text("Searching."), text(words(5000)), *asked["parts"]]

    kept = cut(numbered([user("go"), {**asked, "parts": parts}, answered]), 300)

    searching, found, sent = kept.turns[1]["parts"]
    assert (searching, sent) == (parts[0], parts[2])
    assert "5,000 tokens in full" in found["text"]
    assert [(entry.id, entry.rule) for entry in kept.entries] == [("m2", "overflow.shorten")]


def found_by_server(count: int) -> dict[str, object]:
    """Return the result of a server's tool, which goes back verbatim."""
    block = {"type": "web_search_tool_result"}
    return {"type": "opaque", "provider": "anthropic", "block": block, "text": words(count)}


def test_a_block_that_must_stay_verbatim_is_named_if_nothing_fits() -> None:
    asked, answered = calling(("c1", words(50)))
    reply: Turn = {**asked, "parts": [found_by_server(900), *asked["parts"]]}

    with pytest.raises(ContextOverflowError) as caught:
        cut(numbered([user("go"), reply, answered]), 300, on_overflow="shorten")

    assert caught.value.culprit == (
        "the exchange in flight (a web_search_tool_result block of anthropic, "
        "which goes back verbatim, in message 'm2')"
    )
    assert "the provider's own tools" in caught.value.remedy


PICTURE = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
TOO_LARGE: dict[str, tuple[list[Turn], int, str, str]] = {
    "pins": (
        [user(words(100), is_pinned=True) for _ in range(5)] + [user("next")],
        300,
        "the pinned messages",
        "Unpin some of them",
    ),
    "a lone summary": ([summary(words(100))], 50, "the summary", "Compact again"),
    "notes": (
        [user("go"), note(words(90), "rules")],
        50,
        "the notes (message 'm2')",
        "Raise max_context",
    ),
    "an image": (
        [{"role": "user", "parts": [text("look"), PICTURE]}],
        50,
        "the last user message (message 'm1')",
        "Send smaller or fewer images",
    ),
    "a call without room": (
        [user("do it"), *calling(("c9", words(5000)))],
        25,
        "the exchange in flight (call 'c9')",
        "Make fewer or smaller calls at once",
    ),
    "a block of no known kind": (
        [user("go"), {"role": "assistant", "parts": [{**found_by_server(900), "block": {}}]}],
        300,
        "the exchange in flight (a block of anthropic",
        "Limit what the provider's own tools may return",
    ),
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_what_does_not_fit_is_named_with_a_way_out(case: str) -> None:
    talk, room_tokens, culprit, remedy = TOO_LARGE[case]

    with pytest.raises(ContextOverflowError) as caught:
        cut(numbered(talk), room_tokens)

    assert caught.value.culprit.startswith(culprit)
    assert caught.value.remedy.startswith(remedy)
    assert caught.value.needed_tokens == sum(caught.value.sizes_tokens.values()) > room_tokens


@every_strategy
@pytest.mark.parametrize("room_tokens", [0, -7])
def test_no_room_at_all_is_an_error_with_sizes(strategy: str, room_tokens: int) -> None:
    with pytest.raises(ContextOverflowError) as caught:
        cut(small_talk(2), room_tokens, strategy, on_overflow="shorten")

    assert caught.value.budget_tokens == room_tokens


@every_strategy
def test_blocks_of_a_servers_tools_go_with_their_exchange(strategy: str) -> None:
    talk = [user("go"), assistant("So.", found_by_server(900)), user("and?"), assistant("Yes.")]

    kept = cut(numbered([*talk, user("next")]), 200, strategy)

    assert "m2" not in ids(kept)
    assert {entry.id: entry.decision for entry in kept.entries}["m2"] == "dropped"


def test_hundreds_of_parallel_results_shrink_alike() -> None:
    exchange = calling(*((f"c{number}", words(300)) for number in range(300)))

    kept = cut(numbered([user("go"), *exchange]), 20_000)

    results = kept.turns[-1]["parts"]
    assert len(results) == 300
    assert len({part["content"][0]["text"] for part in results}) == 1
    assert len(kept.entries) == 300


def test_smart_shortens_old_results_before_it_drops_anything() -> None:
    run = agent_run(12, size=200)

    kept = cut(run, 2300)

    assert {entry.rule for entry in kept.entries} == {"smart.shorten"}
    assert len(kept.turns) == len(run)
    assert kept.cut_id > 0


def reading(*pages: int, size: int = 200, **fields: Any) -> list[Turn]:
    run = [user("compare the pages")]
    for at, page in enumerate(pages):
        found = {**result(f"c{at}", text(words(size + at))), **fields}
        run.append({"role": "assistant", "kind": "said", "parts": [call(f"c{at}", page=page)]})
        run.append({"role": "tool", "kind": "said", "parts": [found]})
    return numbered(run)


# What is read, the room, and the results of which a line is left; the others are whole.
REPEATS: Final[dict[str, tuple[list[Turn], int, list[str]]]] = {
    "each page but the newest copies": (
        reading(*[1, 2, 3] * 3),
        1800,
        "m3 m5 m7 m9 m11 m13".split(),
    ),
    "what fits is not touched": (reading(*[1, 2, 3] * 3), 2200, []),
    "other arguments, nothing repeated": (reading(*range(5)), 2000, []),
    "a failed call replaces nothing": (reading(*[1] * 4, is_error=True), 1000, []),
    "small results are not worth it": (reading(*[1] * 40, size=10), 2000, []),
}


@pytest.mark.parametrize(("talk", "room", "repeated"), REPEATS.values(), ids=REPEATS.keys())
def test_repeated_results_are_a_line_that_points_to_the_newest(
    talk: list[Turn], room: int, repeated: list[str]
) -> None:
    kept = cut(talk, room, opening_share=0, shorten_repeats=True)

    found = [entry for entry in kept.entries if entry.rule == "smart.repeat"]
    assert [entry.id for entry in found] == repeated
    assert all(entry.tokens_after < 40 < entry.tokens_before for entry in found)
    assert kept.tokens == total(kept.turns) <= room
    if repeated:
        assert len(kept.entries) == len(repeated)
        assert "newest result of this same call" in shown(kept.turns[2])
        assert {entry.rule for entry in cut(talk, room).entries} != {"smart.repeat"}


def test_smart_marks_the_gap_once_after_the_opening() -> None:
    talk = small_talk(30)

    kept = cut(talk, 500)

    [place] = [at for at, turn in enumerate(kept.turns) if turn["kind"] == "marker"]
    dropped = [entry for entry in kept.entries if entry.decision == "dropped"]
    assert place > 1
    assert kept.turns[:place] == talk[:place]
    assert f"{len(dropped)} earlier messages were left out" in shown(kept.turns[place])


def test_smart_marks_the_gap_right_after_the_task_if_no_opening_is_wanted() -> None:
    assert cut(small_talk(30), 500, opening_share=0).turns[1]["kind"] == "marker"


def test_one_message_left_out_is_written_in_the_singular() -> None:
    talk = numbered([user("go"), assistant(words(80)), assistant(words(70)), user("next")])

    assert shown(cut(talk, 120).turns[1]).startswith("[1 earlier message was left out")


def test_an_exchange_too_large_to_stand_beside_the_opening_takes_its_place() -> None:
    run = numbered([*agent_run(20, size=40), user(words(900))])

    kept = cut(run, 1000)

    assert kept.cut_id < 0
    assert kept.turns[1]["kind"] == "marker"
    assert kept.turns[-1] is run[-1]


@pytest.mark.parametrize("strategy", ["simple", "sliding"])
def test_other_strategies_leave_no_marker(strategy: str) -> None:
    assert "marker" not in ids(cut(small_talk(30), 500, strategy))


def test_sliding_keeps_the_newest_turns_of_a_history_that_does_not_fit() -> None:
    talk = small_talk(30)

    kept = cut(talk, 1000, "sliding", window_turns=3)

    assert kept.turns == talk[-5:]
    assert {entry.rule for entry in kept.entries} == {"sliding.window"}


def test_sliding_drops_more_if_the_window_does_not_fit() -> None:
    kept = cut(small_talk(30), 200, "sliding", window_turns=10)

    assert {entry.rule for entry in kept.entries} == {"sliding.window", "sliding.drop"}
    assert kept.tokens <= 200


@every_strategy
def test_pinned_exchanges_stay_whole_after_a_message_of_the_user(strategy: str) -> None:
    pinned = calling(("p", words(100)), is_pinned=True)
    talk = numbered([*small_talk(10)[:8], *pinned, *small_talk(12)])

    kept = cut(talk, 420, strategy)

    assert all(turn in kept.turns for turn in talk[8:10])
    assert kept.turns[0]["role"] == "user"


@every_strategy
def test_the_latest_summary_stays_at_the_start(strategy: str) -> None:
    talk = numbered([summary(words(30)), *small_talk(20)])

    kept = cut(talk, 300, strategy)

    assert kept.turns[0] is talk[0]
    assert kept.turns[1]["role"] == "user"


def test_a_summary_in_the_middle_stays() -> None:
    talk = numbered([user("kept by pin"), summary(words(30)), *small_talk(20)])

    assert talk[1] in cut(talk, 300, "simple").turns


def test_a_history_without_a_message_of_the_user_is_cut_all_the_same() -> None:
    talk = numbered([assistant(words(20)) for _ in range(20)])

    kept = cut(talk, 100, "simple")

    assert kept.turns == talk[-len(kept.turns) :]
    assert cut(talk, 100).turns[0]["kind"] == "marker"


@every_strategy
@pytest.mark.parametrize("room_tokens", range(20, 80, 5))
def test_what_stands_in_for_the_user_opens_a_history_that_the_assistant_began(
    strategy: str, room_tokens: int
) -> None:
    opening: Turn = {**user("(begins)"), "kind": "synthetic"}
    talk = numbered([opening, assistant(words(20)), assistant(words(20)), user("next")])

    assert cut(talk, room_tokens, strategy).turns[0]["role"] == "user"


def test_the_exchange_before_the_last_is_a_stub_rather_than_gone() -> None:
    talk = numbered([user("go"), *calling(("c1", words(700))), *calling(("c2", words(500)))])

    kept = cut(talk, 700)

    assert ids(kept) == ["m1", "m2", "m3", "m4", "m5"]
    [entry] = kept.entries
    assert (entry.id, entry.tokens_after) == ("m3", size_of(kept.turns[2]))


def test_of_parallel_results_only_the_bulky_one_becomes_a_stub() -> None:
    mixed = calling(("a", "short"), ("b", words(700)))
    talk = numbered([user("go"), *mixed, *calling(("c", words(500)))])

    kept = cut(talk, 700)

    short, stub = kept.turns[2]["parts"]
    assert short is talk[2]["parts"][0]
    assert "700 tokens in full" in stub["content"][0]["text"]
    [entry] = kept.entries
    assert entry.tokens_before - entry.tokens_after == size_of(talk[2]) - size_of(kept.turns[2])


def searches(count: int) -> list[Turn]:
    """Return a run whose results are much larger than everything that is said."""
    run = [user("Find every use of the old table.")]
    for number in range(count):
        run += calling((f"c{number}", words(660)))
    return numbered([*run, assistant("Found some uses here."), user("Which one is the oldest?")])


SEARCHES = searches(25)


@every_strategy
def test_without_checkpoints_a_larger_room_keeps_no_less(strategy: str) -> None:
    rooms = [*range(100, 3000, 100), *range(3000, 17_000, 1000)]

    kept = [cut(SEARCHES, r, strategy, cache_stable=False, stub_tokens=200) for r in rooms]

    assert [one.tokens for one in kept] == sorted(one.tokens for one in kept)


def test_without_checkpoints_the_room_that_is_left_is_filled_with_stubs() -> None:
    kept = cut(SEARCHES, 1200, cache_stable=False, stub_tokens=200)

    assert [turn["id"] for turn in kept.turns if turn["role"] == "tool"] == ["m47", "m49", "m51"]
    assert [e.id for e in kept.entries if e.decision == "shortened"] == ["m47", "m49"]
    assert kept.tokens > 1000


def test_without_checkpoints_an_exchange_that_does_not_fit_has_all_of_the_room() -> None:
    talk = numbered([user("Go."), *calling(("c1", words(2_000)))])

    assert 900 < cut(talk, 1_000, cache_stable=False).tokens <= 1_000


def test_twenty_thousand_messages_are_cut() -> None:
    talk = small_talk(10_000)

    kept = cut(talk, 4000)

    assert kept.tokens <= 4000
    assert len(kept.entries) + sum(t["kind"] == "said" for t in kept.turns) == len(talk)


def test_a_history_that_fits_is_the_same_turns() -> None:
    talk = small_talk(3)

    kept = Truncator().truncate(talk, room_tokens=total(talk), counter=COUNTER)

    assert all(mine is given for mine, given in zip(kept.turns, talk, strict=True))
    assert (kept.entries, kept.cut_id, kept.tokens) == ([], 0, total(talk))
    assert cut([], 0).turns == []
