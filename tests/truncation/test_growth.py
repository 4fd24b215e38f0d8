"""Laws about sessions that grow line by line: when what was sent is rewritten, and what it costs."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.errors import ContextOverflowError
from context_assembler.events import (
    ASSISTANT,
    COMPACTION,
    NOTE,
    PINNED,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Body,
    JsonObject,
)
from context_assembler.options import TruncationSettings
from context_assembler.ports import Turn
from context_assembler.truncation import (
    SYNTHETIC,
    Cut,
    History,
    Plan,
    Shortened,
    Truncation,
    Truncator,
    cut_entries,
)
from tests.truncation.talk import (
    COUNTER,
    STRATEGIES,
    Columns,
    FramedCounter,
    agent_run,
    assistant,
    call,
    calling,
    conversations,
    cut,
    numbered,
    result,
    shown,
    text,
    total,
    user,
    words,
)

STEP_SHARE = TruncationSettings().step_share


def ends(talk: Sequence[Turn]) -> list[int]:
    """Return every length at which an exchange ends."""
    follow = [turn["role"] in ("tool", "system") for turn in talk[1:]]
    return [at for at, belongs in enumerate(follow, start=1) if not belongs] + [len(talk)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session, and the room that it has to fit."""

    talk: list[Turn] = field(repr=False)
    room_tokens: int

    def payloads(self, **options: Any) -> list[Truncation]:
        """Return what is sent at each length."""
        fitter = Truncator(TruncationSettings(**options))
        return [
            fitter.truncate(self.talk[:length], room_tokens=self.room_tokens, counter=COUNTER)
            for length in ends(self.talk)
        ]

    def steps(self, length: int | None = None) -> float:
        """Return how many steps the first turns are beyond the room."""
        beyond = max(0, total(self.talk[:length]) - self.room_tokens)
        return beyond / (STEP_SHARE * (self.room_tokens - total(self.talk[:1])))


def drawn(seed: int, *, room_share: float, dwarfing: float = 0.0) -> Session:
    """Draw a session; so many of its exchanges are many times as large as the others."""
    draw = random.Random(seed)
    mean_tokens = draw.choice([20, 60])
    talk = [user(words(draw.randint(1, 40)))]
    for number in range(draw.randint(30, 70)):
        size = 1 + int(draw.expovariate(1 / mean_tokens))
        size = draw.randint(5, 30) * mean_tokens if draw.random() < dwarfing else size
        most = min(size, 8 * mean_tokens)
        talk += draw.choice(
            [
                calling((f"c{number}", words(size))),
                calling((f"c{number}", words(size))),
                [assistant(words(most))],
                [user(words(most))],
            ]
        )
    room_tokens = max(int(room_share * total(talk)), 40 * mean_tokens)
    return Session(talk=numbered(talk), room_tokens=room_tokens)


def rewrites(payloads: Sequence[Truncation]) -> int:
    """Count the payloads that do not begin with the one before."""
    return sum(now.turns[: len(old.turns)] != old.turns for old, now in pairwise(payloads))


@pytest.mark.parametrize("dwarfing", [0, 0.02, 0.08, 0.2])
@pytest.mark.parametrize("room_share", [0.1, 0.35, 0.8])
def test_there_is_at_most_one_rewrite_and_one_for_each_step_beyond_the_room(
    dwarfing: float, room_share: float
) -> None:
    for seed in range(4):
        session = drawn(seed, room_share=room_share, dwarfing=dwarfing)

        assert rewrites(session.payloads()) <= 1 + session.steps()


