"""The text of a SKILL.md, whatever it is."""

from pathlib import PurePath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.skills.skill_file import ParsedSkill, parse_skill
from context_assembler.values.prompt import Skill

PATH = PurePath("/skills/pdf/SKILL.md")


def parsed(front: str, body: str = "Steps.") -> ParsedSkill:
    text = f"---\nname: pdf\ndescription: Makes PDF files.\n{front}\n---\n{body}"
    return parse_skill(text.encode(), path=PATH)


def read(front: str) -> Skill:
    skill = parsed(front).skill
    assert skill is not None
    return skill


# front matter → tools approved in advance
ALLOWED: dict[str, tuple[str, tuple[str, ...]]] = {
    "nothing": ("license: MIT", ()),
    "words": ("allowed-tools: web-search file-read", ("web-search", "file-read")),
    "arguments in brackets": (
        "allowed-tools: Bash(git add:*) Bash(jq:*), Read",
        ("Bash(git add:*)", "Bash(jq:*)", "Read"),
    ),
    "a list": ("allowed-tools: [Bash, Read, Bash]", ("Bash", "Read")),
    "no text": ("allowed-tools: 7", ()),
}


@pytest.mark.parametrize(("front", "allowed"), ALLOWED.values(), ids=ALLOWED.keys())
def test_tools_approved_in_advance_are_read(front: str, allowed: tuple[str, ...]) -> None:
    assert read(front).allowed_tools == allowed


# front matter → names of specs, files, what is said
TOOLS: dict[str, tuple[str, list[str], tuple[str, ...], str]] = {
    "nothing": ("license: MIT", [], (), ""),
    "one spec": ("tools: {name: a}", ["a"], (), ""),
    "specs": ("tools: [{name: a}, {name: b}]", ["a", "b"], (), ""),
    "a file": ("tools: tools.json", [], ("tools.json",), ""),
    "files": ("tools: [a.yaml, b.YML, a.yaml]", [], ("a.yaml", "b.YML"), ""),
    "names of other tools": ("tools: Read, Grep", [], (), "'Read, Grep' is neither a spec nor"),
    "a number": ("tools: [3]", [], (), "'3' is neither"),
    "no JSON": ("tools: [{name: a, x: .nan}]", [], (), "is neither"),
}


@pytest.mark.parametrize(("front", "names", "files", "says"), TOOLS.values(), ids=TOOLS.keys())
def test_tools_are_specs_or_files(
    front: str, names: list[str], files: tuple[str, ...], says: str
) -> None:
    found = parsed(front)

    assert found.skill is not None
    assert [spec["name"] for spec in found.skill.tools] == names
    assert found.tool_files == files
    assert says in "".join(found.notes)
    assert bool(found.notes) == bool(says)


def test_names_and_descriptions_are_one_line_without_hidden_characters() -> None:
    text = '---\nname: "p\\nd\\tf"\ndescription: "Makes\\n- other (x): \\e[31mred\\u202e\\U000E0041 it."\n---\n'

    skill = parse_skill(text.encode(), path=PATH).skill

    assert skill is not None
    assert skill.name == "p d f"
    assert skill.description == "Makes - other (x): [31mred it."


def test_a_description_that_is_too_long_is_noted_and_kept() -> None:
    found = parse_skill(f"---\ndescription: {'x' * 1025}\n---\n".encode(), path=PATH)

    assert found.skill is not None
    assert len(found.skill.description) == 1025
    assert "longer than 1,024" in found.notes[-1]


UNDESCRIBED: dict[str, tuple[str, str]] = {
    "no front matter": ("Just text.", ": the file does not begin with a line '---'"),
    "front matter behind a blank line": (
        "\n---\ndescription: d\n---\n",
        ": the file does not begin with a line '---'",
    ),
    "an open end": ("---\nname: pdf\ndescription: d\n", ": no line '---' closes it"),
    "no description": ("---\nname: pdf\n---\n", ""),
    "a number": ("---\ndescription: 3\n---\n", " that is text: put 3 in quotes"),
}


@pytest.mark.parametrize(("text", "why"), UNDESCRIBED.values(), ids=UNDESCRIBED.keys())
def test_without_a_description_there_is_no_skill_and_the_reason_is_told(
    text: str, why: str
) -> None:
    found = parse_skill(text.encode(), path=PATH)

    assert found.skill is None
    assert found.problem == f"its front matter has no description{why}"


def test_references_that_unfold_without_end_are_not_followed() -> None:
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))

    found = parsed(f"a0: &a0 [x, x]\n{levels}")

    assert found.skill is not None
    assert "too many values" in found.notes[0]


@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_raise(raw_bytes: bytes, has_front: bool) -> None:
    found = parse_skill(b"---\nname: x\n" * has_front + raw_bytes, path=PATH)

    assert (found.skill is None) == bool(found.problem)


def test_the_rest_of_the_front_matter_is_nobodys_business() -> None:
    more: dict[str, Any] = {"license": "MIT", "compatibility": "x", "metadata": {"version": "1.0"}}

    assert read("\n".join(f"{key}: {value}" for key, value in more.items())) == read("")
