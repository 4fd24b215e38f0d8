"""Files beside a SKILL.md that hold specs of tools."""

import os
from pathlib import Path

import pytest

from context_assembler.skills.tool_files import read_tool_file

READABLE: dict[str, tuple[str, str, list[str]]] = {
    "a list": ("t.json", '[{"name": "a"}, {"name": "b"}]', ["a", "b"]),
    "a list of tools": ("t.json", '{"tools": [{"name": "a"}]}', ["a"]),
    "one spec": ("t.JSON", '{"name": "a"}', ["a"]),
    "YAML": ("t.yaml", "- name: a\n- {name: b}", ["a", "b"]),
    "YAML with a date": ("t.yml", "tools: [{name: a, default: 2026-11-27}]", ["a"]),
    "nothing": ("t.json", "[]", []),
}


@pytest.mark.parametrize(("name", "text", "names"), READABLE.values(), ids=READABLE.keys())
def test_specs_are_read(tmp_path: Path, name: str, text: str, names: list[str]) -> None:
    (tmp_path / name).write_text(text)

    read = read_tool_file(name, folder=tmp_path)

    assert [spec["name"] for spec in read.specs] == names
    assert read.problem == ""
    assert read.identity is not None


BROKEN = {
    "no JSON": ("t.json", b"{", "holds no specs: "),
    "NaN": ("t.json", b'[{"a": NaN}]', "NaN is not JSON"),
    "too deep": ("t.json", b"[" * 5000 + b"]" * 5000, "nested"),
    "no object": ("t.json", b'[{"name": "a"}, 3]', "entry 2 is no object"),
    "no YAML": ("t.yaml", b"a: [", "it is not YAML"),
    "YAML that runs a program": ("t.yaml", b"!!python/object/apply:os.system [ls]", "not YAML"),
    "YAML that unfolds": (
        "t.yaml",
        b"a: &a [x, x]\n"
        + b"".join(
            b"%c: &%c [%s]\n" % (n, n, b", ".join([b"*%c" % (n - 1)] * 20)) for n in b"bcdefg"
        ),
        "too many values",
    ),
    "YAML that knows itself": ("t.yaml", b"&a [*a]", "too many values"),
    "infinity in YAML": ("t.yaml", b"- {x: .inf}", "inf is no JSON number"),
    "too long": ("t.json", b" " * 1_000_001, "is longer than 1,000,000 bytes"),
}


@pytest.mark.parametrize(("name", "raw_bytes", "says"), BROKEN.values(), ids=BROKEN.keys())
def test_what_is_wrong_is_said(tmp_path: Path, name: str, raw_bytes: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(raw_bytes)

    read = read_tool_file(name, folder=tmp_path)

    assert says in read.problem
    assert read.specs == ()


@pytest.mark.parametrize(
    "name", ["../t.json", "/etc/hostname.json", "sub/../../t.json", "link.json"]
)
def test_nothing_outside_the_folder_is_read(tmp_path: Path, name: str) -> None:
    inner = tmp_path / "inner"
    (inner / "sub").mkdir(parents=True)
    (tmp_path / "t.json").write_text('{"name": "a"}')
    (inner / "link.json").symlink_to(tmp_path / "t.json")

    assert "outside" in read_tool_file(name, folder=inner).problem


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")

    for name in ("folder.json", "pipe.json"):
        assert read_tool_file(name, folder=tmp_path).problem == "is no regular file"
    for name in ("none.json", "nul\0.json"):
        assert read_tool_file(name, folder=tmp_path).problem.startswith("cannot be read: ")