@given(seed=st.integers(0, 1 << 32), room_share=st.sampled_from([0.1, 0.2, 0.35, 0.5, 0.8]))
@settings(max_examples=15)
def test_at_every_length_rewrites_are_rare_and_new_ids(seed: int, room_share: float) -> None:
    session = drawn(seed, room_share=room_share)

    payloads = session.payloads()

    for number, length in enumerate(ends(session.talk), start=1):
        fits = total(session.talk[:length]) <= session.room_tokens
        assert fits == (payloads[number - 1].cut_id == 0)
        if number % 10 == 0:
            assert rewrites(payloads[:number]) <= 1 + session.steps(length)
    for before, now in pairwise(payloads):
        grows = now.turns[: len(before.turns)] == before.turns
        assert grows or now.cut_id != before.cut_id
    given_up = [payload.cut_id < 0 for payload in payloads if payload.cut_id]
    assert given_up == sorted(given_up)


def test_what_stands_before_the_gap_stays_there_at_every_cut() -> None:
    run = numbered([user("migrate"), *chain(*(calling((f"c{n}", words(30))) for n in range(60)))])
    session = Session(talk=run, room_tokens=1200)

    fronts = [
        kept.turns[: [turn["kind"] for turn in kept.turns].index("marker")]
        for kept in session.payloads(stub_tokens=10)
        if "dropped" in {entry.decision for entry in kept.entries}
    ]

    assert len(fronts) > 10
    assert all(front == fronts[0] for front in fronts)
    assert 0.2 * 1200 < total(fronts[0]) < 0.4 * 1200


def arguing(number: int, count: int) -> list[Turn]:
    """Return an exchange whose call has so many words."""
    reply = assistant("", call(f"c{number}", text=words(count)))
    answer: Turn = {"role": "tool", "parts": [result(f"c{number}", text("ok"))]}
    return [reply, answer]


OVERSIZED: dict[str, Callable[[int], list[Turn]]] = {
    "a result": lambda number: calling((f"c{number}", words(2_000))),
    "results": lambda number: calling(*((f"c{number}.{part}", words(700)) for part in range(3))),
    "arguments": lambda number: arguing(number, 2_000),
    "a question": lambda _: [user(words(2_000))],
}


@pytest.mark.parametrize("oversized", OVERSIZED.values(), ids=OVERSIZED.keys())
@pytest.mark.parametrize("strategy", ["smart", "simple"])
@pytest.mark.parametrize("before", [0, 4, 30])
def test_what_does_not_fit_even_alone_stays_as_it_was_sent_until_a_step_is_added(
    oversized: Callable[[int], list[Turn]], strategy: str, before: int
) -> None:
    ordinary = [calling((f"c{number}", words(30))) for number in range(before + 12)]
    talk = [user("Go."), *chain(*ordinary[:before]), *oversized(before), *chain(*ordinary[before:])]
    session = Session(talk=numbered(talk), room_tokens=1_000)

    payloads = session.payloads(strategy=strategy, on_overflow="shorten", stub_tokens=40)
    first, *later = payloads[before + 1 :]

    holding = 1_000 * STEP_SHARE // total(ordinary[-1])
    for payload in later[: int(holding) - 1]:
        assert payload.turns[: len(first.turns)] == first.turns
        assert payload.cut_id == first.cut_id
    assert later[-1].cut_id != first.cut_id
    assert first.tokens > 500


# fmt: off
UNEVEN_SIZES = (
    47, 38, 88, 35, 67, 50, 34, 63, 34, 55, 35, 35, 55, 176, 37, 41, 83, 576, 73, 52, 1266,
    34, 214, 45, 38, 37, 46, 166, 39, 74, 86, 50, 69, 35, 34, 40, 96, 55, 46, 75, 57, 45, 148,
    102, 42, 73, 66, 243, 113, 45, 1516, 37, 54, 126, 38, 61, 34, 93, 130, 73,
)
# fmt: on


def test_rewrites_stay_rare_if_a_few_results_dwarf_a_step() -> None:
    run = [user("Go.")]
    for number, size in enumerate(UNEVEN_SIZES):
        run += calling((f"c{number}", words(size)))

    payloads = Session(talk=numbered(run), room_tokens=1500).payloads()

    cut_ids = [payload.cut_id for payload in payloads if payload.cut_id]
    assert rewrites(payloads) <= 10
    assert max(map(cut_ids.count, cut_ids)) > 3


