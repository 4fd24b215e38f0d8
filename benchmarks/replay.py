"""Recorded sessions played again step by step: what is cached, what it costs, how full it is.

    python -m benchmarks.replay [--shares 0.25 0.5 0.9] [--seeds N] [--who fit_messages]

Messages are appended one by one, and before each reply the context is assembled, or the list fitted by
`fit_messages`, with settings as they come and a budget of a share of the whole session. Figures are
over the calls after the session first exceeds the budget; costs are over all calls, divided by those of sending everything. Cached is
the longest common prefix with the payload before, in whole messages; a cached token costs 0.1, any
other 1.25 (Anthropic) or 1 (OpenAI). Pinned is what the user asked to keep; a list has no pins. Valid are
payloads that break no rule of the harness, or of the library's checker without it. Needed is the
share of the names in the recorded next reply, of those that the history has, that the payload has as
well. The sessions are those of the harness in CONTEXT_ASSEMBLER_BENCH, or laid end to end from the corpus, or generated.
"""

import argparse
import asyncio
import importlib.util
import os
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any, Final

from benchmarks.data import ROOT, Message, long_session
from context_assembler import ContextAssembler, Session, TokenCounter, fit_messages, read_transcript
from context_assembler.errors import ContextOverflowError
from context_assembler.providers import check_payload

MODEL, LENGTH = "gpt-5.5", 200
WHO: Final = ("assembler", "fit_messages")
SHARES: Final = (0.25, 0.5, 0.9)
FAMILIES: Final = {"tau": 4, "code": 5}  # and how many sessions of each
NAMES: Final = (
    "calls refused valid over fill worst cached cost_A cost_O last10 needed task pins".split()
)
_COUNTED_NAMES: Final = ("calls", "refused", "over")
_COUNTER: Final = TokenCounter(MODEL)
_COUNTED: Final[dict[str, int]] = {}
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{5,}")  # this and the next as in the harness
_TELLING: Final = re.compile(r"[/._]|[a-z][A-Z]|\d")


