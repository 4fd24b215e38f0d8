"""Every Python block of the docs runs, and every link leads somewhere."""

import ast
import asyncio
import inspect
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

import context_assembler
from context_assembler import get_model_limits
from context_assembler.cli import ERROR, main
from context_assembler.testing import stand_in_for_providers

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ context-assembler (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
OTHERS = ("frameworks.md",)  # tests/integrations run its blocks, where the frameworks are
RUN = [p for p in PAGES if p.name not in OTHERS and BLOCK.search(p.read_text(encoding="utf-8"))]
COMMANDED = [page for page in DOCS if COMMAND.search(page.read_text(encoding="utf-8"))]
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks_of(page: Path) -> Iterator[CodeType]:
    """Yield the compiled blocks; an error names the line of the page."""
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        code = "\n" * text[: found.start(1)].count("\n") + found[1]
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        yield compile(code, name(page), "exec", flags)


def command(monkeypatch: pytest.MonkeyPatch, line: str) -> object:
    """Run a command line, and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["context-assembler", *shlex.split(line, comments=True)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def run(page: Path) -> None:
    names = {"__name__": "page"}
    with asyncio.Runner() as runner:
        for block in blocks_of(page):
            given = eval(block, names)
            if inspect.iscoroutine(given):
                runner.run(given)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("page", RUN, ids=name)
def test_the_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    command(monkeypatch, "init --samples")

    with stand_in_for_providers():
        run(page)


@pytest.mark.parametrize("page", COMMANDED, ids=name)
def test_the_commands_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in ("init --samples", *COMMAND.findall(page.read_text(encoding="utf-8"))):
        assert command(monkeypatch, line) != ERROR, line


def test_the_first_page_is_short_and_its_picture_is_what_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    fit, loop, *_ = (
        [line for line in block.splitlines() if line and not re.match("import|from", line)]
        for block in BLOCK.findall(page)
    )
    found = re.search(r"```console\n((?:\$ .+\n)+)```\n\n```text\n(.+?)\n```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    assert found
    for line in COMMAND.findall(found[1]):
        capsys.readouterr()
        command(monkeypatch, line)
    printed = "\n".join(map(str.rstrip, capsys.readouterr().out.splitlines()))

    assert len(fit) <= 6
    assert len(loop) <= 15
    assert found[2] in printed


def test_the_examples_use_models_that_stay() -> None:
    pages = [one for one in PAGES if one.parent.name != "reference"]
    named = {
        (page.name, model)
        for page in [*pages, *sorted((ROOT / "examples").rglob("*.py"))]
        for model in re.findall(r'"((?:claude|gpt|gemini)-[\w.-]+)"', page.read_text("utf-8"))
    }

    assert [one for one in sorted(named) if get_model_limits(one[1]).retires_on is not None] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        if path.startswith(("http:", "https:")):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = [re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings]
            assert anchor in anchors, link


def test_the_reference_is_what_the_code_says() -> None:
    script = ROOT / "scripts" / "write_reference.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout


def test_every_file_that_the_docs_name_exists() -> None:
    pattern = re.compile(r"`((?:tests|examples|scripts|benchmarks|context_assembler)/[\w/.]+)`")
    named = {name for page in PAGES for name in pattern.findall(page.read_text(encoding="utf-8"))}

    assert {one for one in named if not (ROOT / one).exists()} == set()


def test_every_public_name_and_method_says_what_it_is() -> None:
    found = {name: getattr(context_assembler, name) for name in context_assembler.__all__}
    methods = {
        f"{name}.{method}": member
        for name, owner in found.items()
        if inspect.isclass(owner)
        for method, member in vars(owner).items()
        if inspect.isfunction(member) and not method.startswith("_")
    }

    assert [name for name, one in (found | methods).items() if not inspect.getdoc(one)] == []
