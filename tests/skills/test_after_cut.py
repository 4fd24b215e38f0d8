"""What is left of each skill where its section was cut."""

from context_assembler.skills import describe_skills, follow_cut
from context_assembler.values.prompt import Skill
from context_assembler.values.report import ReportEntry


def skill(name: str, *, instructions: str = "Steps.", has_tool: bool = False) -> Skill:
    return Skill(
        name=name,
        description=f"About {name}.",
        path=f"{name}/SKILL.md",
        instructions=instructions,
        tools=({"name": "look"},) if has_tool else (),
    )


SKILLS = [skill("a", instructions="One.\nTwo.\nThree."), skill("b"), skill("c", has_tool=True)]
ACTIVE = ("a", "c")
TOLD = describe_skills(SKILLS, active=ACTIVE, max_tokens=900, count_text=len)
OTHER = ReportEntry(kind="tool", id="a", decision="kept")


def followed(text: str) -> tuple[list[tuple[str, str, int]], tuple[str, ...]]:
    left = follow_cut([*TOLD.entries, OTHER], SKILLS, active=ACTIVE, text=text, count_text=len)
    assert left.entries[-1] is OTHER
    rows = [(str(row.decision), row.rule, row.tokens_after) for row in left.entries[:-1]]
    return rows, left.active


def test_a_section_that_is_whole_changes_nothing() -> None:
    rows, active = followed(TOLD.text)

    assert rows == [(row.decision, row.rule, row.tokens_after) for row in TOLD.entries]
    assert active == ACTIVE


def test_of_a_section_that_is_gone_only_tools_are_left() -> None:
    rows, active = followed("")

    assert rows == [("dropped", "section.cut", 0)] * 3
    assert active == ("c",)


def test_a_skill_whose_instructions_were_cut_is_shortened() -> None:
    text = TOLD.text.replace("Two.\n", "[… left out here …]\n")

    rows, active = followed(text)

    assert rows[0][:2] == ("shortened", "section.cut")
    assert 0 < rows[0][2] < TOLD.entries[0].tokens_after + 20
    assert [row[0] for row in rows[1:]] == ["kept", "kept"]
    assert active == ACTIVE


def test_a_skill_without_its_line_is_left_out_and_an_active_one_is_not() -> None:
    text = TOLD.text.replace("- a (a/SKILL.md): About a.\n", "").replace(
        "- b (b/SKILL.md): About b.\n", ""
    )

    rows, _ = followed(text)

    assert [row[0] for row in rows] == ["kept", "dropped", "kept"]


def test_instructions_that_are_gone_leave_the_line_of_the_skill() -> None:
    text = TOLD.text.partition("\n\n<skill")[0]

    rows, active = followed(text)

    assert [row[0] for row in rows] == ["shortened", "kept", "shortened"]
    assert rows[0][2] == len("- a (a/SKILL.md): About a.")
    assert active == ("c",)


def test_rows_of_skills_that_were_left_out_before_stay() -> None:
    gone = ReportEntry(kind="skill", id="b", decision="dropped", rule="skill_budget")

    left = follow_cut([gone], SKILLS, active=(), text="", count_text=len)

    assert left.entries == (gone,)