@cache
def harness(name: str) -> Any:
    """Return a module of the harness; `None`: it is not there."""
    folder = Path(os.environ.get("CONTEXT_ASSEMBLER_BENCH") or "../shared/bench")
    source = (folder if folder.is_absolute() else ROOT / folder) / f"{name}.py"
    if not source.is_file():
        return None
    spec = importlib.util.spec_from_file_location(f"bench_{name}", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sessions(
    seeds: int | None, length: int = LENGTH
) -> Iterator[tuple[str, list[Message], list[int]]]:
    """Yield the name of each session, its messages, and the indices of those to keep."""
    if (module := harness("sessions")) is None:
        yield "laid end to end", long_session(length), []
        return
    for family, count in FAMILIES.items():
        for seed in range(min(count, seeds or count)):
            built = module.build(family, length, seed)
            yield family, built["messages"], built["pins"]


def is_valid(payload: Sequence[Message], history: Sequence[Message]) -> bool:
    """Whether a payload breaks no rule."""
    if (module := harness("validity")) is not None:
        return not module.openai_errors(payload, history)
    return not check_payload("openai_chat", {"model": MODEL, "messages": [*payload]}).refused


def count(message: Mapping[str, Any]) -> int:
    """Return the tokens of a message, by one formula for every library."""
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    texts = [_text(message), *(text for one in calls for text in (one["name"], one["arguments"]))]
    for text in texts:
        if text not in _COUNTED:
            _COUNTED[text] = _COUNTER.count_text(text)
    return 4 + 3 * len(calls) + sum(_COUNTED[text] for text in texts)


@cache
def _names_in(text: str) -> frozenset[str]:
    found = ((one, one.strip("./-")) for one in _NAME.findall(text))
    return frozenset(name for one, name in found if len(name) >= 6 and _TELLING.search(one))


def names(message: Mapping[str, Any]) -> frozenset[str]:
    """Return the telling names in a message: paths, and words with signs, capitals or digits."""
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return _names_in(
        _text(message) + "".join(f" {one['name']} {one['arguments']}" for one in calls)
    )


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(p.get("text", "") for p in content)


def _key(message: Mapping[str, Any], *, exactly: bool) -> Any:
    role = "system" if message["role"] == "developer" else message["role"]
    calls = message.get("tool_calls") or ()
    asked = tuple((c["id"], c["function"]["arguments"] if exactly else "") for c in calls)
    return role, _text(message), message.get("tool_call_id"), asked


async def payloads(
    messages: Sequence[Message], pins: Sequence[int], budget: int, ends: Sequence[int], who: str
) -> AsyncGenerator[list[Message] | None]:
    """Yield what is sent of the messages up to each end; `None`: they were refused."""
    assembler: Any = ContextAssembler(sessions="memory:")
    await assembler.sessions.create(Session(id="s"))
    fitted, place = None, 0
    for end in ends:
        added, place = messages[place:end], end
        payload = None
        with suppress(ContextOverflowError):
            if who == "fit_messages":
                history = messages[:end]
                fitted = fit_messages(history, model=MODEL, max_tokens=budget, after=fitted)
                payload = fitted.messages
            else:
                for number, message in enumerate(added, start=end - len(added)):
                    events = read_transcript({"messages": [message]}, format="openai_chat").events
                    if number in pins:
                        events = tuple(replace(event, is_pinned=True) for event in events)
                    await assembler.sessions.append("s", events)
                asked = {"model": MODEL, "max_context_tokens": budget}
                payload = (await assembler.assemble("s", **asked)).to_openai_chat()["messages"]
        yield payload
    await assembler.close()


async def play(
    messages: Sequence[Message], pins: Sequence[int], share: float, who: str
) -> list[Any]:
    """Return what was seen of each call."""
    budget = int((3 + sum(map(count, messages))) * share)
    due = [n for n, one in enumerate(messages) if one["role"] == "assistant"] + [len(messages)]
    seen: list[Any] = []
    before: list[Any] = []
    known = set[str]()
    place, full, full_before, has_exceeded = 0, 3, 0, False
    ends = [end for end in dict.fromkeys(due) if end]
    sent = payloads(messages, pins, budget, ends, who)
    for end in ends:
        known.update(*map(names, messages[place:end]))
        full, place = full + sum(map(count, messages[place:end])), end
        if (payload := await anext(sent)) is None:
            seen.append({"refused": True})
            continue
        keys = [_key(one, exactly=True) for one in payload]
        same = 0
        while same < min(len(keys), len(before)) and keys[same] == before[same]:
            same += 1
        before, has_exceeded = keys, has_exceeded or full > budget
        have = {_key(one, exactly=False) for one in payload}
        history = messages[:end]
        held = [_key(history[pin], exactly=False) in have for pin in pins if pin < end]
        last = [_key(one, exactly=False) in have for one in history[-10:]]
        task = next(one for one in history if one["role"] == "user")
        tokens = 3 + sum(map(count, payload))
        needed = known & frozenset[str]().union(*map(names, messages[end : end + 1]))
        seen.append(
            {
                "refused": False,
                "exceeded": has_exceeded,
                "tokens": tokens,
                "valid": is_valid(payload, history),
                "over": tokens > budget,
                "cached": sum(map(count, payload[:same])),
                "full": full,
                "full_cached": full_before,
                "fill": tokens / budget,
                "last10": mean(last),
                "needed": len(needed),
                "found": len(needed & frozenset[str]().union(*map(names, payload))),
                "task": _key(task, exactly=False) in have,
                "pins": mean(held) if held else None,
            }
        )
        full_before = full - 3
    await sent.aclose()
    return seen


def summarize(calls: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the figures of the calls of several sessions at one budget."""
    sent = [call for call in calls if not call["refused"]]
    over = [call for call in sent if call["exceeded"]]
    pins = [call["pins"] for call in over if call["pins"] is not None]
    figures: dict[str, float] = {"calls": len(over), "refused": len(calls) - len(sent)}
    for name, price in (("cost_A", 1.25), ("cost_O", 1.0)):
        ours = sum(0.1 * c["cached"] + price * (c["tokens"] - c["cached"]) for c in sent)
        full = sum(0.1 * c["full_cached"] + price * (c["full"] - c["full_cached"]) for c in sent)
        figures[name] = ours / full
    if over:
        figures |= {
            "cached": mean(call["cached"] / call["tokens"] for call in over),
            "fill": mean(call["fill"] for call in over),
            "worst": max(call["fill"] for call in over),
            "last10": mean(call["last10"] for call in over),
            "needed": sum(call["found"] for call in over)
            / max(1, sum(call["needed"] for call in over)),
            "task": mean(call["task"] for call in over),
            "valid": mean(call["valid"] for call in over),
            "over": sum(call["over"] for call in over),
            "pins": mean(pins) if pins else 1.0,
        }
    return figures


def main() -> None:
    """Play all sessions and print the figures, by family and budget, and together."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    parser.add_argument("--seeds", type=int, help="sessions of each family; by default all")
    parser.add_argument("--who", nargs="+", choices=WHO, default=WHO)
    given = parser.parse_args()
    print("| by | sessions | budget | " + " | ".join(NAMES) + " |")
    print("| --- " * (len(NAMES) + 3) + "|")
    for who in given.who:
        pooled(who, given.seeds, given.shares, show=True)


def pooled(
    who: str,
    seeds: int | None,
    shares: Sequence[float] = SHARES,
    *,
    length: int = LENGTH,
    show: bool = False,
) -> dict[str, float]:
    """Return the figures over all sessions and budgets."""
    rows: list[dict[str, float]] = []
    found = list(sessions(seeds, length))
    for family in dict.fromkeys(name for name, _, _ in found):
        for share in shares:
            calls = [
                call
                for name, messages, pins in found
                if name == family
                for call in asyncio.run(play(messages, pins, share, who))
            ]
            rows.append(summarize(calls))
            if show:
                _print(who, family, f"{share:.0%}", rows[-1])
    together = {name: _pooled(rows, name) for name in NAMES}
    if show:
        _print(who, "all", "all", together)
    return together


def _pooled(rows: Sequence[Mapping[str, float]], name: str) -> float:
    """Return a figure over all rows: costs alike, the others by calls."""
    if name in _COUNTED_NAMES:
        return sum(row.get(name, 0) for row in rows)
    if name.startswith("cost"):
        return mean(row[name] for row in rows)
    known = [row for row in rows if name in row]
    if name == "worst":
        return max(row[name] for row in known)
    return sum(row[name] * row["calls"] for row in known) / sum(row["calls"] for row in known)


def _print(who: str, family: str, share: str, row: Mapping[str, float]) -> None:
    shown = [f"{row.get(name, 0):.{0 if name in _COUNTED_NAMES else 3}f}" for name in NAMES]
    print(f"| {who} | {family} | {share} | " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    main()
