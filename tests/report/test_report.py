"""The report: computed when it is read, and adding up to what is sent."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from context_assembler.context import Ledger, LedgerRow
from context_assembler.options import AssembleOptions, Settled
from context_assembler.report import (
    CacheForecast,
    CacheSplit,
    Decision,
    InputPrice,
    Report,
    ReportEntry,
    Rule,
    Violation,
    cut_warnings,
    loss_warnings,
    message_entries,
    overlay,
    parameters_of,
    size_pieces,
)

LEDGER = Ledger(
    window_tokens=1000,
    reserve_tokens=100,
    budget_tokens=900,
    rows=(
        LedgerRow("system", "agent", 40),
        LedgerRow("system", "skills", 10),
        LedgerRow("tools", "search", 30),
        LedgerRow("history", "history", 20),
    ),
)


def row(
    name: str, decision: Decision, before: int = 0, after: int = 0, **words: Any
) -> ReportEntry:
    return ReportEntry("message", name, decision, before, after, **words)


def piece(kind: str, name: str, decision: Decision, before: int = 0, after: int = 0) -> ReportEntry:
    return ReportEntry(kind, name, decision, before, after)  # type: ignore[arg-type]


# ---- a view ----


def test_nothing_is_computed_before_it_is_read_and_then_once() -> None:
    asked: list[str] = []

    def entries() -> Iterator[ReportEntry]:
        asked.append("entries")
        yield row("m1", "kept", 5, 5)

    report = Report(ledger=lambda: LEDGER, entries=entries)
    assert asked == []

    assert report.entries == report.entries == (row("m1", "kept", 5, 5),)
    assert report.ledger is LEDGER
    assert report.forecast is None
    assert asked == ["entries"]


def test_a_report_is_plain_json() -> None:
    forecast = CacheForecast(CacheSplit(read_tokens=3), InputPrice(0.5, 1.0))
    settled = Settled(options=AssembleOptions(top_k=3), layers={"top_k": "session"})
    report = Report(
        ledger=lambda: LEDGER,
        entries=lambda: [row("m1", "dropped", 5, rule="simple.drop")],
        parameters=lambda: parameters_of(settled),
        warnings=lambda: ["Mind the gap.", "Mind the gap."],
        forecast=lambda: forecast,
    )

    plain = json.loads(json.dumps(report.to_json()))

    assert plain["entries"][0]["rule"] == "simple.drop"
    assert plain["ledger"]["rows"][0] == {"kind": "system", "name": "agent", "tokens": 40}
    assert plain["parameters"] == [{"name": "top_k", "value": 3, "layer": "session"}]
    assert plain["warnings"] == ["Mind the gap."]
    assert plain["forecast"]["split"]["read_tokens"] == 3
    assert plain["changed"] is True
    assert report.of("dropped", "cleared") == report.entries
    assert len(repr(report)) < 300


def test_a_violation_reads_as_one_line() -> None:
    broken = Violation("A1", "refused", "messages[0]", "The user speaks first.", "https://x")

    assert str(broken) == "A1 at messages[0]: The user speaks first."


# ---- messages ----

# Messages (id, tokens, tokens sent), changes by step, and entries (id, decision, before, after).
MESSAGES = {
    "the last entry with a size bears what the message takes": (
        [("a", 90, 50)],
        {
            "repairs": [row("a", "shortened", 90, 70), row("a", "cleared")],
            "cuts": [row("a", "shortened", 70, 50)],
        },
        [("a", "cleared", 0, 0), ("a", "shortened", 0, 0), ("a", "shortened", 90, 50)],
    ),
    "a message that is left out in the end takes nothing": (
        [("a", 90, None)],
        {"cuts": [row("a", "shortened", 70, 50)]},
        [("a", "shortened", 70, 0)],
    ),
    "a message of nothing but stale reasoning has that entry alone": (
        [("a", 90, None)],
        {"repairs": [row("a", "cleared")]},
        [("a", "cleared", 0, 0)],
    ),
    "an entry without a size stands before the kept one": (
        [("a", 90, 80)],
        {"repairs": [row("a", "cleared")]},
        [("a", "cleared", 0, 0), ("a", "kept", 90, 80)],
    ),
    "what is in no message comes first and takes nothing": (
        [("a", 9, 9)],
        {"repairs": [row("b", "dropped", 9)], "cuts": [row("c", "shortened", 9, 5)]},
        [("b", "dropped", 9, 0), ("c", "shortened", 9, 0), ("a", "kept", 9, 9)],
    ),
}


@pytest.mark.parametrize(("messages", "changes", "expected"), MESSAGES.values(), ids=MESSAGES)
def test_entries_of_a_message_add_up_to_what_is_sent_of_it(
    messages: list[tuple[str, int, int | None]],
    changes: dict[str, list[ReportEntry]],
    expected: list[tuple[str, Decision, int, int]],
) -> None:
    entries = message_entries(messages, **changes)

    assert [entry[1:5] for entry in entries] == expected


# ---- pieces ----


def test_pieces_have_their_tokens_in_the_ledger() -> None:
    pieces = [
        piece("section", "agent", "shortened", before=90),
        piece("section", "soul", "dropped", before=7),
        piece("skill", "tea", "kept", 6, 6),
        piece("skill", "coffee", "kept", 3, 3),
        piece("skill", "milk", "dropped", 8),
        piece("tool", "search", "blocked"),
        piece("tool", "search", "kept"),
        piece("memory", "m", "kept", 5, 5),
    ]

    sized = list(size_pieces(pieces, LEDGER))

    assert [(entry.id, *entry[3:5]) for entry in sized] == [
        ("agent", 90, 40),
        ("soul", 7, 0),
        ("tea", 6, 6),
        ("coffee", 4, 4),
        ("milk", 8, 0),
        ("search", 0, 0),
        ("search", 30, 30),
        ("m", 5, 5),
    ]


def tool(decision: Decision, rule: Rule, name: str = "search", reason: str = "") -> ReportEntry:
    return ReportEntry("tool", name, decision, reason=reason, rule=rule)


OVERLAYS = {
    "the piece's own entry": ([tool("kept", "")], tool("repaired", "tool.strict"), ["tool.strict"]),
    "of two of one name the offered one": (
        [tool("blocked", "sandbox"), tool("kept", "")],
        tool("repaired", "tool.strict"),
        ["sandbox", "tool.strict"],
    ),
    "of two that are gone the first one": (
        [tool("dropped", "disabled"), tool("dropped", "duplicate")],
        tool("dropped", "tool.withdrawn"),
        ["tool.withdrawn", "duplicate"],
    ),
    "not what is not offered, by a repair": (
        [tool("dropped", "tool.withdrawn")],
        tool("repaired", "tool.strict"),
        ["tool.withdrawn"],
    ),
    "another piece stands at the end": (
        [tool("kept", "")],
        tool("dropped", "tool.native", "web"),
        ["", "tool.native"],
    ),
}


@pytest.mark.parametrize(("entries", "change", "rules"), OVERLAYS.values(), ids=OVERLAYS)
def test_a_later_change_is_laid_over_the_entry_of_what_is_offered(
    entries: list[ReportEntry], change: ReportEntry, rules: list[str]
) -> None:
    assert [entry.rule for entry in overlay(entries, [change])] == rules


BOTH = {
    "repaired, then kept as it is": ("repaired", "Renamed.", "kept", "Sent last.", "repaired"),
    "kept, then shortened": ("kept", "", "shortened", "Too long.", "shortened"),
    "the same reason twice": ("repaired", "Renamed.", "repaired", "Renamed.", "repaired"),
}


@pytest.mark.parametrize(("first", "reason", "then", "later", "decision"), BOTH.values(), ids=BOTH)
def test_what_is_offered_has_both_reasons(
    first: Decision, reason: str, then: Decision, later: str, decision: Decision
) -> None:
    [entry] = overlay(
        [tool(first, "schema", reason=reason)], [tool(then, "tool.strict", reason=later)]
    )

    assert entry.decision == decision
    assert entry.reason == " ".join(dict.fromkeys(filter(None, (reason, later))))


# ---- warnings ----

IMAGE = "An image is left out: the model takes no images."
NATIVE = "It exists for gemini alone."


def native(number: int) -> list[ReportEntry]:
    return [tool("dropped", "tool.native", f"t{n}", NATIVE) for n in range(number)]


LOSSES = {
    "one message": ([row("m1", "dropped", reason=IMAGE, rule="media.unsupported")], [IMAGE]),
    "messages of one reason share a warning": (
        [row(f"m{n}", "shortened", reason=IMAGE, rule="media.unsupported") for n in range(2)],
        [f"{IMAGE} (in 2 messages)"],
    ),
    "what is sent in other words is no loss": (
        [row("m1", "repaired", reason="Its text is sent.", rule="content.text")],
        [],
    ),
    "tools of one reason are named": (native(2), [f"t0, t1: {NATIVE}"]),
    "the first ones of many": (native(1_300), [f"t0, t1, t2, t3, t4 and 1,295 more: {NATIVE}"]),
}


@pytest.mark.parametrize(("entries", "warnings"), LOSSES.values(), ids=LOSSES)
def test_losses_are_warned_of_once_per_reason(
    entries: list[ReportEntry], warnings: list[str]
) -> None:
    assert list(loss_warnings(entries)) == warnings


def test_cuts_that_nobody_expects_are_warned_of() -> None:
    section = piece("section", "context", "shortened", 900, 40)._replace(rule="system.shorten")
    gone = piece("section", "soul", "dropped", 30)._replace(rule="system.drop")
    reason = "What may not be left out does not fit."
    cut = [
        row(f"m{n}", "shortened", 5000, 200, reason=reason, rule="overflow.shorten")
        for n in range(7)
    ]
    ordinary = row("m9", "shortened", 900, 200, rule="smart.shorten")

    shortened, left_out, messages = cut_warnings([section, gone, *cut, ordinary])

    assert shortened.startswith("The section 'context' of the system prompt was shortened from 900")
    assert left_out.startswith("The section 'soul' of the system prompt was left out (30 tokens)")
    assert messages.startswith("Message 'm0' (5,000 → 200 tokens), message 'm1'")
    assert f"and 2 more: {reason} Raise max_context_tokens" in messages
    report = Report(ledger=lambda: LEDGER, entries=lambda: [section])
    assert report.warnings == (shortened,)
