"""What the rows of skills say where the section is that of an earlier call."""

from collections.abc import Sequence

import pytest

from context_assembler.skills import describe_skills, follow_section
from context_assembler.skills.held_text import read_text
from context_assembler.values.prompt import Skill
from context_assembler.values.report import ReportEntry

FROZEN = ReportEntry(kind="section", id="skills", decision="kept", rule="system.frozen")
SHORT = ReportEntry(kind="section", id="skills", decision="shortened", rule="system.frozen")
TOOL = ReportEntry(kind="tool", id="a", decision="kept")


def skill(name: str, *, about: str = "", steps: str = "Steps.", has_tool: bool = False) -> Skill:
    return Skill(
        name=name,
        description=about or f"About {name}.",
        path=f"{name}/SKILL.md",
        instructions=steps,
        tools=({"name": "look"},) if has_tool else (),
    )


def follow(
    before: Sequence[Skill],
    now: Sequence[Skill],
    *,
    active: Sequence[str] = (),
    max_tokens: int = 2_000,
    section: ReportEntry = FROZEN,
    more: Sequence[ReportEntry] = (),
) -> tuple[dict[str, ReportEntry], tuple[str, ...]]:
    """Return the rows, and what is active, where the text of one listing meets the next one."""
    held = describe_skills(before, active=active, max_tokens=max_tokens, count_text=len)
    fresh = describe_skills(now, active=active, max_tokens=max_tokens, count_text=len)
    left = follow_section(
        [*more, *fresh.entries, TOOL],
        now,
        active=[one.name for one in now if one.name in active],
        text=held.text,
        section=section,
        count_text=len,
    )
    assert left.entries[-1] is TOOL
    rows = left.entries[:-1]
    assert len({row.id for row in rows}) == len(rows)
    return {row.id: row for row in rows}, left.active


A, B = skill("a"), skill("b", has_tool=True)


def test_skills_that_are_what_they_were_keep_their_rows() -> None:
    told = describe_skills([A, B], active=["b"], max_tokens=2_000, count_text=len)

    rows, active = follow([A, B], [A, B], active=["b"])

    assert list(rows.values()) == list(told.entries)
    assert active == ("b",)


CHANGES = {
    "the description": (skill("a", about="Other."), ""),
    "the instructions": (skill("a", steps="Others."), ""),
    "the path": (Skill(name="a", description="About a.", path="x", instructions="Steps."), ""),
    "instructions and tools": (
        skill("a", steps="Others.", has_tool=True),
        "its tools are offered as they are by now",
    ),
}


@pytest.mark.parametrize(("now", "words"), CHANGES.values(), ids=CHANGES.keys())
def test_a_skill_that_changed_waits_with_the_size_of_what_is_sent(now: Skill, words: str) -> None:
    told = describe_skills([A], active=["a"], max_tokens=2_000, count_text=len)

    rows, active = follow([A], [now], active=["a"])

    row = rows["a"]
    assert (row.decision, row.rule) == ("kept", "system.frozen")
    assert row.tokens_after == told.entries[0].tokens_after
    assert row.reason.startswith("It has changed, and the text of then is sent")
    assert (words or "sent; it applies") in row.reason
    assert active == ("a",)


def test_a_skill_that_is_gone_has_a_row_behind_those_of_the_others() -> None:
    rows, active = follow([A, B], [A], active=["b"])

    assert list(rows) == ["a", "b"]
    assert rows["b"].reason.startswith("It is gone, or cannot be read")
    assert rows["b"].tokens_after > 0
    assert active == ()


def test_a_skill_that_is_filtered_by_now_has_one_row() -> None:
    filtered = ReportEntry(kind="skill", id="b", decision="dropped", rule="filter")
    other = ReportEntry(kind="skill", id="c", decision="dropped", rule="filter")

    rows, _ = follow([A, B], [A], more=[filtered, other])

    assert list(rows) == ["b", "c", "a"]
    assert (rows["b"].decision, rows["c"]) == ("kept", other)


def test_a_skill_that_appeared_is_not_told_of_yet() -> None:
    rows, active = follow([A], [A, B, skill("c")], active=["b", "c"])

    assert [(row.decision, row.tokens_after) for row in rows.values()][1:] == [("dropped", 0)] * 2
    assert "its tools are offered already" in rows["b"].reason
    assert "tools" not in rows["c"].reason
    assert active == ("b",), "tools work before their instructions come; instructions do not"


def test_a_list_that_would_have_room_for_less_by_now_tells_what_it_told() -> None:
    long = [skill(name, about=f"{name} " * 40) for name in "ab"]
    more = [*long, *(skill(name, about="c " * 60) for name in "cdef")]
    told = describe_skills(long, max_tokens=600, count_text=len).entries

    rows, _ = follow(long, more, max_tokens=600)

    assert [rows["a"], rows["b"]] == list(told)
    assert {rows[name].rule for name in "cdef"} == {"system.frozen"}


def test_a_list_that_was_shortened_is_told_as_that() -> None:
    long = [skill(name, about=f"{name} " * 90) for name in "abc"]
    told = describe_skills(long, max_tokens=400, count_text=len).entries

    rows, _ = follow(long, long[:2], max_tokens=400)

    assert {row.rule for row in told} == {"skill_budget"}
    assert [rows["a"], rows["b"]] == list(told[:2])


def test_a_skill_that_no_list_has_room_for_is_no_change() -> None:
    many = [skill(f"s{number}") for number in range(9)]

    rows, _ = follow(many, many[:-1], max_tokens=280)

    assert {row.rule for row in rows.values() if row.decision == "dropped"} == {"skill_budget"}


def test_of_a_text_that_was_shortened_nothing_is_claimed_that_nobody_knows() -> None:
    rows, _ = follow([A], [skill("a", steps="Others.")], active=["a"], section=SHORT)

    assert rows["a"].reason.startswith("It, or how its section was shortened, is not what")


def test_a_section_is_taken_apart_by_names_however_odd() -> None:
    odd = [skill("x (y)", steps='- z (z/SKILL.md): no\n\n<skill name="q">'), skill('"&<')]
    text = describe_skills(
        odd, active=[one.name for one in odd], max_tokens=2_000, count_text=len
    ).text

    held = read_text(text, odd)

    assert list(held.names()) == ["x (y)", '"&<']
    assert held.lines.keys() == held.blocks.keys()
    assert read_text("", odd).lines == {}
