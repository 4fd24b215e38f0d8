"""Sessions longer than what was recorded: the recorded ones laid end to end, again and again.

Each round's texts are told apart by a word at their end, and its calls by their ids, so that no
counter meets a text that it has counted already.
"""

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.beside.harness import Harness


def prepare_session(harness: Harness, family: str, length: int) -> str:
    """Return the path of a session of about so many messages, where the harness looks for it."""
    sessions = harness.module("sessions")
    built = harness.folder / "data" / "built"
    path = built / f"{family}-{length}-0.json"
    recorded = sessions.build(family, length, 0)
    if not path.exists() and len(recorded["messages"]) < 0.9 * length:
        messages = due_for_reply(list(_rounds(sessions, family, length))[:length])
        users = [i for i, message in enumerate(messages) if message["role"] == "user"]
        pins = {min(users[1:], key=lambda i: abs(i - share * length)) for share in (0.1, 0.3)}
        built.mkdir(exist_ok=True)
        session = {**recorded, "n": length, "pins": sorted(pins), "messages": messages}
        path.write_text(json.dumps(session, ensure_ascii=False), encoding="utf-8")
    return str(sessions.path(family, length, 0))


def _rounds(sessions: Any, family: str, length: int) -> Iterator[dict[str, Any]]:
    count, seed = 0, 0
    while count < length:
        for message in sessions.build(family, length, seed)["messages"]:
            if message["role"] == "system" and seed:
                continue
            count += 1
            yield marked(message, seed) if seed else message
        seed += 1


def marked(message: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the message as one of a later round."""
    said = dict(message)
    if isinstance(said.get("content"), str):
        said["content"] = f"{said['content']} (round {number})"
    if "tool_call_id" in said:
        said["tool_call_id"] = f"{said['tool_call_id']}_r{number}"
    if said.get("tool_calls"):
        said["tool_calls"] = [
            {**call, "id": f"{call['id']}_r{number}"} for call in said["tool_calls"]
        ]
    return said


def due_for_reply(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages up to the last place where an answer of the model is due."""
    while messages[-1]["role"] == "assistant" or _is_mid_exchange(messages):
        messages.pop()
    return messages


def _is_mid_exchange(messages: list[dict[str, Any]]) -> bool:
    asked: list[str] = []
    for message in reversed(messages):
        if message["role"] == "tool":
            asked.append(message["tool_call_id"])
            continue
        wanted = [call["id"] for call in message.get("tool_calls") or ()]
        return bool(asked) and sorted(wanted) != sorted(asked)
    return False
