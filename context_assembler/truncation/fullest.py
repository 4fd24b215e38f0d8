"""The cut that keeps most, where a prompt cache is not what matters."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from context_assembler.truncation.apply import CarriedOut
from context_assembler.truncation.checkpoints import Cut

Carry: TypeAlias = Callable[[Cut], CarriedOut]
Fitting: TypeAlias = tuple[CarriedOut, Cut]


def fullest(
    candidates: Iterable[Fitting],
    *,
    savings: Sequence[int],
    carry: Carry,
    room_tokens: int,
    window_from: int,
) -> Fitting | None:
    """Return the cut that keeps most, made to use the room; `None` without a candidate.

    What it drops last would not fit, not even as a stub; what it shortened last would not fit whole.

    Args:
        candidates: Cuts that fit, the one to prefer first; a later one has to keep more.
        savings: As in `MeasuredHistory`.
        window_from: Everything loose before this boundary stays dropped.
    """
    best: Fitting | None = None
    for done, cut in candidates:
        if best is None or done.kept_tokens > best[0].kept_tokens:
            best = _filled(
                (done, cut),
                savings=savings,
                carry=carry,
                room_tokens=room_tokens,
                floor=window_from,
            )
    return best


def _filled(
    found: Fitting, *, savings: Sequence[int], carry: Carry, room_tokens: int, floor: int
) -> Fitting:
    """Keep more of the oldest as stubs, then more of the stubs whole, as far as the room goes."""
    done, cut = found[0], replace(found[1], level=None)
    if cut.left_tokens is not None:  # what it dropped is not what it would be made fuller by
        return done, cut

    def kept_from(boundary: int) -> Cut:
        return replace(cut, kept_from=boundary)

    done, cut = _lowered(
        (done, cut),
        start=cut.kept_from,
        floor=floor,
        cut_at=kept_from,
        carry=carry,
        room_tokens=room_tokens,
    )
    if savings[cut.kept_from] == savings[cut.whole_from]:  # nothing is a stub
        return done, cut

    def whole_from(boundary: int) -> Cut:
        return replace(cut, whole_from=boundary)

    return _lowered(
        (done, cut),
        start=cut.whole_from,
        floor=cut.kept_from,
        cut_at=whole_from,
        carry=carry,
        room_tokens=room_tokens,
    )


def _lowered(
    found: Fitting,
    *,
    start: int,
    floor: int,
    cut_at: Callable[[int], Cut],
    carry: Carry,
    room_tokens: int,
) -> Fitting:
    """Return the cut at the lowest boundary that fits, near ones tried first."""
    fitting, too_low, stride = start, floor - 1, 1
    while fitting - too_low > 1:
        boundary = fitting - stride
        cut = cut_at(boundary)
        done = carry(cut)
        if done.tokens <= room_tokens:
            found, fitting = (done, cut), boundary
        else:
            too_low = boundary
        stride = max(1, min(2 * stride, (fitting - too_low) // 2))
    return found
