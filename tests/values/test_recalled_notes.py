"""What was told in a note before is left out of the next one, and nothing else is."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from context_assembler.recall.format_items import make_layout
from context_assembler.recall.tell_note import tell_note
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.recall import FormattedContext, RecalledMemory
from context_assembler.values.recalled_notes import RECALLED_LABEL, leave_out_told
from tests.recall.building import NOW, hours_ago, record

LAYOUT = make_layout(now=NOW, order="best_first", states={}, times="dates")
records = st.builds(
    record,
    st.text("ab\n- #:.</é日", min_size=1, max_size=30).filter(str.strip),
    id=st.uuids().map(str),
    kind=st.sampled_from(["memories", "events", "code", "experiences", "chunks"]),
    created_at=st.integers(0, 90).map(hours_ago),
)


def shown(found: MemoryRecord) -> RecalledMemory:
    return RecalledMemory(
        record=found, source="s", score=1.0, text=found.text, tokens=1, scores={}, found_in=("s",)
    )


def note_of(found: Sequence[MemoryRecord]) -> str:
    items = tuple(map(shown, found))
    context = FormattedContext(markdown=LAYOUT.write(items), items=items)
    [section] = tell_note(context, count_text=len).sections
    return section.content


def entry_of(found: MemoryRecord) -> str:
    return "\n" + LAYOUT.entry(found, found.text)


@given(st.lists(records, min_size=1, max_size=6), st.lists(records, min_size=1, max_size=6))
def test_what_is_left_is_what_was_not_told(
    before: list[MemoryRecord], after: list[MemoryRecord]
) -> None:
    told, whole = note_of(before), note_of([*before, *after])

    left = leave_out_told(whole, [told])

    if left:
        assert left.startswith(f"{RECALLED_LABEL}\n<recalled-memory>\n## ")
        assert left.endswith(" the others were told before.\n</recalled-memory>")
    assert all(entry_of(found) in left or entry_of(found) in told for found in after)
    assert leave_out_told(whole, [told, left]) == ""
    assert leave_out_told(whole, [whole]) == ""
    assert leave_out_told(whole, []) == whole


def test_what_no_source_had_time_for_is_still_said() -> None:
    one, two = record("a", id="1"), record("b", id="2")
    missing = make_layout(now=NOW, order="best_first", states={"web": "timed_out"}, times="dates")
    items = tuple(map(shown, (one, two)))
    context = FormattedContext(markdown=missing.write(items), items=items)
    [section] = tell_note(context, count_text=len).sections

    left = leave_out_told(section.content, [note_of([one])])

    assert "- b\n\n1 of 2; the others were told before. Not available: web (timed out).\n" in left


def test_a_section_of_the_applications_own_stays_as_it_is() -> None:
    own = "- a\n- b"

    assert leave_out_told(own, [own]) == own
