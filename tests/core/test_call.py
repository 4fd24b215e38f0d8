"""One call: what it sends, for whom, and the figures and entries that go with it."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from context_assembler import (
    AssemblerConfig,
    ContextAssembler,
    ContextOverflowError,
    PromptSection,
    SessionEvent,
    user_event,
)
from context_assembler.errors import UnknownOptionError
from tests.core.sessions import (
    OPUS,
    PROVIDERS,
    QUIET,
    answer,
    assembled,
    changes,
    stored,
    text,
    turns,
)

LONG = "word " * 200
LOOP: list[str | SessionEvent] = [
    "S You book trains.",
    "U The task.",
    *(row for n in range(12) for row in (f"A[c{n}] step {n}", f"T[c{n}] {LONG}")),
    "U And now?",
]


def with_sections(*sections: PromptSection, **options: Any) -> Any:
    config = AssemblerConfig(**QUIET)
    assembler = ContextAssembler(stored("U a"), config=config, prompt_sections=sections)
    return assembler.assemble_sync("s", model=OPUS, **options)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("room", [None, 2500])
def test_the_ledger_the_report_and_the_messages_agree(provider: str, room: int | None) -> None:
    model = PROVIDERS[provider]
    context = assembled(*LOOP, model=model, max_tokens=100, max_context_tokens=room)

    ledger, entries = context.metadata.ledger, context.report.entries
    of_messages = [entry for entry in entries if entry.kind == "message"]
    kept = sum(entry.tokens_after or 0 for entry in of_messages if entry.decision != "repaired")
    notes = sum(entry.tokens_after or 0 for entry in entries if entry.id == "marker")
    assert ledger.used_tokens == sum(row.tokens for row in ledger.rows) <= ledger.budget_tokens
    assert ledger.tokens_of("history") == kept + notes
    assert context.system_prompt == "You book trains."
    assert context.check() == []
    assert (context.metadata.cut_id == 0) == (room is None)
    assert len({entry.id for entry in of_messages}) == len(LOOP) - 1


def test_a_cut_says_what_it_left_out() -> None:
    whole = assembled(*LOOP)
    cut = assembled(*LOOP, max_tokens=100, max_context_tokens=1500, truncation_strategy="simple")

    facts, before = cut.metadata.truncation, whole.metadata.truncation
    assert (before.removed_count, before.removed_tokens) == (0, 0)
    assert facts.original_tokens == before.original_tokens == before.final_tokens
    assert facts.final_tokens == facts.original_tokens - facts.removed_tokens
    assert facts.removed_count == sum(e.decision == "dropped" for e in cut.report.entries)
    assert (cut.metadata.truncated, cut.metadata.truncated_by) == (True, "simple")
    assert (whole.metadata.truncated, whole.metadata.truncated_by) == (False, None)
    assert turns(cut)[-1] == "U And now?"


def test_shortened_results_are_marked_and_the_gap_too() -> None:
    bulky = [row.replace(LONG, LONG * 3) if isinstance(row, str) else row for row in LOOP]
    context = assembled(*bulky, max_tokens=100, max_context_tokens=3000)

    rows = turns(context)
    assert rows[0] == "U The task."
    assert sum("[…" in row for row in rows) >= 2
    assert {"dropped", "shortened"} <= {entry.decision for entry in context.report.entries}
    assert any(entry.id == "marker" for entry in context.report.entries)


NO_ROOM: dict[str, tuple[dict[str, Any], str]] = {
    "the reserve": ({"max_context_tokens": 300, "reserve_tokens": 400}, "reserve"),
    "a section": ({"max_context_tokens": 360, "max_tokens": 10}, "section 'rules'"),
}


@pytest.mark.parametrize(("asked", "culprit"), NO_ROOM.values(), ids=NO_ROOM.keys())
def test_what_leaves_no_room_is_named(asked: dict[str, Any], culprit: str) -> None:
    rules = PromptSection(name="rules", content=LONG * 3, is_required=True)

    with pytest.raises(ContextOverflowError, match=culprit) as caught:
        with_sections(rules, **asked)

    assert caught.value.remedy
    assert caught.value.sizes_tokens


def test_tools_that_leave_no_room_are_named() -> None:
    def look(city: str) -> str:
        return city

    look.__doc__ = LONG * 3
    assembler = ContextAssembler(stored("U a"), tools=[look], config=AssemblerConfig(**QUIET))

    with pytest.raises(ContextOverflowError, match="tools from"):
        assembler.assemble_sync("s", model=OPUS, max_tokens=10, max_context_tokens=500)


def test_what_was_recalled_gives_way_to_what_may_not_be_dropped() -> None:
    recalled = PromptSection(name="memory", content=LONG, placement="note", origin="memory")

    whole = with_sections(recalled)
    tight = with_sections(recalled, max_tokens=10, max_context_tokens=150)

    assert len(turns(whole)) == 2
    assert turns(tight) == ["U a"]
    assert changes(tight) == ["memory.no_room"]


async def test_a_clock_that_does_not_fit_is_neither_sent_nor_recorded() -> None:
    event = user_event("word " * 300, created_at=datetime(2026, 9, 1, tzinfo=UTC))
    assembler = ContextAssembler(stored(event), config=AssemblerConfig())
    options: dict[str, Any] = {"model": OPUS, "max_tokens": 100}
    told = assembler.assemble_sync("s", **options)
    used = told.metadata.ledger.used_tokens

    context = assembler.assemble_sync("s", **options, max_context_tokens=used - 5)
    recorded = await assembler.record("s", answer(text("ok"), input_tokens=400), context)
    after = assembler.assemble_sync("s", **options, max_context_tokens=used + 100)

    assert "Time: " in str(told.to_request())
    assert "Time: " not in str(context.to_request())
    assert "word " * 300 in str(context.to_request())
    entries = [one for one in context.report.entries if one.rule == "overflow.clock"]
    assert [one.decision for one in entries] == ["dropped"]
    assert context.metadata.ledger.used_tokens <= used - 5
    assert [event.type for event in recorded] == ["assistant"]
    assert "Time: " in str(after.to_request())


def test_a_context_can_be_rendered_for_every_provider() -> None:
    context = assembled(*LOOP[:4])
    methods = {
        "anthropic": context.to_anthropic,
        "openai_chat": context.to_openai_chat,
        "openai_responses": context.to_openai_responses,
        "gemini": context.to_gemini,
    }

    for name, method in methods.items():
        assert method() == context.to_request(name)
        assert context.for_provider(name).to_request() == method()
        assert context.for_provider(name).provider == name
        assert context.check(name) == []
        assert "The task." in json.dumps(method())
    with pytest.raises(UnknownOptionError, match="anthropic"):
        context.to_request("nobody")


def test_messages_are_the_turns_that_are_sent_with_the_ids_of_their_events() -> None:
    first, reply, results = assembled("U a", "A[c1] b", "T[c1] one", model="gpt-4.1").messages

    assert first == {
        "role": "user",
        "parts": [{"type": "text", "text": "a"}],
        "kind": "said",
        "note": None,
        "seq": 1,
        "id": "evt_1",
        "origin": "user",
        "made_by": None,
    }
    assert [part["type"] for part in reply["parts"]] == ["text", "tool_call"]
    assert (results["role"], results.get("id")) == ("tool", "evt_3")
