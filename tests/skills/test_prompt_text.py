"""What the prompt says of skills."""

from hypothesis import given
from hypothesis import strategies as st

from context_assembler.skills import choose_skills, describe_skills
from context_assembler.values.prompt import Skill


def skill(name: str, description: str = "Does things.") -> Skill:
    return Skill(name=name, description=description, path=f"{name}/SKILL.md", instructions="Steps.")


THREE = [skill("pdf"), skill("pptx"), skill("review")]


def test_all_skills_are_chosen_unless_something_is_set() -> None:
    chosen = choose_skills(THREE[::-1])

    assert chosen == (tuple(THREE), (), ())


def test_a_filter_keeps_what_it_names_and_tells_of_the_rest() -> None:
    chosen = choose_skills(THREE, patterns=("p*", "reveiw", "zzz"))

    assert [one.name for one in chosen.skills] == ["pdf", "pptx"]
    assert [(row.id, row.decision) for row in chosen.entries] == [("review", "dropped")]
    assert "'reveiw', which no skill matches. Did you mean 'review'?" in chosen.warnings[0]
    assert chosen.warnings[1].endswith("'zzz', which no skill matches.")


def test_of_two_skills_with_one_name_the_first_wins() -> None:
    chosen = choose_skills([skill("pdf", "First."), skill("pdf", "Second.")])

    assert [one.description for one in chosen.skills] == ["First."]
    assert [(row.id, row.rule) for row in chosen.entries] == [("pdf", "duplicate")]


def test_skills_can_be_skipped() -> None:
    chosen = choose_skills(THREE, skip=True)

    assert chosen.skills == ()
    assert {row.reason for row in chosen.entries} == {"skip_skills is on"}


def test_names_files_and_descriptions_are_listed() -> None:
    text, entries = describe_skills(THREE)

    assert "- pdf (pdf/SKILL.md): Does things.\n- pptx" in text
    assert {row.decision for row in entries} == {"kept"}
    assert describe_skills([]) == ("", ())


def test_the_longest_descriptions_give_way_first() -> None:
    skills = [skill("a", "short."), skill("b", "word " * 200), skill("c", "term " * 100)]

    text, entries = describe_skills(skills, max_chars=700)

    assert len(text) <= 700
    assert "(a/SKILL.md): short." in text
    assert [row.decision for row in entries] == ["kept", "shortened", "shortened"]
    assert "cut from 1,000 to" in entries[1].reason
    assert "word…" in text


def test_where_not_even_the_names_fit_the_last_are_counted() -> None:
    skills = [skill(f"skill-{number:03}") for number in range(100)]

    text, entries = describe_skills(skills, max_chars=1000)

    assert len(text) <= 1000
    assert text.endswith("more skills")
    assert [row.decision for row in entries].count("dropped") > 50
    assert len(entries) == 100


def test_active_skills_bring_their_instructions() -> None:
    text, _ = describe_skills(THREE, active=["pdf"])

    assert text.endswith("## Skill: pdf\n\nSteps.")


def test_a_description_without_a_space_is_cut_within() -> None:
    text, _ = describe_skills([skill("a", "x" * 500)], max_chars=400)

    assert "xx…" in text


@given(st.lists(st.integers(0, 400), max_size=30), st.integers(300, 3000))
def test_the_list_never_exceeds_its_budget_and_every_skill_has_a_row(
    lengths: list[int], max_chars: int
) -> None:
    skills = [skill(f"s{number}", "w" * length) for number, length in enumerate(lengths)]

    text, entries = describe_skills(skills, max_chars=max_chars)

    assert len(text) <= max_chars
    assert [row.id for row in entries] == [one.name for one in skills]
