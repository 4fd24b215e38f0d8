"""Which result belongs to which call, where ids repeat and order was lost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from context_assembler.values.arguments import is_unread
from context_assembler.values.messages import Message
from context_assembler.values.parts import Opaque, Part, ToolCall, ToolResult

Place: TypeAlias = tuple[int, int]  # index of the message, index of the part in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """The place of the result for each answered call's place.

    `duplicates` are results whose id was called but whose call has a result; `orphans` are results
    whose id nobody called. Both in order.
    """

    result_places: Mapping[Place, Place]
    duplicates: tuple[Place, ...]
    orphans: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    place: Place
    turn: int


@dataclass(slots=True)
class _Thread:
    """The calls and results of one id, as far as they were read.

    Attributes:
        older: Unanswered calls of earlier messages.
        newest: Calls of the newest message that has any.
        early: Results that stand before the newest calls and may be theirs.
        behind: Results that stand behind the newest calls.
    """

    older: list[Place] = field(default_factory=list[Place])
    newest: list[Place] = field(default_factory=list[Place])
    early: list[_Found] = field(default_factory=list[_Found])
    behind: list[_Found] = field(default_factory=list[_Found])


def are_paired(messages: Sequence[Message]) -> bool:
    """Whether every call has its result right behind it, in order, and nothing is left to match.

    So it stands in most histories. Where a provider ran a call itself, or its arguments spell no
    object, the answer is *no*: there is more to look at.
    """
    called: list[str] = []  # in the message before, each to be answered in this one
    for message in messages:
        if message.role == "tool":
            results = message.tool_results
            if not called or [result.call_id for result in results] != called:
                return False
            if len(results) != len(message.parts):
                return False
            called = []
        elif called or not message.parts or any(map(_is_odd, message.parts)):
            return False
        else:
            called = [call.call_id for call in message.tool_calls]
            if called and (message.role != "assistant" or len(set(called)) != len(called)):
                return False
    return not called


def _is_odd(part: Part) -> bool:
    return isinstance(part, ToolResult | Opaque) or (isinstance(part, ToolCall) and is_unread(part))


def pair_results(messages: Sequence[Message]) -> Pairing:
    """Match results to calls by occurrence.

    A result belongs to the newest call of its id before it; where more results than such calls
    follow, the surplus belongs to older unanswered calls, all of them in order. A result without
    such a call belongs to the next call of its id, if that is the first one or in the same turn,
    and has no result of its own. The first of several results wins.
    """
    threads: dict[str, _Thread] = {}
    pairs: dict[Place, Place] = {}
    left_over: list[Place] = []
    turn = 0
    for index, message in enumerate(messages):
        turn += message.is_from_user
        if message.role == "assistant":
            for call_id, places in _calls_by_id(index, message).items():
                thread = threads.setdefault(call_id, _Thread())
                left_over += _open_calls(thread, places, turn=turn, pairs=pairs)
        for part_index, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                thread = threads.setdefault(part.call_id, _Thread())
                thread.behind.append(_Found((index, part_index), turn))
    for thread in threads.values():
        left_over += [found.place for found in _close_calls(thread, pairs)]
    return _sort_left_over(messages, pairs, left_over)


def _calls_by_id(index: int, message: Message) -> dict[str, list[Place]]:
    places: dict[str, list[Place]] = {}
    for part_index, part in enumerate(message.parts):
        if isinstance(part, ToolCall):
            places.setdefault(part.call_id, []).append((index, part_index))
    return places


def _open_calls(
    thread: _Thread, places: list[Place], *, turn: int, pairs: dict[Place, Place]
) -> list[Place]:
    """Begin with a new message's calls; return the results that cannot be theirs."""
    is_first = not thread.newest
    surplus = _close_calls(thread, pairs)
    thread.newest = places
    thread.behind = []
    thread.early = [found for found in surplus if is_first or found.turn == turn]
    return [found.place for found in surplus if not is_first and found.turn != turn]


def _close_calls(thread: _Thread, pairs: dict[Place, Place]) -> list[_Found]:
    """Match what stands behind the newest calls; return the results left over."""
    surplus_count = len(thread.behind) - len(thread.newest)
    calls = thread.newest
    if surplus_count > 0:
        calls = thread.older[-surplus_count:] + calls
        del thread.older[-surplus_count:]
    found = thread.behind[: len(calls)]
    found += thread.early[: len(calls) - len(found)]
    pairs.update(zip(calls, (result.place for result in found), strict=False))
    thread.older += calls[len(found) :]
    used = {result.place for result in found}
    return [result for result in thread.early + thread.behind if result.place not in used]


def _sort_left_over(
    messages: Sequence[Message], pairs: dict[Place, Place], left_over: list[Place]
) -> Pairing:
    called = (
        {call.call_id for m in messages if m.role == "assistant" for call in m.tool_calls}
        if left_over
        else set[str]()
    )
    duplicates: list[Place] = []
    orphans: list[Place] = []
    for index, part_index in sorted(left_over):
        part = messages[index].parts[part_index]
        assert isinstance(part, ToolResult)
        (duplicates if part.call_id in called else orphans).append((index, part_index))
    return Pairing(result_places=pairs, duplicates=tuple(duplicates), orphans=tuple(orphans))
