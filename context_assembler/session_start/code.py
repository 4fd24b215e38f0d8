"""Which functions of a project were changed lately: from git, and from the sources that it names."""

import ast
import asyncio
import hashlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from context_assembler.errors import ConfigurationError
from context_assembler.memory.kinds import ChangedFunctionMetadata
from context_assembler.memory.records import MemoryFilters, MemoryRecord, load_package
from context_assembler.memory.stores import MemoryStore
from context_assembler.session_start.inject import find_project

_FIRST_COMMITS: Final = 30  # of a project that was never indexed
_MOST_BYTES: Final = 1_000_000  # of one source
_MOST_FILES: Final = 400  # of one commit: more is no edit, but a move or an import
_MOST_LISTED: Final = 100_000
_GIT_SECONDS: Final = 60
_ON_DISK: Final = "not committed yet"
# No program that the repository's settings name, no lock, no question, and nothing is fetched for
# what a partial clone lacks.
_GIT: Final = ("git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
_QUIET: Final = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
_MODULES: Final[Mapping[str, tuple[str, str]]] = {  # by suffix: a parser's package and its language
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), ("tree_sitter_javascript", "language")),
    **dict.fromkeys((".ts", ".mts", ".cts"), ("tree_sitter_typescript", "language_typescript")),
    ".tsx": ("tree_sitter_typescript", "language_tsx"),
}
SUFFIXES: Final = (".py", *_MODULES)
_FUNCTIONS: Final = ("function_declaration", "generator_function_declaration", "method_definition")
_VALUES: Final = ("arrow_function", "function_expression", "generator_function")
_CLASSES: Final = ("class_declaration", "abstract_class_declaration", "class")


class Function(NamedTuple):
    """A function in a source; `body` is its text, by which a change is seen."""

    name: str
    line: int
    signature: str
    body: str


class Indexed(NamedTuple):
    """What `index_code` did.

    Attributes:
        commits: How many were looked at.
        functions: How many functions are new in memory, or changed again.
        unread: Sources that could not be parsed, with the reason.
    """

    project: str
    commits: int
    functions: int
    unread: Mapping[str, str]


async def index_code(store: MemoryStore, project_path: str) -> Indexed:
    """Remember the functions that were changed since the last call, in commits and on disk.

    A function is one record, which the next change replaces. Running it twice adds nothing.

    Raises:
        ConfigurationError: The folder is in no git repository, or git is not installed.
        MissingExtraError: There are JavaScript or TypeScript sources, and no parser for them.
    """
    project = find_project(project_path)
    filters = MemoryFilters(kinds=("changed_functions",), namespaces=(project,))
    newest = await store.list_records(limit=1, filters=filters)
    last = str(newest[0].extras.get("commit", "")) if newest else ""
    unread: dict[str, str] = {}
    commits, records = await asyncio.to_thread(_read, project, last, unread)
    done = await store.remember(records)
    changed = sum(one.outcome == "added" for one in done)
    # What was on disk alone, and is there no more, was never a change.
    listed = await store.list_records(limit=_MOST_LISTED, filters=filters)
    fresh = {record.id for record in records}
    gone = [one.id for one in listed if one.text == _ON_DISK and one.id not in fresh]
    if gone:
        await store.forget(gone, filters=filters)
    return Indexed(project, commits, changed, unread)


def _read(project: str, last: str, unread: dict[str, str]) -> tuple[int, list[MemoryRecord]]:
    """Return how many commits are new, and the newest change of each function."""
    commits, records = _commits(project, last), dict[str, MemoryRecord]()
    with _Blobs(project) as blobs:
        for commit in [*commits, ""]:
            for record in _changes(project, commit, blobs, unread):
                records.pop(record.id, None)
                records[record.id] = record
    return len(commits), [*records.values()]


