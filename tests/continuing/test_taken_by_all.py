"""What every provider takes from everybody need not be looked at by the one that is asked."""

from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.limits import get_model_limits
from context_assembler.providers import PROVIDERS, other_protocols, provider_for
from context_assembler.stages.bind_reasoning import bind_reasoning
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.messages import Message
from context_assembler.values.prompt import SystemPrompt
from context_assembler.values.readers import Reader
from context_assembler.values.spelled_facts import is_taken_by_all
from tests.strategies import broken_histories, paired_conversations

MODELS: Final = (
    "claude-opus-4-8",
    "claude-haiku-4-5",
    "gpt-4.1",
    "gpt-5.5",
    "gemini-3.1-pro-preview",
    "gemini-2.5-flash",
)


@pytest.mark.parametrize("model", MODELS)
@given(st.one_of(broken_histories, paired_conversations))
@settings(max_examples=150)
def test_no_provider_changes_what_all_of_them_take(model: str, history: Sequence[Message]) -> None:
    taken = tuple(m for m in history if m.role != "system" and is_taken_by_all(m))
    limits = get_model_limits(model)
    provider = provider_for(limits)
    reader = Reader(
        provider=provider, limits=limits, account="ours", other_protocols=other_protocols(limits)
    )
    draft = Draft(
        limits=limits,
        parameters=Parameters(max_tokens=100),
        system=SystemPrompt(sections=()),
        messages=taken,
    )

    bound, left_out = bind_reasoning(taken, reader=reader)
    adapted, rows = PROVIDERS[provider].adapt(draft)

    assert bound == adapted.messages == taken
    assert left_out == ()
    assert [row for row in rows if row.kind == "message"] == []


def test_most_of_a_conversation_is_taken_by_all() -> None:
    """Else nothing is held to the law above."""
    found: list[bool] = []

    @given(paired_conversations)
    @settings(max_examples=50, database=None)
    def collect(history: Sequence[Message]) -> None:
        found.extend(map(is_taken_by_all, history))

    collect()
    assert sum(found) > len(found) / 3
