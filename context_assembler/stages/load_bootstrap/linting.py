"""What a reviewer should know about instruction files before a model reads them."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from context_assembler.errors import MissingExtraError, TemplateError
from context_assembler.stages.load_bootstrap.absence import KNOWN_NAMES, is_variant
from context_assembler.stages.load_bootstrap.cut_text import CountText
from context_assembler.stages.load_bootstrap.file_opening import read_source
from context_assembler.stages.load_bootstrap.templates import render_bootstrap
from context_assembler.values.parts import Json
from context_assembler.values.prompt import BootstrapFile
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.texts.secret_masking import find_secrets
from context_assembler.values.texts.suspicious_text import find_suspicions

FindingLevel: TypeAlias = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something to know about a file; `line` counts from 1 in the file, `None`: no one line."""

    level: FindingLevel
    rule: str
    message: str
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LintedFile:
    """A file as the loader reads it, whole, with the tokens that stay of it, and what was found."""

    file: BootstrapFile
    tokens: int
    kept_tokens: int
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCap:
    """How much of these files another client shows to its model.

    Source: public reports of users, read 2026-11-27: openai/codex issues 7138, 13386 and 37956,
        documentation of OpenClaw (`bootstrapMaxChars`, `bootstrapTotalMaxChars`), anthropics/claude-code
        issue 44086 (a hook's output).
    """

    client: str
    unit: Literal["bytes", "characters"]
    per_file: int | None = None
    in_total: int | None = None


CLIENT_CAPS: Final = (
    ClientCap(client="Codex", unit="bytes", in_total=32_768),
    ClientCap(client="OpenClaw", unit="characters", per_file=20_000, in_total=60_000),
    ClientCap(client="a SessionStart hook", unit="characters", in_total=10_000),
)

_SKIPPED_FOLDERS: Final = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__"})
_MAX_FOLDERS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadFile:
    """An instruction file that the loader does not read, and why."""

    path: str
    level: FindingLevel
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lint:
    """What was found out about a folder.

    Attributes:
        files: What is read, in the order of the prompt.
        unread: Instruction files in and below the folder that are not read.
        forecasts: What other clients would cut, by client.
    """

    files: tuple[LintedFile, ...]
    unread: tuple[UnreadFile, ...]
    forecasts: tuple[tuple[str, str], ...]

    def count(self, level: FindingLevel) -> int:
        """Return the number of findings of a level."""
        found = sum(one.level == level for file in self.files for one in file.findings)
        return found + sum(file.level == level for file in self.unread)


def lint_files(
    files: Sequence[BootstrapFile],
    shown: Sequence[BootstrapFile],
    *,
    folder: Path,
    names: Sequence[str],
    count_text: CountText,
    variables: Mapping[str, Json],
    required: Collection[str] = (),
) -> Lint:
    """Return what is to be known about a folder.

    Args:
        files: The whole files, in order.
        shown: The same files as the model gets them.
        names: The names that are read in the folder itself.
        variables: What templates may name.
        required: Sections of which it is a warning that there is no file.
    """
    if not any(file.text for file in files):
        required = {*required, "agent"}
    linted = tuple(
        LintedFile(
            file=file,
            tokens=count_text(file.text) if file.text else 0,
            kept_tokens=count_text(cut.text) if cut.text else 0,
            findings=tuple(
                _lint_file(file, cut, variables=variables, is_required=file.section in required)
            ),
        )
        for file, cut in zip(files, shown, strict=True)
    )
    read = {path for file in files for path in (file.real_path, *file.imports)}
    return Lint(
        files=linted,
        unread=tuple(_find_unread(folder, read=read, names=names)),
        forecasts=tuple(_forecast_caps(files)),
    )


