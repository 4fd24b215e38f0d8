"""Which skills the model is told of."""

from itertools import permutations

import pytest

from context_assembler.skills import ChosenSkills, choose_skills
from context_assembler.values.prompt import Skill


def skill(name: str, description: str = "Does things.", *, priority: int = 0) -> Skill:
    path = f"{name}/SKILL.md"
    return Skill(
        name=name, description=description, path=path, instructions="Steps.", priority=priority
    )


THREE = [skill("pdf"), skill("pptx"), skill("review")]


def test_all_skills_are_chosen_unless_something_is_set() -> None:
    assert choose_skills(THREE[::-1]) == ChosenSkills(skills=tuple(THREE))


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


def test_of_two_skills_with_one_name_the_higher_priority_wins_in_any_order() -> None:
    given = [skill("pdf", "Low.", priority=-1), skill("pdf", "High.", priority=2), skill("pdf")]

    for order in permutations(given):
        chosen = choose_skills(order)

        assert [one.description for one in chosen.skills] == ["High."]
        assert len(chosen.entries) == 2


def test_skills_can_be_skipped_for_a_reason() -> None:
    chosen = choose_skills(THREE, skip_reason="skip_skills is on", active=["pdf", "zzz"])

    assert chosen.skills == ()
    assert chosen.active == ()
    assert {row.reason for row in chosen.entries} == {"skip_skills is on"}
    assert chosen.warnings == ()


def test_named_skills_are_active() -> None:
    chosen = choose_skills(THREE, active=["review", "pdf", "pdf"])

    assert chosen.active == ("pdf", "review")


def test_a_pattern_that_is_a_whole_name_activates_only_where_that_is_wanted() -> None:
    patterns = ("pdf", "p*")

    assert choose_skills(THREE, patterns=patterns).active == ()
    assert choose_skills(THREE, patterns=patterns, activates_named=True).active == ("pdf",)


WARNED = {
    "no such skill": ("reviw", None, "no skill is called. Did you mean 'review'?"),
    "nothing like it": ("zzz", None, "no skill is called."),
    "left out": ("review", ("p*",), "skill_filter leaves out."),
    "nothing to add": ("bare", None, "neither instructions nor tools."),
}


@pytest.mark.parametrize(("name", "patterns", "says"), WARNED.values(), ids=WARNED.keys())
def test_a_skill_that_cannot_be_active_is_named(
    name: str, patterns: tuple[str, ...] | None, says: str
) -> None:
    bare = Skill(name="bare", description="Nothing more.", path="bare/SKILL.md")

    chosen = choose_skills([*THREE, bare], patterns=patterns, active=[name])

    assert chosen.active == ()
    (warning,) = chosen.warnings
    assert warning.startswith(f"active_skills names {name!r}, ")
    assert warning.endswith(says)


def test_a_skill_with_tools_alone_can_be_active() -> None:
    bare = Skill(name="bare", description="Tools.", path="x", tools=({"name": "look"},))

    assert choose_skills([bare], active=["bare"]).active == ("bare",)
