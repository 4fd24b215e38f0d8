"""What earlier attempts teach."""

from typing import Any

import pytest

from context_assembler.memory_assembler.joining import fit_premortem
from context_assembler.recall.premortem import (
    NOTHING_KNOWN_IN_PART,
    PremortemContext,
    is_of_domain,
    premortem_lines,
    write_premortem,
)
from context_assembler.values.memories.metadata import (
    ExperienceMetadata,
    LearningMetadata,
    PatternMetadata,
    ValueMetadata,
)
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.recall import SourceState
from tests.recall.building import record


def tried(text: str, *, importance: float = 0.5, **metadata: Any) -> MemoryRecord:
    return record(
        text,
        id=text[:20],
        kind="experiences",
        importance=importance,
        metadata=ExperienceMetadata(domain="parsing", **metadata),
    )


KNOWN = [
    tried(
        "Regex on HTML broke",
        succeeded=False,
        strategy="regex",
        lesson="use a parser",
        root_cause="Nesting",
    ),
    tried(
        "Regex on logs broke",
        succeeded=False,
        strategy="regex",
        root_cause="nesting ",
        importance=0.9,
        surprise=0.2,
    ),
    tried(
        "Parser worked",
        succeeded=True,
        strategy="parser",
        surprise=0.9,
        prediction="slow",
        outcome="fast",
    ),
    tried("Odd thing", surprise=0.6),
    record("Parse once", kind="values", metadata=ValueMetadata(domain="Parsing", confidence=0.9)),
    record("Nesting bites", kind="patterns", metadata=PatternMetadata(domain="parsing")),
]


def fitted(max_tokens: int, *, records: list[MemoryRecord] | None = None) -> PremortemContext:
    return fit_premortem(
        premortem_lines(KNOWN if records is None else records),
        domain="parsing",
        strategy="regex",
        max_tokens=max_tokens,
        count_text=lambda text: len(text.split()),
    )


def test_what_matters_is_told_under_its_heading() -> None:
    assert write_premortem(premortem_lines(KNOWN), title="parsing") == (
        "# Before you begin: parsing\n\n"
        "## Past failures\n\n- Regex on logs broke\n- Regex on HTML broke. Lesson: use a parser\n\n"
        "## How strategies did\n\n"
        "- regex: 0 of 2 succeeded (0%), 20% off its predictions\n"
        "- parser: 1 of 1 succeeded (100%), 90% off its predictions\n\n"
        "## Unexpected outcomes\n\n- expected slow; got fast\n- Odd thing\n\n"
        "## Root causes\n\n- Nesting (2 times)\n\n"
        "## Principles\n\n- Parse once (90% sure)\n- Nesting bites"
    )


def test_where_room_is_short_every_heading_has_a_line_first() -> None:
    context = fitted(62)

    headings = [line.heading for line in context.lines]
    assert len(set(headings)) >= 4
    assert context.left_out
    assert context.token_count <= 62


def test_nothing_known_is_said() -> None:
    assert "Nothing is known" in fitted(100, records=[]).markdown
    assert fitted(1, records=[]).markdown == ""


def test_what_has_no_room_is_not_called_unknown() -> None:
    context = fitted(13, records=[tried("one two three four five six seven", succeeded=False)])

    assert (context.markdown, context.lines) == ("", ())
    assert context.left_out


@pytest.mark.parametrize("max_tokens", [50, 600, 100_000])
def test_every_line_is_counted_a_few_times_however_many_there_are(max_tokens: int) -> None:
    lines = premortem_lines([tried(f"attempt {at}", succeeded=False) for at in range(400)])
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text.split())

    context = fit_premortem(
        lines, domain="parsing", strategy=None, max_tokens=max_tokens, count_text=count
    )

    assert context.token_count <= max_tokens
    assert sum(map(len, counted)) < 4 * sum(len(line.text) + 40 for line in lines)


def test_other_domains_and_strategies_are_left_out() -> None:
    assert is_of_domain(KNOWN[0], domain="PARSING", strategy="Regex")
    assert is_of_domain(KNOWN[3], domain="parsing", strategy="regex")
    assert not is_of_domain(KNOWN[2], domain="parsing", strategy="regex")
    assert not is_of_domain(KNOWN[0], domain="networks")
    assert not is_of_domain(record("x"), domain="parsing")


def test_a_strategy_without_predictions_and_long_texts_are_told_briefly() -> None:
    lines = premortem_lines(
        [tried("y" * 900, succeeded=False, strategy="luck", root_cause="haste")]
    )

    assert len(lines[0].text) == 400
    assert [line.text for line in lines][1:] == ["luck: 0 of 1 succeeded (0%)", "haste"]


# ---- lessons ----


def told(*records: MemoryRecord) -> str:
    return write_premortem(premortem_lines(records), title="parsing")


ATTEMPTS: dict[str, tuple[MemoryRecord, str]] = {
    "a failure without a full stop": (
        tried("Attempt 0", succeeded=False, lesson="LESSON-F"),
        "## Past failures\n\n- Attempt 0. Lesson: LESSON-F",
    ),
    "a failure with one": (
        tried("Attempt 0!", succeeded=False, lesson="wait"),
        "## Past failures\n\n- Attempt 0! Lesson: wait",
    ),
    "a failure told at length": (
        tried("It broke " * 90, succeeded=False, lesson="wait"),
        f"## Past failures\n\n- {'It broke ' * 27}It… Lesson: wait",
    ),
    "a success": (
        tried("Attempt 1", succeeded=True, lesson="keep it"),
        "## Lessons\n\n- keep it",
    ),
    "an outcome that nobody told": (
        tried("Attempt 2", lesson="write it down"),
        "## Lessons\n\n- write it down",
    ),
    "a learning": (
        record(
            "Parsers are slow",
            kind="learnings",
            metadata=LearningMetadata(domain="Parsing", confidence=0.7),
        ),
        "## Principles\n\n- Parsers are slow (70% sure)",
    ),
}


@pytest.mark.parametrize(("attempt", "expected"), ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_what_an_attempt_taught_is_told(attempt: MemoryRecord, expected: str) -> None:
    assert is_of_domain(attempt, domain="parsing")
    assert told(attempt) == f"# Before you begin: parsing\n\n{expected}"


def test_a_premortem_without_a_line_is_empty() -> None:
    assert fitted(100, records=[]).is_empty
    assert not fitted(100).is_empty
    assert fitted(100).fenced.startswith("<recalled-memory>\n# Before you begin: parsing")


STATES: dict[str, tuple[dict[str, SourceState], str]] = {
    "all answered": ({"own": "empty", "wiki": "ok"}, "Nothing is known of earlier attempts."),
    "one failed": (
        {"own": "empty", "wiki": "failed"},
        f"{NOTHING_KNOWN_IN_PART}\n\nNot available: wiki (failed).",
    ),
}


@pytest.mark.parametrize(("states", "expected"), STATES.values(), ids=STATES.keys())
@pytest.mark.parametrize("max_tokens", [100, 15])
def test_that_nothing_is_known_is_said_only_where_all_answered(
    states: dict[str, SourceState], expected: str, max_tokens: int
) -> None:
    context = fit_premortem(
        [],
        domain="parsing",
        strategy=None,
        max_tokens=max_tokens,
        count_text=lambda text: len(text.split()),
        states=states,
    )

    shown = expected if max_tokens == 100 else expected.partition("\n")[0]
    assert context.markdown in ("", f"# Before you begin: parsing\n\n{shown}")
    assert context.token_count <= max_tokens
    assert max_tokens < 100 or context.markdown
