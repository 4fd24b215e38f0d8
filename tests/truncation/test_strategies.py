"""What the strategies keep, shorten and drop, by example."""

from dataclasses import replace
from itertools import pairwise

import pytest

from context_assembler.errors import (
    ContextOverflowError,
    UnknownOptionError,
)
from context_assembler.ports import Truncation
from context_assembler.ports.truncation import CHECKPOINT_LEVELS
from context_assembler.truncation import TRUNCATIONS, Truncator
from context_assembler.values.messages import Message
from context_assembler.values.options import OverflowPolicy, TruncationSettings
from context_assembler.values.parts import Image, Opaque, Text, ToolCall, UrlSource
from tests.truncation.conversations import (
    WordCounter,
    assistant,
    calling,
    numbered,
    summary,
    total,
    user,
    words,
)

COUNTER = WordCounter()


def cut(
    talk: list[Message],
    room_tokens: int,
    strategy: str = "smart",
    *,
    on_overflow: OverflowPolicy = "error",
    cache_stable: bool = True,
    stub_tokens: int = 40,
    window_turns: int = 20,
    opening_share: float = 0.3,
) -> Truncation:
    truncator = Truncator(
        TruncationSettings(
            strategy=strategy,
            on_overflow=on_overflow,
            cache_stable=cache_stable,
            stub_tokens=stub_tokens,
            window_turns=window_turns,
            opening_share=opening_share,
        )
    )
    return truncator.truncate(talk, room_tokens=room_tokens, counter=COUNTER)


def ids(kept: Truncation) -> list[str]:
    return [message.id for message in kept.messages]


def small_talk(turns: int, *, size: int = 20) -> list[Message]:
    return numbered(
        [m for _ in range(turns) for m in (user(words(size)), assistant(words(size)))]
        + [user("next")]
    )


def agent_run(calls: int, *, size: int) -> list[Message]:
    run = [user("migrate the billing table")]
    for number in range(calls):
        run += calling((f"c{number}", words(size)))
    return numbered(run)


@pytest.mark.parametrize("strategy", TRUNCATIONS)
def test_a_pair_goes_or_stays_as_a_whole(strategy: str) -> None:
    talk = numbered([user(words(60)), *calling(("c1", words(40))), assistant("ok"), user("next")])

    kept = cut(talk, 60, strategy, on_overflow="shorten")

    assert kept.messages[-1] == talk[-1]
    assert not any(m.role == "tool" for m in kept.messages) or any(
        m.tool_calls for m in kept.messages
    )
    assert total(kept.messages, COUNTER) <= 60


def test_an_earlier_task_too_large_for_the_room_is_shortened_and_reported() -> None:
    talk = numbered([user(words(60)), assistant("ok"), user("next")])

    kept = cut(talk, 50)

    assert "60 tokens in full" in kept.messages[0].text
    assert [entry.decision for entry in kept.entries if entry.id == "m1"] == ["shortened"]
    assert ids(cut(talk, 50, "simple")) == ["m3"]


def test_a_last_message_too_large_is_named_unless_it_may_be_shortened() -> None:
    talk = numbered([user("old"), assistant("ok"), user(words(60))])

    with pytest.raises(ContextOverflowError, match="last user message") as caught:
        cut(talk, 50)
    shortened = cut(talk, 50, on_overflow="shorten")

    assert "m3" in caught.value.culprit
    assert "on_overflow='shorten'" in caught.value.remedy
    assert "60 tokens in full" in shortened.messages[-1].text


def test_a_result_is_never_shortened_below_its_stub() -> None:
    talk = numbered([user("do it"), *calling(("c9", words(5000)))])

    with pytest.raises(ContextOverflowError, match="c9"):
        cut(talk, 150, stub_tokens=200)

    assert total(cut(talk, 300, stub_tokens=200).messages, COUNTER) <= 300


@pytest.mark.parametrize("strategy", TRUNCATIONS)
@pytest.mark.parametrize("cache_stable", [True, False])
def test_one_task_and_a_long_run_keeps_the_task_and_the_newest_exchanges(
    strategy: str, cache_stable: bool
) -> None:
    run = agent_run(14, size=120)

    kept = cut(run, 600, strategy, cache_stable=cache_stable)

    assert kept.messages[0] == run[0]
    assert kept.messages[-4:] == tuple(run[-4:])
    assert total(kept.messages, COUNTER) <= 600


