"""Small transcripts and stores for tests of the command line."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cli.running import run

STORE = "sqlite:sessions.db"
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "You answer briefly."},
    {"role": "user", "content": "Which files are there?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "list_files", "arguments": '{"path":"."}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "a.txt\nb.txt"},
    {"role": "assistant", "content": "a.txt and b.txt."},
    {"role": "user", "content": "Thanks. And in src?"},
]
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "list_files",
            "description": "List a folder.",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}},
                "required": ["path"],
            },
        },
    }
]


def write_json(name: str, value: Any) -> str:
    Path(name).write_text(json.dumps(value), encoding="utf-8")
    return name


def stored(messages: Sequence[dict[str, Any]] = CHAT, *, session: str = "chat") -> None:
    """Import messages as a session of `STORE`."""
    file = write_json(f"{session}.json", list(messages))
    ran = run("import", file, "--sessions", STORE, "--session", session)
    assert ran.exit_code == 0, ran.stderr


def long_chat(*, turns: int = 60, words: Sequence[int] = (120,)) -> list[dict[str, Any]]:
    """Return a task, and many exchanges with a tool result each, of so many words in turn."""
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Read every file and tell me what they have in common."}
    ]
    for number in range(turns):
        call = {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": "read_file", "arguments": json.dumps({"path": f"{number}.txt"})},
        }
        text = " ".join(f"line{number}-{word}" for word in range(words[number % len(words)]))
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": text})
    return messages
