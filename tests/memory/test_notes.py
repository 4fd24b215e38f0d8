"""A folder of Markdown as memory: what is found of it, at once after every edit, and what is not."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from context_assembler import ContextAssembler
from context_assembler.errors import ConfigurationError, UnknownMemoryError
from context_assembler.memory import ChunkMetadata, MemoryAssembler, MemoryFilters, NotesFolder

GUIDE: Final = """---
name: The guide
# not a heading
---
Read me first.
# Setup
## Linux
Install it with zypper.
```sh
# not a heading either
```
## Linux
Twice.
# Deploy #
On Friday.
"""


def written(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


async def found(source: Any, query: str) -> list[str]:
    return [hit.record.id for hit in await source.search(query)]


async def test_a_section_knows_its_lines_and_the_headings_above_it(tmp_path: Path) -> None:
    notes = NotesFolder(written(tmp_path, {"sub/guide.md": GUIDE}), namespace="ada")

    records = await notes.list_records(order="oldest", limit=20)

    told: list[Any] = []
    for record in sorted(records, key=lambda one: one.metadata.start_line):
        about: ChunkMetadata = record.metadata
        told.append((record.id, record.parent_id, about.heading, about.start_line, about.end_line))
        assert (record.kind, record.namespace, about.source) == ("chunks", "ada", "sub/guide.md")
    file = "sub/guide.md"
    assert told == [
        (file, None, "The guide", 1, 5),
        (f"{file}#setup", file, "Setup", 6, 6),
        (f"{file}#linux", f"{file}#setup", "Setup > Linux", 7, 11),
        (f"{file}#linux-2", f"{file}#setup", "Setup > Linux", 12, 13),
        (f"{file}#deploy", file, "Deploy", 14, 15),
    ]
    assert (await notes.get(f"{file}#setup")).text == "Setup"
    assert await notes.search("zypper", filters=MemoryFilters(namespaces=["bo"])) == []


@pytest.mark.parametrize("given", ["text", "path", "source", "mapping"])
async def test_every_way_to_name_a_folder_recalls_from_it_with_file_and_line(
    tmp_path: Path, given: str
) -> None:
    folder = written(tmp_path / "notes", {"guide.md": GUIDE})
    ways = {"text": str(folder), "path": folder, "source": NotesFolder(folder)}
    memory: Any = ways.get(given, {"mine": f"{folder}/"})

    async with ContextAssembler(memory=memory) as assembler:
        recalled = await assembler.recall("Install on Linux?")

    assert "- `guide.md:7-11`, Setup > Linux: Install it with zypper." in recalled.markdown


async def test_every_edit_is_found_at_once(tmp_path: Path) -> None:
    notes = NotesFolder(written(tmp_path, {"a.md": "# Tea\ngreen", "b.md": "# Cup\nblue"}))
    assert await found(notes, "green") == ["a.md#tea"]

    written(tmp_path, {"a.md": "# Tea\nblack"})  # of the same size, in the same moment
    assert (await found(notes, "green"), await found(notes, "black")) == ([], ["a.md#tea"])
    written(tmp_path, {"c.md": "# Pot\nred"})
    (tmp_path / "b.md").rename(tmp_path / "d.md")
    (tmp_path / "a.md").unlink()
    for word, ids in (("black", []), ("red", ["c.md#pot"]), ("blue", ["d.md#cup"])):
        assert await found(notes, word) == ids
    with pytest.raises(UnknownMemoryError):
        await notes.get("b.md#cup")


@pytest.mark.parametrize(
    "raw",
    [
        "# Tee\r\nGrün".encode(),
        b"\xef\xbb\xbf# Tee\nGr\xc3\xbcn",
        "# Tee\nGrün".encode("utf-16"),
        "\ufeff# Tee\nGrün".encode("utf-16-be"),
    ],
    ids=["CRLF", "BOM", "UTF-16", "UTF-16 BE"],
)
async def test_text_is_read_as_instruction_files_are(tmp_path: Path, raw: bytes) -> None:
    notes = NotesFolder(written(tmp_path, {"tee.MD": raw}))

    assert [hit.record.text for hit in await notes.search("grün")] == ["Grün"]


async def test_what_is_left_out_has_a_reason_and_recall_names_what_may_be_missed(
    tmp_path: Path,
) -> None:
    files: dict[str, str | bytes] = {
        "notes/a.md": "zebra",
        "notes/binary.md": b"zebra\0",
        "notes/large.md": b"zebra " * 200_000,
        "notes/odd.md": b"zebra lion \xff",
        "notes/.git/x.md": "zebra",
        "notes/.x.md": "zebra",
        "notes/a.txt": "zebra",
        "secret.md": "zebra",
    }
    written(tmp_path, files)
    os.mkfifo(tmp_path / "notes" / "pipe.md")
    (tmp_path / "notes" / "own.md").symlink_to("a.md")
    (tmp_path / "notes" / "out.md").symlink_to("../secret.md")
    (tmp_path / "notes" / "folder").symlink_to(tmp_path)
    notes = NotesFolder(tmp_path / "notes")

    recalled = await MemoryAssembler(notes).assemble_context("zebra")

    assert {one.record.id for one in recalled.items} == {"a.md", "odd.md"}
    reasons = dict(notes.left_out)
    assert "replaced" in reasons.pop("odd.md")
    assert "larger" in reasons.pop("large.md")
    assert reasons == {
        ".git": "it is hidden",
        ".x.md": "it is hidden",
        "a.txt": "it is not Markdown",
        "binary.md": "it is binary",
        "folder": "it is a link that leaves the folder",
        "out.md": "it is a link that leaves the folder",
        "own.md": "it links to what is read by its own name",
        "pipe.md": "it is not a regular file",
    }
    assert "and 3 more" in recalled.source_notes["notes"]
    assert "hidden" not in recalled.source_notes["notes"]


async def test_a_folder_that_is_not_there_failed_until_it_is(tmp_path: Path) -> None:
    memory = MemoryAssembler(f"{tmp_path}/later/")

    missing = await memory.assemble_context("zebra", context_types="chunks")
    written(tmp_path, {"later/a.md": "zebra"})

    assert missing.source_status == {"chunks": "failed"}
    assert "no such folder" in missing.source_notes["chunks"]
    assert not (await memory.assemble_context("zebra")).is_empty


def test_a_folder_that_is_not_there_is_no_new_database(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="a folder of notes make it first"):
        MemoryAssembler(tmp_path / "notez")
    with pytest.raises(ConfigurationError, match="end a folder of notes with a slash"):
        MemoryAssembler("notez")
    assert not [*tmp_path.iterdir()]