# ---- columns ----


class Lines(Columns):
    """Lines of one text each; a reply calls for the next two lines, one of two things."""

    def __init__(self, tokens: Sequence[int], kinds: Sequence[int] = ()) -> None:
        self.tokens, self.kinds = tokens, kinds

    def parts(self, line: int) -> list[JsonObject]:
        if line < len(self.kinds) and self.kinds[line] in (ASSISTANT, TOOL_CALL):
            pages = {line + ahead: (self.tokens[line] + ahead) % 2 for ahead in (1, 2)}
            calls = [call(f"c{later}", page=page) for later, page in pages.items()]
            said = words(self.tokens[line] - COUNTER.count_event(ASSISTANT, {"parts": calls}))
            return [*calls, text(said)]
        return [result(f"c{line}", text(words(self.tokens[line] - 5)))]


KINDS = (
    USER,
    ASSISTANT,
    ASSISTANT | PINNED,
    TOOL_CALL,
    TOOL_RESULT,
    TOOL_RESULT,
    NOTE,
    COMPACTION,
    SYNTHETIC,
)
columns = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(12, 300)), min_size=1, max_size=40)
plans = st.fixed_dictionaries(
    {
        "strategy": st.sampled_from(STRATEGIES),
        "keep_last_messages": st.sampled_from([None, None, 1, 3, 100]),
        "keep_last_turns": st.sampled_from([None, None, 1, 2]),
        "cache_stable": st.booleans(),
        "stub_tokens": st.sampled_from([1, 30, 100]),
        "shorten_repeats": st.booleans(),
        "window_turns": st.integers(1, 4),
        "on_overflow": st.sampled_from(["error", "shorten"]),
    }
)


def fitted(plan: Plan) -> Cut | str | None:
    try:
        return plan.cut()
    except ContextOverflowError as error:
        return str(error)


def sent_lines(cut: Cut) -> Iterator[int]:
    for first, end in cut.kept:
        yield from range(first, end)


@given(lines=columns, percent=st.integers(5, 90), options=plans, extra=columns)
@settings(max_examples=40)
def test_a_plan_that_grows_cuts_as_one_made_for_each_length(
    lines: list[tuple[int, int]],
    percent: int,
    options: dict[str, Any],
    extra: list[tuple[int, int]],
) -> None:
    kinds, tokens = zip(*lines, strict=True)
    all_kinds, all_tokens = zip(*lines, *extra, strict=True)
    bodies, chosen = Lines(all_tokens, all_kinds), TruncationSettings(**options)
    room = sum(tokens) * percent // 100
    history = History(stub_tokens=chosen.stub_tokens)
    plan = Plan(history, bodies, room_tokens=room, settings=chosen)
    for length in range(1, len(lines) + 1):
        history.extend(kinds[length - 1 : length], tokens[length - 1 : length])
        if length % 4 == 0:  # what one call alone sends is taken off again
            history.extend(*zip(*extra, strict=True))
            fitted(plan)
            history.shrink(length)
        anew = History(stub_tokens=chosen.stub_tokens)
        anew.extend(kinds[:length], tokens[:length])
        assert vars(history) == vars(anew)

        cut = fitted(plan)

        assert cut == fitted(Plan(anew, bodies, room_tokens=room, settings=chosen))
        if isinstance(cut, Cut):
            assert cut.tokens <= room


