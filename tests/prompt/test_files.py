"""Instruction files: what is read, what is refused, what the model gets of them, and until when."""

import json
import os
import re
import socket
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler import AssemblerConfig, read_transcript
from context_assembler.errors import (
    AssemblyError,
    TemplateError,
    UnsafePathError,
)
from context_assembler.prompt import BootstrapFile, BootstrapLoader, FolderSkills, render_files
from context_assembler.report import file_entries

LATER_NS = 10**19  # so late that every file has been left alone for long


def loader(folder: Path, **settings: Any) -> BootstrapLoader:
    return BootstrapLoader(folder, now_ns=lambda: LATER_NS, **settings)


def write(folder: Path, **texts: str | bytes) -> Path:
    """Write `AGENT_md="…"` as AGENT.md; `__` separates folders."""
    for name, text in texts.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def load_agent(folder: Path, **settings: Any) -> BootstrapFile:
    return loader(folder, **settings).load()[0]


def rules(files: list[BootstrapFile]) -> list[str]:
    return [entry.rule for entry in file_entries(files, count_text=len)]


def states(files: list[BootstrapFile]) -> dict[str, str]:
    return {file.section: file.state for file in files}


def test_files_of_three_sections_come_in_order(tmp_path: Path) -> None:
    write(tmp_path, AGENT_md="Be kind.", CONTEXT_md=" \n")

    files = loader(tmp_path).load()

    assert states(files) == {"agent": "ok", "soul": "missing", "context": "empty"}
    assert rules(files) == ["file.ok", "file.missing", "file.empty"]
    assert files[0].text == "Be kind."
    assert repr(files[0]).endswith("AGENT.md', ok, 8 characters)")


def test_an_agents_own_file_wins(tmp_path: Path) -> None:
    write(tmp_path, AGENT_md="all", AGENT_bot_md="bot", SOUL_md="soul")

    files = loader(tmp_path).load("bot")

    assert [file.text for file in files] == ["bot", "soul", ""]


@pytest.mark.parametrize("agent_id", ["../x", "/etc/passwd", ".hidden", "", "a/b", "x" * 101])
def test_an_agent_id_that_could_lead_elsewhere_is_refused(tmp_path: Path, agent_id: str) -> None:
    with pytest.raises(UnsafePathError):
        loader(tmp_path).load(agent_id)


def test_another_clients_file_takes_the_place_of_a_missing_agent_file(tmp_path: Path) -> None:
    write(tmp_path, CLAUDE_md="claude")

    first = load_agent(tmp_path)
    write(tmp_path, AGENTS_md="agents")

    second = load_agent(tmp_path)

    assert (first.text, second.text) == ("claude", "agents")
    assert first.absence == "CLAUDE.md is read in place of AGENT.md."
    assert [entry.reason for entry in file_entries([second], count_text=len)] == [
        "AGENTS.md is read in place of AGENT.md."
    ]


DECODED: dict[str, tuple[bytes, str, str, list[str]]] = {
    "plain": (b"a\n", "a", "utf-8", []),
    "with a mark": (b"\xef\xbb\xbfa", "a", "utf-8, BOM", []),
    "UTF-16": ("\ufeffé".encode("utf-16-le"), "é", "utf-16-le, BOM", []),
    "UTF-16, the other way round": ("\ufeffé".encode("utf-16-be"), "é", "utf-16-be, BOM", []),
    "Windows lines": (b"a\r\nb\rc", "a\nb\nc", "utf-8, CRLF", []),
    "a stray byte": (b"a\n\xffb", "a\n\ufffdb", "utf-8", ["UTF-8 were replaced, first in line 2"]),
    "a NUL": (b"a\0b", "ab", "utf-8", ["NUL characters were removed"]),
}


@pytest.mark.parametrize(("raw", "text", "encoding", "odd"), DECODED.values(), ids=DECODED)
def test_bytes_become_text(
    tmp_path: Path, raw: bytes, text: str, encoding: str, odd: list[str]
) -> None:
    file = load_agent(write(tmp_path, AGENT_md=raw))

    assert (file.text, file.encoding, len(file.warnings)) == (text, encoding, len(odd))
    assert all(said in " ".join(file.warnings) for said in odd)


