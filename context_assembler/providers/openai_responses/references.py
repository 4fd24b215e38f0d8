"""Items that refer to others of the payload: to a program, or to a request for approval."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from context_assembler.providers.openai_responses.units import Unit
from context_assembler.values.native.response_items import Entry
from context_assembler.values.native.response_texts import describe_entry
from context_assembler.values.reading import as_object, as_text
from context_assembler.values.texts.cleaning import clean_text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the items of a payload may refer to."""

    programs: frozenset[str]
    requests: frozenset[str]


def settle_references(units: Sequence[Unit]) -> list[Unit]:
    """Return the units without references to items that are not sent.

    A program, or a request for approval, whose reasoning is missing is told in words; what a
    program called is a plain call then, and its output or the approval is told in words, too.

    Source:
        types of the openai package 3.57, CallerProgram, McpApprovalResponse (read 2026-11-27)
    """
    sent = [entry for unit in units for entry in unit.items]
    known = _Known(
        programs=frozenset(as_text(e.get("call_id")) for e in sent if e.get("type") == "program"),
        requests=frozenset(
            as_text(e.get("id")) for e in sent if e.get("type") == "mcp_approval_request"
        ),
    )
    return [
        replace(unit, items=_settle(unit.items, known), answers=_settle(unit.answers, known))
        for unit in units
    ]


def _settle(entries: Iterable[Entry], known: _Known) -> tuple[Entry, ...]:
    return tuple(_settle_entry(entry, known) for entry in entries)


def _settle_entry(entry: Entry, known: _Known) -> Entry:
    kind = entry.get("type")
    if kind == "program_output" and as_text(entry.get("call_id")) not in known.programs:
        return _in_words(entry, "assistant")
    if kind == "mcp_approval_response":
        is_known = as_text(entry.get("approval_request_id")) in known.requests
        return entry if is_known else _in_words(entry, "user")
    caller = as_object(entry.get("caller"))
    if caller.get("type") != "program" or as_text(caller.get("caller_id")) in known.programs:
        return entry
    return {key: value for key, value in entry.items() if key != "caller"}


def _in_words(entry: Entry, role: str) -> Entry:
    return {"type": "message", "role": role, "content": clean_text(describe_entry(entry))}
