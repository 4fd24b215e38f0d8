"""Real instruction files, skills and tool lists load."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from context_assembler import ContextAssembler
from context_assembler.skills.folder import MAX_TOLD, FolderSkills
from context_assembler.stages.collect_tools import ToolCollector
from context_assembler.stages.load_bootstrap import BootstrapLoader
from context_assembler.stages.load_bootstrap.markdown import split_markdown
from context_assembler.tools import open_tool_sources
from context_assembler.values.texts.instruction_text import decode_text, split_front_matter

# ruff: noqa: ASYNC240 - what a test reads itself may block
pytestmark = pytest.mark.recorded

LINK = ".symlink-target"


@pytest.fixture
def instructions(corpus: Path) -> Path:
    return corpus / "instructions"


async def test_every_real_instruction_file_loads(instructions: Path) -> None:
    files = sorted(path for path in instructions.rglob("*") if path.is_file())
    assert len(files) > 60

    for path in files:
        loader = BootstrapLoader(path.parent, root=instructions, agent_names=[path.name])
        (agent, *_) = await loader.load()

        has_text = bool(split_front_matter(path.read_text(encoding="utf-8")).text.strip())
        assert agent.state == ("ok" if has_text else "empty"), (path, agent)
        assert "\ufeff" not in agent.text


def with_mark(text: str) -> bytes:
    return b"\xef\xbb\xbf" + text.encode()


def as_utf_16(text: str) -> bytes:
    return text.encode("utf-16")


def with_crlf(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()


@pytest.mark.parametrize("convert", [with_mark, as_utf_16, with_crlf])
async def test_real_files_read_the_same_in_every_encoding(
    instructions: Path, tmp_path: Path, convert: Callable[[str], bytes]
) -> None:
    for number, path in enumerate(sorted(instructions.rglob("AGENTS.md"))):
        plain, other = tmp_path / f"{number}a", tmp_path / f"{number}b"
        plain.mkdir()
        other.mkdir()
        shutil.copy(path, plain / "AGENT.md")
        (other / "AGENT.md").write_bytes(convert(path.read_text(encoding="utf-8")))

        first = (await BootstrapLoader(plain).load())[0]
        second = (await BootstrapLoader(other).load())[0]

        assert first.text == second.text
        assert first.fingerprint == second.fingerprint


async def test_every_real_file_goes_into_a_valid_request(instructions: Path) -> None:
    for path in sorted(instructions.rglob("*.md")):
        loader = BootstrapLoader(path.parent, root=instructions, agent_names=[path.name])
        assembler = ContextAssembler(bootstrap=loader)
        await assembler.add_user("s", "hi")

        context = await assembler.assemble("s", model="claude-opus-5-5", max_tokens=1_000)

        [row] = [entry for entry in context.report.entries if entry.id == str(path)]
        assert row.decision in ("kept", "shortened", "dropped"), path
        assert context.check() == []


async def test_real_links_checked_out_as_text_are_followed(instructions: Path) -> None:
    links = sorted(instructions.rglob(f"*{LINK}"))
    targets = [link.parent / link.read_text(encoding="utf-8").strip() for link in links]
    found = [
        (link, target) for link, target in zip(links, targets, strict=True) if target.is_file()
    ]
    assert found

    for link, target in found:
        loaders = [
            BootstrapLoader(one.parent, root=instructions, agent_names=[one.name])
            for one in (link, target)
        ]
        pointer, real = [(await loader.load())[0] for loader in loaders]

        assert pointer.text == real.text
        assert "read as a link" in pointer.warnings[0]


async def test_real_links_show_a_file_once(instructions: Path, tmp_path: Path) -> None:
    links = sorted(instructions.rglob(f"*{LINK}"))
    assert links

    for number, link in enumerate(links):
        target = (link.parent / link.read_text(encoding="utf-8").strip()).resolve()
        if not target.is_file():
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.copy(target, folder / "AGENTS.md")
        (folder / "SOUL.md").symlink_to("AGENTS.md")

        files = await BootstrapLoader(folder, agent_names=["AGENTS.md"]).load()

        assert [file.state for file in files] == ["ok", "blocked", "missing"]


def test_no_character_of_a_real_file_is_lost_between_its_pieces(instructions: Path) -> None:
    for path in instructions.rglob("*.md"):
        text = decode_text(path.read_bytes()).text

        assert "".join(piece.text for piece in split_markdown(text)) == text


async def test_every_real_skill_is_listed_or_named_as_a_problem(instructions: Path) -> None:
    found = sum(1 for _ in instructions.rglob("SKILL.md"))
    files = sorted(instructions.rglob("*.md"))
    for first in range(0, len(files), MAX_TOLD):  # of more the rest is counted only
        provider = FolderSkills(*files[first : first + MAX_TOLD])  # files are no folders
        await provider.list_skills()
        assert len(provider.problems) == len(provider.folders)

    folders = sorted({path.parent for path in instructions.rglob("SKILL.md")})
    provider = FolderSkills(*folders)
    skills = await provider.list_skills()

    assert len(skills) + len(provider.problems) == found
    assert len(skills) >= found - 5


async def test_every_real_tool_list_loads(corpus: Path) -> None:
    lists = [
        [json.loads(path.read_text(encoding="utf-8"))]
        for path in sorted((corpus / "tools" / "github_mcp_server").glob("*.snap"))
    ]
    for path in sorted((corpus / "tools" / "bfcl_func_doc").glob("*.jsonl")):
        lists.append([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])
    for name in ("accepted_tool_lists.jsonl", "mcp_tools_list.jsonl"):
        text = (corpus / "tools" / name).read_text(encoding="utf-8")
        lists += [json.loads(line)["tools"] for line in text.splitlines()]
    fates: Counter[str] = Counter()

    for listed in lists:
        collected = await ToolCollector(open_tool_sources(listed)).collect()
        fates.update(entry.decision for entry in collected.entries)
        declared = sum(len(one.get("functionDeclarations") or [one]) for one in listed)
        assert len(collected.entries) >= declared

    assert fates["dropped"] == 0
    assert fates["kept"] > 500
