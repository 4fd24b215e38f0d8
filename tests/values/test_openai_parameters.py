"""Parameters, choices, media and usage that both protocols of OpenAI's spell alike."""

from dataclasses import replace
from typing import Any

import pytest

from context_assembler.errors import UnsupportedRequestError
from context_assembler.values.openai.media import (
    MAX_FILE_CHARS,
    MAX_IMAGE_CHARS,
    MAX_IMAGES,
    TAKEN_BY_ALL,
    with_own_limits,
)
from context_assembler.values.openai.outputs import mark_failure
from context_assembler.values.openai.parameters import cache_key_of, effort_of, sampling_of
from context_assembler.values.openai.tool_choice import names_to_choose, spell_choice
from context_assembler.values.openai.usage import read_usage
from context_assembler.values.parts import Json
from context_assembler.values.tools import ToolChoice
from tests.providers.drafts import GPT_4O, GPT_6_SOL, draft
from tests.providers.wires import USAGE

US = "openai_chat"
EFFORTS: dict[str, tuple[dict[str, Any], str | None]] = {
    "the level that is asked for": ({"thinking_level": "low"}, "low"),
    "a budget of nothing": ({"thinking_budget": 0}, "none"),
    "nothing is asked for": ({}, None),
    "a level that the model has not": ({"thinking_level": "max"}, None),
}
CHOICES: dict[str, tuple[ToolChoice | None, bool, dict[str, Json]]] = {
    "no choice": (None, True, {}),
    "the model chooses": (ToolChoice(mode="auto"), True, {"tool_choice": "auto"}),
    "some call is forced": (ToolChoice(mode="any"), True, {"tool_choice": "required"}),
    "a tool is forced": (
        ToolChoice(mode="tool", name="read_file"),
        True,
        {"tool_choice": {"named": "read_file"}},
    ),
    "one call at a time": (
        ToolChoice(mode="auto", allows_parallel=False),
        True,
        {"tool_choice": "auto", "parallel_tool_calls": False},
    ),
    "nothing to choose from": (ToolChoice(mode="auto", allows_parallel=False), False, {}),
}
AMONG: dict[str, tuple[ToolChoice, tuple[str, ...]]] = {
    "some of the tools": (ToolChoice(mode="auto", allowed=("b", "a")), ("a", "b")),
    "all of them": (ToolChoice(mode="auto"), ()),
    "no call at all": (ToolChoice(mode="none"), ()),
}


@pytest.mark.parametrize(("options", "effort"), EFFORTS.values(), ids=EFFORTS.keys())
def test_only_an_effort_of_the_models_own_is_asked_for(
    options: dict[str, Any], effort: str | None
) -> None:
    assert effort_of(draft(limits=GPT_6_SOL, **options)) == effort


def test_sampling_is_told_where_it_is_set() -> None:
    assert sampling_of(draft(temperature=0)) == {"temperature": 0}
    assert sampling_of(draft(top_p=0.5)) == {"top_p": 0.5}


def test_a_session_has_one_cache_key_however_long_its_id() -> None:
    made = draft()

    keys = [cache_key_of(replace(made, session_id=name)) for name in ("a" * 64, "a" * 65, "")]

    assert keys[0] == {"prompt_cache_key": "a" * 64}
    assert len(str(keys[1]["prompt_cache_key"])) == 64
    assert keys[1] != keys[0]
    assert keys[2] == {}
    assert cache_key_of(replace(made, cache="off")) == {}


@pytest.mark.parametrize(("choice", "has_tools", "spelled"), CHOICES.values(), ids=CHOICES.keys())
def test_a_choice_stands_beside_tools(
    choice: ToolChoice | None, has_tools: bool, spelled: dict[str, Json]
) -> None:
    made = draft(limits=GPT_4O, tool_choice=choice)

    told = spell_choice(
        made, provider=US, has_tools=has_tools, among={}, choose=lambda name: {"named": name}
    )

    assert told == spelled


def test_a_choice_among_some_tools_stands_for_every_other() -> None:
    among = {"type": "allowed_tools"}
    for choice in (None, ToolChoice(mode="any")):
        made = draft(limits=GPT_4O, tool_choice=choice)
        told = spell_choice(made, provider=US, has_tools=True, among=among, choose=lambda _: {})
        assert told == {"tool_choice": among}


def test_a_model_that_knows_no_parallel_calls_is_not_told_of_them() -> None:
    limits = replace(GPT_4O, features={"parallel_tools": False})
    made = draft(limits=limits, tool_choice=ToolChoice(mode="auto", allows_parallel=True))

    told = spell_choice(made, provider=US, has_tools=True, among={}, choose=lambda _: {})

    assert told == {"tool_choice": "auto"}


@pytest.mark.parametrize(
    ("choice", "has_tools", "word"),
    [
        (ToolChoice(mode="tool", name="gone"), True, "'gone', which is not offered"),
        (ToolChoice(mode="any"), False, "no tool is offered"),
    ],
    ids=["a tool that is not there", "no tool at all"],
)
def test_a_call_that_cannot_be_made_is_not_forced(
    choice: ToolChoice, has_tools: bool, word: str
) -> None:
    made = draft(limits=GPT_4O, tool_choice=choice)

    with pytest.raises(UnsupportedRequestError, match=word) as caught:
        spell_choice(made, provider=US, has_tools=has_tools, among={}, choose=lambda _: {})

    assert (caught.value.provider, caught.value.model) == (US, "gpt-4o")


@pytest.mark.parametrize(("choice", "names"), AMONG.values(), ids=AMONG.keys())
def test_a_choice_is_among_the_tools_that_are_allowed(
    choice: ToolChoice, names: tuple[str, ...]
) -> None:
    made = draft(limits=GPT_4O, tool_choice=choice)

    assert names_to_choose(made, provider=US, is_openai=True) == names
    assert names_to_choose(made, provider=US, is_openai=False) == ()


def test_what_is_sent_stays_below_what_is_refused() -> None:
    own = with_own_limits(TAKEN_BY_ALL)

    assert (own.max_image_chars or 0) < MAX_IMAGE_CHARS
    assert (own.max_document_chars or 0) < MAX_FILE_CHARS
    assert own.max_images == MAX_IMAGES
    assert TAKEN_BY_ALL.max_images is None


@pytest.mark.parametrize(("asked", "answered"), [("prompt", "completion"), ("input", "output")])
def test_usage_reads_alike_in_the_words_of_either_protocol(asked: str, answered: str) -> None:
    told = {
        f"{asked}_tokens": 130,
        f"{answered}_tokens": 30,
        f"{asked}_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 20},
        f"{answered}_tokens_details": {"reasoning_tokens": 7},
    }

    assert read_usage(told, asked=asked, answered=answered) == USAGE
    assert read_usage(None, asked=asked, answered=answered) is None


def test_a_tool_that_failed_in_silence_is_spoken_for() -> None:
    assert mark_failure("ENOENT") == "ERROR: ENOENT"
    assert mark_failure("") == "ERROR: the tool failed without saying why"