def test_a_result_in_flight_that_is_too_large_keeps_head_tail_and_its_full_size() -> None:
    talk = numbered([user("old"), assistant("old"), user("do it"), *calling(("c9", words(5000)))])

    kept = cut(talk, 800)
    result = kept.messages[-1].tool_results[0]

    assert result.call_id == "c9"
    assert result.text.startswith("w0 ")
    assert result.text.endswith(" w4999")
    assert "5,000 tokens in full" in result.text
    assert 500 < total(kept.messages, COUNTER) <= 800
    assert kept.entries[-1].rule == "overflow.shorten"


def test_an_exchange_that_cannot_fit_is_named_by_its_call() -> None:
    talk = numbered([user("do it"), *calling(("c9", words(5000)))])

    with pytest.raises(ContextOverflowError) as caught:
        cut(talk, 25)

    assert "c9" in caught.value.culprit
    assert set(caught.value.sizes_tokens) == {"task", "exchange in flight"}
    assert caught.value.budget_tokens == 25


@pytest.mark.parametrize("strategy", TRUNCATIONS)
def test_a_single_message_larger_than_the_room_is_shortened_or_named(strategy: str) -> None:
    talk = numbered([user(words(5000))])

    with pytest.raises(ContextOverflowError, match="5,002"):
        cut(talk, 500, strategy)
    kept = cut(talk, 500, strategy, on_overflow="shorten")

    assert [m.id for m in kept.messages] == ["m1"]
    assert kept.messages[0].text.startswith("w0 ")
    assert kept.messages[0].text.endswith(" w4999")


def test_large_arguments_in_flight_are_shortened_to_a_json_object() -> None:
    call = ToolCall(call_id="c1", name="write", arguments={"path": "a", "content": words(900)})
    talk = [
        user("go"),
        Message(role="assistant", parts=(call,), origin="model"),
        calling(("c1", "ok"))[1],
    ]

    sent = cut(numbered(talk), 300).messages[1].tool_calls[0]

    assert sent.arguments["path"] == "a"
    assert "characters in full" in sent.arguments["content"]


def test_what_servers_tools_found_is_shortened_where_it_is_told_in_words() -> None:
    """It stands in the reply of the exchange in flight, beside a call of the client's."""
    call, results = calling(("c1", "ok"))
    told = replace(call, parts=(Text("Searching."), Text(words(5000)), *call.parts))

    kept = cut(numbered([user("go"), told, results]), 300)

    [searching, found, sent] = kept.messages[1].parts
    assert (searching, sent) == (Text("Searching."), call.parts[0])
    assert isinstance(found, Text)
    assert "5,000 tokens in full" in found.text
    assert [(entry.id, entry.rule) for entry in kept.entries] == [("m2", "overflow.shorten")]


def test_what_a_tool_returned_is_shortened_before_what_the_model_said() -> None:
    call, results = calling(("c1", words(900)))
    told = replace(call, parts=(Text(words(100)), *call.parts))

    kept = cut(numbered([user("go"), told, results]), 300)

    assert kept.messages[1] == numbered([user("go"), told])[1]
    assert "900 tokens in full" in kept.messages[-1].tool_results[0].text


def found_by_server(count: int) -> Opaque:
    """Return the result of a server's tool, which goes back verbatim."""
    return Opaque(provider="anthropic", block={"type": "web_search_tool_result"}, text=words(count))


@pytest.mark.parametrize("strategy", TRUNCATIONS)
def test_blocks_of_a_servers_tools_go_with_their_exchange(strategy: str) -> None:
    reply = Message(role="assistant", parts=(found_by_server(900), Text("So.")), origin="model")
    talk = numbered([user("go"), reply, user("and?"), assistant("Yes."), user("next")])

    kept = cut(talk, 200, strategy)

    assert "m2" not in ids(kept)
    assert {e.id: e.decision for e in kept.entries}["m2"] == "dropped"


@pytest.mark.parametrize("strategy", TRUNCATIONS)
def test_a_block_that_must_stay_verbatim_is_named_where_nothing_fits(strategy: str) -> None:
    call, results = calling(("c1", words(50)))
    reply = replace(call, parts=(found_by_server(900), *call.parts))

    with pytest.raises(ContextOverflowError) as caught:
        cut(numbered([user("go"), reply, results]), 300, strategy, on_overflow="shorten")

    assert caught.value.culprit == (
        "the exchange in flight (a web_search_tool_result block of anthropic, "
        "which goes back verbatim, in message 'm2')"
    )
    assert "the provider's own tools" in caught.value.remedy


