"""Instruction files of one folder: text, states, imports, safety, freshness."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_assembler.errors import InvalidParameterError, TemplateError, UnsafePathError
from context_assembler.stages.load_bootstrap import BootstrapLoader, render_bootstrap
from context_assembler.values.prompt import BootstrapFile

TEXT = "# Role\n\nBe kind – always.\n"


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def count_words(text: str) -> int:
    return len(text.split())


async def load(folder: Path, agent_id: str | None = None) -> dict[str, BootstrapFile]:
    return {file.section: file for file in await BootstrapLoader(folder).load(agent_id)}


SAME_TEXT = {
    "UTF-8": TEXT.encode(),
    "UTF-8 with BOM": b"\xef\xbb\xbf" + TEXT.encode(),
    "UTF-16 LE with BOM": b"\xff\xfe" + TEXT.encode("utf-16-le"),
    "UTF-16 BE with BOM": b"\xfe\xff" + TEXT.encode("utf-16-be"),
    "UTF-32 LE with BOM": b"\xff\xfe\0\0" + TEXT.encode("utf-32-le"),
    "UTF-16 LE without BOM": TEXT.replace("–", "-").encode("utf-16-le"),
    "CRLF": TEXT.replace("\n", "\r\n").encode(),
    "CR": TEXT.replace("\n", "\r").encode(),
    "CRLF and front matter": b"---\r\nname: x\r\n---\r\n" + TEXT.replace("\n", "\r\n").encode(),
    "BOM and front matter": b"\xef\xbb\xbf---\nname: x\n---\n" + TEXT.encode(),
}


@pytest.mark.parametrize("content", SAME_TEXT.values(), ids=SAME_TEXT.keys())
async def test_every_encoding_gives_the_same_text(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, "AGENT.md", content)

    file = (await load(tmp_path))["agent"]

    assert file.state == "ok"
    assert file.text.replace("–", "-") == TEXT.strip().replace("–", "-")


async def test_a_stray_byte_is_replaced_and_told(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", b"Be kind.\nCaf\xe9.\0")

    file = (await load(tmp_path))["agent"]

    assert file.text == "Be kind.\nCaf\ufffd."
    assert "first in line 2" in file.warnings[0]
    assert "NUL" in file.warnings[1]


async def test_missing_empty_unreadable_and_blocked_are_four_states(tmp_path: Path) -> None:
    folder = tmp_path / "bootstrap"
    write(tmp_path, "secret.md", "key")
    write(folder, "SOUL.md", "<!-- nothing yet -->\n")
    (folder / "CONTEXT.md").mkdir()

    files = await load(folder)

    assert files["agent"].state == "missing"
    assert files["soul"].state == "empty"
    assert (files["context"].state, files["context"].warnings) == (
        "unreadable",
        ("it is a folder",),
    )
    (folder / "AGENT.md").symlink_to(tmp_path / "secret.md")
    agent = (await load(folder))["agent"]
    assert (agent.state, agent.text) == ("blocked", "")
    assert "outside" in agent.warnings[0]


async def test_what_is_no_file_at_all_is_unreadable(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "AGENT.md")
    (tmp_path / "SOUL.md").symlink_to("SOUL.md")
    write(tmp_path, "CONTEXT.md", "")

    files = await load(tmp_path)

    assert files["agent"].warnings == ("it is no regular file",)
    assert files["soul"].state == "unreadable"
    assert files["context"].state == "empty"


async def test_a_folder_that_does_not_exist_has_no_files(tmp_path: Path) -> None:
    files = await load(tmp_path / "nowhere")

    assert {file.state for file in files.values()} == {"missing"}


async def test_the_agents_own_file_wins(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", "for all")
    write(tmp_path, "AGENT.reviewer.md", "for the reviewer")
    write(tmp_path, "SOUL.md", "soul")

    reviewer, other = await load(tmp_path, "reviewer"), await load(tmp_path, "other")

    assert reviewer["agent"].text == "for the reviewer"
    assert other["agent"].text == "for all"
    assert reviewer["soul"].text == other["soul"].text == "soul"


UNSAFE = [
    "../../etc/passwd",
    "/etc/passwd",
    "",
    "a/b",
    "a\\b",
    "a\0b",
    ".hidden",
    "..",
    "a b",
    "x" * 101,
]


@pytest.mark.parametrize("agent_id", UNSAFE)
async def test_an_agent_id_that_is_no_plain_name_is_refused(tmp_path: Path, agent_id: str) -> None:
    with pytest.raises(UnsafePathError, match="agent id"):
        await load(tmp_path, agent_id)


@pytest.mark.parametrize("agent_id", [7, 0, True, b"ada", ["ada"]])
async def test_an_agent_id_that_is_no_text_is_refused(tmp_path: Path, agent_id: Any) -> None:
    with pytest.raises(InvalidParameterError, match="agent_id must be text"):
        await load(tmp_path, agent_id)


async def test_other_names_are_accepted_by_setting(tmp_path: Path) -> None:
    write(tmp_path, "CLAUDE.md", "claude")
    loader = BootstrapLoader(tmp_path, agent_names=["AGENTS.md", "CLAUDE.md"])

    (agent, *_) = await loader.load()
    write(tmp_path, "AGENTS.md", "agents")
    (first, *_) = await loader.load()

    assert (agent.text, first.text) == ("claude", "agents")


async def test_folders_above_are_read_up_to_the_repository_nearest_first(tmp_path: Path) -> None:
    write(tmp_path, "AGENTS.md", "outside the repository")
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    write(tmp_path, "repo/AGENTS.md", "root: see @shared.md")
    write(tmp_path, "repo/shared.md", "shared")
    write(tmp_path, "repo/a/b/AGENTS.md", "near")
    write(tmp_path, "repo/a/b/SOUL.md", "soul")
    loader = BootstrapLoader(tmp_path / "repo/a/b", agent_names=["AGENTS.md"], searches_upward=True)

    files = await loader.load()

    assert [(file.section, file.text) for file in files] == [
        ("agent", "near"),
        ("agent", "root: see @shared.md\n\nshared"),
        ("soul", "soul"),
        ("context", ""),
    ]


async def test_without_a_repository_nothing_above_is_read(tmp_path: Path) -> None:
    write(tmp_path, "AGENTS.md", "above")
    loader = BootstrapLoader(tmp_path / "a", agent_names=["AGENTS.md"], searches_upward=True)

    files = await loader.load()

    above_has_git = any((parent / ".git").exists() for parent in tmp_path.parents)
    assert above_has_git or {file.state for file in files} == {"missing"}


async def test_front_matter_becomes_metadata(tmp_path: Path) -> None:
    write(
        tmp_path, "AGENT.md", "---\nname: Ada\nsince: 2026-01-02\n3: x\ntags: [a, 1.5]\n---\nHello"
    )

    file = (await load(tmp_path))["agent"]

    assert file.text == "Hello"
    assert file.metadata == {"name": "Ada", "since": "2026-01-02", "3": "x", "tags": ["a", 1.5]}
    assert file.first_line == 7


async def test_comments_vanish_but_not_in_code(tmp_path: Path) -> None:
    text = "a\n\n<!-- x\ny -->\n\nb `<!-- c -->`\n\n```\n<!-- d -->\n```\n"
    write(tmp_path, "AGENT.md", text)

    file = (await load(tmp_path))["agent"]

    assert file.text == "a\n\nb `<!-- c -->`\n\n```\n<!-- d -->\n```"


async def test_blank_lines_in_code_stay_though_comments_vanish(tmp_path: Path) -> None:
    text = "a\n<!-- x -->\n```\nb\n\n\n\nc\n```\n\n<!-- y -->\n\n\nd <!-- z --> e"
    write(tmp_path, "AGENT.md", text)

    file = (await load(tmp_path))["agent"]

    assert file.text == "a\n```\nb\n\n\n\nc\n```\n\nd  e"


async def test_a_large_file_costs_time_in_proportion(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", "@nobody and `code` <!-- c --> text\n" * 10_000)

    file = (await load(tmp_path))["agent"]

    assert "only the first 2,000 words with @ were looked up" in file.warnings


async def test_imports_are_bounded_in_size(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", "@a.md\n@b.md")
    write(tmp_path, "a.md", "a" * 2_500_000)
    write(tmp_path, "b.md", "b" * 2_500_000)

    file = (await load(tmp_path))["agent"]

    assert "more than 4,000,000 characters imported in all" in file.warnings[0]


async def test_an_import_alone_on_its_line_is_replaced(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", "before\n\n@docs/rules.md\n\nafter")
    write(tmp_path, "docs/rules.md", "---\nx: 1\n---\nRules.\n@more.md\n")
    write(tmp_path, "docs/more.md", "More.<!-- no -->")

    file = (await load(tmp_path))["agent"]

    assert file.text == "before\n\nRules.\nMore.\n\nafter"
    assert file.warnings == ()


async def test_an_import_within_a_sentence_follows_at_the_end(tmp_path: Path) -> None:
    write(
        tmp_path,
        "AGENT.md",
        "See @a.md, @with\\ space.md and @pack.json.\n\nMail me@b.md or @user.",
    )
    write(tmp_path, "a.md", "A")
    write(tmp_path, "with space.md", "W")
    write(tmp_path, "pack.json", '{"a": "```"}')

    file = (await load(tmp_path))["agent"]

    assert file.text == (
        "See @a.md, @with\\ space.md and @pack.json.\n\nMail me@b.md or @user."
        '\n\nA\n\nW\n\n````\n{"a": "```"}\n````'
    )


async def test_an_empty_import_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", "@empty.md\n\nrest @src and @src/")
    write(tmp_path, "empty.md", "")
    (tmp_path / "src").mkdir()

    file = (await load(tmp_path))["agent"]

    assert file.text == "@empty.md\n\nrest @src and @src/"
    assert file.warnings == ("@src/ was not imported: it is a folder",)


async def test_imports_in_code_are_text(tmp_path: Path) -> None:
    text = "`@a.md`\n\n```\n@a.md\n```\n\n    @a.md\n\n- list\n\n    @b.md"
    write(tmp_path, "AGENT.md", text)
    write(tmp_path, "a.md", "A")
    write(tmp_path, "b.md", "B")

    file = (await load(tmp_path))["agent"]

    assert file.text == text.replace("@b.md", "B")


REFUSED_IMPORTS = {
    "above the folder": ("@../secret.md", "outside"),
    "absolute": ("@/etc/hostname.md", "no such file"),
    "home": ("@~/secret.md", "outside"),
    "through a link": ("@link.md", "outside"),
    "itself": ("@AGENT.md", "imports itself"),
    "missing": ("@missing.md", "no such file"),
}


@pytest.mark.parametrize(("reference", "reason"), REFUSED_IMPORTS.values(), ids=REFUSED_IMPORTS)
async def test_imports_never_leave_the_folder(tmp_path: Path, reference: str, reason: str) -> None:
    folder = tmp_path / "bootstrap"
    write(tmp_path, "secret.md", "SECRET")
    write(folder, "AGENT.md", f"a\n\n{reference}\n\nb")
    (folder / "link.md").symlink_to(tmp_path / "secret.md")

    file = (await load(folder))["agent"]

    assert file.text == f"a\n\n{reference}\n\nb"
    assert len(file.warnings) == 1
    assert reason in file.warnings[0]


async def test_a_circle_of_imports_ends_where_it_began(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", "a\n@b.md")
    write(tmp_path, "b.md", "b\n@AGENT.md")

    file = (await load(tmp_path))["agent"]

    assert file.text == "a\nb\n@AGENT.md"
    assert "imports itself" in file.warnings[0]


async def test_imports_go_five_hops_deep(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", "0\n@1.md")
    for hop in range(1, 8):
        write(tmp_path, f"{hop}.md", f"{hop}\n@{hop + 1}.md")

    file = (await load(tmp_path))["agent"]

    assert file.text == "0\n1\n2\n3\n4\n5\n@6.md"
    assert "more than 5 imports deep" in file.warnings[0]


async def test_a_bomb_of_imports_is_defused(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", "@1.md\n" * 10)
    for hop in range(1, 6):
        write(tmp_path, f"{hop}.md", f"@{hop + 1}.md\n" * 10)
    write(tmp_path, "6.md", "boom")

    file = (await load(tmp_path))["agent"]

    assert any("more than 100 imports in all" in warning for warning in file.warnings)


async def test_the_same_text_by_link_or_copy_is_shown_once(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", TEXT)
    (tmp_path / "SOUL.md").symlink_to("AGENT.md")
    write(tmp_path, "CONTEXT.md", TEXT)

    files = await load(tmp_path)

    assert files["agent"].text == TEXT.strip()
    for copy in (files["soul"], files["context"]):
        assert (copy.state, copy.text) == ("blocked", "")
        assert "the same text as" in copy.warnings[0]


async def test_a_link_that_was_checked_out_as_text_is_followed(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", "rules/AGENTS.md\n")
    write(tmp_path, "rules/AGENTS.md", "Be kind.")
    write(tmp_path, "SOUL.md", "../outside.md")
    write(tmp_path, "CONTEXT.md", "CONTEXT.md")

    files = await load(tmp_path)

    assert files["agent"].text == "Be kind."
    assert "read as a link" in files["agent"].warnings[0]
    assert files["soul"].text == "../outside.md"
    assert files["context"].text == "CONTEXT.md"


async def test_two_pointers_at_each_other_end(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", "SOUL.md")
    write(tmp_path, "SOUL.md", "AGENT.md")

    files = await load(tmp_path)

    assert files["agent"].text == "AGENT.md"
    assert files["soul"].text == "SOUL.md"


async def test_too_long_a_file_keeps_head_tail_and_rules(tmp_path: Path) -> None:
    lines = [f"line {number} of many" for number in range(300)]
    lines[150] = "You must never delete a branch."
    write(tmp_path, "AGENT.md", "\n".join(lines))
    loader = BootstrapLoader(tmp_path, max_file_tokens=200)

    agent, *_ = await loader.load(count_text=count_words)

    assert count_words(agent.text) <= 200
    assert agent.text.startswith("line 0 of many\n")
    assert agent.text.endswith("line 299 of many")
    assert "You must never delete a branch." in agent.text
    assert "of AGENT.md left out here" in agent.text
    assert agent.is_shortened
    assert len(agent.warnings) == 1
    assert "1,202 tokens were cut to" in agent.warnings[0]


async def test_all_files_together_have_a_cap_and_the_nearest_is_cut_last(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    write(tmp_path, "AGENT.md", "far word\n" * 50)
    write(tmp_path, "near/AGENT.md", "near word\n" * 60)
    write(tmp_path, "near/SOUL.md", "soul word\n" * 30)
    loader = BootstrapLoader(tmp_path / "near", searches_upward=True, max_total_tokens=200)

    near, far, soul, _ = await loader.load(count_text=count_words)

    assert (near.is_shortened, soul.is_shortened, far.is_shortened) == (False, False, True)
    assert sum(count_words(file.text) for file in (near, far, soul)) <= 200


async def test_without_a_way_to_count_nothing_is_cut(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", "word " * 500)

    agent, *_ = await BootstrapLoader(tmp_path, max_file_tokens=5).load()

    assert not agent.is_shortened


async def test_each_way_to_count_has_a_cut_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path, "AGENT.md", "two words\n" * 100)
    later = path.stat().st_ctime_ns + 10_000_000_000
    loader = BootstrapLoader(tmp_path, max_file_tokens=150, now_ns=lambda: later)

    by_words = await loader.load(count_text=count_words)
    by_lines = await loader.load(count_text=lambda text: text.count("\n"))
    again = await loader.load(count_text=count_words)

    assert (by_words[0].is_shortened, by_lines[0].is_shortened) == (True, False)
    assert again[0] is by_words[0]


async def test_a_huge_file_is_read_in_part(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", b"a" * 4_000_100)

    file = (await load(tmp_path))["agent"]

    assert "only the first 4,000,000 bytes were read" in file.warnings


class Watch:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.now_ns = 0

    def __call__(self) -> float:
        return self.seconds


async def test_an_edit_of_the_same_size_in_the_same_second_shows_on_the_next_call(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, "SOUL.md", "version 1")
    loader = BootstrapLoader(tmp_path)
    before = await loader.load()
    stamp = path.stat().st_mtime_ns

    path.write_text("version 2")
    os.utime(path, ns=(stamp, stamp))
    after = await loader.load()

    assert (before[1].text, after[1].text) == ("version 1", "version 2")
    assert before[1].fingerprint != after[1].fingerprint
    assert before[0].fingerprint == after[0].fingerprint


async def test_settled_files_are_not_read_again_until_they_change_or_the_time_is_up(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, "SOUL.md", "version 1")
    clock = Watch()
    later = path.stat().st_ctime_ns + 10_000_000_000
    loader = BootstrapLoader(tmp_path, clock=clock, now_ns=lambda: later, ttl_seconds=60)

    first = await loader.load()
    second = await loader.load()
    clock.seconds = 61
    third = await loader.load()
    loader.invalidate()
    fourth = await loader.load()
    write(tmp_path, "AGENT.md", "appeared")
    fifth = await loader.load()

    assert first[1] is second[1]
    assert first[1] is not third[1]
    assert third[1] is not fourth[1]
    assert fifth[0].text == "appeared"


async def test_an_edit_of_an_imported_file_shows_too(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", "@rules.md")
    path = write(tmp_path, "rules.md", "one")
    later = path.stat().st_ctime_ns + 10_000_000_000
    loader = BootstrapLoader(tmp_path, now_ns=lambda: later)
    before = await loader.load()

    path.write_text("another")
    after = await loader.load()

    assert (before[0].text, after[0].text) == ("one", "another")


TEMPLATE = "---\ntemplate: jinja2\n---\n"
VARIABLES = {"agent": "ada", "tools": ["search", "book"], "skills": [], "date": "2026-11-27"}


async def rendered(folder: Path) -> BootstrapFile:
    files = await BootstrapLoader(folder, max_file_tokens=50).load("ada", count_text=count_words)
    return render_bootstrap(files, VARIABLES)[0]


async def test_a_template_is_rendered_with_the_variables(tmp_path: Path) -> None:
    write(
        tmp_path, "AGENT.md", TEMPLATE + "I am {{ agent }}:{% for t in tools %} {{ t }}{% endfor %}"
    )

    file = await rendered(tmp_path)

    assert file.text == "I am ada: search book"


async def test_a_template_is_compiled_once_and_filled_anew(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", TEMPLATE + "I am {{ agent }}.")
    files = await BootstrapLoader(tmp_path).load()

    texts = [render_bootstrap(files, {"agent": name})[0].text for name in ("ada", "bob")]

    assert texts == ["I am ada.", "I am bob."]


async def test_other_files_are_not_templates(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", "I am {{ agent }} {% nonsense %}")

    file = await rendered(tmp_path)

    assert file.text == "I am {{ agent }} {% nonsense %}"


async def test_a_template_may_render_to_nothing(tmp_path: Path) -> None:
    write(tmp_path, "AGENT.md", TEMPLATE + "{% if skills %}x{% endif %}")

    file = await rendered(tmp_path)

    assert (file.state, file.text) == ("empty", "")


async def test_text_imported_into_a_template_is_never_executed(tmp_path: Path) -> None:
    nasty = '{{ agent }} {% raw %} "\\" ☃ 🎉 \\n {% endraw %}'
    write(tmp_path, "AGENT.md", TEMPLATE + "a\n@b.md\nand @b.md too <!-- c\nd -->\n{{ agent }}")
    write(tmp_path, "b.md", nasty)

    file = await rendered(tmp_path)

    assert file.text == f"a\n{nasty}\nand @b.md too \n\nada\n\n{nasty}"


BROKEN_TEMPLATES = {
    "syntax": ("a\n{% if %}", 5, "Expected an expression"),
    "undefined": ("a\n\n{{ agnet }}", 6, "'agnet' is undefined"),
    "after a comment and an import": ("<!-- a\nb -->\n@c.md\n{{ agnet }}", 7, "undefined"),
    "unsafe": ("{{ ''.__class__.__mro__ }}", 4, "unsafe"),
    "failing": ("{{ 1 / 0 }}", 4, "division"),
    "no such filter": ("{{ agent|shout }}", 4, "shout"),
    "no such template": ("{% include 'x' %}", 4, "loader"),
}


@pytest.mark.parametrize(
    ("text", "line", "reason"), BROKEN_TEMPLATES.values(), ids=BROKEN_TEMPLATES
)
async def test_a_template_error_names_file_and_line(
    tmp_path: Path, text: str, line: int, reason: str
) -> None:
    path = write(tmp_path, "AGENT.md", TEMPLATE + text)
    write(tmp_path, "c.md", "several\nlines")

    with pytest.raises(TemplateError, match=reason) as caught:
        await rendered(tmp_path)

    assert (caught.value.file, caught.value.line) == (str(path), line)


@pytest.mark.parametrize(
    ("asked", "is_known"),
    [("jinja", False), ("Jinja2", False), ("[a]", False), ("jinja2", True), ("false", True)],
)
async def test_a_kind_of_template_that_there_is_not_is_told_of(
    tmp_path: Path, asked: str, is_known: bool
) -> None:
    write(tmp_path, "AGENT.md", f"---\ntemplate: {asked}\n---\nOn {{{{ date }}}}.")

    file, *_ = await BootstrapLoader(tmp_path).load()

    assert file.text == "On {{ date }}."
    assert [("known: jinja2" in one) for one in file.warnings] == [True] * (not is_known)


_STEPS = "{% for i in range(60) %}STEP{% endfor %}{{ ns.x }}"
_TEXT_GROWS = "{% set ns = namespace(x='a') %}" + _STEPS
_LISTS = _TEXT_GROWS.replace("STEP", "{% set ns.x = [ns.x, ns.x] %}")
ENDLESS = {
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "a loop with much text": "{% for a in range(99999) %}" + "y" * 10_000 + "{% endfor %}",
    "text that joins itself": _TEXT_GROWS.replace("STEP", "{% set ns.x = ns.x ~ ns.x %}"),
    "text that adds itself": _TEXT_GROWS.replace("STEP", "{% set ns.x = ns.x + ns.x %}"),
    "a block that holds itself": _TEXT_GROWS.replace(
        "STEP", "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}"
    ),
    "lists of lists": _LISTS,
    "lists of lists as JSON": _LISTS.replace("{{ ns.x }}", "{{ {'x': ns.x}|tojson }}"),
    "lists of lists in a format": _LISTS.replace("{{ ns.x }}", "{{ '{}'.format(ns.x) }}"),
    "lists of lists by percent": _LISTS.replace("{{ ns.x }}", "{{ '%s' % ns.x }}"),
    "a dict of lists of lists": _LISTS.replace("{{ ns.x }}", "{{ {'x': ns.x} }}"),
    "a macro that calls itself twice": (
        "{% macro m(n) %}{% if n %}{{ m(n - 1) * 2 }}{{ m(n - 1) }}{% endif %}{% endmacro %}"
        "{{ m(60) }}"
    ),
    "a long product": "{{ 'a' * 10**10 }}",
    "a long list": "{{ ['a'] * 10**10 }}",
    "a high power": "{{ 10**100000000 }}",
    "a product of large numbers": "{% set ns = namespace(x=10**9999) %}"
    + _STEPS.replace("STEP", "{% set ns.x = ns.x * ns.x %}"),
    "a wide field": "{{ '%1000000000d' % 1 }}",
    "a wide field by its argument": "{{ '%*d' % (10**9, 1) }}",
    "a wide format": "{{ '{:1000000000}'.format(1) }}",
    "a wide format by its argument": "{{ '{:{}}'.format(1, 10**9) }}",
    "a wide JSON": "{{ [1]|tojson(10**9) }}",
    "a batch that is filled up": "{{ [1]|batch(10**9, 'x')|list|length }}",
    "many batches that are filled up": "{{ ([[1]] * 999)|map('batch', 9999, 'x')|map('list')|list }}",
    "many slices": "{{ [1]|slice(10**9)|list|length }}",
    "a number rounded to many digits": "{{ 1.5|round(10**7, 'ceil') }}",
    "a sum of many lists": "{{ ([[1] * 9] * 99999)|sum(start=[])|length }}",
    "a long text in short lines": "{{ ('a' * 500000)|wordwrap(1)|length }}",
    "a wide line": "{{ 'a'.ljust(1000000000) }}",
    "a wide centre": "{{ 'a'|center(1000000000) }}",
    "replacements that multiply": "{% set s = 'a' * 100000 %}{{ s.replace('a', s) }}",
    "replacements by a filter": "{% set s = 'a' * 100000 %}{{ s|replace('a', s) }}",
    "a long list of long texts": "{% set s = 'a' * 100000 %}{{ ([s] * 100000)|join }}",
    "a long separator": "{{ range(90000)|map('string')|join('x' * 90000) }}",
    "deep indents": "{{ ('a ' * 100000)|replace(' ', nl)|indent(9999) }}",
}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
async def test_a_template_that_would_not_end_is_an_error(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, "AGENT.md", TEMPLATE + text)
    [agent, *_] = await BootstrapLoader(tmp_path).load("ada")

    with pytest.raises(TemplateError, match="does not end within 1,000,000 steps") as caught:
        render_bootstrap([agent], {"nl": chr(10)})

    assert (caught.value.file, caught.value.line) == (str(path), 4)


ORDINARY = {
    "turns of a loop": (
        "{% for t in tools %}{{ loop.index }}/{{ loop.length }}{{ ',' if loop.first }}{% endfor %}",
        "1/2,2/2",
    ),
    "a loop over nothing": ("{% for s in skills %}x{% else %}none{% endfor %}", "none"),
    "a loop over pairs": ("{% for k, v in {'a': 1}.items() %}{{ k }}={{ v }}{% endfor %}", "a=1"),
    "a loop into a tree": (
        "{% for i in [1, [2, [3]]] recursive %}{{ loop(i) if i is iterable else i }}{% endfor %}",
        "123",
    ),
    "operators": (
        "{{ 1 + 2 }} {{ 3 * 4 }} {{ 7 % 3 }} {{ 2**5 }} {{ 'ab' * 2 }}",
        "3 12 1 32 abab",
    ),
    "texts": (
        "{{ 'a' ~ 1 ~ ['b'] }} {{ '%s-%d' % ('a', 3) }} {{ '{:>3}'.format(3) }}",
        "a1['b'] a-3   3",
    ),
    "large numbers": (
        "{{ 'a' ~ 200000 }} {{ '%d' % 200000 }} {{ '{}'.format(200000) }} {{ 200000|string }}",
        "a200000 200000 200000 200000",
    ),
    "digits in texts": (
        "{{ '%s' % '123456' }} {{ '12345 {}'.format(1) }} {{ 200000|filesizeformat }}",
        "123456 12345 1 200.0 kB",
    ),
    "filters": (
        "{{ tools|join(', ') }} {{ tools|sort|first|upper }} {{ 'a b'|wordwrap(1) }}",
        "search, book BOOK a" + chr(10) + "b",
    ),
    "filters with numbers": (
        "{{ [1, 2, 3]|batch(2)|list }} {{ 1.234|round(1) }} {{ [1, 2]|sum(start=3) }}",
        "[[1, 2], [3]] 1.2 6",
    ),
    "methods": (
        "{{ agent.replace('a', 'o').title() }} {{ '-'.join(tools) }}",
        "Odo search-book",
    ),
    "a macro": ("{% macro m(t) %}<{{ t }}>{% endmacro %}{{ m('a') }}{{ m('b') }}", "<a><b>"),
    "a long range": ("{{ range(100000)|list|length }}", "100000"),
}


@pytest.mark.parametrize(("text", "expected"), ORDINARY.values(), ids=ORDINARY)
async def test_what_ends_is_rendered_as_jinja_does(
    tmp_path: Path, text: str, expected: str
) -> None:
    write(tmp_path, "AGENT.md", TEMPLATE + text)
    files = await BootstrapLoader(tmp_path).load("ada")

    assert render_bootstrap(files, VARIABLES)[0].text == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ lipsum() }}",
        "{{ 'a'.translate({}) }}",
        "{{ 'a'.expandtabs(9) }}",
        "{{ 'a'.encode() }}",
        "{{ 1.to_bytes(9) }}",
    ],
)
async def test_what_is_random_or_multiplies_is_not_there(tmp_path: Path, text: str) -> None:
    write(tmp_path, "AGENT.md", TEMPLATE + text)

    with pytest.raises(TemplateError, match=r"undefined|unsafe"):
        await rendered(tmp_path)


names = st.sampled_from(
    [
        "AGENT.md",
        "SOUL.md",
        "CONTEXT.md",
        "AGENT.bot.md",
        "SOUL.bot.md",
        "a.md",
        "sub/b.md",
        "c.txt",
    ]
)
references = st.sampled_from(
    [
        "@a.md",
        "@sub/b.md",
        "@../secret.md",
        "@AGENT.md",
        "@c.txt",
        "@~/x.md",
        "@sub",
        "@/etc/passwd",
    ]
)
lines = references | st.sampled_from(
    ["---", "k: [", "<!--", "-->", "```", "`x`", "    code", "{{ x }}"]
)
texts = st.lists(lines | st.text(max_size=8), max_size=6).map("\n".join)
contents = st.one_of(
    texts.map(lambda text: text.encode("utf-8", "replace")),
    texts.map(lambda text: text.encode("utf-16", "replace")),
    st.binary(max_size=30),
)
entries = st.one_of(
    contents,
    st.just("folder"),
    st.sampled_from(["link:../secret.md", "link:AGENT.md", "link:sub", "link:.", "link:nowhere"]),
)


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(folder=st.dictionaries(names, entries, max_size=6), agent_id=st.sampled_from([None, "bot"]))
async def test_a_hostile_folder_never_leaks_never_raises_and_loses_no_other_file(
    tmp_path_factory: pytest.TempPathFactory,
    folder: dict[str, bytes | str],
    agent_id: str | None,
) -> None:
    root = tmp_path_factory.mktemp("hostile")
    write(root, "secret.md", "TOP SECRET")
    bootstrap = root / "bootstrap"
    bootstrap.mkdir()
    for name, entry in folder.items():
        build(bootstrap / name, entry)

    loader = BootstrapLoader(bootstrap, max_file_tokens=300)
    files = await loader.load(agent_id, count_text=len)

    assert [file.section for file in files] == ["agent", "soul", "context"]
    for file in files:
        assert "TOP SECRET" not in file.text
        assert (file.state == "ok") == bool(file.text)
        assert len(file.text) <= 300 or file.metadata.get("template")
        assert file.state in {"ok", "missing", "empty"} or file.warnings


def build(path: Path, entry: bytes | str) -> None:
    path.parent.mkdir(exist_ok=True)
    if isinstance(entry, bytes):
        path.write_bytes(entry)
    elif entry == "folder":
        path.mkdir()
    else:
        path.symlink_to(entry.removeprefix("link:"))


@given(contents)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_a_broken_neighbour_never_costs_another_file(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    root = tmp_path_factory.mktemp("neighbour")
    write(root, "AGENT.md", content)
    write(root, "SOUL.md", "I am the soul of it.")

    files = await load(root)

    assert files["soul"].text == "I am the soul of it."


@pytest.mark.parametrize("content", [b"\0" * 500, b"\0", b"\n\0\0\n\0\0"])
async def test_a_file_of_nothing_but_nul_characters_is_said_to_be_empty(
    tmp_path: Path, content: bytes
) -> None:
    write(tmp_path, "AGENT.md", content)

    agent = (await load(tmp_path))["agent"]
    lint = await BootstrapLoader(tmp_path).lint(count_text=count_words)

    assert (agent.state, agent.text) == ("empty", "")
    assert agent.warnings[-1] == "nothing is left of it"
    assert ("file.empty", "nothing is left of it") in [
        (one.rule, one.message) for one in lint.files[0].findings
    ]
