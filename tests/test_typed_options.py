"""What a type checker says of a user's program: nothing where it is right, the place where it is not."""

import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from context_assembler import (
    AssembleOptions,
    ConfigurationError,
    ContextAssembler,
    GivenOptions,
    MemoryAssembler,
    ToolChoice,
)
from context_assembler.creating import AssemblerParts
from context_assembler.memory_assembler import calls
from context_assembler.values.option_rules import parse_option
from tests.test_docs import PAGES, ROOT, blocks_of

# By option, as a user writes it: what is taken, and what is not.
SPELLINGS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "model": (('"gpt-5.5"', "None"), ("5",)),
    "temperature": (("1", "0.5"), ('"warm"',)),
    "max_tokens": (("500",), ('"many"', "0.5")),
    "top_p": (("0.9", "1"), ('"0.9"',)),
    "top_k": (("40",), ('"40"',)),
    "stop_sequences": (('"END"', '["END"]', '("END", "STOP")'), ("5", "[5]")),
    "thinking_level": (('"high"',), ("3",)),
    "thinking_budget": (("0",), ('"0"',)),
    "additional_system_prompt": (('"Be brief."',), ('["Be brief."]',)),
    "additional_tools": (("len", "[len]", '[{"name": "look", "input_schema": {}}]'), ()),
    "disabled_tools": (("[]", '["look"]'), ("{1: 2}",)),
    "tool_choice": (
        ('"auto"', '"required"', '{"name": "look"}', 'ToolChoice(mode="any")'),
        ('"look"', "5"),
    ),
    "max_context_tokens": (("4_000",), ("4e3",)),
    "reserve_tokens": (("0",), ('"0"',)),
    "truncation_strategy": (('"smart"', '"simple"', '"sliding"'), ('"smrt"',)),
    "window_turns": (("5",), ('"5"',)),
    "cache_stable": (("True",), ('"yes"',)),
    "on_overflow": (('"error"', '"shorten"'), ('"drop"',)),
    "skip_skills": (("False",), ('"no"',)),
    "skill_filter": (('"pdf*"', '["pdf"]'), ("5",)),
    "active_skills": (('["pdf"]',), ("[5]",)),
    "sandbox_mode": (("True",), ('"on"',)),
    "permissions": (('["fs.*"]', "()"), ("5",)),
    "query": (('"Where?"',), ('["Where?"]',)),
    "recall_tokens": (("300",), ('"300"',)),
    "recall_namespaces": (('"ada"', '["ada", ""]'), ("5",)),
    "cache": (('"auto"', '"off"'), ('"on"', "True")),
    "exact": (("True",), ('"true"',)),
    "fresh": (("True",), ("1",)),
    "refresh": (("None",), ("1",)),
    "unknown_model": (('"error"', '"conservative"'), ('"ask"',)),
}
RIGHT = [(name, text) for name, (taken, _) in SPELLINGS.items() for text in taken]
WRONG = [(name, text) for name, (_, refused) in SPELLINGS.items() for text in refused]
PROGRAM = """
from typing import Any

from context_assembler import (
    CutPolicy, ContextAssembler, FormattedContext, GivenOptions, TaskStack, ToolChoice,
    create_context_assembler,
)


async def main(a: ContextAssembler, stack: TaskStack, found: FormattedContext) -> None:
    options: GivenOptions = {"model": "gpt-5.5", "max_tokens": 500}
    await a.assemble("s", **options)
    await a.assemble("s", "agent", **options)
    some: dict[str, Any] = {"max_tokens": 500}
    await a.assemble("s", model="gpt-5.5", **some)
"""
CALLS_RIGHT = [
    'await a.explain("s", model="gpt-5.5")',
    'await a.check_compaction("s", is_explicit=True, max_tokens=5)',
    'await a.simulate("s", policies=[CutPolicy()], model="gpt-5.5")',
    'await a.recall("tea", limit=3, max_tokens=100, context_types=["fact"])',
    'await a.get_premortem_context("deploys", max_tokens=100)',
    "await a.assemble_stack(stack, limit=3)",
    'a.update_context(found, "It rained.", limit=3)',
    "await a.compress(found, target_tokens=100)",
    'create_context_assembler(sessions="memory:", tools=[len])',
]
CALLS_WRONG = [
    'await a.assemble("s", modle="gpt-5.5")',
    'a.assemble_sync("s", max_token=5)',
    'await a.explain("s", modle="gpt-5.5")',
    'await a.check_compaction("s", max_tokens="many")',
    'await a.simulate("s", exact="yes")',
    'await a.recall("tea", max_token=100)',
    'await a.recall("tea", settings="coding")',
    'await a.get_premortem_context("deploys", limit=3)',
    'await a.assemble_stack(stack, namespaces=["ada"])',
    'a.update_context(found, "It rained.", limit="few")',
    "await a.compress(found)",
    'create_context_assembler(session="memory:")',
]


