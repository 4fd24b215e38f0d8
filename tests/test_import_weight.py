"""What a process loads for its first request: what that is made from, and nothing else."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from context_assembler.on_demand import RowsOnDemand
from context_assembler.providers import PROVIDERS

PACKAGE = Path(__file__).parents[1] / "context_assembler"

FIRST_REQUEST = """
import asyncio, json, sys
from context_assembler import ContextAssembler

def search(query: str) -> str:
    "Search."
    return query

async def main(model, sessions, has_tools):
    tools = [search] if has_tools else ()
    async with ContextAssembler(sessions=sessions, tools=tools) as assembler:
        await assembler.add_user("s", "Hello")
        context = await assembler.assemble("s", model=model, max_tokens=500)
        context.to_request()
    return context.provider

given = json.loads(sys.argv[1])
provider = asyncio.run(main(given["model"], given["sessions"], given["has_tools"]))
print(json.dumps({"provider": provider, "loaded": sorted(sys.modules)}))
"""

MODELS = {
    "anthropic": "claude-opus-4-8",
    "openai_chat": "gpt-4o",
    "openai_responses": "gpt-5.5",
    "gemini": "gemini-3.1-pro-preview",
}

# What no plain request needs; a name stands for all that lies below it.
NEVER = (
    "anthropic",
    "google.genai",
    "griffe",
    "jinja2",
    "mcp",
    "numpy",
    "openai",
    "PIL",
    "rapidfuzz",
    "rich",
    "toktok",
    "typer",
    "watchfiles",
    "context_assembler.cli",
    "context_assembler.continuing.going_on",
    "context_assembler.embeddings",
    "context_assembler.memory",
    "context_assembler.memory_assembler",
    "context_assembler.ports.memory",
    "context_assembler.recall",
    "context_assembler.recording",
    "context_assembler.respelling",
    "context_assembler.simulation",
    "context_assembler.skills.after_cut",
    "context_assembler.skills.folder",
    "context_assembler.stages.load_bootstrap.loader",
    "context_assembler.tokens.remote",
    "context_assembler.tools.mcp",
    "context_assembler.tools.mcp_sdk",
    "context_assembler.transcripts",
    "context_assembler.truncation",
    "context_assembler.values.media.image_fitting",
    "context_assembler.values.media.pdf_pages",
    "context_assembler.values.memories.records",
    "context_assembler.values.simulations",
    "context_assembler.values.texts.secret_masking",
    "context_assembler.watch",
)


def first_request(
    folder: Path, *, model: str, sessions: str = "memory:", has_tools: bool = False
) -> tuple[str, list[str]]:
    """Return the provider of a first request in a process of its own, and the modules it loaded."""
    given = {"model": model, "sessions": sessions, "has_tools": has_tools}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_REQUEST, json.dumps(given)],
        check=False,
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return told["provider"], told["loaded"]


def among(loaded: list[str], names: tuple[str, ...]) -> list[str]:
    return [
        one for one in loaded if any(one == name or one.startswith(f"{name}.") for name in names)
    ]


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_a_first_request_loads_what_it_is_made_from_alone(provider: str, tmp_path: Path) -> None:
    others = tuple(f"context_assembler.providers.{one}" for one in PROVIDERS if one != provider)

    asked, loaded = first_request(tmp_path, model=MODELS[provider])

    assert asked == provider
    assert among(loaded, (*NEVER, *others, "context_assembler.tools.opening")) == []
    assert "context_assembler.sessions.sqlite" not in loaded


def test_a_vocabulary_is_loaded_for_models_that_have_one(tmp_path: Path) -> None:
    _, loaded = first_request(tmp_path, model=MODELS["anthropic"])

    assert among(loaded, ("tiktoken",)) == []


def test_a_store_in_a_file_loads_no_other(tmp_path: Path) -> None:
    _, loaded = first_request(tmp_path, model=MODELS["openai_chat"], sessions="sqlite:a.db")

    assert among(loaded, NEVER) == []
    assert "context_assembler.sessions.in_memory" not in loaded


def test_functions_as_tools_load_no_mcp(tmp_path: Path) -> None:
    _, loaded = first_request(tmp_path, model=MODELS["openai_chat"], has_tools=True)

    assert "context_assembler.tools.opening" in loaded
    assert among(loaded, tuple(name for name in NEVER if name != "griffe")) == []


def on_demand_packages() -> list[Path]:
    return [path for path in PACKAGE.rglob("__init__.py") if "names_on_demand(" in path.read_text()]


@pytest.mark.parametrize(
    "path", on_demand_packages(), ids=lambda path: str(path.parent.relative_to(PACKAGE.parent))
)
def test_what_type_checkers_see_of_a_package_is_what_it_loads(path: Path) -> None:
    package = ".".join(path.parent.relative_to(PACKAGE.parent).parts)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    [choice] = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    seen = {
        alias.name: one.module
        for one in choice.body
        if isinstance(one, ast.ImportFrom)
        for alias in one.names
        if one.module is not None and one.module.startswith(f"{package}.")
    }

    offered = importlib.import_module(package)

    for name, home in seen.items():
        assert getattr(offered, name) is getattr(importlib.import_module(home), name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        offered.nothing  # noqa: B018 - the access is the test


def test_rows_are_loaded_once_and_their_names_load_none() -> None:
    loaded: list[str] = []

    def load(name: str) -> str:
        loaded.append(name)
        return name.upper()

    rows = RowsOnDemand({"a": lambda: load("a"), "b": lambda: load("b")})

    assert (list(rows), len(rows), "a" in rows, "c" in rows) == (["a", "b"], 2, True, False)
    assert loaded == []
    assert (rows["a"], rows["a"]) == ("A", "A")
    assert loaded == ["a"]
    with pytest.raises(KeyError, match="c"):
        rows["c"]
