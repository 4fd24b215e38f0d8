"""Whatever happens to instruction files between two loads, the second one sees it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from context_assembler.stages.load_bootstrap import BootstrapLoader
from context_assembler.values.prompt import BootstrapFile

Change = Callable[[Path], object]
LONG_AFTER_NS = 2**62  # every file has settled by then


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def loader_of(root: Path) -> BootstrapLoader:
    return BootstrapLoader(
        root / "repo/bootstrap", root=root / "repo", now_ns=lambda: LONG_AFTER_NS, clock=lambda: 0
    )


def edit_in_place(root: Path) -> None:
    path = root / "repo/bootstrap/AGENT.md"
    stamp = path.stat()
    path.write_text("version 2", encoding="utf-8")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def replace_at_once(root: Path) -> None:
    path = root / "repo/bootstrap/AGENT.md"
    other = write(path.with_suffix(".tmp"), "version 2")
    shutil.copystat(path, other)
    other.replace(path)


def remove_and_write_anew(root: Path) -> None:
    path = root / "repo/bootstrap/AGENT.md"
    path.unlink()
    write(path, "version 2")


def remove_and_make_the_folder_anew(root: Path) -> None:
    shutil.rmtree(root / "repo/bootstrap")
    write(root / "repo/bootstrap/AGENT.md", "version 2")


def put_another_folder_in_its_place(root: Path) -> None:
    (root / "repo/bootstrap").rename(root / "repo/old")
    write(root / "repo/other/AGENT.md", "version 2")
    (root / "repo/other").rename(root / "repo/bootstrap")


def rename_a_parent(root: Path) -> None:
    shutil.copytree(root / "repo", root / "next")
    write(root / "next/bootstrap/AGENT.md", "version 2")
    (root / "repo").rename(root / "previous")
    (root / "next").rename(root / "repo")


def add_a_variant(root: Path) -> None:
    write(root / "repo/bootstrap/AGENT.bot.md", "version 2")


def turn_into_a_link(root: Path) -> None:
    path = root / "repo/bootstrap/AGENT.md"
    write(root / "repo/docs/agent.md", "version 2")
    path.unlink()
    path.symlink_to("../docs/agent.md")


EDITS: dict[str, Change] = {
    "an edit of the same size with the same time stamp": edit_in_place,
    "an atomic replacement": replace_at_once,
    "removed and written anew": remove_and_write_anew,
    "its folder removed and made anew": remove_and_make_the_folder_anew,
    "another folder in the place of its own": put_another_folder_in_its_place,
    "another tree in the place of the parent": rename_a_parent,
    "a variant for the agent": add_a_variant,
    "a link in its place": turn_into_a_link,
}


@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS.keys())
async def test_a_change_shows_on_the_next_load(tmp_path: Path, change: Change) -> None:
    write(tmp_path / "repo/bootstrap/AGENT.md", "version 1")
    loader = loader_of(tmp_path)

    before = (await loader.load("bot"))[0]
    change(tmp_path)
    after = (await loader.load("bot"))[0]
    again = (await loader.load("bot"))[0]

    assert (before.text, after.text) == ("version 1", "version 2")
    assert again is after, "what has not changed is not read again"


async def agent_after(root: Path, *changes: Change) -> list[BootstrapFile]:
    loader = loader_of(root)
    files = [(await loader.load())[0]]
    for change in changes:
        change(root)
        files.append((await loader.load())[0])
    return files


async def test_a_folder_that_appears_and_vanishes_is_seen(tmp_path: Path) -> None:
    files = await agent_after(
        tmp_path,
        lambda root: (root / "repo/bootstrap").mkdir(parents=True),
        lambda root: write(root / "repo/bootstrap/AGENT.md", "here"),
        lambda root: shutil.rmtree(root / "repo"),
    )

    assert [file.state for file in files] == ["missing", "missing", "ok", "missing"]


async def test_what_a_file_imports_is_seen_wherever_it_lies_in_the_root(tmp_path: Path) -> None:
    shared = tmp_path / "repo/docs/rules.md"
    write(tmp_path / "repo/bootstrap/AGENT.md", "@../docs/rules.md")

    files = await agent_after(
        tmp_path,
        lambda _: write(shared, "one"),
        lambda _: write(shared, "two"),
        lambda _: shared.unlink(),
    )

    assert [file.text for file in files] == ["@../docs/rules.md", "one", "two", "@../docs/rules.md"]


async def test_a_link_that_leads_elsewhere_is_seen(tmp_path: Path) -> None:
    agent = tmp_path / "repo/bootstrap/AGENT.md"
    write(tmp_path / "repo/v1/agent.md", "version 1")
    write(tmp_path / "repo/v2/agent.md", "version 2")
    (tmp_path / "repo/current").symlink_to("v1")
    agent.parent.mkdir()
    agent.symlink_to("../current/agent.md")

    def lead_elsewhere(root: Path) -> None:
        (root / "repo/current").unlink()
        (root / "repo/current").symlink_to("v2")

    files = await agent_after(
        tmp_path, lead_elsewhere, lambda root: (root / "repo/current").unlink()
    )

    assert [(file.state, file.text) for file in files] == [
        ("ok", "version 1"),
        ("ok", "version 2"),
        ("unreadable", ""),
    ]


async def test_a_link_that_leads_nowhere_is_told_from_no_file(tmp_path: Path) -> None:
    (tmp_path / "repo/bootstrap").mkdir(parents=True)
    agent = tmp_path / "repo/bootstrap/AGENT.md"

    files = await agent_after(
        tmp_path, lambda _: agent.symlink_to("nowhere.md"), lambda _: agent.unlink()
    )

    assert [file.state for file in files] == ["missing", "unreadable", "missing"]


async def test_a_repository_that_begins_around_the_folder_is_seen(tmp_path: Path) -> None:
    write(tmp_path / "repo/AGENT.md", "above")
    write(tmp_path / "repo/bootstrap/AGENT.md", "near")
    loader = BootstrapLoader(
        tmp_path / "repo/bootstrap", searches_upward=True, now_ns=lambda: LONG_AFTER_NS
    )

    before = await loader.load()
    (tmp_path / "repo/.git").mkdir()
    after = await loader.load()

    assert "above" not in [file.text for file in before]
    assert [file.text for file in after] == ["near", "above", "", ""]


async def test_a_file_in_a_folder_that_cannot_be_searched_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    files = await BootstrapLoader(tmp_path / "loop").load()

    assert {file.state for file in files} == {"unreadable"}
    assert "cannot be read" in files[0].warnings[0]