def test_a_block_of_no_known_kind_is_named_all_the_same() -> None:
    part = Opaque(provider="gemini", block={"video": 1}, text=words(900))
    talk = [user("go"), Message(role="assistant", parts=(part,), origin="model")]

    with pytest.raises(ContextOverflowError, match="a block of gemini"):
        cut(numbered(talk), 300)


def test_hundreds_of_parallel_results_shrink_alike() -> None:
    exchange = calling(*((f"c{number}", words(300)) for number in range(300)))

    kept = cut(numbered([user("go"), *exchange]), 20_000)
    lengths = {len(result.text) for result in kept.messages[-1].tool_results}

    assert len(kept.messages[-1].tool_results) == 300
    assert len(lengths) == 1


def test_smart_shortens_old_results_before_it_drops_anything() -> None:
    run = agent_run(12, size=200)

    kept = cut(run, 2300)

    assert {entry.rule for entry in kept.entries} == {"smart.shorten"}
    assert len(kept.messages) == len(run)
    assert 0 < kept.level < CHECKPOINT_LEVELS


def test_smart_marks_the_gap_once_behind_the_opening() -> None:
    talk = small_talk(30)

    kept = cut(talk, 500)
    [place] = [at for at, message in enumerate(kept.messages) if message.kind == "marker"]
    marker = kept.messages[place]
    dropped = [entry for entry in kept.entries if entry.decision == "dropped"]

    assert place > 1
    assert kept.messages[:place] == tuple(talk[:place])
    assert f"{len(dropped)} earlier messages were left out" in marker.text
    assert kept.messages[0].id == "m1"


def test_smart_marks_the_gap_right_behind_the_task_where_no_opening_is_wanted() -> None:
    kept = cut(small_talk(30), 500, opening_share=0)

    assert kept.messages[1].kind == "marker"


def test_what_stands_before_the_gap_stays_there_at_every_cut() -> None:
    run = agent_run(60, size=30)

    fronts = [
        kept.messages[: [m.kind for m in kept.messages].index("marker")]
        for end in range(1, len(run) + 1, 2)
        if (kept := cut(run[:end], 1200, stub_tokens=10)).entries
        and "dropped" in {entry.decision for entry in kept.entries}
    ]

    assert len(fronts) > 10
    assert all(front == fronts[0] for front in fronts)
    assert 0.2 * 1200 < total(list(fronts[0]), COUNTER) < 0.4 * 1200


def test_an_exchange_too_large_to_stand_beside_the_opening_takes_its_place() -> None:
    run = numbered([*agent_run(20, size=40), user(words(900))])

    kept = cut(run, 1000)

    assert kept.level < 0
    assert kept.messages[1].kind == "marker"
    assert kept.messages[-1] == run[-1]


def test_one_message_left_out_is_spelled_in_the_singular() -> None:
    talk = numbered([user("go"), assistant(words(80)), assistant(words(70)), user("next")])

    kept = cut(talk, 120)

    assert kept.messages[1].text.startswith("[1 earlier message was left out")


@pytest.mark.parametrize("strategy", ["simple", "sliding"])
def test_other_strategies_leave_no_marker(strategy: str) -> None:
    kept = cut(small_talk(30), 500, strategy)

    assert all(message.kind == "said" for message in kept.messages)


def test_sliding_keeps_the_newest_turns_of_a_history_that_does_not_fit() -> None:
    talk = small_talk(30)

    kept = cut(talk, 1000, "sliding", window_turns=3)

    assert kept.messages == tuple(talk[-5:])
    assert {entry.rule for entry in kept.entries} == {"sliding.window"}


def test_sliding_drops_more_where_the_window_does_not_fit() -> None:
    talk = small_talk(30)

    kept = cut(talk, 200, "sliding", window_turns=10)

    assert {entry.rule for entry in kept.entries} == {"sliding.window", "sliding.drop"}
    assert total(kept.messages, COUNTER) <= 200