def _lint_file(
    file: BootstrapFile,
    shown: BootstrapFile,
    *,
    variables: Mapping[str, Json],
    is_required: bool,
) -> Iterator[Finding]:
    """Yield what is to be known about one file.

    Args:
        file: The whole file.
        shown: What the model gets of it.
        variables: What its template may name.
        is_required: Whether it is a warning that there is no such file.
    """
    level: FindingLevel = "error" if file.state in {"unreadable", "blocked"} else "warning"
    if file.state == "missing":
        level = "warning" if is_required else "note"
        message = file.absence if is_required and file.absence else "there is no such file"
        yield Finding(level=level, rule="file.missing", message=message)
    elif file.state == "empty" and not file.warnings:
        yield Finding(level="warning", rule="file.empty", message="nothing is left of it")
    for warning in file.warnings:
        yield Finding(level=level, rule=f"file.{file.state}", message=warning)
    for warning in shown.warnings[len(file.warnings) :]:
        rule = "file.copied" if shown.state == "blocked" else "file.shortened"
        yield Finding(level="warning", rule=rule, message=warning)
    if file.real_path and file.real_path != os.path.abspath(file.path):  # noqa: PTH100 - see the loader
        message = f"a link; the text lies in {file.real_path}"
        yield Finding(level="note", rule="file.link", message=message)
    yield from _lint_template(file, variables)
    yield from _lint_sources(file)


def _lint_template(file: BootstrapFile, variables: Mapping[str, Json]) -> Iterator[Finding]:
    try:
        render_bootstrap([file], variables)
    except TemplateError as error:
        yield Finding(level="error", rule="file.template", message=error.problem, line=error.line)


def _lint_sources(file: BootstrapFile) -> Iterator[Finding]:
    """Yield what is wrong with the file's own text, comments included, and with what it imports."""
    if file.state != "ok":
        return
    for path in (file.real_path, *file.imports):
        with suppress(OSError):
            text = read_source(Path(path))
            where = "" if path == file.real_path else f"{path}: "
            yield from _lint_text(text, where)


def _lint_text(text: str, where: str) -> Iterator[Finding]:
    for suspicion in find_suspicions(text):
        yield Finding(
            level="warning",
            rule="text.suspicious",
            message=f"{where}{suspicion.kind}: {suspicion.excerpt}",
            line=suspicion.line,
        )
    try:
        secrets = find_secrets(clean_text(text))
    except MissingExtraError as error:
        message = f"secrets were not looked for: {error.remedy}"
        yield Finding(level="note", rule="text.secret", message=message)
        return
    for secret in secrets:
        yield Finding(
            level="error",
            rule="text.secret",
            message=f"{where}a secret ({secret.kind})",
            line=text.count("\n", 0, secret.start) + 1,
        )


def _find_unread(
    folder: Path, *, read: Collection[str], names: Iterable[str]
) -> Iterator[UnreadFile]:
    """Yield the instruction files in and below a folder that the loader does not read, and why.

    Args:
        read: The real paths of what it reads.
        names: The names that it accepts in the folder itself.
    """
    accepted = set(names)
    for path in _instruction_files(folder):
        if os.path.realpath(path) in read:
            continue
        level: FindingLevel = "warning"
        if path.parent != folder:
            level, reason = "note", "it lies in a folder below; only the folder itself is read"
        elif path.name in accepted:
            reason = "another file is read in its place"
        elif is_variant(path.name):
            level, reason = "note", "it is another agent's own"
        else:
            reason = f"its name is none of {', '.join(sorted(accepted))}"
        yield UnreadFile(path=str(path), level=level, reason=reason)


def _instruction_files(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        for number, (parent, folders, files) in enumerate(os.walk(folder)):
            if number >= _MAX_FOLDERS:
                return
            folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
            for name in sorted(files):
                if name.lower() in KNOWN_NAMES or is_variant(name):
                    yield Path(parent) / name


def _forecast_caps(files: Sequence[BootstrapFile]) -> Iterator[tuple[str, str]]:
    """Yield what other clients would cut of the files' texts, and how much."""
    for cap in CLIENT_CAPS:
        measure: Callable[[str], int] = len if cap.unit == "characters" else _count_bytes
        sizes = {file.path: measure(file.text) for file in files if file.text}
        for path, size in sizes.items():
            if cap.per_file is not None and size > cap.per_file:
                yield cap.client, f"{path}: {size:,} of at most {cap.per_file:,} {cap.unit}"
        total = sum(sizes.values())
        if cap.in_total is not None and total > cap.in_total:
            yield cap.client, f"all together: {total:,} of at most {cap.in_total:,} {cap.unit}"


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