@given(lines=columns, percent=st.integers(5, 90), options=plans)
@settings(max_examples=40)
def test_an_equal_id_means_that_what_is_sent_only_grows(
    lines: list[tuple[int, int]], percent: int, options: dict[str, Any]
) -> None:
    kinds, tokens = zip(*lines, strict=True)
    chosen = TruncationSettings(**options)
    room = sum(tokens) * percent // 100
    history = History(stub_tokens=chosen.stub_tokens)
    plan = Plan(history, Lines(tokens, kinds), room_tokens=room, settings=chosen)
    before: Cut | str | None = None
    for length in range(1, len(lines) + 1):
        history.extend(kinds[length - 1 : length], tokens[length - 1 : length])
        now = fitted(plan)
        if isinstance(before, Cut) and isinstance(now, Cut) and before.id == now.id:
            earlier = list(sent_lines(before))
            assert list(sent_lines(now))[: len(earlier)] == earlier
            assert [before.shortened.get(n) for n in earlier] == [
                now.shortened.get(n) for n in earlier
            ]
            assert before.marker_parts == now.marker_parts
            assert before.marker == now.marker
        before = now


def test_every_line_is_sent_or_has_an_entry() -> None:
    tokens = [20, *[40, 200] * 20]
    history = History(stub_tokens=30)
    history.extend([USER, *[ASSISTANT, TOOL_RESULT] * 20], tokens)
    chosen = TruncationSettings(stub_tokens=30)

    cut = Plan(history, Lines(tokens), room_tokens=1000, settings=chosen).cut()

    assert cut is not None
    entries = cut_entries(cut, tokens, Lines(tokens).name)
    dropped = {line for line, entry in entries.items() if entry.decision == "dropped"}
    assert dropped.union(sent_lines(cut)) == set(range(len(history)))
    assert set(entries) - dropped == set(cut.shortened)
    assert [entry.id for entry in entries.values()] == [f"e{line}" for line in sorted(entries)]


def test_stubs_made_before_are_taken_as_they_are() -> None:
    tokens = [20, *[40, 300] * 20]
    history, chosen = History(stub_tokens=30), TruncationSettings(stub_tokens=30)
    history.extend([USER, *[ASSISTANT, TOOL_RESULT] * 20], tokens)
    kept: dict[int, Shortened] = {}

    cuts = [
        Plan(history, Lines(tokens), room_tokens=2500, settings=chosen, stubs=kept).cut()
        for _ in range(2)
    ]

    assert kept
    assert cuts[0] == cuts[1]
    assert cuts[0] is not None
    assert all(cuts[0].shortened[line] is kept[line] for line in cuts[0].shortened)


class SurprisingCounter(FramedCounter):
    """Counts what was shortened for more than its parts, as a tokenizer may."""

    def count_event(self, kind: int, body: Body) -> int:
        return super().count_event(kind, body) + 60 * ("shortened:" in str(body))


def test_a_cut_that_frees_less_than_it_promised_is_passed_over() -> None:
    talk = [user("Go."), *chain(*(calling((f"c{n}", f"found {n} " * 120)) for n in range(12)))]
    fitter = Truncator(TruncationSettings(stub_tokens=40))

    for room_tokens in range(500, 1500, 100):
        for length in ends(talk):
            cut = fitter.truncate(
                talk[:length], room_tokens=room_tokens, counter=SurprisingCounter()
            )
            assert cut.tokens <= room_tokens


# ---- work ----


class Tally(FramedCounter):
    """Counts how often it is asked; a call or a result takes more than the least it is cut to."""

    def __init__(self) -> None:
        self.counts = 0

    def count_event(self, kind: int, body: Body) -> int:
        self.counts += 1
        frames = sum(part["type"] in ("tool_call", "tool_result") for part in body["parts"])
        return super().count_event(kind, body) + 50 * frames


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("room_tokens", [1_000, 2_250, 4_500, 6_000])
@pytest.mark.parametrize(("arguments", "results"), [(2, 400), (200, 400), (200, 10)])
def test_many_calls_at_once_are_shortened_in_bounded_work(
    strategy: Any, room_tokens: int, arguments: int, results: int
) -> None:
    calls = [call(f"c{n}", **{f"a{at}": "x" for at in range(arguments)}) for n in range(20)]
    answers = [result(f"c{n}", text(words(results))) for n in range(20)]
    talk: list[Turn] = [
        user("go"),
        {"role": "assistant", "parts": calls},
        {"role": "tool", "parts": answers},
    ]
    counter, truncator = Tally(), Truncator(TruncationSettings(strategy=strategy))

    with suppress(ContextOverflowError):
        truncator.truncate(talk, room_tokens=room_tokens, counter=counter)

    assert counter.counts <= 20 * (len(calls) + len(answers))


