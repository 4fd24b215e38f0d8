"""One call's skills, from the providers to the prompt."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from context_assembler.skills import SkillTeller
from context_assembler.values.options import AssembleOptions, Layer, Settled
from context_assembler.values.prompt import Skill
from tests.truncation.conversations import WordCounter


class Counting(WordCounter):
    """Counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def count_text(self, text: str) -> int:
        self.asked += 1
        return super().count_text(text)


class Listed:
    def __init__(self, *names: str) -> None:
        self.skills = [
            Skill(name=n, description=f"{n}.", path=n, instructions="Do.", tools=({"name": n},))
            for n in names
        ]

    async def list_skills(self) -> Sequence[Skill]:
        return self.skills


def settled(*, layer: Layer = "session", **options: Any) -> Settled:
    return Settled(options=AssembleOptions(**options), layers=dict.fromkeys(options, layer))


async def test_without_providers_nothing_is_said() -> None:
    told = await SkillTeller().tell(settled(), counter=Counting())

    assert (told.text, told.entries, told.skills, told.warnings) == ("", (), (), ())


async def test_active_skills_bring_their_tools() -> None:
    teller = SkillTeller([Listed("a", "b")])

    told = await teller.tell(settled(active_skills=("b",)), counter=Counting())

    assert told.active == ("b",)
    assert [one.name for one in told.with_tools] == ["b"]
    assert '<skill name="b"' in told.text


async def test_a_filter_activates_what_it_names_only_in_the_request() -> None:
    teller, counter = SkillTeller([Listed("a", "b")]), Counting()

    asked = await teller.tell(settled(skill_filter=("a",), layer="request"), counter=counter)
    usual = await teller.tell(settled(skill_filter=("a",)), counter=counter)

    assert (asked.active, usual.active) == (("a",), ())


async def test_what_was_said_is_not_counted_again_until_something_changes() -> None:
    provider, counter = Listed("a", "b"), Counting()
    teller = SkillTeller([provider])

    first = await teller.tell(settled(), counter=counter)
    asked = counter.asked
    again = await teller.tell(settled(), counter=counter)
    provider.skills = provider.skills[:1]
    other = await teller.tell(settled(), counter=counter)

    assert again is first
    assert counter.asked > asked
    assert [one.name for one in other.skills] == ["a"]


async def test_secrets_of_skills_are_masked_where_that_is_wanted() -> None:
    key = "sk-ant-" + "a1b2" * 8
    provider = Listed("a", "b")
    provider.skills[0] = replace(provider.skills[0], instructions=f"Use {key}.", description=key)

    told = await SkillTeller([provider], masks_secrets=True).tell(
        settled(active_skills=("a",)), counter=Counting()
    )

    assert key not in told.text
    notice = "a secret was masked (Anthropic API Key)"
    assert told.warnings == (f"a: {notice}; {notice}",)


async def test_skills_are_left_out_for_the_reason_given() -> None:
    teller, counter = SkillTeller([Listed("a")]), Counting()

    by_agent = await teller.tell(settled(), counter=counter, skip_reason="the agent has none")
    by_option = await teller.tell(settled(skip_skills=True), counter=counter)

    assert by_agent.text == by_option.text == ""
    assert by_agent.entries[0].reason == "the agent has none"
    assert by_option.entries[0].reason == "skip_skills is on"
