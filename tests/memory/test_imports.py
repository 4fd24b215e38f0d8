"""Memories of other programs: recognised by what their rows require, read or listed, or refused."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_assembler.errors import ConfigurationError, MemoryFormatError
from context_assembler.memory import (
    MemoryAssembler,
    MemoryFilters,
    MemoryRecord,
    RelationMetadata,
    import_memories,
    load_memories,
    open_memory,
    write_memories,
)

MEM0: Final[list[dict[str, Any]]] = [
    {
        "id": "5f1c",
        "memory": "Likes green tea",
        "hash": "a1b2",
        "metadata": {"mood": "calm"},
        "score": None,
        "created_at": "2026-03-01T10:00:00.5-07:00",
        "updated_at": None,
        "user_id": "ada",
        "categories": ["drinks"],
    },
    {"id": "5f1d", "memory": "Runs on Sundays", "user_id": "ada", "run_id": "r1", "actor_id": "Bo"},
]
EDGES: Final = [
    {"source": "ada", "relationship": "likes", "target": "tea"},
    {"source": "ada", "relationship": "runs_in", "destination": "the park"},
]
TIMES: Final = {"created_at": "2026-01-02T03:04:05Z", "created_at_epoch": 1_767_323_045_000}
CLAUDE_MEM: Final[dict[str, Any]] = {
    "exportedAt": "2026-01-03T00:00:00Z",
    "query": "",
    "totalObservations": 1,
    "observations": [
        {
            "id": 7,
            "memory_session_id": "m1",
            "project": "shop",
            "text": None,
            "type": "bugfix",
            "title": "[WIP] Login fixed",
            "subtitle": "A cookie was too old",
            "narrative": "The cookie expired.",
            "facts": '["Cookies last a day", "The clock was off"]',
            "concepts": "[]",
            "files_read": '["login.py"]',
            "files_modified": "[]",
            **TIMES,
        }
    ],
    "sessions": [
        {"id": 1, "content_session_id": "c1", "project": "shop", "user_prompt": "Fix the login"}
    ],
    "summaries": [
        {"id": 1, "memory_session_id": "m1", "project": "shop", "learned": "Check clocks", **TIMES}
    ],
    "prompts": [{"id": 1, "content_session_id": "c1", "prompt_text": "Why am I out?", **TIMES}],
}
GRAPH: Final[dict[str, list[dict[str, Any]]]] = {
    "entities": [
        {"name": "Ada L", "entityType": "person", "observations": ["writes code", "likes tea"]},
        {"name": "Acme", "entityType": "company", "observations": []},
    ],
    "relations": [{"from": "Ada L", "to": "Acme", "relationType": "works_at"}],
}
GRAPH_LINES: Final = "\n".join(
    json.dumps({"type": kind, **row})
    for kind, rows in (("entity", GRAPH["entities"]), ("relation", GRAPH["relations"]))
    for row in rows
)
OWN: Final = b"".join(write_memories([MemoryRecord(id="a", text="a pear", namespace="shop")]))

LIKED: Final = ["Likes green tea", "Runs on Sundays"]
PAGE: Final = {"count": 2, "next": None, "previous": None, "results": MEM0}
WORKS: Final = ["writes code\nlikes tea", "Acme", "Ada L works_at Acme"]
FIXED: Final = (
    "[WIP] Login fixed\nA cookie was too old\nThe cookie expired.\nCookies last a day\n"
    "The clock was off"
)
GIVEN: Final[Mapping[str, tuple[Any, str, list[str]]]] = {
    "mem0, a list": (MEM0, "mem0", LIKED),
    "mem0, a page": (PAGE, "mem0", LIKED),
    "mem0, lines": ("\r\n".join(map(json.dumps, MEM0)), "mem0", LIKED),
    "mem0, with relations": (
        {"results": MEM0[:1], "relations": EDGES},
        "mem0",
        ["Likes green tea", "ada likes tea", "ada", "tea", "ada runs_in the park", "the park"],
    ),
    "claude-mem": (
        CLAUDE_MEM,
        "claude-mem",
        [FIXED, "Fix the login\nshop", "Check clocks", "Why am I out?"],
    ),
    "the MCP server's lines": (f"{GRAPH_LINES}\n", "mcp-memory", WORKS),
    "the MCP server's graph": (GRAPH, "mcp-memory", WORKS),
    "one line of the MCP server": (GRAPH_LINES.split("\n")[0], "mcp-memory", WORKS[:1]),
    "our own export": (OWN, "context-assembler", ["a pear"]),
    "lines written by hand": ('{"text": "a", "kind": "code"}', "context-assembler", ["a"]),
    "an empty export": (b"", "context-assembler", []),
    "a mark before it": (b"\xef\xbb\xbf" + json.dumps(MEM0[1:]).encode(), "mem0", LIKED[1:]),
    "a line separator in a text": (
        json.dumps({"id": "x", "memory": "a\u2028b"}, ensure_ascii=False),
        "mem0",
        ["a\u2028b"],
    ),
}


def written(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, str | bytes):
        content = json.dumps(content, indent=2)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(("content", "format", "texts"), GIVEN.values(), ids=GIVEN.keys())
async def test_a_file_is_read_as_what_it_is_and_twice_makes_no_doubles(
    tmp_path: Path, content: Any, format: str, texts: list[str]
) -> None:
    file = written(tmp_path / "given.json", content)

    read = load_memories(file)

    assert (read.format, [record.text for record in read.records]) == (format, texts)
    assert read.unread == ()
    async with open_memory("memory:") as store:
        first = await import_memories(store, file)
        again = await import_memories(store, file)
        assert {one.outcome for one in first} <= {"added"}
        assert [one.id for one in again] == [one.id for one in first]
        assert (await store.stats()).records == len(texts)


def test_whose_a_memory_is_stays_with_it(tmp_path: Path) -> None:
    both = [
        *MEM0,
        {"id": "5f1c", "memory": "Likes coffee", "user_id": "bob"},
        {"id": "n", "memory": "?"},
    ]
    mem0 = load_memories(
        written(tmp_path / "m.json", {"results": both, "relations": EDGES}), namespace="x"
    )
    alone = load_memories(written(tmp_path / "a.json", {"results": MEM0, "relations": EDGES}))
    told = load_memories(written(tmp_path / "c.json", CLAUDE_MEM), namespace="x")
    graph = load_memories(written(tmp_path / "g.json", GRAPH), namespace="x")

    assert [one.namespace for one in mem0.records[:4]] == ["ada", "ada", "bob", "x"]
    assert {one.namespace for one in mem0.records[4:]} == {"x"}
    assert {one.namespace for one in alone.records} == {"ada"}
    assert {one.namespace for one in told.records} == {"shop"}
    assert {one.namespace for one in graph.records} == {"x"}


def test_what_is_known_of_a_memory_comes_along(tmp_path: Path) -> None:
    first, second = load_memories(written(tmp_path / "m.json", MEM0)).records
    noted, _, _, asked = load_memories(written(tmp_path / "c.json", CLAUDE_MEM)).records
    metadata: Any = noted.metadata

    assert first.created_at is not None
    assert first.created_at.isoformat() == "2026-03-01T10:00:00.500000-07:00"
    assert first.extras == {"mem0": {"metadata": {"mood": "calm"}}}
    assert (second.session_id, second.author) == ("r1", "Bo")
    assert (metadata.observation_type, metadata.paths) == ("bugfix", ("login.py",))
    assert (noted.session_id, asked.session_id, asked.author) == ("m1", "c1", "user")
    assert noted.created_at is not None
    assert noted.created_at.isoformat() == "2026-01-02T03:04:05+00:00"


async def test_an_imported_graph_can_be_walked(tmp_path: Path) -> None:
    async with open_memory("memory:") as store:
        await import_memories(store, written(tmp_path / "g.jsonl", GRAPH_LINES), namespace="ada")
        wanted = MemoryFilters(namespaces=("ada",))
        found = await MemoryAssembler(store).assemble_context("writes code", filters=wanted)

    assert "Ada L works_at Acme" in found.markdown
    relation = next(one.record for one in found.items if one.record.kind == "relations")
    assert isinstance(relation.metadata, RelationMetadata)


# ---- Markdown ----

PAGES: Final = {
    "MEMORY.md": "# Memory\n\n- [Tea](tea.md) — green\n\n## Build ##\n\n```sh\n# not a heading\nmake\n```\n\n## Empty\n",
    "tea.md": "---\nname: tea\ndescription: Ada: green only\nmetadata:\n  type: user\n---\n\nNo sugar.\n",
    "sub/old.md": '---\nname: "Old"\ndescription: >-\n  in two\ntype: feedback\n---\nbody',
    "sub/rule.markdown": "---\n\nJust a rule\n",
    "open.md": "## Left open\n```\nnever closed\n",
    ".hidden/x.md": "# hidden\nx",
    "notes.txt": "no Markdown",
}


def test_a_folder_of_markdown_is_read_by_section_or_by_front_matter(tmp_path: Path) -> None:
    for name, text in PAGES.items():
        written(tmp_path / name, text)

    read = load_memories(tmp_path)

    assert read.format == "markdown"
    assert [record.text for record in read.records] == [
        "Memory\n\n- [Tea](tea.md) — green",
        "Build\n\n```sh\n# not a heading\nmake\n```",
        "Left open\n```\nnever closed",
        "Old\n\nin two\n\nbody",
        "---\n\nJust a rule",
        "tea\n\nAda: green only\n\nNo sugar.",
    ]
    metadata: list[Any] = [record.metadata for record in read.records]
    assert [one.source for one in metadata][::5] == ["MEMORY.md", "tea.md"]
    assert [one.category for one in metadata] == [None, None, None, "feedback", None, "user"]


async def test_an_edited_section_takes_the_place_of_what_it_was(tmp_path: Path) -> None:
    file = written(tmp_path / "MEMORY.md", "# Tea\ngreen\n# Cups\ntwo\n# Cups\nthree\n")
    async with open_memory("memory:") as store:
        await import_memories(store, file)
        written(file, "# Before\nnew\n# Tea\nblack\n# Cups\ntwo\n# Cups\nthree\n")
        outcomes = [one.outcome for one in await import_memories(store, file)]
        assert outcomes == ["added", "replaced", "replaced", "replaced"]


def test_what_is_no_text_or_leads_out_of_the_folder_is_listed(tmp_path: Path) -> None:
    for at in range(40):
        written(tmp_path / "in" / f"{at}.md", f"fact {at}")
    written(tmp_path / "in" / "bytes.md", b"\xff\xfe\0")
    written(tmp_path / "secret.md", "# Secret")
    (tmp_path / "in" / "link.md").symlink_to(tmp_path / "secret.md")
    os.mkfifo(tmp_path / "in" / "pipe.md")

    read = load_memories(tmp_path / "in")

    assert (read.rows_read, len(read.records)) == (40, 40)
    assert [row.place for row in read.unread] == ["bytes.md", "link.md", "pipe.md"]
    with pytest.raises(ConfigurationError, match="not a regular file"):
        load_memories(tmp_path / "in" / "pipe.md")


# ---- refused ----

REFUSED: Final[Mapping[str, tuple[Any, str]]] = {
    "another program's": ({"messages": [{"role": "user"}]}, "format is unknown"),
    "texts of somebody else": ([{"text": "hi", "sender": "human"}], "format is unknown"),
    "nearly mem0": ([{"memory": "tea"}], r"nearest: mem0 \(it lacks id\)"),
    "mem0 whose text is none": ([{"id": "a", "memory": {"a": 1}}], r"mem0 \(it lacks memory\)"),
    "nearly a graph": ('{"type": "entity", "name": "a"}', r"nearest: mcp-memory"),
    "a number": ("42", "not an object"),
    "plain text": ("hello\nyou", "line 1, .*not JSON"),
    "UTF-16": (json.dumps(MEM0).encode("utf-16"), "not JSON"),
    "deep": ("[" * 100_000, "nested too deeply"),
    "a long number": (f'[{{"id": {"9" * 5_000}, "memory": "x"}}]', "not JSON"),
    "of a newer version": ('{"version": 2, "text": "a"}', "its format is 2"),
    "an unknown kind": ('{"text": "a", "kind": "dreams"}', "dreams"),
    "no time": ([{**MEM0[0], "created_at": "yesterday"}], "yesterday"),
    "no namespace": ([{**MEM0[0], "user_id": "a\0da"}], "namespace"),
    "an empty text": ([{**MEM0[0], "memory": " "}], "empty"),
    "a relation that leads nowhere": (
        {"relations": [*EDGES[:1], {**EDGES[0], "target": 4}]},
        "target",
    ),
    "a broken line of few": (f"{GRAPH_LINES}\n{{", r"line 4, .*1 of its 4 rows"),
    "two formats in one": (
        {"results": MEM0, "observations": CLAUDE_MEM["observations"]},
        "1 of its 3",
    ),
    "ids that are lists": ([{"content_session_id": [1], "project": "x"}], "format is unknown"),
}


@pytest.mark.parametrize(("content", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_read_is_refused_with_why(tmp_path: Path, content: Any, reason: str) -> None:
    with pytest.raises(MemoryFormatError, match=reason):
        load_memories(written(tmp_path / "given.json", content))


def test_up_to_a_tenth_is_listed_with_its_place(tmp_path: Path) -> None:
    good = [{"id": str(at), "memory": f"fact {at}"} for at in range(20)]
    lines = [*map(json.dumps, good[:10]), "{", *map(json.dumps, good[10:]), '{"id": "x"}']

    read = load_memories(written(tmp_path / "m.jsonl", "\n".join(lines)))
    few = written(tmp_path / "few.json", [*good[:2], {**good[0], "memory": "other"}, None])
    part = load_memories(few, partial=True)

    assert (read.rows_read, [row.line for row in read.unread]) == (20, [11, 22])
    assert [row.reason for row in part.unread] == [
        "another row before it has the same id",
        "it is not an object",
    ]
    with pytest.raises(MemoryFormatError, match="partial=True"):
        load_memories(few)


@pytest.mark.parametrize("name", ["none.json", "none.md", "folder"])
def test_a_file_that_is_not_there_or_a_folder_of_nothing_is_said(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()

    with pytest.raises(ConfigurationError, match=name):
        load_memories(tmp_path / name)


async def test_secrets_are_masked_as_on_any_write(tmp_path: Path) -> None:
    file = written(
        tmp_path / "m.json", [{"id": "a", "memory": "the password=hunter2hunter2 of Ada"}]
    )
    async with open_memory("memory:") as store:
        [kept] = await import_memories(store, file)
        assert "hunter2" not in (await store.get("a")).text
        assert kept.notices


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(
            st.sampled_from("id memory text results relations observations name from to".split())
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=json_values)
def test_any_json_is_read_or_refused(tmp_path: Path, value: Any) -> None:
    file = written(tmp_path / "any.json", json.dumps(value))
    try:
        read = load_memories(file, partial=True)
    except MemoryFormatError:
        return
    assert read.records or not read.rows_read
