from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.errors import RegistryError
from context_assembler.limits.files import (
    LimitFile,
    merge_rows,
    read_bundled_file,
    read_user_file,
)

BUNDLED = """# about
sources: {}

models:

  # A
  a-1:
    aliases: [one, "1.0"]
    limits: {window: 1}

  b-1:
    limits: {window: 2}
"""

BROKEN = {
    "no YAML": ("models: [", "not valid YAML"),
    "a list": ("- a", "a mapping is needed"),
    "rows at the outer level": ("gpt-4o: {}", "rows stand under 'models:'"),
    "rows as a list": ("models: [a]", "a mapping is needed"),
    "a row as text": ("models: {a: big}", "a mapping is needed, not 'big'"),
    "an id as a number": ("models: {4: {}}", "an id is text, not 4"),
    "a key given twice": ("models:\n  a: {}\n  a: {}\n", r"given twice \(line 3\)"),
    "an inner key given twice": (
        "models:\n  a:\n    limits: {window: 1, window: 2}\n",
        r"given twice \(line 3\)",
    ),
    "a key that is read as a boolean": (
        "models:\n  a:\n    features: {off: true}\n",
        r"reads this key as true or false \(line 3\); quote it",
    ),
    "a key that is a list": ("models: {[a]: {}}", "not valid YAML"),
    "two documents": ("models: {}\n---\nmodels: {}\n", "not valid YAML"),
    "a tag": ("models: !!python/object:os.system {}", "not valid YAML"),
    "nesting without end": ("[" * 5000, "not valid YAML"),
}

rows = st.recursive(
    st.none() | st.integers() | st.lists(st.integers(), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
row_objects = st.dictionaries(st.sampled_from("abc"), rows, max_size=3)


@pytest.mark.parametrize(("text", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_named_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(RegistryError, match=reason) as caught:
        read_user_file("mine.yaml", text)

    assert caught.value.file == "mine.yaml"


@pytest.mark.parametrize("text", ["", "# nothing", "models:", "models: {}\nsources: {}"])
def test_an_empty_file_has_no_rows(text: str) -> None:
    assert read_user_file("mine.yaml", text).ids() == []


def test_splitting_and_parsing_find_the_same_rows() -> None:
    split, parsed = read_bundled_file("x", BUNDLED), read_user_file("x", BUNDLED)

    assert split.ids() == parsed.ids() == ["a-1", "b-1"]
    assert [split.aliases(i) for i in split.ids()] == [["one", "1.0"], None]
    assert [parsed.aliases(i) for i in parsed.ids()] == [["one", "1.0"], None]
    assert [split.row(i) for i in split.ids()] == [parsed.row(i) for i in parsed.ids()]


def test_a_row_is_parsed_once() -> None:
    split = read_bundled_file("x", BUNDLED)

    assert split.row("a-1") is split.row("a-1")


def test_a_file_of_another_layout_is_parsed_whole() -> None:
    text = 'x\nmodels:\n  "a-1": {limits: {window: 1}}\n'.replace("x\n", "sources: {}\n")

    assert read_bundled_file("x", text).row("a-1") == {"limits": {"window": 1}}


def test_anchors_and_merge_keys_repeat_nothing() -> None:
    text = """models:
  a: &base
    limits: &limits {window: 1, output: 1}
  b:
    <<: *base
    limits: {<<: *limits, window: 2}
  c: *base
"""

    parsed = read_user_file("mine.yaml", text)

    assert parsed.row("b") == {"limits": {"window": 2, "output": 1}}
    assert parsed.row("c") == parsed.row("a")


def test_an_error_in_a_row_that_was_split_off_names_no_line() -> None:
    split = read_bundled_file("x", "\nmodels:\n  a:\n    limits: {window: 1, window: 2}\n")

    with pytest.raises(RegistryError, match=r"it is given twice\."):
        split.row("a")


def test_a_file_may_explain_its_sources() -> None:
    text = "sources: {X: mine, Y: 4}\nmodels:\n  a:\n    limits: {window: 1}\n"

    assert read_user_file("x", text).sources() == {"X": "mine", "Y": "4"}
    assert read_bundled_file("x", text).sources() == {"X": "mine", "Y": "4"}
    assert LimitFile(name="x").sources() == read_user_file("x", "models: {}").sources() == {}


def test_what_deletes_waits_until_its_host_is_asked_for() -> None:
    merged = merge_rows({}, {"a": None, "hosts": {"groq": {"limits": {"input": None}}}})

    assert merged == {"hosts": {"groq": {"limits": {"input": None}}}}


def test_a_deleting_row_has_no_aliases() -> None:
    assert LimitFile(name="x", rows={"a": None}).aliases("a") is None


def test_merging_goes_into_mappings_replaces_lists_and_deletes_on_none() -> None:
    files: dict[str, str] = {"limits.window": "old"}
    base: dict[str, Any] = {"limits": {"window": 1, "output": 2}, "aliases": ["a"], "status": "x"}
    over: dict[str, Any] = {"limits": {"window": 9}, "aliases": ["b"], "status": None}

    merged = merge_rows(base, over, file="new", files=files)

    assert merged == {"limits": {"window": 9, "output": 2}, "aliases": ["b"]}
    assert files == {"limits.window": "new", "limits": "new", "aliases": "new"}


def test_what_deletes_can_be_kept() -> None:
    merged = merge_rows({"a": {"b": 1}}, {"a": {"b": None}}, keeps_none=True)

    assert merged == {"a": {"b": None}}


@given(row=row_objects)
def test_merging_over_nothing_keeps_what_is_not_none(row: dict[str, Any]) -> None:
    once = merge_rows({}, row, file="")

    assert merge_rows(once, row, file="") == once
    assert merge_rows(once, {}, file="") == once
