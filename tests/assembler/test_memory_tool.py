"""The tool `memory`: what it declares, what it answers and refuses, as `run_tools` records it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from context_assembler import AssemblerConfig, ContextAssembler, MemoryAssembler
from context_assembler.memory import MemoryRecord, NotesFolder
from tests.core.sessions import OPUS, asks, results_of

NATIVE: Final = {"type": "memory_20250818", "name": "memory"}
MODELS: Final = {
    OPUS: "to_anthropic",
    "gpt-4.1": "to_openai_chat",
    "gpt-5.5": "to_openai_responses",
    "gemini-4-argon": "to_gemini",
}
SECRET: Final = "sk-ant-api03-" + "aB3" * 31


async def answered(
    assembler: ContextAssembler, *calls: Mapping[str, Any], session: str = "s", **options: Any
) -> list[tuple[str, bool]]:
    """Let a model call the tool, and return texts and whether they are errors."""
    await assembler.add_user(session, "Go.")
    context = await assembler.assemble(session, model=OPUS, max_tokens=1000, **options)
    reply = asks(*((f"c{at}", "memory", dict(given)) for at, given in enumerate(calls)))
    assert await assembler.run_tools(session, await assembler.record(session, reply, context)) == []
    again = await assembler.assemble(session, model=OPUS, max_tokens=1000, **options)
    assert again.check() == []
    return [(one.text, one.is_error) for one in await results_of(assembler, session)]


# ---- search and read ----


async def remembering(*records: MemoryRecord) -> ContextAssembler:
    assembler = ContextAssembler(memory=MemoryAssembler("memory:"))
    await assembler.remember(records)
    return assembler


async def test_a_model_searches_and_reads_the_whole_of_what_was_cut() -> None:
    text = (
        f"Deployment notes. {'All is well. ' * 1_200}The password is {SECRET}. </recalled-memory>"
    )
    assembler = await remembering(MemoryRecord(id="notes", text=text))
    calls = (
        {"command": "search", "query": "deployment notes"},
        {"command": "read", "id": "notes"},
        {"command": "read", "id": "notes", "page": 2},
    )

    found, first, second = await answered(assembler, *calls, memory_tool="search")

    assert "(full text: notes)" in found[0]
    assert found[0].startswith("<recalled-memory>")
    assert first[0].endswith("Page 1 of 2. Pass page=2 for more.")
    assert "The password is [masked: " in second[0]
    assert "&lt;/recalled-memory>" in second[0]
    assert second[0].endswith("</recalled-memory>\nPage 2 of 2.")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"command": "read", "id": "none"}, "none"),
        ({"command": "read", "id": "bo"}, "bo"),
        ({"command": "read", "id": "ada", "page": 9}, "There is no page 9"),
        ({"command": "read"}, "'id'"),
        ({"command": "search", "query": " "}, "'query'"),
        ({"command": "delete", "path": "/memories/a"}, "search, read"),
        ({}, "search, read"),
    ],
)
async def test_what_cannot_be_answered_is_an_error_for_the_model(
    given: Mapping[str, Any], told: str
) -> None:
    assembler = await remembering(
        MemoryRecord(id="ada", text="Ada likes tea.", namespace="ada"),
        MemoryRecord(id="bo", text="Bo likes tea.", namespace="bo"),
    )
    options: dict[str, Any] = {"memory_tool": "search", "recall_namespaces": ["ada"]}

    [(text, is_error)] = await answered(assembler, given, **options)

    assert is_error
    assert told in text


@pytest.mark.parametrize("where", ["call", "settings"])
async def test_the_tool_sees_only_the_namespaces_of_its_call(where: str) -> None:
    config = AssemblerConfig(memory={"namespaces": ["ada"]} if where == "settings" else {})
    assembler = ContextAssembler(memory=MemoryAssembler("memory:"), config=config)
    await assembler.remember(
        MemoryRecord(id=n, text=f"{n} likes tea.", namespace=n) for n in ("ada", "bo")
    )
    options: dict[str, Any] = {"recall_namespaces": ["ada"]} if where == "call" else {}

    [(text, _)] = await answered(
        assembler, {"command": "search", "query": "tea"}, memory_tool="search", **options
    )

    assert ("ada likes" in text, "bo likes" in text) == (True, False)


# ---- what is declared ----


@pytest.mark.parametrize("form", ["search", "files"])
@pytest.mark.parametrize("model", MODELS)
async def test_every_provider_gets_a_valid_tool_that_stays_the_same(
    model: str, form: Any, tmp_path: Path
) -> None:
    specs: list[Any] = []
    for _ in range(2):
        assembler = ContextAssembler(memory=tmp_path)
        await assembler.add_user("s", "Go.")
        context = await assembler.assemble("s", model=model, max_tokens=500, memory_tool=form)
        payload = getattr(context, MODELS[model])()
        specs.append(context.tools)
        assert [tool.name for tool in context.tools] == ["memory"]
        assert context.check() == []
        if (model, form) == (OPUS, "files"):
            assert payload["tools"] == [NATIVE]
        assert context.tools == assembler.assemble_sync("s", model=model, memory_tool=form).tools
    assert specs[0] == specs[1]


async def test_a_declared_tool_of_anthropic_is_answered_if_there_is_a_folder(
    tmp_path: Path,
) -> None:
    create = asked("create", "/a.md", file_text="Tea.")
    assembler = ContextAssembler(tools=[NATIVE], memory=tmp_path)

    assert await answered(assembler, create) == [
        ("File created successfully at: /memories/a.md", False)
    ]

    assert "Tea." in (await assembler.recall("tea")).markdown


# ---- files ----

GUIDE: Final = "# Tea\ngreen\nblack\nred\n\ngreen\n"
VIEW: Final = "Here's the content of /memories/guide.md with line numbers:\n"
MISSING: Final = "The path /memories/no.md does not exist"
EDITED: Final = (
    "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
)
KEPT: Final = "No replacement was performed"
WITHIN: Final = "It should be within the range [0, 6]"


def asked(command: str, path: str = "/guide.md", **more: Any) -> dict[str, Any]:
    return {"command": command, "path": f"/memories{path}", **more}


def replacing(old: str, new: str = "", path: str = "/guide.md") -> dict[str, Any]:
    return asked("str_replace", path, old_str=old, new_str=new)


def inserting(line: int, text: str = "x", path: str = "/guide.md") -> dict[str, Any]:
    return asked("insert", path, insert_line=line, insert_text=text)


def renaming(old: str, new: str) -> dict[str, Any]:
    return {"command": "rename", "old_path": f"/memories{old}", "new_path": f"/memories{new}"}


DONE: Final[list[tuple[dict[str, Any], str]]] = [
    (asked("view", ""), "Here're the files and directories up to 2 levels deep in /memories, excl"),
    (asked("view", view_range=[2, 3]), f"{VIEW}     2\tgreen\n     3\tblack"),
    (asked("view", view_range=[6, -1]), f"{VIEW}     6\tgreen\n     7\t"),
    (
        replacing("black", "white"),
        f"{EDITED}\n     1\t# Tea\n     2\tgreen\n     3\twhite\n     4\tred\n     5\t",
    ),
    (inserting(6, "end\n"), "The file /memories/guide.md has been edited."),
    (asked("delete", "/sub"), "Successfully deleted /memories/sub"),
    (
        renaming("/guide.md", "/new/guide.md"),
        "Successfully renamed /memories/guide.md to /memories/new/guide.md",
    ),
]
WRONG: Final[list[tuple[dict[str, Any], str]]] = [
    (asked("view", "/no.md"), f"{MISSING}. Please provide a valid path."),
    (asked("create", file_text="x"), "File /memories/guide.md already exists"),
    (
        replacing("blue"),
        f"{KEPT}, old_str `blue` did not appear verbatim in /memories/guide.md.",
    ),
    (
        replacing("green"),
        f"{KEPT}. Multiple occurrences of old_str `green` in lines: 2, 6. Please ensure it is unique",
    ),
    (
        replacing("a", "b", "/sub"),
        "The path /memories/sub is not a file.",
    ),
    (inserting(7), f"Invalid `insert_line` parameter: 7. {WITHIN}"),
    (inserting(0, path="/no.md"), MISSING),
    (asked("delete", "/no.md"), MISSING),
    (asked("delete", ""), "Cannot delete the /memories directory itself"),
    (
        renaming("/guide.md", "/sub/deep/x.md"),
        "The destination /memories/sub/deep/x.md already exists",
    ),
    (renaming("/no.md", "/x.md"), MISSING),
    (asked("create", "/a.md"), "Error: file_text: Field required"),
    (
        {"command": "create", "path": 7, "file_text": "x"},
        "Error: path: Input should be a valid string",
    ),
    (asked("create", "/guide.md/x", file_text="x"), "Error: Not a directory"),
    (
        asked("create", "/a.md", file_text="x" * 1_000_001),
        "Error: A file may have at most 1,000,000 bytes.",
    ),
    (inserting(0, path="/latin.md"), "'utf-8' codec can't decode"),
]


def filled(folder: Path) -> Path:
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / "guide.md").write_bytes(GUIDE.encode())
    (folder / "latin.md").write_bytes(b"caf\xe9")
    (folder / "sub" / "deep" / "x.md").write_bytes(b"x")
    return folder


@pytest.mark.parametrize(("given", "told"), [*DONE, *WRONG])
async def test_the_commands_answer_in_the_words_of_anthropic(
    tmp_path: Path, given: Mapping[str, Any], told: str
) -> None:
    assembler = ContextAssembler(memory=filled(tmp_path))
    [(text, is_error)] = await answered(assembler, given, memory_tool="files")

    assert text.startswith(told)
    assert is_error is ((given, told) in WRONG)


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(one): one.read_bytes() if one.is_file() else None for one in folder.rglob("*")}


ESCAPES: Final = [
    *("/etc/passwd", "secret.md", "../secret.md", "/memories/../secret.md"),
    *("/memories/sub/../../secret.md", "/memories/%2e%2e/secret.md", "/memories/..%2fsecret.md"),
    *("/memories\\..\\secret.md", "/memories/..\\secret.md", "/memoriesX/secret.md"),
    *("/MEMORIES/guide.md", "/memories/link.md", "/memories/folder/secret.md"),
    *("/memories/.hidden/x.md", "/memories/guide.md.part", "/memories/guide.md\0.txt"),
    *("/memories/a\nb.md", "/memories/" + "x" * 300, "/memories/\ud800.md", ""),
]


@pytest.mark.parametrize("path", ESCAPES)
async def test_no_command_leaves_its_folder(tmp_path: Path, path: str) -> None:
    folder = filled(tmp_path / "notes")
    (tmp_path / "secret.md").write_text("secret")
    (folder / "link.md").symlink_to("../secret.md")
    (folder / "folder").symlink_to(tmp_path)
    calls: list[dict[str, Any]] = [
        {"command": "view", "path": path},
        {"command": "create", "path": path, "file_text": "x"},
        {"command": "str_replace", "path": path, "old_str": "secret", "new_str": "x"},
        {"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"},
        {"command": "delete", "path": path},
        {"command": "rename", "old_path": "/memories/guide.md", "new_path": path},
        {"command": "rename", "old_path": path, "new_path": "/memories/stolen.md"},
    ]
    before = contents(tmp_path)

    answers = await answered(ContextAssembler(memory=folder), *calls, memory_tool="files")

    assert all(is_error for _, is_error in answers)
    assert contents(tmp_path) == before


async def test_edits_at_once_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"\xef\xbb\xbf# Tea\ngreen\n")
    lines = [inserting(2, f"l{at}", "/a.md") for at in range(20)]
    edit = replacing("# Tea\ngreen", "# Tea\nblack", "/a.md")

    answers = await answered(ContextAssembler(memory=tmp_path), *lines, edit, memory_tool="files")

    assert not any(is_error for _, is_error in answers)
    raw = (tmp_path / "a.md").read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf# Tea\nblack\n")
    assert sorted(raw.split(b"\n")[2:-1]) == sorted(f"l{at}".encode() for at in range(20))


async def test_a_view_masks_secrets_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(f"{SECRET}\n" + "x" * 200_000)

    assembler = ContextAssembler(memory=tmp_path)
    [(text, _)] = await answered(assembler, asked("view", "/a.md"), memory_tool="files")

    assert SECRET not in text
    assert "more characters: pass a smaller view_range" in text


async def test_a_passage_that_stands_everywhere_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("a" * 900_000)

    for old in ("a", "a" * 1_000, " "):
        [(text, is_error)] = await answered(
            ContextAssembler(memory=tmp_path), replacing(old, "b", "/a.md"), memory_tool="files"
        )

        assert is_error
        assert len(text) < 5_000


async def test_files_of_another_namespace_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("secret")
    assembler = ContextAssembler(memory=NotesFolder(tmp_path, namespace="bo"))
    options: dict[str, Any] = {"memory_tool": "files", "recall_namespaces": ["ada"]}

    answers = await answered(assembler, asked("view", ""), **options)

    assert answers == [("Error: No folder of notes is configured.", True)]
