"""A counter and builders for histories of known sizes."""

import json
from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from context_assembler.events import Body, JsonObject
from context_assembler.options import TruncationSettings
from context_assembler.ports import HistoryColumns, Turn
from context_assembler.truncation import TRUNCATIONS, Truncation, Truncator


class FramedCounter:
    """One token per word, more for long words; two per message, three per call or result."""

    key = "framed"

    def count_text(self, text: str) -> int:
        return sum(1 + len(word) // 12 for word in text.split())

    def count_event(self, kind: int, body: Body) -> int:
        assert kind >= 0
        return 2 + sum(map(self._count_part, body["parts"]))

    def count_reasoning(self, body: Body) -> int:
        return sum(part["type"] == "thinking" for part in body["parts"])

    def _count_part(self, part: JsonObject) -> int:
        match part["type"]:
            case "image" | "document":
                return 85
            case "tool_call":
                spelled = part.get("arguments_json") or json.dumps(part["arguments"])
                return 3 + self.count_text(spelled)
            case "tool_result":
                return 3 + sum(map(self._count_part, part["content"]))
            case _:
                return self.count_text(part["text"])


COUNTER: Final = FramedCounter()


class Columns:
    """What a history says of its lines, apart from their parts."""

    def count(self, kind: int, parts: Sequence[JsonObject], line: int = -1) -> int:
        assert line >= -1
        return COUNTER.count_event(kind, {"parts": list(parts)})

    def count_text(self, said: str) -> int:
        return COUNTER.count_text(said)

    def name(self, line: int) -> str:
        return f"e{line}"

    def is_clock(self, line: int) -> bool:
        return line < -1

    def handle(self, _lines: Sequence[int]) -> str:
        return ""


def every_second(
    groups: Sequence[range], columns: HistoryColumns, budget_tokens: int
) -> Sequence[int]:
    """Choose every second exchange, by an own strategy that looks at everything it is given."""
    assert groups[-1].stop == len(columns.kinds) == len(columns.tokens)
    assert budget_tokens >= 0
    assert all(columns.parts(line) is not None for line in groups[0])
    return range(0, len(groups), 2)


def everything(groups: Sequence[range], *_: Any) -> Sequence[int]:
    return range(len(groups))


def nothing(*_: Any) -> Sequence[int]:
    return []


STRATEGIES: Final[list[Any]] = [*TRUNCATIONS, every_second, everything, nothing]


def words(count: int) -> str:
    return " ".join(f"w{number}" for number in range(count))


def text(said: str) -> JsonObject:
    return {"type": "text", "text": said}


def user(said: str, *, is_pinned: bool = False) -> Turn:
    return {"role": "user", "kind": "said", "parts": [text(said)], "is_pinned": is_pinned}


def assistant(said: str, *parts: JsonObject) -> Turn:
    return {"role": "assistant", "kind": "said", "parts": [text(said), *parts]}


def summary(said: str) -> Turn:
    return {"role": "user", "kind": "summary", "parts": [text(said)]}


def note(said: str, name: str = "clock") -> Turn:
    return {"role": "system", "kind": "note", "note": name, "parts": [text(said)]}


def call(call_id: str, **arguments: Any) -> JsonObject:
    return {"type": "tool_call", "call_id": call_id, "name": "read", "arguments": arguments}


def result(call_id: str, *content: JsonObject) -> JsonObject:
    return {"type": "tool_result", "call_id": call_id, "content": [*content]}


def calling(*results_by_call: tuple[str, str], is_pinned: bool = False) -> list[Turn]:
    """Return a reply with these calls, and the turn of their results."""
    calls = [call(call_id) for call_id, _ in results_by_call]
    results = [result(call_id, text(said)) for call_id, said in results_by_call]
    return [
        {"role": "assistant", "kind": "said", "parts": calls, "is_pinned": is_pinned},
        {"role": "tool", "kind": "said", "parts": results},
    ]


def numbered(turns: Sequence[Turn]) -> list[Turn]:
    """Give the turns ids `m1`, `m2` … and sequence numbers."""
    return [{**turn, "id": f"m{seq}", "seq": seq} for seq, turn in enumerate(turns, start=1)]


def small_talk(turns: int, *, size: int = 20) -> list[Turn]:
    talk = [turn for _ in range(turns) for turn in (user(words(size)), assistant(words(size)))]
    return numbered([*talk, user("next")])


def agent_run(calls: int, *, size: int) -> list[Turn]:
    run = [user("migrate the billing table")]
    for number in range(calls):
        run += calling((f"c{number}", words(size)))
    return numbered(run)


def size_of(turn: Turn) -> int:
    if turn["role"] == "tool":
        return sum(COUNTER.count_event(0, {"parts": [part]}) for part in turn["parts"])
    return COUNTER.count_event(0, {"parts": turn["parts"]})


def total(turns: Sequence[Turn]) -> int:
    return sum(map(size_of, turns))


def cut(
    talk: Sequence[Turn],
    room_tokens: int,
    strategy: str = "smart",
    *,
    counter: FramedCounter = COUNTER,
    **settings: Any,
) -> Truncation:
    settings = {"stub_tokens": 40, **settings, "strategy": strategy}
    truncator = Truncator(TruncationSettings(**settings))
    return truncator.truncate(talk, room_tokens=room_tokens, counter=counter)


def ids(kept: Truncation) -> list[str]:
    return [turn.get("id", "marker") for turn in kept.turns]


def shown(turn: Turn) -> str:
    """Return all text of a turn, that of results included."""
    held = (part.get("content", [part]) for part in turn["parts"] if part["type"] != "tool_call")
    return "\n".join(part["text"] for parts in held for part in parts)


_SHAPES: Final = ("user", "user", "says", "calls", "calls", "calls", "parallel", "note", "pinned")


def _grown(opening: str, steps: list[tuple[str, int]]) -> list[Turn]:
    talk = [summary(words(20))] if opening == "summary" else []
    talk.append(user(words(12)))
    for number, (shape, size) in enumerate(steps):
        match shape:
            case "user":
                talk.append(user(words(size)))
            case "pinned":
                talk += calling((f"c{number}", words(size)), is_pinned=size % 2 == 0)
            case "parallel":
                talk += calling(*((f"c{number}.{i}", words(size * i)) for i in range(3)))
            case "note":
                talk.append(note(words(3)))
            case "calls":
                talk += calling((f"c{number % 5}", words(2 * size)))
            case _:
                talk.append(assistant(words(size)))
    return numbered(talk)


conversations: SearchStrategy[list[Turn]] = st.builds(
    _grown,
    st.sampled_from(["task", "task", "summary"]),
    st.lists(st.tuples(st.sampled_from(_SHAPES), st.integers(1, 130)), max_size=24),
)
"""Histories with bulky results, parallel calls, repeated ids, notes, pins and one or many turns."""
