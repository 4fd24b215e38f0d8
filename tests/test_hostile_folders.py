"""Folders made to harm: whatever lies in them, loading ends, stays inside and loses no other file."""

import asyncio
import os
import socket
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_assembler import AssemblerConfig, ContextAssembler
from context_assembler.errors import InvalidParameterError, TemplateError, UnsafePathError
from context_assembler.stages.load_bootstrap import BootstrapLoader, render_bootstrap
from context_assembler.stages.load_bootstrap.file_opening import MAX_FILE_BYTES
from context_assembler.stages.load_bootstrap.file_reading import (
    MAX_READ_BYTES,
    MAX_WARNINGS,
    FileReading,
)

SECRET: Final = "TOP SECRET"
WITNESS: Final = "The office is closed on Sundays."
GIGABYTE: Final = 1 << 30


def laughs(levels: int = 12) -> str:
    """Return YAML that is short and unfolds to more than fits into any memory."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


def merges(levels: int = 12) -> str:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, levels)]
    return "\n".join(lines)


FRONT_MATTER = {
    "aliases": laughs(),
    "merged keys": merges(),
    "a list that holds itself": "a: &a [*a]",
    "deep nesting": "a: " + "[" * 5_000,
    "a long number": "a: " + "9" * 6_000,
    "a long number to the base of sixty": "a: " + "1:" * 5_000 + "1",
    "an object of Python": "a: !!python/object/apply:os.system ['true']",
    "no text": "\x00\x01: \x02",
    "not a number": "a: .nan\nb: .inf",
}
TEMPLATES = {
    "a long loop": "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
    "a long text": "{{ 'a' * 10**10 }}",
    "the interpreter": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "a file": "{% include '/etc/passwd' %}",
    "many expressions": "{{ agent }}" * 20_000,
    "deep nesting": "{{ " + "(" * 3_000 + "1" + ")" * 3_000 + " }}",
    "deep blocks": "{% if 1 %}" * 2_000,
    "nothing that ends": "{{" * 3_000,
}
REFERENCES = (
    "@a.md",
    "@sub/b.md",
    "@AGENT.md",
    "@huge.md",
    "@huge.txt",
    "@pipe",
    "@./pipe",
    "@./socket",
    "@./device",
    "@loop.md",
    "@./here/here/here/AGENT.md",
    "@up/secret.md",
    "@../secret.md",
    "@sub/../../secret.md",
    "@..\\secret.md",
    "@%2e%2e/secret.md",
    "@/etc/passwd",
    "@//etc/passwd",
    "@/proc/self/environ",
    "@/dev/zero",
    "@/dev/stdin",
    "@~/secret.md",
    "@file:///etc/passwd.md",
    "@C:\\secret.md",
    "@./\x1b[31mred.md",
    "@with\\ space.md",
    "@" + "x" * 5_000,
    "@" + "../" * 2_000 + "etc/passwd",
    "@" + "y" * 300 + ".md",
    "@.",
    "@..",
    "@./",
    "@{{ agent }}.md",
)


def with_front_matter(front: str) -> str:
    return f"---\n{front}\n---\nRead on.\n@a.md"


Build = Callable[[Path], object]


def writes(text: str | bytes) -> Build:
    raw_bytes = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    return lambda path: path.write_bytes(raw_bytes)


def links(target: str) -> Build:
    return lambda path: path.symlink_to(target)


def make_sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, GIGABYTE)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def make_device(path: Path) -> None:
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # what reads as endless zeros
    except OSError:  # only for those who may
        path.mkdir()


def make_unreadable(path: Path) -> None:
    path.write_text("for nobody")  # who runs as root reads it all the same
    path.chmod(0)


KINDS: dict[str, Build] = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a socket": make_socket,
    "a device": make_device,
    "a huge file": make_sparse,
    "a file without rights": make_unreadable,
    "a link to a secret": links("../secret.md"),
    "a link to a device": links("/dev/zero"),
    "a link to the process": links("/proc/self/environ"),
    "a link to itself": links("AGENT.md"),
    "a link to the next": links("SOUL.md"),
    "a link to the folder": links("."),
    "a link out of the folder": links(".."),
    "a link to nowhere": links("nowhere.md"),
    "zeros": writes(b"\0" * 5_000),
    "noise": writes(bytes(range(256)) * 20),
    "half of UTF-16": writes(b"\xff\xfea\0b"),
    "backticks": writes(" ".join("`" * n for n in range(300, 0, -1))),
    "comments": writes("<!--" * 3_000),
    "many imports": writes("@a.md\n" * 3_000),
    "many imports of much": writes("@huge.md\n@huge.txt\n" * 500),
    "many refused imports": writes("".join(f"@../{n}.md\n" for n in range(500))),
    **{f"front matter: {name}": writes(with_front_matter(f)) for name, f in FRONT_MATTER.items()},
    **{
        f"template: {name}": writes(f"---\ntemplate: jinja2\n---\n{text}")
        for name, text in TEMPLATES.items()
    },
}

NAMES: Final = (
    *("AGENT.md", "AGENT.bot.md", "SOUL.md", "a.md", "sub/b.md", "huge.md", "huge.txt"),
    *("pipe", "socket", "device", "loop.md", "here", "up", "with space.md"),
    *("\x1b[31mred.md", "new\nline.md", "-rf.md", "AGENT.md\r"),
)
lines = (
    st.sampled_from(REFERENCES)
    | st.sampled_from(["---", "<!--", "-->", "```", "`"])
    | st.text(max_size=5)
)
texts = st.lists(lines, max_size=8).map("\n".join)
folders = st.dictionaries(
    st.sampled_from(NAMES), st.sampled_from(sorted(KINDS)) | texts, min_size=1, max_size=7
)


def build(root: Path, entries: dict[str, str]) -> Path:
    (root / "secret.md").write_text(SECRET)
    folder = root / "bootstrap"
    folder.mkdir()
    (folder / "CONTEXT.md").write_text(WITNESS)
    for name, kind in entries.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        make = KINDS.get(kind) or writes(kind)
        with suppress(FileExistsError):
            make(path)
    return folder


def count_chars(text: str) -> int:
    return len(text)


@settings(max_examples=200)
@given(entries=folders, agent_id=st.sampled_from([None, "bot"]))
async def test_a_hostile_folder_never_leaks_never_raises_never_hangs_and_loses_no_other_file(
    entries: dict[str, str], agent_id: str | None
) -> None:
    with tempfile.TemporaryDirectory(prefix="h") as root:
        folder = build(Path(root), entries)
        async with asyncio.timeout(60):
            loader = BootstrapLoader(folder, max_file_tokens=2_000)
            files = await loader.load(agent_id, count_text=count_chars)

    assert [file.section for file in files] == ["agent", "soul", "context"]
    assert files[2].text == WITNESS
    for file in files:
        told = "".join([file.text, str(file.metadata), *file.warnings])
        assert SECRET not in told
        assert "root:" not in told
        assert (file.state == "ok") == bool(file.text)
        assert file.state in {"ok", "missing", "empty"} or file.warnings
        assert len(file.warnings) <= MAX_WARNINGS + 5
        assert all(warning.isprintable() and len(warning) < 600 for warning in file.warnings)
        assert len(file.text) <= 2_000 or file.metadata.get("template") == "jinja2"
        with suppress(TemplateError):
            [filled] = render_bootstrap([file], {"agent": "bot"})
            assert len(filled.text) <= 2_000_000


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(entries=folders)
async def test_a_hostile_folder_is_assembled_or_refused_by_name(entries: dict[str, str]) -> None:
    config = AssemblerConfig(bootstrap={"max_file_tokens": 2_000, "required": ()})
    with tempfile.TemporaryDirectory(prefix="h") as root:
        folder = build(Path(root), entries)
        assembler = ContextAssembler(bootstrap=folder, config=config)
        await assembler.add_user("s", "hi")
        with suppress(TemplateError):
            context = await assembler.assemble("s", model="claude-opus-5-5", max_tokens=100)

            assert SECRET not in str(context.to_request())
            assert WITNESS in context.system_prompt
            assert not context.check()


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(entries=folders)
async def test_a_hostile_folder_can_be_linted(entries: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix="h") as root:
        folder = build(Path(root), entries)
        async with asyncio.timeout(60):
            lint = await BootstrapLoader(folder).lint(count_text=count_chars)

    assert len(lint.files) == 3


def test_a_file_that_is_imported_a_thousand_times_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("@huge.md\n" * 1_000)
    make_sparse(tmp_path / "huge.md")
    reading = FileReading(root=tmp_path)

    agent = reading.read_section("agent", tmp_path, ["AGENT.md"])

    assert agent.state == "ok"
    assert reading.read_bytes <= 2 * MAX_FILE_BYTES


def test_all_files_together_are_read_up_to_a_bound(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("".join(f"@huge{n}.md\n" for n in range(20)))
    for n in range(20):
        make_sparse(tmp_path / f"huge{n}.md")
    reading = FileReading(root=tmp_path)

    agent = reading.read_section("agent", tmp_path, ["AGENT.md"])

    assert reading.read_bytes <= MAX_READ_BYTES + MAX_FILE_BYTES + 1
    assert any("only the first 4,000,000 bytes" in warning for warning in agent.warnings)


def test_front_matter_of_imports_is_read_up_to_a_bound(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("".join(f"@{n}.md\n" for n in range(4)))
    for n in range(4):
        (tmp_path / f"{n}.md").write_text("---\n" + "a: b\n" * 12_000 + f"---\nrule {n}")
    reading = FileReading(root=tmp_path)

    agent = reading.read_section("agent", tmp_path, ["AGENT.md"])

    assert [f"rule {n}" in agent.text for n in range(4)] == [True] * 4
    assert agent.text.startswith("rule 0\nrule 1\n---\na: b\n")
    assert "front matter in all: this stays text" in agent.warnings[0]


def test_more_warnings_than_anybody_reads_are_counted(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("".join(f"@../{n}.md\n" for n in range(60)))
    reading = FileReading(root=tmp_path)

    agent = reading.read_section("agent", tmp_path, ["AGENT.md"])

    assert len(agent.warnings) == MAX_WARNINGS + 1
    assert agent.warnings[-1] == "10 more of this kind"


def test_what_imports_say_is_bounded_and_printable(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("@./\x1b[31mred.md @../" + "z" * 400 + ".md")
    reading = FileReading(root=tmp_path)

    agent = reading.read_section("agent", tmp_path, ["AGENT.md"])

    assert agent.warnings[0] == "@./\\x1b was not imported: there is no such file"
    assert "…" in agent.warnings[1]


@pytest.mark.parametrize("folder", ["boot\0strap", "boot\ud800strap"])
def test_a_folder_whose_name_cannot_exist_is_refused(folder: str) -> None:
    with pytest.raises(InvalidParameterError, match="bootstrap folder"):
        BootstrapLoader(folder)


async def test_a_file_whose_name_cannot_exist_is_missing(tmp_path: Path) -> None:
    files = await BootstrapLoader(tmp_path, agent_names=["\ud800.md"]).load()

    assert files[0].state == "missing"


async def test_a_root_that_leads_in_a_circle_has_no_files(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    files = await BootstrapLoader(tmp_path / "loop/deep", searches_upward=True).load()

    assert {file.state for file in files} <= {"unreadable", "missing"}


@pytest.mark.parametrize("agent_id", ["x" * 100, "é" * 100, "md", "a..b", "٣"])
async def test_an_agent_id_that_no_file_can_bear_falls_back(tmp_path: Path, agent_id: str) -> None:
    (tmp_path / "AGENT.md").write_text("for all")

    with suppress(UnsafePathError):
        files = await BootstrapLoader(tmp_path).load(agent_id)

        assert files[0].text == "for all"