@pytest.mark.parametrize("strategy", TRUNCATIONS)
def test_pinned_exchanges_stay_whole_behind_a_message_of_the_user(strategy: str) -> None:
    pinned = calling(("p", words(100)), is_pinned=True)
    talk = numbered([*small_talk(10)[:8], *pinned, *small_talk(12)])

    kept = cut(talk, 420, strategy)

    assert all(message in kept.messages for message in talk[8:10])
    assert kept.messages[0].is_from_user


def test_pins_that_do_not_fit_are_named() -> None:
    pins = [user(words(100), is_pinned=True) for _ in range(5)]

    with pytest.raises(ContextOverflowError, match="pinned messages") as caught:
        cut(numbered([*pins, user("next")]), 300, "simple")

    assert "Unpin" in caught.value.remedy


@pytest.mark.parametrize("strategy", TRUNCATIONS)
def test_the_latest_summary_stays_at_the_start(strategy: str) -> None:
    talk = numbered([summary(words(30)), *small_talk(20)])

    kept = cut(talk, 300, strategy)

    assert kept.messages[0] == talk[0]
    assert kept.messages[1].role == "user"


def test_a_summary_in_the_middle_stays() -> None:
    talk = numbered([user("kept by pin"), summary(words(30)), *small_talk(20)])

    kept = cut(talk, 300, "simple")

    assert talk[1] in kept.messages


def test_a_lone_summary_that_does_not_fit_is_named() -> None:
    with pytest.raises(ContextOverflowError, match="summary") as caught:
        cut(numbered([summary(words(100))]), 50)

    assert "Compact again" in caught.value.remedy


def test_a_history_without_a_message_of_the_user_is_cut_all_the_same() -> None:
    talk = numbered([assistant(words(20)) for _ in range(20)])

    kept = cut(talk, 100, "simple")

    assert kept.messages == tuple(talk[-len(kept.messages) :])
    assert cut(talk, 100).messages[0].kind == "marker"


@pytest.mark.parametrize("room_tokens", [0, -7])
@pytest.mark.parametrize("strategy", TRUNCATIONS)
def test_no_room_at_all_is_an_error_with_sizes(strategy: str, room_tokens: int) -> None:
    with pytest.raises(ContextOverflowError) as caught:
        cut(small_talk(2), room_tokens, strategy, on_overflow="shorten")

    assert caught.value.budget_tokens == room_tokens


def test_an_empty_history_is_left_empty() -> None:
    assert cut([], 0) == Truncation(messages=())


def test_an_image_cannot_be_shortened_and_is_named() -> None:
    picture = Image(source=UrlSource(url="https://example.com/a.png"))
    talk = [Message(role="user", parts=(Text("look"), picture))]

    with pytest.raises(ContextOverflowError, match="role user"):
        cut(talk, 50, on_overflow="shorten")


def test_notes_count_as_notes_where_nothing_fits() -> None:
    note = Message(role="system", parts=(Text(words(90)),), kind="note", note="memory")

    with pytest.raises(ContextOverflowError, match="notes") as caught:
        cut(numbered([user("go"), note]), 50, on_overflow="shorten")

    assert caught.value.sizes_tokens["notes"] == 92


def test_as_much_is_kept_as_fits_when_one_exchange_dwarfs_a_step() -> None:
    talk = numbered([*small_talk(10), *calling(("big", words(500)))])

    kept = cut(talk, 700)

    assert kept.messages[-1] == talk[-1]
    assert len(kept.messages) > 5


def test_the_exchange_before_the_last_is_a_stub_rather_than_gone() -> None:
    talk = numbered([user("go"), *calling(("c1", words(700))), *calling(("c2", words(500)))])

    kept = cut(talk, 700)

    assert [m.id for m in kept.messages] == ["m1", "m2", "m3", "m4", "m5"]
    assert [entry.id for entry in kept.entries] == ["m3"]


def searches(count: int) -> list[Message]:
    """Return a run whose results are much larger than everything that is said."""
    run = [user("Find every use of the old table.")]
    for number in range(count):
        run += calling((f"c{number}", words(660)))
    return numbered([*run, assistant("Found some uses here."), user("Which one is the oldest?")])


SEARCHES = searches(25)


@pytest.mark.parametrize("strategy", TRUNCATIONS)
def test_without_checkpoints_a_larger_room_keeps_no_less(strategy: str) -> None:
    rooms = [*range(100, 3000, 50), *range(3000, 17_000, 500)]

    kept = [cut(SEARCHES, r, strategy, cache_stable=False, stub_tokens=200) for r in rooms]

    used = [total(one.messages, COUNTER) for one in kept]
    assert used == sorted(used)


