"""Conversations in one line per message, for tables of cases.

`U hi` user, `A ok` assistant, `S be brief` system, `A[c1 c2] text` assistant with calls, `T[c1 c2]
one|two` their results, `M text` a summary, `N text` a note. As shown, `T[c1?]` is a result that was
made up, `U+` a user turn that the assembler made.
"""

import re
from collections.abc import Iterable, Sequence

from context_assembler.values.exchanges import NO_RESULT
from context_assembler.values.messages import Message, MessageKind, Role
from context_assembler.values.parts import Part, Text, ToolCall, ToolResult

_ROW = re.compile(r"([UASTMN])(?:\[([^\]]*)\])?(?: (.*))?", re.DOTALL)
_ROLES: dict[str, Role] = {
    "U": "user",
    "A": "assistant",
    "S": "system",
    "T": "tool",
    "M": "user",
    "N": "system",
}
_KINDS: dict[str, MessageKind] = {"M": "summary", "N": "note"}


def talk(*rows: str) -> list[Message]:
    """Return the messages that the rows stand for, with the ids m1, m2 …"""
    return [_message(number, row) for number, row in enumerate(rows, start=1)]


def shown(messages: Iterable[Message]) -> list[str]:
    """Return the messages as rows."""
    return [_row(message) for message in messages]


def _message(number: int, row: str) -> Message:
    match = _ROW.fullmatch(row)
    assert match, row
    letter, ids, text = match[1], (match[2] or "").split(), match[3] or ""
    return Message(
        role=_ROLES[letter],
        parts=_results(ids, text) if letter == "T" else _spoken(ids, text),
        kind=_KINDS.get(letter, "said"),
        id=f"m{number}",
        seq=number,
        note="reminder" if letter == "N" else None,
    )


def _spoken(ids: Sequence[str], text: str) -> tuple[Part, ...]:
    calls = [ToolCall(call_id=call_id, name="look") for call_id in ids]
    return (Text(text), *calls) if text else tuple(calls)


def _results(ids: Sequence[str], text: str) -> tuple[Part, ...]:
    texts = text.split("|") + [""] * len(ids)
    return tuple(
        ToolResult(call_id=call_id, content=(Text(said),) if said else ())
        for call_id, said in zip(ids, texts, strict=False)
    )


def _row(message: Message) -> str:
    ids = [call.call_id for call in message.tool_calls]
    text = message.text
    if message.role == "tool":
        ids = [f"{r.call_id}{'?' * (r.text == NO_RESULT)}" for r in message.tool_results]
        text = "|".join(r.text for r in message.tool_results if r.text != NO_RESULT)
    letter = _letter(message)
    return f"{letter}[{' '.join(ids)}] {text}".rstrip() if ids else f"{letter} {text}".rstrip()


def _letter(message: Message) -> str:
    if message.role == "user":
        made = {"summary": "M", "said": "U"}
        return made.get(message.kind, "U+")
    if message.role == "system":
        return "N" if message.kind == "note" else "S"
    return message.role[0].upper()
