"""The tree keeps to its own rules: layers, sizes, names, and what importing costs."""

import ast
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

import context_assembler

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "context_assembler"
MODULES = sorted(PACKAGE.rglob("*.py"))
TEST_MODULES = sorted((ROOT / "tests").rglob("*.py"))
MAX_LINES = 300
MAX_FUNCTION_LINES = 40
HEAVY = ("anthropic", "openai", "tiktoken", "pydantic", "yaml", "jinja2", "rich", "typer", "numpy")

BANNED = {"manager", "handler", "helper", "processor", "data", "info", "item", "do", "handle"}
BANNED.add("process")
# Names that others chose: fields of a wire format, methods of a standard class.
GIVEN_NAMES = {
    "_DATA_URL": "the standard's name for a URL that carries its bytes",
    "data_url": "the standard's name for a URL that carries its bytes",
    "SqliteWorker._in_this_process": "a process of the operating system",
    "Base64Source.data": "the wire's own name for base64 text",
    "_Endpoint.do_POST": "the name http.server calls",
}

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def offenders(find: Callable[[ast.Module, Path], Iterable[object]]) -> list[str]:
    """Return `module: what is wrong` for everything that `find` yields."""
    return [
        f"{module.relative_to(ROOT)}: {wrong}"
        for module in MODULES
        for wrong in find(ast.parse(module.read_text(encoding="utf-8")), module)
    ]


def assert_none(find: Callable[[ast.Module, Path], Iterable[object]]) -> None:
    found = offenders(find)
    assert not found, "\n".join(found)


def test_modules_are_short() -> None:
    def too_long(_tree: ast.Module, module: Path) -> Iterator[str]:
        lines = len(module.read_text(encoding="utf-8").splitlines())
        if lines > MAX_LINES:
            yield f"{lines} lines"

    assert_none(too_long)


def test_modules_say_in_one_sentence_what_they_do() -> None:
    def unsaid(tree: ast.Module, _module: Path) -> Iterator[str]:
        first = (ast.get_docstring(tree) or "").partition("\n")[0]
        if not first.endswith("."):
            yield f"begins with {first!r}"

    assert_none(unsaid)


def test_functions_are_short() -> None:
    def too_long(tree: ast.Module, _module: Path) -> Iterator[str]:
        for name, lines in function_lengths(tree):
            if lines > MAX_FUNCTION_LINES:
                yield f"{name} has {lines} lines"

    assert_none(too_long)


def test_names_say_what_they_mean() -> None:
    def banned(tree: ast.Module, _module: Path) -> Iterator[str]:
        for name in defined_names(tree):
            if name not in GIVEN_NAMES and BANNED & words_of(name.rpartition(".")[2]):
                yield name

    assert_none(banned)


def words_of(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)}


def defined_names(node: ast.AST, owner: str = "") -> Iterator[str]:
    """Yield every name that is defined: modules' and classes' own with the owner in front."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.ClassDef(name=name):
                yield name
                yield from defined_names(child, name)
                continue
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield f"{owner}.{name}" if owner else name
            case ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield f"{owner}.{name}" if owner else name
            case _:
                pass
        yield from defined_names(child, owner)


def function_lengths(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield name and lines of every function, its docstring left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            if len(node.body) > 1 and isinstance(first, ast.Expr):
                is_docstring = isinstance(first.value, ast.Constant)
                first = node.body[1] if is_docstring else first
            yield node.name, (node.end_lineno or 0) - first.lineno + 1


def test_layers_know_only_the_layers_below() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"],
        check=False,
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=100,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import json, sys; import context_assembler, context_assembler.testing; "
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=100,
    )

    assert done.returncode == 0, done.stderr
    assert [name for name in HEAVY if name in json.loads(done.stdout)] == []


def test_the_public_names_are_sorted_and_there() -> None:
    names = context_assembler.__all__

    assert list(names) == sorted(names)
    assert [name for name in names if not hasattr(context_assembler, name)] == []
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        context_assembler.nothing  # noqa: B018 - the access is the test
    assert set(names) <= set(dir(context_assembler))


def test_what_modules_offer_is_there() -> None:
    def missing(_tree: ast.Module, module: Path) -> Iterator[str]:
        if module.name == "__main__.py":  # importing it runs the program
            return
        dotted = ".".join(module.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        loaded = importlib.import_module(dotted)
        for name in getattr(loaded, "__all__", []):
            if not hasattr(loaded, name):
                yield name

    assert_none(missing)


def test_no_test_file_is_run_under_two_names() -> None:
    names = [path.name for path in TEST_MODULES if path.name.startswith("test_")]

    assert sorted(names) == sorted(set(names))