def test_without_checkpoints_the_room_that_is_left_is_filled_with_stubs() -> None:
    kept = cut(SEARCHES, 1200, cache_stable=False, stub_tokens=200)

    assert [m.id for m in kept.messages if m.role == "tool"] == ["m47", "m49", "m51"]
    assert [e.id for e in kept.entries if e.decision == "shortened"] == ["m47", "m49"]
    assert total(kept.messages, COUNTER) > 1000


@pytest.mark.parametrize("room_tokens", [600, 700])
def test_between_checkpoints_what_lies_right_before_the_cut_stays_as_stubs(
    room_tokens: int,
) -> None:
    kept = cut(SEARCHES, room_tokens, stub_tokens=200)

    assert kept.messages[-2:] == tuple(SEARCHES[-2:])
    assert kept.entries[-1].id == "m51"
    assert kept.entries[-1].decision == "shortened"


# fmt: off
UNEVEN_SIZES = (
    47, 38, 88, 35, 67, 50, 34, 63, 34, 55, 35, 35, 55, 176, 37, 41, 83, 576, 73, 52, 1266,
    34, 214, 45, 38, 37, 46, 166, 39, 74, 86, 50, 69, 35, 34, 40, 96, 55, 46, 75, 57, 45, 148,
    102, 42, 73, 66, 243, 113, 45, 1516, 37, 54, 126, 38, 61, 34, 93, 130, 73,
)
# fmt: on


def test_rewrites_stay_rare_where_a_few_results_dwarf_a_step() -> None:
    run = [user("Go.")]
    for number, size in enumerate(UNEVEN_SIZES):
        run += calling((f"c{number}", words(size)))
    run = numbered(run)

    payloads = [cut(run[:end], 1500, stub_tokens=200) for end in range(1, len(run) + 1, 2)]
    levels = [payload.level for payload in payloads]
    rewrites = [
        now
        for before, now in pairwise(payloads)
        if now.messages[: len(before.messages)] != before.messages
    ]

    assert len(rewrites) <= 10
    assert max(map(levels.count, set(levels) - {0})) > 3


@pytest.mark.parametrize("strategy", ["smart", "simple"])
def test_rewrites_are_rare_and_free_substantial_room(strategy: str) -> None:
    run = agent_run(120, size=30)
    room_tokens = 1200

    ends = [end for end in range(1, len(run) + 1) if not run[end - 1].tool_calls]
    payloads = [cut(run[:end], room_tokens, strategy, stub_tokens=10) for end in ends]
    rewrites = [
        total(now.messages, COUNTER)
        for before, now in pairwise(payloads)
        if now.messages[: len(before.messages)] != before.messages
    ]

    assert len(rewrites) <= total(run, COUNTER) / (room_tokens / 3)
    assert max(rewrites) <= room_tokens * 0.9
    assert [p.level for p in payloads] == sorted(p.level for p in payloads)


def test_a_small_gain_is_no_reason_to_rewrite() -> None:
    talk = numbered([user("go"), *calling(("c1", words(200))), *small_talk(5, size=300)])

    assert cut(talk, total(talk, COUNTER)).level == 0


@pytest.mark.parametrize("strategy", TRUNCATIONS)
def test_twenty_thousand_messages_are_cut(strategy: str) -> None:
    talk = small_talk(10_000)

    kept = cut(talk, 4000, strategy)

    assert total(kept.messages, COUNTER) <= 4000
    assert len(kept.entries) + sum(m.kind == "said" for m in kept.messages) == len(talk)


def test_an_unknown_strategy_names_the_nearest() -> None:
    with pytest.raises(UnknownOptionError, match="sliding"):
        Truncator(TruncationSettings(strategy="slide"))


@pytest.mark.parametrize("strategy", TRUNCATIONS)
@pytest.mark.parametrize("room_tokens", range(20, 80, 5))
def test_what_stands_in_for_the_user_opens_a_history_that_the_assistant_began(
    strategy: str, room_tokens: int
) -> None:
    opening = replace(user("(begins)"), kind="synthetic")
    talk = numbered([opening, assistant(words(20)), assistant(words(20)), user("next")])

    kept = cut(talk, room_tokens, strategy)

    assert kept.messages[0].role == "user"
