"""Long sessions, laid end to end from recorded ones, or generated; OpenAI chat messages."""

import json
import os
import random
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
SCRATCH: Final = ROOT / ".bench-data"
Message = dict[str, Any]
_AIRLINE: Final = "trajectories/tau_bench/gpt-4o-airline.json"


def corpus() -> Path | None:
    """Return the folder of the recorded corpus, if it is there."""
    folder = Path(os.environ.get("CONTEXT_ASSEMBLER_CORPUS") or "../shared/data")
    folder = folder if folder.is_absolute() else ROOT / folder
    return folder.resolve() if folder.is_dir() else None


def long_session(length: int) -> list[Message]:
    """Return a session of about `length` messages that ends where the model's turn begins."""
    found = corpus()
    recorded = found / _AIRLINE if found else None
    sessions = _recorded(recorded) if recorded and recorded.is_file() else list(_generated(40))
    built: list[Message] = []
    for tag, session in enumerate(cycle(sessions)):
        renamed = _renamed(session, tag)
        built += [one for one in renamed if one["role"] != "system" or not built]
        if len(built) > length:
            break
    del built[length:]
    while not _is_models_turn(built):
        built.pop()
    return built


def _recorded(path: Path) -> list[list[Message]]:
    kept = ("role", "content", "tool_calls", "tool_call_id")
    return [
        [{key: one[key] for key in kept if key in one} for one in row["traj"]]
        for row in json.loads(path.read_text("utf-8"))
    ]


def _generated(count: int) -> Iterator[list[Message]]:
    draw = random.Random(19)
    words = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("n", "r", "st", "l")]

    def text(length: int) -> str:
        return " ".join(draw.choices(words, k=length))

    for number in range(count):
        session: list[Message] = [{"role": "system", "content": text(300)}]
        for step in range(8):
            call = {"name": "look_up", "arguments": json.dumps({"key": text(3)})}
            called = {"id": f"call_{number}_{step}", "type": "function", "function": call}
            session += [
                {"role": "user", "content": text(40)},
                {"role": "assistant", "content": None, "tool_calls": [called]},
                {"role": "tool", "tool_call_id": called["id"], "content": text(150)},
                {"role": "assistant", "content": text(60)},
            ]
        yield session


def _renamed(session: list[Message], tag: int) -> Iterator[Message]:
    """Yield the messages with call ids that are unique: recordings use some of theirs again."""
    names: dict[str, str] = {}
    for place, message in enumerate(session):
        renamed = dict(message)
        if calls := message.get("tool_calls"):
            names = {call["id"]: f"call_{tag}_{place}_{n}" for n, call in enumerate(calls)}
            renamed["tool_calls"] = [{**call, "id": names[call["id"]]} for call in calls]
        if "tool_call_id" in message:
            renamed["tool_call_id"] = names[message["tool_call_id"]]
        yield renamed


def _is_models_turn(messages: list[Message]) -> bool:
    if messages[-1]["role"] == "user":
        return True
    open_calls: set[str] = set()
    for message in messages[-20:]:
        open_calls |= {call["id"] for call in message.get("tool_calls") or ()}
        open_calls.discard(message.get("tool_call_id", ""))
    return messages[-1]["role"] == "tool" and not open_calls