@given(talk=conversations, percent=st.integers(1, 100), strategy=st.sampled_from(STRATEGIES))
@settings(max_examples=40)
def test_what_is_left_fits_starts_with_the_user_and_is_paired(
    talk: list[Turn], percent: int, strategy: Any
) -> None:
    room_tokens = total(talk) * percent // 100
    with suppress(ContextOverflowError):
        kept = Truncator(TruncationSettings(strategy=strategy, stub_tokens=40)).truncate(
            talk, room_tokens=room_tokens, counter=COUNTER
        )
        asked = [p["call_id"] for t in kept.turns for p in t["parts"] if p["type"] == "tool_call"]
        got = [p["call_id"] for t in kept.turns for p in t["parts"] if p["type"] == "tool_result"]
        said = next(turn for turn in kept.turns if turn["role"] != "system")
        assert total(kept.turns) == kept.tokens <= room_tokens
        assert asked == got
        assert said["role"] == "user"
        # The clock at the end may give way.
        ends = [[t["role"] for t in of if t["role"] != "system"][-1] for of in (kept.turns, talk)]
        assert ends[0] == ends[1]


FILES: Final = [f"src/billing/module_{number}.py" for number in range(40)]


@given(
    read=st.lists(st.integers(0, len(FILES) - 1), min_size=8, max_size=40),
    sizes=st.sampled_from([20, 60, 150]),
    most=st.sampled_from([0, 30, 2_000]),
)
@settings(max_examples=40)
def test_the_marker_lists_what_was_named_only_in_what_is_left_out(
    read: list[int], sizes: int, most: int
) -> None:
    talk, room, before, made = [user("Migrate src/main.py")], 1_500, list[Turn](), 0
    for number, file in enumerate(read):
        asked, got = calling((f"c{number}", f"{FILES[file - 1]} {words(sizes)}"))
        asked["parts"] = [call(f"c{number}", path=FILES[file])]
        talk += [asked, got]
        chosen: dict[str, Any] = {"marker_tokens": most, "stub_tokens": 20}
        kept = cut(talk, room, **chosen)
        markers = [turn for turn in kept.turns if turn["kind"] == "marker"]
        others = " ".join(str(turn["parts"]) for turn in kept.turns if turn not in markers)
        names = " ".join(map(shown, markers)).partition("Named there: ")[2].rstrip("]").split()

        assert kept.tokens == total(kept.turns) <= room
        assert COUNTER.count_text(" ".join(names)) <= min(most, 0.03 * room)
        gone = [turn for turn in talk if turn not in kept.turns]
        assert all(name in str(gone) for name in names)
        if kept.turns[: len(before)] != before:
            made = len(talk) - 2  # what the cut saw, less the exchange that may still grow
        since = str(talk[made:])
        assert not [name for name in names if name in others and name not in since]
        before = kept.turns
    assert most or not names


def test_a_cut_that_only_shortens_lists_the_names_that_went_with_it() -> None:
    talk = agent_run(12, size=300)
    talk[2]["parts"] = [result("c0", text(f"{words(150)} src/lost.py {words(150)}"))]

    kept = cut(talk, 3_000, stub_tokens=60)

    [marker] = [turn for turn in kept.turns if turn["kind"] == "marker"]
    assert shown(marker) == (
        "[Large results above were shortened to fit the context window. Named there: src/lost.py]"
    )
    assert [turn["role"] for turn in kept.turns if turn["kind"] != "marker"] == [
        turn["role"] for turn in talk
    ]
