"""Errors and warnings say what was given, what is wrong with it, and what to do, in plain words."""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import context_assembler
from context_assembler import (
    ContextAssembler,
    ContextOverflowError,
    InvalidParameterError,
    MissingModelError,
    ReplyError,
    ToolChoice,
    UnknownOptionError,
    tool,
)
from context_assembler.errors.base import with_article
from context_assembler.values.tool_choices import parse_tool_choice

_MODEL = "gpt-5.5"


@dataclass
class Executor:
    tools_it_lists: Any

    def list_tools(self) -> Any:
        return self.tools_it_lists


def test_a_remedy_names_what_is_to_be_passed_before_its_example() -> None:
    texts = {
        (path.name, node.value)
        for path in Path(context_assembler.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }

    assert [one for one in texts if "Pass such as" in one[1] or one[1].startswith("such as ")] == []


@pytest.mark.parametrize("kind", ["embedder", "preset"])
def test_a_name_of_few_is_answered_by_all_of_them(kind: str) -> None:
    known = {"embedder": ("bundled", "minilm", "openai"), "preset": ("coding", "general")}[kind]

    for name in ("nope", "opena", "codin", ""):
        said = str(UnknownOptionError(name, kind=kind, known=known))

        assert f"Known: {', '.join(sorted(known))}." in said


def silent(place: str) -> str:
    return place


@tool(description="Look it up.")
def described(place: str) -> str:
    return place


def spoken(place: str) -> str:
    """Say where it is."""
    return place


async def test_a_function_that_does_not_say_what_it_does_is_named_once_in_every_report() -> None:
    assembler = ContextAssembler(tools=[silent, spoken, silent, described])
    await assembler.add_user("s", "Hello.")

    first = await assembler.assemble("s", model=_MODEL)
    await assembler.add_user("s", "And now?")
    next_one = await assembler.assemble("s", model=_MODEL)

    assert first.report.warnings == next_one.report.warnings
    assert [warning for warning in first.report.warnings if "docstring" in warning] == [
        "silent has no docstring: a model is told its name and arguments, and not what it does."
    ]


async def _ask(assembler: ContextAssembler, **options: Any) -> tuple[str, ...]:
    await assembler.add_user("s", "Hello.")
    asked: dict[str, Any] = {"model": _MODEL, **options}
    return (await assembler.assemble("s", **asked)).report.warnings


ANSWERS = {
    "a text": ("search", "returned a str, and no list"),
    "bytes": (b"search", "returned a bytes, and no list"),
    "a mapping": ({"search": 1, "find": 2}, "returned a dict, and no list"),
    "a number": (3, "returned an int, and no list"),
    "nothing": (None, "returned a NoneType, and no list"),
    "several of which one thing is to be said": ([1, 2, 3], "an int is neither a spec nor"),
}


@pytest.mark.parametrize(("listed", "told"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_a_source_that_lists_no_tools_is_one_warning(listed: Any, told: str) -> None:
    (warning,) = await _ask(ContextAssembler(tools=[Executor(listed)]))

    assert told in warning


CHOICES = {
    "any": ("any", "got 'any'"),
    "one by name": ({"name": "find"}, r"got \{'name': 'find'\}"),
    "some": (
        {"mode": "any", "allowed": ["find"], "allows_parallel": False},
        r"got \{'mode': 'any', 'allows_parallel': False, 'allowed': \['find'\]\}",
    ),
}


@pytest.mark.parametrize(("choice", "told"), CHOICES.values(), ids=CHOICES.keys())
async def test_a_refused_tool_choice_is_shown_as_it_is_written(choice: Any, told: str) -> None:
    with pytest.raises(InvalidParameterError, match=told):
        await _ask(ContextAssembler(), tool_choice=choice)


@given(
    mode=st.sampled_from(["auto", "none", "any"]),
    parallel=st.sampled_from([None, True, False]),
    allowed=st.sampled_from([None, (), ("a",), ("a", "b")]),
)
def test_a_tool_choice_that_is_spelled_reads_as_the_same(
    mode: Any, parallel: bool | None, allowed: tuple[str, ...] | None
) -> None:
    choice = ToolChoice(mode=mode, allows_parallel=parallel, allowed=allowed)
    named = ToolChoice(mode="tool", name="a", allows_parallel=parallel)

    assert parse_tool_choice(choice.spelled) == choice
    assert parse_tool_choice(named.spelled) == named


async def test_a_window_of_which_the_reply_takes_all_says_so() -> None:
    with pytest.raises(ContextOverflowError) as caught:
        await _ask(ContextAssembler(), max_context_tokens=200, reserve_tokens=1_200)

    assert "nothing is left" in str(caught.value)
    assert "what takes it all is the reserve of 1,200 tokens" in str(caught.value)
    assert "-1,000" not in str(caught.value)


async def test_a_model_that_was_passed_as_the_agent_is_named_as_the_model() -> None:
    assembler = ContextAssembler()
    await assembler.add_user("s", "Hello.")

    with pytest.raises(MissingModelError, match="Did you mean model='claude-opus-5-5'"):
        await assembler.assemble("s", "claude-opus-5-5")
    with pytest.raises(MissingModelError, match="Pass model='…'"):
        await assembler.assemble("s", "researcher")
    context = await assembler.assemble("s", "claude-opus-5-5", model=_MODEL)
    assert context.metadata.agent_id == "claude-opus-5-5"


async def test_a_reply_that_cannot_be_read_is_told_of_every_sdk() -> None:
    assembler = ContextAssembler()
    await assembler.add_user("s", "Hello.")
    context = await assembler.assemble("s", model=_MODEL)

    with pytest.raises(ReplyError, match="An int cannot be recorded") as caught:
        await assembler.record("s", 3, context)

    assert all(sdk in caught.value.remedy for sdk in ("anthropic", "openai", "google-genai"))


ARTICLES = {
    "int": "an int",
    "str": "a str",
    "Executor": "an Executor",
    "UserMessage": "a UserMessage",
    "UUID": "a UUID",
    "'object'": "an 'object'",
    "image": "an image",
}


@pytest.mark.parametrize(("noun", "told"), ARTICLES.items())
def test_a_noun_has_its_article(noun: str, told: str) -> None:
    assert with_article(noun) == told
    assert with_article(noun, begins_sentence=True) == told[0].upper() + told[1:]
