"""A history made to fit by a strategy's rules."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from context_assembler.ports import TokenCounter, Truncation
from context_assembler.truncation.apply import Stubs, carry_out, marker_message
from context_assembler.truncation.checkpoints import Cut, Grid, cuts_that_fit
from context_assembler.truncation.fullest import Carry, Fitting, fullest
from context_assembler.truncation.history import MeasuredHistory, Rules, is_user, measure
from context_assembler.truncation.overflow import relieve
from context_assembler.values.message_counts import count_each
from context_assembler.values.messages import Message
from context_assembler.values.options import TruncationSettings

_MANY_MESSAGES: Final = 9_999_999


def fit_history(
    messages: Sequence[Message],
    *,
    room_tokens: int,
    counter: TokenCounter,
    settings: TruncationSettings,
    rules: Rules,
) -> Truncation:
    """Drop and shorten by the rules until the history fits; one that fits is returned as it is.

    While room and settings stay the same and messages are only appended, equal levels mean that the
    result starts with the earlier result.

    Raises:
        ContextOverflowError: What may not be dropped does not fit, even shortened.
    """
    message_tokens = count_each(messages, counter)
    if not messages or sum(message_tokens) <= room_tokens:
        return Truncation(messages=tuple(messages))
    measured = partial(
        measure,
        messages,
        message_tokens,
        rules=rules,
        stub_tokens=settings.stub_tokens,
        counter=counter,
    )
    whole = measured()
    opening_tokens = opening_tokens_of(whole, room_tokens, settings=settings, rules=rules)
    opened = measured(opening_tokens=opening_tokens) if opening_tokens else whole
    cut = partial(_cut, room_tokens=room_tokens, counter=counter, settings=settings, rules=rules)
    done, found = choose_cut(cut, whole, opened, is_stable=settings.cache_stable)
    return Truncation(messages=done.messages, entries=done.sorted_entries, level=found.identity)


def opening_tokens_of(
    history: MeasuredHistory, room_tokens: int, *, settings: TruncationSettings, rules: Rules
) -> int:
    """Return what the opening may take; 0 where the strategy keeps none, or nothing opens it.

    Of what a cut leaves it is never more than half.
    """
    if history.task is None or not rules.keeps_opening:
        return 0
    share = min(settings.opening_share, (1 - settings.step_share) / 2)
    return max(0, int(share * (room_tokens - history.head_tokens)))


def choose_cut(
    cut: Callable[[MeasuredHistory], Fitting | None],
    whole: MeasuredHistory,
    opened: MeasuredHistory,
    *,
    is_stable: bool,
) -> Fitting:
    """Return the cut of a history that keeps the opening; without checkpoints the fuller cut.

    Args:
        opened: The same history with its opening as anchors, where it has one.
    """
    with_opening = cut(opened) if opened.has_opening else None
    if with_opening is not None and is_stable:
        return with_opening
    without = cut(whole)
    assert without is not None
    if with_opening is not None and with_opening[0].kept_tokens >= without[0].kept_tokens:
        return with_opening
    return without[0], replace(without[1], drops_opening=opened.has_opening)


def _cut(
    history: MeasuredHistory,
    *,
    room_tokens: int,
    counter: TokenCounter,
    settings: TruncationSettings,
    rules: Rules,
) -> Fitting | None:
    window_from = window_start(history, settings.window_turns) if rules.has_window else 0
    stubs: Stubs = {}
    return fitting_cut(
        history,
        carry=partial(
            carry_out,
            history,
            rules=rules,
            stub_tokens=settings.stub_tokens,
            counter=counter,
            window_from=window_from,
            stubs=stubs,
        ),
        rules=rules,
        room_tokens=room_tokens,
        window_from=window_from,
        settings=settings,
        counter=counter,
    )


def fitting_cut(
    history: MeasuredHistory,
    *,
    carry: Carry,
    rules: Rules,
    room_tokens: int,
    window_from: int,
    settings: TruncationSettings,
    counter: TokenCounter,
) -> Fitting | None:
    """Return the cut to make of a history that does not fit, carried out.

    `None` where a cut has to give up the opening that this history has.

    Args:
        carry: Carries a cut of this history out.

    Raises:
        ContextOverflowError: What may not be dropped does not fit, even shortened.
    """
    first = partial(
        _first_that_fits,
        history,
        carry=carry,
        rules=rules,
        room_tokens=room_tokens,
        marker_tokens=counter.count_message(marker_message(_MANY_MESSAGES)),
        window_from=window_from,
    )
    grid = _grid_of(history, room_tokens, settings)
    found = first(grid=grid)
    if not settings.cache_stable:
        exact = first(grid=replace(grid, step_tokens=1))
        found = fullest(
            [candidate for candidate in (exact, found) if candidate is not None],
            savings=history.savings,
            carry=carry,
            room_tokens=room_tokens,
            window_from=window_from,
        )
    if found is not None or history.has_opening:
        return found
    floor = Cut(kept_from=history.last, whole_from=history.last)
    return relieve(
        carry(floor),
        history=history,
        cut=floor,
        room_tokens=room_tokens,
        settings=settings,
        counter=counter,
    )


def _first_that_fits(
    history: MeasuredHistory,
    *,
    carry: Carry,
    rules: Rules,
    grid: Grid,
    room_tokens: int,
    marker_tokens: int,
    window_from: int,
) -> Fitting | None:
    # What a stub costs is counted anew: a counter need not be additive to the token.
    for cut in cuts_that_fit(
        history,
        rules=rules,
        grid=grid,
        room_tokens=room_tokens,
        marker_tokens=marker_tokens,
        window_from=window_from,
    ):
        done = carry(cut)
        if done.tokens <= room_tokens:
            return done, cut
    return None


def _grid_of(history: MeasuredHistory, room_tokens: int, settings: TruncationSettings) -> Grid:
    """Return checkpoints a share of the room behind the head apart.

    Beside an opening there may be less than two such shares: then less is shortened ahead.
    """
    behind_head_tokens = room_tokens - history.head_tokens
    share_tokens = int(settings.step_share * behind_head_tokens)
    ahead_tokens = share_tokens
    if history.has_opening:
        ahead_tokens = min(ahead_tokens, behind_head_tokens - history.opening_tokens - share_tokens)
    return Grid(step_tokens=max(1, share_tokens), ahead_tokens=max(0, ahead_tokens))


def window_start(history: MeasuredHistory, window_turns: int) -> int:
    """Return the boundary before the newest turns; 0 when there are no more than that."""
    openers = [n for n, exchange in enumerate(history.exchanges) if is_user(exchange)]
    return openers[-window_turns] if len(openers) > window_turns else 0