FRONT_MATTER: dict[str, tuple[str, dict[str, Any], str, int]] = {
    "simple lines": ('name: a b\nn: "x # y"\n# c\n', {"name": "a b", "n": "x # y"}, "body", 6),
    "yaml": ("list: [1, two]\nd: 2024-01-02\n", {"list": [1, "two"], "d": "2024-01-02"}, "body", 5),
    "a flag is no word": ("t: true\nu: yes\n", {"t": True, "u": True}, "body", 5),
    "sets and numbers as keys": ("s: !!set {b, a}\n1: x\n", {"s": ["a", "b"], "1": "x"}, "body", 5),
    "nothing": ("", {}, "body", 3),
    "what YAML refuses": ("a: b: c\nd: e\n", {"a": "b: c", "d": "e"}, "body", 5),
    "prose between rules": ("just some prose\n", {}, "---\njust some prose\n---\nbody", 1),
}


@pytest.mark.parametrize(
    ("lines", "metadata", "text", "first_line"), FRONT_MATTER.values(), ids=FRONT_MATTER
)
def test_front_matter_becomes_metadata(
    tmp_path: Path, lines: str, metadata: dict[str, Any], text: str, first_line: int
) -> None:
    file = load_agent(write(tmp_path, AGENT_md=f"---\n{lines}---\nbody"))

    assert (dict(file.metadata), file.text, file.first_line) == (metadata, text, first_line)


def test_front_matter_that_unfolds_to_too_much_is_read_line_by_line(tmp_path: Path) -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdef", "bcdefg", strict=True)
    )

    file = load_agent(write(tmp_path, AGENT_md=f"---\n{bomb}---\nbody"))

    assert file.text == "body"
    assert "too many values" in file.warnings[0]


TEXTS = {
    "a comment is dropped": ("a\n<!-- x\ny -->b", "a\nb"),
    "a comment that never closes is text": ("a <!-- b", "a <!-- b"),
    "a comment in code stays": ("```\n<!-- x -->\n```", "```\n<!-- x -->\n```"),
    "an import on its own line": ("a\n@x.md\nb", "a\nimported\nb"),
    "an import within a sentence": ("see @x.md.", "see @x.md.\n\nimported"),
    "not in code": (
        "`@x.md`\n\n    @x.md\n~~~\n@x.md\n~~~",
        "`@x.md`\n\n    @x.md\n~~~\n@x.md\n~~~",
    ),
    "in a list that is indented": ("- a\n    @x.md", "- a\n    imported"),
    "in a paragraph of a list": ("- a\n\n    @x.md", "- a\n\n    imported"),
    "not in code of a list": (
        "1. a\n    ```\n    @x.md\n    ```",
        "1. a\n    ```\n    @x.md\n    ```",
    ),
    "after code in a quote": ("> ```\n> a\n> ```\n@x.md", "> ```\n> a\n> ```\nimported"),
    "a mail address is none": ("me@x.md", "me@x.md"),
    "a mention is none": ("thanks @ada", "thanks @ada"),
    "code is imported as code": ("@x.py", "```\nprint()\n```"),
    "a nested import": ("@sub/y.md", "outer\nimported"),
}


@pytest.mark.parametrize(("given_text", "expected"), TEXTS.values(), ids=TEXTS)
def test_comments_go_and_imports_come(tmp_path: Path, given_text: str, expected: str) -> None:
    write(tmp_path, AGENT_md=given_text, x_md="---\na: b\n---\nimported\n", x_py="print()\n")
    write(tmp_path, sub__y_md="outer\n@../x.md")

    file = load_agent(tmp_path)

    assert file.text == expected
    assert file.warnings == ()


REFUSED = {
    "outside the folder": ("@../secret.md", "outside the folder"),
    "by an absolute path": ("@/etc/passwd", "outside the folder"),
    "in the home": ("@~/x.md", "outside the folder"),
    "what is not there": ("@gone.md", "no such file"),
    "itself": ("@AGENT.md", "imports itself"),
    "a folder": ("@./sub", "not a regular file"),
}