def check_types(program: str, folder: Path) -> dict[int, str]:
    """Return what mypy in its strict mode says of a program, by line from 1."""
    path = folder / "program.py"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--hide-error-context", str(path)],
        check=False,
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
    )
    assert not done.stderr, done.stderr
    found = re.findall(r"program\.py:(\d+): error: (.*)", done.stdout)
    return {int(line): error for line, error in found}


@pytest.mark.timeout(600)
def test_a_right_program_passes_and_every_wrong_line_is_found(tmp_path: Path) -> None:
    right = [*CALLS_RIGHT, *(f'a.assemble_sync("s", {name}={text})' for name, text in RIGHT)]
    wrong = [*CALLS_WRONG, *(f'a.assemble_sync("s", {name}={text})' for name, text in WRONG)]
    lines = [*PROGRAM.splitlines(), *(f"    {line}" for line in [*right, *wrong])]

    errors = check_types("\n".join(lines), tmp_path)

    said = {lines[number - 1].strip(): error for number, error in errors.items()}
    assert {line: error for line, error in said.items() if line not in wrong} == {}
    assert [line for line in wrong if line not in said] == []


@pytest.mark.timeout(600)
def test_the_programs_of_the_docs_call_an_assembler_as_its_types_say(tmp_path: Path) -> None:
    lines: list[str] = []
    for number, page in enumerate(PAGES):
        blocks = [block.text for block in blocks_of(page) if block.language == "python"]
        body = textwrap.indent("\n".join(blocks), "    ")
        lines += [
            f"async def page_{number}() -> None:  # {page.name}",
            *body.splitlines(),
            "    ...",
        ]

    errors = check_types("\n".join(lines), tmp_path)

    calls_of_ours = re.compile(r'of "(ContextAssembler|MemoryAssembler)"|context_assembler')
    wrong = {lines[n - 1]: error for n, error in errors.items() if calls_of_ours.search(error)}
    assert wrong == {}


def test_the_types_name_every_option_in_its_order() -> None:
    assert list(GivenOptions.__annotations__) == [field.name for field in fields(AssembleOptions)]
    assert list(SPELLINGS) == list(GivenOptions.__annotations__)


@pytest.mark.parametrize(("name", "text"), RIGHT)
def test_what_the_types_take_is_read(name: str, text: str) -> None:
    value = eval(text, {"ToolChoice": ToolChoice})

    assert value is None or parse_option(name, value) is not None


@pytest.mark.parametrize(("name", "text"), WRONG)
def test_what_the_types_refuse_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_option(name, eval(text))


PASSED_ON: dict[str, tuple[type, Callable[..., object]]] = {
    "recall": (calls.Recall, MemoryAssembler.assemble_context),
    "get_premortem_context": (calls.Premortem, MemoryAssembler.get_premortem_context),
    "assemble_stack": (calls.Stack, MemoryAssembler.assemble_stack),
    "update_context": (calls.Update, MemoryAssembler.update_context),
    "compress": (calls.Compress, MemoryAssembler.compress),
}


@pytest.mark.parametrize(("taken", "method"), PASSED_ON.values(), ids=PASSED_ON)
def test_what_is_passed_on_has_the_types_of_where_it_goes(
    taken: type, method: Callable[..., object]
) -> None:
    keywords = _keywords(method)

    hints = get_type_hints(method)
    assert get_type_hints(taken) == {name: hints[name] for name in keywords}
    required = {name for name, one in keywords.items() if one.default is one.empty}
    assert vars(taken)["__required_keys__"] == required


def test_an_assembler_is_created_from_the_parts_that_it_takes() -> None:
    parameters = inspect.signature(ContextAssembler).parameters

    assert list(AssemblerParts.__annotations__) == list(parameters)


def _keywords(method: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    given = inspect.signature(method).parameters.items()
    return {name: one for name, one in given if one.kind is one.KEYWORD_ONLY}
