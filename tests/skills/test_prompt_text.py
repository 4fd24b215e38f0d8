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


def count_words(text: str) -> int:
    return len(text.split())


def test_names_files_and_descriptions_are_listed() -> None:
    text, entries, active = describe_skills(THREE, max_tokens=900, count_text=len)

    assert "- pdf (pdf/SKILL.md): Does things.\n- pptx" in text
    assert {(row.decision, row.rule) for row in entries} == {("kept", "listed")}
    assert active == ()
    assert describe_skills([], max_tokens=900, count_text=len) == ("", (), ())


def test_the_longest_descriptions_give_way_first() -> None:
    skills = [skill("a", "short."), skill("b", "word " * 200), skill("c", "term " * 100)]

    text, entries, _ = describe_skills(skills, max_tokens=150, count_text=count_words)

    assert 130 < count_words(text) <= 150
    assert "(a/SKILL.md): short." in text
    assert [row.decision for row in entries] == ["kept", "shortened", "shortened"]
    assert "cut from 1,000 to" in entries[1].reason
    assert "word…" in text


def test_where_not_even_the_names_fit_the_last_are_counted() -> None:
    skills = [skill(f"skill-{number:03}") for number in range(100)]

    text, entries, _ = describe_skills(skills, max_tokens=1000, count_text=len)

    assert len(text) <= 1000
    assert text.endswith("more skills")
    assert [row.decision for row in entries].count("dropped") > 50
    assert len(entries) == 100


def test_active_skills_bring_their_instructions_and_listed_ones_do_not() -> None:
    text, entries, active = describe_skills(
        THREE, active=["pdf", "gone"], max_tokens=900, count_text=len
    )

    assert text.endswith("## Skill: pdf\n\nSteps.")
    assert text.count("Steps.") == 1
    assert [(row.id, row.rule) for row in entries] == [
        ("pdf", "active"),
        ("pptx", "listed"),
        ("review", "listed"),
    ]
    assert active == ("pdf",)


def test_a_skill_without_instructions_cannot_be_active() -> None:
    bare = Skill(name="bare", description="Nothing more.", path="bare/SKILL.md")

    told = describe_skills([bare], active=["bare"], max_tokens=900, count_text=len)

    assert told.active == ()


def test_an_active_skills_instructions_are_sent_though_the_list_has_no_room() -> None:
    text, entries, active = describe_skills(THREE, active=["pdf"], max_tokens=5, count_text=len)

    assert text == "## Skill: pdf\n\nSteps."
    assert [(row.decision, row.rule) for row in entries] == [
        ("kept", "active"),
        ("dropped", "skill_budget"),
        ("dropped", "skill_budget"),
    ]
    assert active == ("pdf",)


def test_a_shortened_description_of_an_active_skill_says_both() -> None:
    long = skill("a", "word " * 200)

    _, (row,), _ = describe_skills([long], active=["a"], max_tokens=80, count_text=count_words)

    assert row.decision == "shortened"
    assert "was cut" in row.reason
    assert "its instructions follow" in row.reason


def test_a_description_without_a_space_is_cut_within() -> None:
    text, _, _ = describe_skills([skill("a", "x" * 500)], max_tokens=400, count_text=len)

    assert "xx…" in text


def test_a_text_that_counts_more_as_a_whole_than_in_pieces_still_fits() -> None:
    def dear(text: str) -> int:
        return len(text) * (2 if text.count("\n") > 6 else 1)

    text, _, _ = describe_skills(THREE, max_tokens=400, count_text=dear)

    assert dear(text) <= 400


@given(st.lists(st.integers(0, 400), max_size=30), st.integers(0, 3000), st.booleans())
def test_the_list_never_exceeds_its_budget_and_every_skill_has_a_row(
    lengths: list[int], max_tokens: int, by_words: bool
) -> None:
    skills = [skill(f"s{number}", "w " * length) for number, length in enumerate(lengths)]
    count = count_words if by_words else len

    text, entries, _ = describe_skills(skills, max_tokens=max_tokens, count_text=count)

    assert count(text) <= max_tokens
    assert [row.id for row in entries] == [one.name for one in skills]