@pytest.mark.parametrize(("reference", "why"), REFUSED.values(), ids=REFUSED)
def test_an_import_that_is_refused_stays_and_is_reported(
    tmp_path: Path, reference: str, why: str
) -> None:
    write(tmp_path, secret_md="secret", inner__AGENT_md=reference, inner__sub__a_md="a")

    file = load_agent(tmp_path / "inner")

    assert file.text == reference
    assert why in file.warnings[0]


def test_imports_end_after_five_hops_and_cycles_stop(tmp_path: Path) -> None:
    write(tmp_path, AGENT_md="@a0.md", loop_md="@AGENT.md\n@loop.md")
    for number in range(9):
        (tmp_path / f"a{number}.md").write_text(f"{number}\n@a{number + 1}.md", encoding="utf-8")

    file = load_agent(tmp_path)

    assert file.text == "0\n1\n2\n3\n4\n@a5.md"
    assert "more than 5 imports deep" in file.warnings[0]


NASTY = '{{ agent }} {% endraw %}{{ 1/0 }} #} {# {% raw %} "\\" \' ~ ☃ 🎉 \\n \ue0000\ue001'
PLACES = {
    "on its own line": ("a\n@b.md\n{{ agent }}", f"a\n{NASTY}\nada"),
    "within a sentence": ("see @b.md too", f"see @b.md too\n\n{NASTY}"),
    "in raw text": ("{% raw %}\n@b.md\n{% endraw %}", NASTY),
    "in a comment": ("a{#\n@b.md\n#}b", "ab"),
    "in a string": ('{% set x = "\n@b.md\n" %}{{ x }}', NASTY),
    "in a string between other marks": ("{{ '\n@b.md\n'|trim|upper }}", NASTY),
    "in a macro": ("{% macro m() %}\n@b.md\n{% endmacro %}{{ m() }}", NASTY),
    "in a loop": ("{% for i in 'ab' %}\n@b.md\n{% endfor %}", f"{NASTY}\n\n{NASTY}"),
    "twice": ("@b.md\n@b.md", f"{NASTY}\n{NASTY}"),
    "and comments keep the count of lines": (
        "@b.md\n<!-- c\nd -->\n{{ agent }}",
        f"{NASTY}\n\n\nada",
    ),
}


@pytest.mark.parametrize(("text", "expected"), PLACES.values(), ids=PLACES)
def test_text_imported_into_a_template_is_never_executed(
    tmp_path: Path, text: str, expected: str
) -> None:
    write(tmp_path, b_md=NASTY, AGENT_md=f"---\ntemplate: jinja2\n---\n{text}")

    [agent, *_] = render_files(loader(tmp_path).load(), {"agent": "ada"})

    assert agent.text == expected


@pytest.mark.parametrize("text", ["{{\n@b.md\n}}", "{% if\n@b.md\n%}", "{{ @b.md }}"])
def test_an_import_is_no_expression(tmp_path: Path, text: str) -> None:
    write(tmp_path, b_md="1", AGENT_md=f"---\ntemplate: jinja2\n---\n{text}")

    with pytest.raises(TemplateError, match=r"AGENT\.md:[45]: unexpected char"):
        render_files(loader(tmp_path).load(), {"agent": "ada"})


def test_what_a_template_imports_is_masked_and_no_copy_of_another_file(tmp_path: Path) -> None:
    front = "---\ntemplate: jinja2\n---\n"
    write(tmp_path, AGENT_md=f"{front}@a.md", SOUL_md=f"{front}@b.md", a_md="key SECRET", b_md="b")

    def mask(text: str) -> tuple[str, list[str]]:
        return text.replace("SECRET", "***"), ["api key"] * text.count("SECRET")

    agent, soul, _ = render_files(loader(tmp_path, mask=mask).load(), {})

    assert (agent.text, soul.text) == ("key ***", "b")
    assert agent.warnings == ("secrets were masked (api key)",)


def test_an_import_that_a_template_repeats_for_ever_is_an_error(tmp_path: Path) -> None:
    text = "---\ntemplate: jinja2\n---\n{% for i in range(9999) %}\n@b.md\n{% endfor %}"
    write(tmp_path, b_md="b" * 9999, AGENT_md=text)

    with pytest.raises(TemplateError, match="does not end"):
        render_files(loader(tmp_path).load(), {})


