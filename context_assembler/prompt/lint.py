"""What a reviewer should know about instruction files before a model reads them."""

import os
from collections.abc import Collection, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from context_assembler.errors import TemplateError
from context_assembler.events import Json, to_json
from context_assembler.prompt.files import BootstrapFile, BootstrapLoader, Mask, Reading
from context_assembler.texts import CountText

Level: TypeAlias = Literal["error", "warning", "note"]


class Finding(NamedTuple):
    """Something to know about a file; `line` counts from 1 in the file, `None`: no one line."""

    level: Level
    rule: str
    message: str
    line: int | None = None


class LintedFile(NamedTuple):
    """A file as the loader reads it, whole, with the tokens that stay of it, and what was found."""

    file: BootstrapFile
    tokens: int
    kept_tokens: int
    findings: tuple[Finding, ...]


class Lint(NamedTuple):
    """What was found out about a folder.

    Attributes:
        files: What is read, in the order of the prompt.
    """

    files: tuple[LintedFile, ...]

    def count(self, level: Level) -> int:
        """Return the number of findings of a level."""
        return [one.level for file in self.files for one in file.findings].count(level)

    def to_json(self) -> Json:
        """Return the findings as JSON."""
        keys = ("section", "path", "state", "encoding", "size_bytes", "imports")
        files = [
            {key: to_json(getattr(one.file, key)) for key in keys}
            | {"tokens": one.tokens, "kept_tokens": one.kept_tokens}
            | {"findings": [finding._asdict() for finding in one.findings]}
            for one in self.files
        ]
        counts = {"errors": self.count("error"), "warnings": self.count("warning")}
        return {"files": files, **counts}


def lint_files(
    loader: BootstrapLoader,
    agent_id: str | None = None,
    *,
    count_text: CountText,
    variables: Mapping[str, Json],
    required: Collection[str] = (),
    mask: Mask | None = None,
) -> Lint:
    """Return what a reviewer should know about the files, as the loader reads them.

    Args:
        variables: What the templates may name.
        required: Sections of which a missing file is a warning.
        mask: Finds secrets.

    Raises:
        UnsafePathError: The agent id is no plain name.
    """
    pairs, files = loader.read(agent_id, count_text=count_text), list[LintedFile]()
    wanted = {*required, *(() if any(file.text for file, _ in pairs) else ("agent",))}
    for file, shown in pairs:
        found = list(_findings(file, shown, variables, is_wanted=file.section in wanted))
        found += _secrets(file, mask) if mask is not None and file.state == "ok" else ()
        tokens = count_text(file.text), count_text(shown.text)
        files.append(LintedFile(file, *tokens, tuple(found)))
    return Lint(tuple(files))


def _findings(
    file: BootstrapFile, shown: BootstrapFile, variables: Mapping[str, Json], *, is_wanted: bool
) -> Iterator[Finding]:
    level: Level = "error" if file.state in ("unreadable", "blocked") else "warning"
    if file.state == "missing":
        yield Finding("warning" if is_wanted else "note", "file.missing", file.absence)
    elif file.state == "empty":
        yield Finding("warning", "file.empty", "nothing is left of it")
    for warning in file.warnings:
        yield Finding(level, f"file.{file.state}", warning)
    for warning in shown.warnings[len(file.warnings) :]:
        rule = "file.copied" if shown.state == "blocked" else "file.shortened"
        yield Finding("warning", rule, warning)
    if file.is_template:
        from context_assembler.prompt.templates import render_files

        try:
            render_files([file], variables)
        except TemplateError as error:
            yield Finding("error", "file.template", error.problem, error.line)


def _secrets(file: BootstrapFile, mask: Mask) -> Iterator[Finding]:
    for path in (file.real_path, *file.imports):
        text = Reading(os.path.dirname(path)).open(path).text
        where = "" if path == file.real_path else f"{path}: "
        for number, line in enumerate(text.split("\n"), 1):
            for secret in mask(line)[1]:
                yield Finding("error", "text.secret", f"{where}a secret ({secret})", number)