def _git(project: str, *words: str) -> bytes:
    """Return what git prints."""
    command, told = [*_GIT, *words], {**os.environ, **_QUIET}
    try:
        done = subprocess.run(
            command, cwd=project, env=told, capture_output=True, check=False, timeout=_GIT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(
            f"git could not be asked: {error}.", remedy="Install git, or run it by hand to see why."
        ) from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ConfigurationError(
            f"git says of {project}: {said[0] if said else 'nothing'}",
            remedy="Pass a folder of a git repository that has a commit.",
        )
    return done.stdout


def _commits(project: str, last: str) -> list[str]:
    """Return the commits since the last one, oldest first; if it is gone, the newest ones."""
    wanted = ["rev-list", "--no-merges", "--reverse"]
    with suppress(ConfigurationError):  # it was rewritten, or is of another clone
        if last:
            return _git(project, *wanted, f"{last}..HEAD").decode().split()
    return _git(project, *wanted, f"--max-count={_FIRST_COMMITS}", "HEAD").decode().split()


def _changes(
    project: str, commit: str, blobs: "_Blobs", unread: dict[str, str]
) -> Iterator[MemoryRecord]:
    """Yield a record for each function that a commit changed; without one, that differs on disk."""
    if commit:
        about = ("--no-show-signature", "--format=%ct%n%s", "--name-only", "-z", commit)
        told = _git(project, "show", "--no-renames", *about).decode("utf-8", "replace")
        moment, subject, *listed = told.replace("\n", "\0", 1).strip("\0\n").split("\0")
        before, shown = f"{commit}^", commit
    else:
        moment, subject, listed = "", _ON_DISK, [*_changed_on_disk(project)]
        before, shown = "HEAD", _git(project, "rev-parse", "HEAD").decode().strip()
    paths = [path.lstrip("\n") for path in listed if path.endswith(SUFFIXES)]
    for path in paths if len(paths) <= _MOST_FILES else ():
        file = Path(project, path)
        try:
            old = _functions_of(path, blobs.read(before, path))
            raw = blobs.read(commit, path) if commit else _on_disk(file)
            new = _functions_of(path, raw)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            unread[path] = str(error) or type(error).__name__
            continue
        at = float(moment) if moment else (file.stat().st_mtime if file.exists() else 0.0)
        for name in dict.fromkeys((*new, *old)):
            change = _kind_of(old.get(name), new.get(name))
            if change is not None:
                held = new.get(name) or old[name]
                metadata = ChangedFunctionMetadata(
                    name=name,
                    path=path,
                    change=change,
                    start_line=held.line if name in new else None,
                    signature=held.signature,
                )
                yield MemoryRecord(
                    text=subject,
                    kind="changed_functions",
                    id=f"{path}:{name}",
                    namespace=project,
                    created_at=datetime.fromtimestamp(at, UTC) if at else None,
                    metadata=metadata,
                    extras={"commit": shown},
                )


def _kind_of(old: Function | None, new: Function | None) -> Any:
    if old is None or new is None:
        return "added" if old is None else "deleted"
    return "modified" if old.body != new.body else None


class _Blobs:
    """Sources as commits hold them, read from one process of git."""

    def __init__(self, project: str) -> None:
        command, told = [*_GIT, "cat-file", "--batch"], {**os.environ, **_QUIET}
        pipe = subprocess.PIPE
        self._git = subprocess.Popen(command, cwd=project, env=told, stdin=pipe, stdout=pipe)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._git.communicate()

    def read(self, commit: str, path: str) -> bytes:
        """Return a source; empty if it did not exist then, or is no source.

        https://git-scm.com/docs/git-cat-file#_batch_output (read 2026-11-30)
        """
        asked, told = self._git.stdin, self._git.stdout
        if asked is None or told is None or "\n" in path:
            return b""
        asked.write(f"{commit}:{path}\n".encode())
        asked.flush()
        head = told.readline().split()
        if len(head) != 3 or not head[2].isdigit():  # "… missing"
            return b""
        raw = told.read(int(head[2]) + 1)[:-1]
        return raw if head[1] == b"blob" and len(raw) <= _MOST_BYTES else b""


def _changed_on_disk(project: str) -> Iterator[str]:
    """Yield the sources that differ from the last commit.

    `git diff` would run the programs that the repository's settings name as filters: contents are
    compared with the commit's by their hash. https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
    """
    tree = _git(project, "ls-tree", "-r", "-z", "HEAD").decode("utf-8", "replace")
    rows = (row.partition("\t") for row in tree.split("\0") if row.endswith(SUFFIXES))
    held = {path: about.split()[2] for about, _, path in rows}
    listed = _git(project, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    found = listed.decode("utf-8", "replace").split("\0")
    for path in dict.fromkeys((*held, *(one for one in found if one.endswith(SUFFIXES)))):
        raw, blob = _on_disk(Path(project, path)), held.get(path, "")
        made = hashlib.sha256 if len(blob) == 64 else hashlib.sha1
        if made(b"blob %d\0" % len(raw) + raw).hexdigest() != blob:
            yield path


def _on_disk(file: Path) -> bytes:
    is_source = file.is_file() and not file.is_symlink() and file.stat().st_size <= _MOST_BYTES
    return file.read_bytes() if is_source else b""


# ---- functions of a source ----


def _functions_of(path: str, raw: bytes) -> dict[str, Function]:
    """Return the functions of a source by name, those of classes with the class's in front."""
    if not raw.strip():
        return {}
    if path.endswith(".py"):
        text = raw.decode("utf-8-sig", "replace")
        found = _python_functions(ast.parse(text), text.splitlines(), "")
    else:
        module, language = _MODULES[Path(path).suffix]
        found = _script_functions(_parser(module, language).parse(raw).root_node, "")
    return {one.name: one for one in found}


def _python_functions(node: ast.AST, lines: Sequence[str], above: str) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _python_functions(child, lines, f"{above}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min((child.lineno, *(one.lineno for one in child.decorator_list)))
            body = "\n".join(lines[first - 1 : child.end_lineno])
            signature = f"{above}{child.name}({ast.unparse(child.args)})"
            yield Function(f"{above}{child.name}", child.lineno, signature, body)
        elif isinstance(child, ast.If | ast.Try | ast.With):
            yield from _python_functions(child, lines, above)


@cache
def _parser(module: str, language: str) -> Any:
    tree_sitter = load_package("tree_sitter", "Reading JavaScript and TypeScript", extra="code")
    grammar = load_package(module, "Reading JavaScript and TypeScript", extra="code")
    return tree_sitter.Parser(tree_sitter.Language(getattr(grammar, language)()))


def _script_functions(node: Any, above: str) -> Iterator[Function]:
    """Yield the functions under a node of a tree that tree-sitter made."""
    for child in node.named_children:
        named = child.child_by_field_name("name")
        name = f"{above}{named.text.decode('utf-8', 'replace')}" if named is not None else ""
        value: Any = child.child_by_field_name("value")
        is_value = value is not None and value.type in _VALUES
        if name and (child.type in _FUNCTIONS or is_value):
            holder: Any = value if is_value else child
            given = holder.child_by_field_name("parameters")
            shown = given.text.decode("utf-8", "replace") if given is not None else "()"
            body = child.text.decode("utf-8", "replace")
            yield Function(name, child.start_point[0] + 1, f"{name}{shown}", body)
        elif child.type in _CLASSES:
            yield from _script_functions(child, f"{name}." if name else above)
        elif child.type not in _FUNCTIONS:
            yield from _script_functions(child, above)