@pytest.mark.parametrize(("asked", "is_known"), [("jinja", False), ("[a]", False), ("false", True)])
def test_an_unknown_kind_of_template_is_named(tmp_path: Path, asked: str, is_known: bool) -> None:
    file = load_agent(write(tmp_path, AGENT_md=f"---\ntemplate: {asked}\n---\nOn {{{{ date }}}}."))

    assert file.text == "On {{ date }}."
    assert [("known: jinja2" in one) for one in file.warnings] == [True] * (not is_known)


def test_links_that_leave_the_root_are_refused_and_a_copy_is_shown_once(tmp_path: Path) -> None:
    write(tmp_path, secret_md="secret", inner__AGENT_md="a", inner__CONTEXT_md="a")
    (tmp_path / "inner/SOUL.md").symlink_to(tmp_path / "secret.md")

    files = loader(tmp_path / "inner").load()

    assert states(files) == {"agent": "ok", "soul": "blocked", "context": "blocked"}
    assert rules(files)[1] == "file.blocked"
    assert "outside the folder" in files[1].warnings[0]
    assert "the same text as" in files[2].warnings[0]


def test_nothing_in_a_folder_raises(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").mkdir()
    os.mkfifo(tmp_path / "SOUL.md")
    (tmp_path / "CONTEXT.md").symlink_to("CONTEXT.md")

    files = loader(tmp_path).load()

    assert states(files) == {"agent": "unreadable", "soul": "unreadable", "context": "unreadable"}


SPECIAL = {
    "what fails when it is read": ("/proc/self", "mem", "Input/output error"),
    "a folder": ("/proc/self", "fd", "not a regular file"),
    "a device": ("/dev", "zero", "not a regular file"),
    "a terminal": ("/dev", "tty", ""),
}


@pytest.mark.parametrize(("folder", "name", "why"), SPECIAL.values(), ids=SPECIAL)
def test_what_cannot_be_read_is_an_entry(folder: str, name: str, why: str) -> None:
    if not Path(folder, name).exists():
        pytest.skip(f"this system has no {folder}/{name}")

    file = BootstrapLoader(folder, root="/", agent_names=[name]).load()[0]

    assert file.state == "unreadable"
    assert why in file.warnings[0]


def test_a_working_directory_that_is_gone_is_a_missing_folder(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    with chdir(tmp_path / "gone"):
        (tmp_path / "gone").rmdir()
        asked = BootstrapLoader("bootstrap", searches_upward=True)
        files, folders = asked.load(), asked.watched_folders()

    assert {file.state for file in files} == {"missing"}
    assert folders == {"bootstrap"}


def test_a_name_that_no_system_takes_is_a_missing_file(tmp_path: Path) -> None:
    write(tmp_path, AGENT_md=f"@{'x' * 300}.md and @./{'y/' * 3000}z.md")

    file = load_agent(tmp_path)

    assert file.text == f"@{'x' * 300}.md and @./{'y/' * 3000}z.md"
    assert all("there is no such file" in warning for warning in file.warnings)


@pytest.mark.parametrize("kind", ["fifo", "socket"])
@pytest.mark.parametrize("place", ["AGENT.md", "x.md", "skills/a/SKILL.md", "skills/a/tools.json"])
def test_a_pipe_or_a_socket_is_refused_at_once(tmp_path: Path, place: str, kind: str) -> None:
    write(tmp_path, AGENT_md="@./x.md")
    write(tmp_path, skills__a__b_txt="")
    skill = "---\nname: a\ndescription: d\ntools: tools.json\n---\n"
    (tmp_path / "skills/a/SKILL.md").write_text(skill, encoding="utf-8")
    (tmp_path / place).unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(tmp_path / place)
    else:
        with socket.socket(socket.AF_UNIX) as unix, chdir((tmp_path / place).parent):
            unix.bind(Path(place).name)
    skills = FolderSkills(tmp_path / "skills")
    listed = skills.list_now()

    said = [*load_agent(tmp_path).warnings, *(one.reason for one in skills.problems), *skills.notes]
    assert said
    assert all(one.tools == () for one in listed)


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "settings": ("context-assembler.toml", lambda path: AssemblerConfig(folder=path.parent)),
    "settings among those of others": (
        "pyproject.toml",
        lambda path: AssemblerConfig(folder=path.parent),
    ),
    "a transcript": ("talk.jsonl", read_transcript),
}


@pytest.mark.parametrize(("name", "read"), READERS.values(), ids=READERS)
def test_every_reader_refuses_a_pipe_at_once(
    tmp_path: Path, name: str, read: Callable[[Path], object]
) -> None:
    os.mkfifo(tmp_path / name)

    with pytest.raises(AssemblyError, match="not a regular file"):
        read(tmp_path / name)


def test_what_was_checked_is_what_is_read(tmp_path: Path) -> None:
    write(tmp_path, secret__x_md="TOP SECRET", secret__b_md="TOP SECRET", in__sub__x_md="fine")
    folder = write(tmp_path / "in", AGENT_md="@sub/x.md\n@b.md", b_md="fine")
    is_over = Event()

    def swap() -> None:
        while not is_over.is_set():
            (folder / "link").symlink_to(tmp_path / "secret/b.md")
            (folder / "link").replace(folder / "b.md")
            (folder / "sub").rename(folder / "real")
            (folder / "sub").symlink_to(tmp_path / "secret")
            (folder / "file").write_text("fine", encoding="utf-8")
            (folder / "file").replace(folder / "b.md")
            (folder / "sub").unlink()
            (folder / "real").rename(folder / "sub")

    swapping = Thread(target=swap, daemon=True)
    swapping.start()
    texts = {load_agent(folder).text for _ in range(300)}
    is_over.set()
    swapping.join()

    assert not any("SECRET" in text for text in texts)


def test_a_file_that_only_names_another_is_read_as_a_link(tmp_path: Path) -> None:
    file = load_agent(write(tmp_path, AGENT_md="real.md\n", real_md="text"))

    assert file.text == "text"
    assert "read as a link" in file.warnings[0]


def test_why_a_file_is_missing_is_said(tmp_path: Path) -> None:
    there, gone = load_agent(tmp_path), load_agent(tmp_path / "gone")

    assert there.absence.startswith(
        f"there is no AGENT.md or AGENTS.md or CLAUDE.md in {tmp_path}. Write it"
    )
    assert "There is no such folder" in gone.absence


def test_folders_above_are_read_up_to_the_repository(tmp_path: Path) -> None:
    write(tmp_path, AGENTS_md="outer", app__AGENTS_md="middle", app__ui__CONTEXT_md="c")
    (tmp_path / ".git").mkdir()

    files = loader(tmp_path / "app/ui", searches_upward=True).load()

    assert [(file.section, file.text) for file in files] == [
        ("agent", ""),
        ("agent", "middle"),
        ("agent", "outer"),
        ("soul", ""),
        ("context", "c"),
    ]


def count(text: str) -> int:
    return len(text.split())


def test_a_long_file_keeps_head_tail_and_rules(tmp_path: Path) -> None:
    lines = [f"line {number} of the text" for number in range(100)]
    lines[50] = "You must never do this"
    write(tmp_path, AGENT_md="\n".join(lines), SOUL_md="soul " * 30)

    agent, soul, _ = loader(tmp_path, max_file_tokens=100, max_total_tokens=102).load(
        count_text=count
    )

    assert agent.text.startswith("line 0 of")
    assert agent.text.endswith("line 99 of the text")
    assert "You must never do this" in agent.text
    assert re.search(r"\[… \d+ lines of AGENT.md left out here …\]", agent.text)
    assert count(agent.text) <= 100
    assert agent.is_shortened
    assert count(agent.text) + count(soul.text) <= 102
    assert "500 tokens were cut to" in agent.warnings[0]


def test_secrets_are_masked_with_a_notice(tmp_path: Path) -> None:
    write(tmp_path, AGENT_md="key SECRET and SECRET", SOUL_md="soul")

    def mask(text: str) -> tuple[str, list[str]]:
        return text.replace("SECRET", "***"), ["api key"] * text.count("SECRET")

    agent, soul, _ = loader(tmp_path, mask=mask).load()

    assert agent.text == "key *** and ***"
    assert agent.warnings == ("secrets were masked (api key)",)
    assert soul.warnings == ()


# ---- freshness ----


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_edit_shows_in_the_next_call_and_nothing_is_read_twice(tmp_path: Path) -> None:
    files = loader(write(tmp_path, AGENT_md="@part.md", part_md="one"))
    first = files.load()

    assert files.load()[0] is first[0]
    (tmp_path / "part.md").write_text("another", encoding="utf-8")
    assert files.load()[0].text == "another"


def test_a_file_that_appears_or_goes_shows(tmp_path: Path) -> None:
    files = loader(tmp_path)
    before = files.load()[0].state
    write(tmp_path, AGENT_md="a")
    after = files.load()[0].text
    (tmp_path / "AGENT.md").unlink()

    assert (before, after, files.load()[0].state) == ("missing", "a", "missing")


def test_what_was_read_is_kept_for_a_time_or_until_it_is_invalidated(tmp_path: Path) -> None:
    clock = Clock()
    files = loader(write(tmp_path, AGENT_md="a"), ttl_seconds=10, clock=clock)
    first = files.load()[0]

    files.invalidate()
    second = files.load()[0]
    clock.now = 11
    third = files.load()[0]

    assert first == second == third
    assert len({id(one) for one in (first, second, third)}) == 3


def test_a_file_that_has_just_changed_is_read_again(tmp_path: Path) -> None:
    write(tmp_path, AGENT_md="a")
    files = BootstrapLoader(tmp_path, now_ns=lambda: 0)

    assert files.load()[0] is not files.load()[0]


def test_the_folders_to_watch_are_those_of_all_files_that_were_looked_for(tmp_path: Path) -> None:
    write(tmp_path, AGENT_md="@sub/x.md", sub__x_md="x")
    files = loader(tmp_path)
    files.load()

    assert files.watched_folders() == {str(tmp_path), str(tmp_path / "sub")}


# ---- laws ----

NAMES = st.sampled_from("AGENT.md SOUL.md CONTEXT.md AGENT.bot.md a.md sub/b.md c.txt".split())
LINES = st.sampled_from(
    "@a.md @sub/b.md @../secret.md @AGENT.md @c.txt @~/x.md @sub @/etc/passwd --- <!-- --> ``` `x` "
    "a:b {{x}}".split()
) | st.sampled_from(["k: [", "    code", "template: jinja2"])
CONTENTS = st.one_of(
    st.lists(LINES | st.text(max_size=8), max_size=6).map(
        lambda ls: "\n".join(ls).encode("utf-8", "replace")
    ),
    st.binary(max_size=30),
)


@given(entries=st.dictionaries(NAMES, CONTENTS, max_size=5))
def test_loading_never_raises_and_never_leaves_the_root(
    tmp_path_factory: pytest.TempPathFactory, entries: dict[str, bytes]
) -> None:
    base = tmp_path_factory.mktemp("law")
    (base / "secret.md").write_text("TOP SECRET", encoding="utf-8")
    for name, raw in entries.items():
        path = base / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)

    files = BootstrapLoader(base / "in", max_file_tokens=9).load("bot", count_text=count)

    for file in files:
        assert "TOP SECRET" not in file.text
        assert (file.state == "ok") is bool(file.text)
        assert count(file.text) <= 9 or file.is_template
    assert files == BootstrapLoader(base / "in", max_file_tokens=9).load("bot", count_text=count)


CORPUS = Path(os.environ.get("CONTEXT_ASSEMBLER_CORPUS", "../shared/data")) / "instructions"


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the recorded corpus is not here")
def test_every_recorded_folder_loads_whole() -> None:
    for folder in sorted(path for path in CORPUS.iterdir() if path.is_dir()):
        files = loader(folder, root=CORPUS).load(count_text=count)

        assert json.dumps([dict(file.metadata) for file in files], default=str)
        assert all(file.state in {"ok", "missing", "empty"} for file in files), folder
