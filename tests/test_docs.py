"""Every block of the README and of docs/ runs; every link leads somewhere."""

import ast
import asyncio
import gc
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from codeop import CommandCompiler
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

import context_assembler
from context_assembler import errors, memory
from context_assembler.cli.init import init
from context_assembler.errors import memories
from context_assembler.testing import ProviderServer, serve_providers

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests" / "samples").glob("*.md")]
)
TUTORIALS = [page for page in PAGES if page.name.startswith("tutorial")]
TEXT_LANGUAGES = ("", "text", "markdown", "diff", "jinja2")
CHECKS: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": yaml.safe_load,
}
OWN_COMMAND = "context-assembler"
TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

_FENCE = re.compile(
    r"^```(?P<language>[\w+-]*)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block; `line` is that of its first line of text, from 1."""

    page: Path
    language: str
    text: str
    line: int


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("text")) + 1
        yield Block(page=page, language=found["language"], text=found["text"], line=line)


def every_page(*languages: str) -> pytest.MarkDecorator:
    """Parametrise over the pages that have a block in one of the languages."""
    pages = [p for p in PAGES if any(block.language in languages for block in blocks_of(p))]
    return pytest.mark.parametrize("page", pages, ids=[str(p.relative_to(ROOT)) for p in pages])


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    """A local provider that the SDKs find by themselves, and a folder as the pages ask for."""
    init(folder=tmp_path, samples=True)
    desk = tmp_path / "samples" / "service_desk.json"
    lines = json.loads(desk.read_text(encoding="utf-8"))["messages"]
    session = "".join(f"{json.dumps(line)}\n" for line in lines)
    (tmp_path / "session.jsonl").write_text(session, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with serve_providers() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@contextmanager
def ignored_leaks() -> Generator[None]:
    """The local mode of Qdrant's client leaves connections open, of which Python 3.13 complains."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed database", ResourceWarning)
        yield
        gc.collect()


def run_blocks(page: Path) -> None:
    """Run the page's Python blocks in one namespace, as a notebook would.

    A block with `await` at its top level runs in a loop that the page's blocks share; any other is
    free to start its own.
    """
    namespace: dict[str, Any] = {"__name__": "docs"}
    leaves_open = any("qdrant_client" in block.text for block in blocks_of(page))
    with ignored_leaks() if leaves_open else nullcontext(), asyncio.Runner() as runner:
        for block in blocks_of(page):
            if block.language == "python":
                run_block(block, namespace, runner)


def run_block(block: Block, namespace: dict[str, Any], runner: asyncio.Runner) -> None:
    source = "\n" * (block.line - 1) + block.text  # so that a traceback names the page's line
    name = str(block.page.relative_to(ROOT))
    waiting = eval(compile(source, name, "exec", flags=TOP_LEVEL_AWAIT), namespace)
    if inspect.iscoroutine(waiting):
        runner.run(waiting)


@every_page("python")
def test_python_blocks_run(page: Path, provider: ProviderServer) -> None:
    run_blocks(page)

    assert not provider.refusals


@pytest.mark.parametrize("page", TUTORIALS, ids=[page.name for page in TUTORIALS])
def test_the_blocks_of_a_tutorial_can_be_pasted_into_a_prompt(page: Path) -> None:
    """The prompt of `python -m asyncio` takes a blank line for the end of what is indented."""
    compile_command = CommandCompiler()
    compile_command.compiler.flags |= TOP_LEVEL_AWAIT
    waiting: list[str] = []
    for block in blocks_of(page):
        for line in f"{block.text}\n".split("\n") if block.language == "python" else ():
            waiting.append(line)
            if compile_command("\n".join(waiting), str(page)) is not None:
                waiting.clear()

    assert waiting == []


@every_page("console")
def test_commands_run(page: Path, provider: ProviderServer, tmp_path: Path) -> None:
    environment = {**os.environ, **provider.environment, "NO_COLOR": "1", "COLUMNS": "120"}
    for block in blocks_of(page):
        if block.language == "console":
            run_commands(block, folder=tmp_path, environment=environment)


def run_commands(block: Block, *, folder: Path, environment: dict[str, str]) -> None:
    for offset, line in enumerate(block.text.splitlines()):
        if not line.startswith(f"$ {OWN_COMMAND} "):
            continue
        command, _, exit_text = line.removeprefix("$ ").partition("  # exits with ")
        expected = int(exit_text or 0)
        words = shlex.split(command)[1:]
        done = subprocess.run(
            [sys.executable, "-m", "context_assembler", *words],
            cwd=folder,
            env={**environment, "PYTHONPATH": str(ROOT)},
            check=False,
            capture_output=True,
            encoding="utf-8",
            timeout=100,
        )
        where = f"{block.page.relative_to(ROOT)}:{block.line + offset}"
        assert done.returncode == expected, f"{where}: {command}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_every_block_is_of_a_kind_that_is_checked(page: Path) -> None:
    for block in blocks_of(page):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        check = CHECKS.get(block.language)
        if check is not None:
            check(block.text)
        else:
            known = (*TEXT_LANGUAGES, "python", "console")
            assert block.language in known, f"{where}: write ```console for shell commands"


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_every_link_leads_somewhere(page: Path) -> None:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [found["target"].partition("#")[0] for found in _LINK.finditer(text)]
    local = [target for target in targets if target and "://" not in target]

    assert [target for target in local if not (page.parent / target).exists()] == []


def test_the_index_of_the_how_to_pages_names_each() -> None:
    index = ROOT / "docs" / "how-to" / "README.md"
    linked = {found["target"] for found in _LINK.finditer(index.read_text(encoding="utf-8"))}
    pages = {page.name for page in index.parent.glob("*.md")} - {index.name}

    assert pages <= linked


def test_the_architecture_shows_the_layers_that_are_checked() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    drawn = [re.split(r"\s{2,}", line)[0] for line in text.splitlines()]

    assert [layer for layer in layers if layer not in (*drawn, "__main__")] == []


def test_the_architecture_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", text)

    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (ROOT / path).exists()
        or (name and f"def {name}(" not in (ROOT / path).read_text(encoding="utf-8"))
    ]
    assert named
    assert missing == []


def test_contributing_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:context_assembler|tests|docs|scripts)/[\w/.]+)`", text)

    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_reference_says_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "write_reference.py"), "--check"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        encoding="utf-8",
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_reference_lists_every_error_and_from_where_it_is_imported() -> None:
    text = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    homes = dict(re.findall(r"^\| `(\w+)` \| `([\w.]+)` \| `", text, re.MULTILINE))
    listed = {name: getattr(import_module(home), name) for name, home in homes.items()}
    public = {name: getattr(errors, name) for name in errors.__all__}

    assert listed == {name: one for name, one in public.items() if inspect.isclass(one)}


def test_the_errors_of_memories_stand_beside_the_stores_that_raise_them() -> None:
    own = {one.__name__ for one in vars(memories).values() if inspect.isclass(one)}
    raised = {name for name in own if name in errors.__all__} - {"AssemblyError"}
    offered = {*memory.__all__, *context_assembler.__all__}

    assert "UnknownMemoryError" in raised
    assert raised <= offered


def test_the_reference_says_what_waits() -> None:
    text = (ROOT / "docs" / "reference" / "names.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `ContextAssembler\.(\w+)\([^|]* \| (.*?) ?\|", text, re.MULTILINE))
    methods = {name: getattr(context_assembler.ContextAssembler, name) for name in told}

    assert {name for name, how in told.items() if how == "`await`"} == {
        name for name, method in methods.items() if inspect.iscoroutinefunction(method)
    }
    assert told["assemble_sync"] == ""
    assert "| `SqliteStore.load(session_id, *, after_seq=0)` | `async for` |" in text


def test_every_public_name_says_what_it_is() -> None:
    rows = (ROOT / "docs" / "reference" / "names.md").read_text(encoding="utf-8").splitlines()
    empty = [row for row in rows if row.startswith("| `") and row.endswith("|  |")]

    assert empty == []
