"""Rules on calls and the items that answer them."""

import re
from collections.abc import Iterator
from typing import Final

from context_assembler.providers.openai_responses.dialect import ID_RULE, NAME_RULE
from context_assembler.providers.openai_responses.rule_book import Sent, SentEntry, breach
from context_assembler.values.breaches import level_if
from context_assembler.values.reading import as_text
from context_assembler.values.report import Violation
from context_assembler.values.wire import parse_json_object

_ANSWERED_BY_CLIENT: Final = frozenset({"function_call", "custom_tool_call"})
_MAY_BE_ANSWERED: Final = frozenset({"shell_call", "apply_patch_call", "computer_call"})
_WITHOUT_MESSAGES_BETWEEN: Final = re.compile(r"deepseek.*")


def check_pairs(sent: Sent) -> Iterator[Violation]:
    """R1: every call is answered once, behind it, and nothing else is answered."""
    waiting: dict[str, SentEntry] = {}
    answered: set[str] = set()
    knows_more = sent.has_state or any(entry.kind == "item_reference" for entry in sent.items)
    for entry in sent.items:
        if entry.is_call and entry.call_id:
            waiting[entry.call_id] = entry
        elif entry.is_output and entry.call_id in waiting:
            del waiting[entry.call_id]
            answered.add(entry.call_id)
        elif entry.is_output and entry.call_id in answered:
            message = f"call {entry.call_id!r} is answered twice"
            yield breach("R1", entry.where, message, level="avoid")
        elif entry.is_output and entry.call_id and not knows_more:
            level = level_if(entry.kind != "tool_search_output")
            message = f"call {entry.call_id!r} does not stand before it"
            yield breach("R1", entry.where, message, level=level)
    for call_id, entry in waiting.items():
        if entry.kind in _ANSWERED_BY_CLIENT and entry.fields.get("async") is not True:
            yield breach("R1", entry.where, f"call {call_id!r} is not answered")
        elif entry.kind in _MAY_BE_ANSWERED:
            message = f"call {call_id!r} is not answered"
            yield breach("R1", entry.where, message, level="avoid")


def check_interleaving(sent: Sent) -> Iterator[Violation]:
    """R1: no message stands between a call and its output."""
    level = level_if(_WITHOUT_MESSAGES_BETWEEN.fullmatch(sent.model) is not None)
    waiting: set[str] = set()
    for entry in sent.items:
        if entry.kind in _ANSWERED_BY_CLIENT and entry.fields.get("async") is not True:
            waiting.add(entry.call_id)
        elif entry.is_output:
            waiting.discard(entry.call_id)
        elif entry.kind == "message" and waiting:
            message = "stands between a call and its output"
            yield breach("R1", entry.where, message, level=level)
            waiting = set()


def check_calls(sent: Sent) -> Iterator[Violation]:
    """R6, R7: ids, names and arguments of calls, and that outputs hold something."""
    seen: set[str] = set()
    for entry in sent.items:
        if len(entry.call_id) > ID_RULE.max_chars:
            message = f"has {len(entry.call_id)} characters, at most {ID_RULE.max_chars} are taken"
            yield breach("R6", f"{entry.where}.call_id", message)
        if entry.kind in _ANSWERED_BY_CLIENT:
            yield from _check_call(sent, entry)
            if entry.call_id in seen:
                yield breach("R7", f"{entry.where}.call_id", "is used before", level="avoid")
            seen.add(entry.call_id)
        elif entry.kind in ("function_call_output", "custom_tool_call_output"):
            if not entry.call_id:
                yield breach("R6", f"{entry.where}.call_id", "is missing")
            if not isinstance(entry.fields.get("output"), str | list | tuple):
                yield breach("R0", f"{entry.where}.output", "must be text or a list of pieces")


def _check_call(sent: Sent, entry: SentEntry) -> Iterator[Violation]:
    if not entry.call_id:
        yield breach("R6", f"{entry.where}.call_id", "is missing")
    if not NAME_RULE.allows(as_text(entry.fields.get("name"))):
        message, level = f"must match {NAME_RULE.pattern.pattern}", level_if(sent.is_openai)
        yield breach("R7", f"{entry.where}.name", message, level=level)
    key = "arguments" if entry.kind == "function_call" else "input"
    given = entry.fields.get(key)
    if not isinstance(given, str):
        level = level_if(sent.is_openai)
        yield breach("R7", f"{entry.where}.{key}", "must be text", level=level)
    elif key == "arguments" and parse_json_object(given) is None:
        yield breach("R7", f"{entry.where}.{key}", "is no JSON object", level="avoid")
