"""Sessions to measure with: real ones where the recorded corpus lies beside us, else our sample."""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from context_assembler.resources import bundled_path

BENCH: Final = Path(os.environ.get("CONTEXT_ASSEMBLER_BENCH", ".bench-peers")).resolve()


def build_messages(count: int) -> tuple[str, list[dict[str, Any]]]:
    """Return where the messages come from, and about `count` OpenAI chat messages.

    They end where an answer of the model is due.
    """
    if (BENCH / "sessions.py").exists():
        sys.path.insert(0, str(BENCH))
        try:
            built = importlib.import_module("sessions").build("code", count)
        finally:
            sys.path.remove(str(BENCH))
        return "recorded coding sessions, laid end to end", built["messages"]
    return "the bundled sample session, repeated", _repeat_sample(count)


def _repeat_sample(count: int) -> list[dict[str, Any]]:
    sample = json.loads((bundled_path("samples") / "coding_agent.json").read_text("utf-8"))
    system = [m for m in sample["messages"] if m["role"] == "system"]
    rest = [m for m in sample["messages"] if m["role"] != "system"]
    messages = list(system)
    round_number = 0
    while len(messages) < count:
        for message in rest:
            messages.append(_renamed(message, f"r{round_number}"))
        round_number += 1
    messages = messages[:count]
    while messages[-1]["role"] not in ("user", "tool") or _is_mid_exchange(messages):
        messages.pop()
    return messages


def _renamed(message: dict[str, Any], tag: str) -> dict[str, Any]:
    renamed = dict(message)
    if "tool_call_id" in renamed:
        renamed["tool_call_id"] = f"{renamed['tool_call_id']}_{tag}"
    if renamed.get("tool_calls"):
        renamed["tool_calls"] = [
            {**call, "id": f"{call['id']}_{tag}"} for call in renamed["tool_calls"]
        ]
    return renamed


def _is_mid_exchange(messages: list[dict[str, Any]]) -> bool:
    asked: list[str] = []
    for message in reversed(messages):
        if message["role"] == "tool":
            asked.append(message["tool_call_id"])
            continue
        wanted = [call["id"] for call in message.get("tool_calls") or ()]
        return sorted(wanted) != sorted(asked)
    return False
