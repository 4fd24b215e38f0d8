"""`lint`: what a model would read of a folder of instruction files, and what is wrong with it."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from context_assembler.cli import exit_codes
from context_assembler.cli.opening import check_folder
from context_assembler.cli.request_options import JsonFlag
from context_assembler.cli.screen import (
    counted,
    one_line,
    people,
    print_heading,
    print_json,
    print_note,
    printable,
)
from context_assembler.limits import get_model_limits
from context_assembler.stages.load_bootstrap import BootstrapLoader
from context_assembler.stages.load_bootstrap.linting import Lint, LintedFile
from context_assembler.tokens import counter_for
from context_assembler.values.parts import Json

if TYPE_CHECKING:
    from context_assembler.config import BootstrapSettings

app: Final = typer.Typer(add_completion=False)

# Read in a folder without AGENT.md, unless the settings name others: what most repositories have.
_USUAL_NAMES: Final = ("AGENTS.md", "CLAUDE.md")
_STYLES: Final = {"error": "red", "warning": "yellow", "note": "dim"}


@app.command()
def lint(
    *,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the files lie.")],
    agent_id: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="Whose variants are read.")
    ] = None,
    agent_names: Annotated[
        list[str] | None,
        typer.Option(
            "--agent-name",
            metavar="NAME",
            help="Accepted for AGENT.md; may be repeated. The settings' own by default.",
        ),
    ] = None,
    upward: Annotated[
        bool | None,
        typer.Option("--upward/--no-upward", help="Read the folders above as well."),
    ] = None,
    max_file_tokens: Annotated[int | None, typer.Option(min=1, help="Cap of one file.")] = None,
    max_total_tokens: Annotated[int | None, typer.Option(min=1, help="Cap of all files.")] = None,
    model: Annotated[
        str, typer.Option("--model", "-m", metavar="ID", help="Whose tokens are counted.")
    ] = "gpt-5.5",
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say what is wrong with a folder of instruction files.

    It is read as the loader would read it. Per file: encoding, size, tokens, imports, what is cut at the caps, links, copies, secrets, and
    lines that look injected. Also which instruction files are not read at all, and what other
    clients would cut.

    Exit code: 14 when there is an error, or with --strict a warning.
    """
    check_folder(folder)
    settings = _settings()
    names = tuple(agent_names or ()) or _names(settings, folder)
    loader = BootstrapLoader(
        folder,
        agent_names=names,
        searches_upward=settings.searches_upward if upward is None else upward,
        max_file_tokens=max_file_tokens or settings.max_file_tokens,
        max_total_tokens=max_total_tokens or settings.max_total_tokens,
    )
    counter = counter_for(get_model_limits(model))
    found = asyncio.run(
        loader.lint(
            agent_id,
            count_text=counter.count_text,
            variables=_variables(agent_id, model),
            required=settings.required,
        )
    )
    if as_json:
        print_json(_as_json(found))
    else:
        _print_lint(found)
    if found.count("error") or (strict and found.count("warning")):
        raise typer.Exit(exit_codes.LINT_FOUND)


def _settings() -> "BootstrapSettings":
    from context_assembler.config import AssemblerConfig  # noqa: PLC0415 - pydantic is slow to load

    return AssemblerConfig().bootstrap


def _names(settings: "BootstrapSettings", folder: Path) -> tuple[str, ...]:
    """Return the names read for AGENT.md: the settings' own, or what most repositories have."""
    names = settings.agent_names
    if "agent_names" in settings.model_fields_set or any(
        (folder / name).exists() for name in names
    ):
        return names
    if others := [name for name in _USUAL_NAMES if (folder / name).exists()]:
        print_note(
            f"There is no {names[0]}; {others[0]} is read in its place, as the assembler does "
            f'with agent_names = ["{others[0]}"] in [bootstrap].'
        )
        return (others[0],)
    return names


def _variables(agent_id: str | None, model: str) -> dict[str, Json]:
    """Return what templates may name, so that the check finds what is misspelt."""
    today = datetime.now(tz=UTC).date().isoformat()
    empty: list[Json] = []
    return {
        "agent": agent_id or "",
        "session": "lint",
        "model": model,
        "date": today,
        "skills": empty,
        "tools": empty,
    }


def _as_json(found: Lint) -> Json:
    return {
        "files": [
            {
                "section": linted.file.section,
                "path": linted.file.path,
                "state": linted.file.state,
                "encoding": linted.file.encoding,
                "size_bytes": linted.file.size_bytes,
                "tokens": linted.tokens,
                "kept_tokens": linted.kept_tokens,
                "imports": list(linted.file.imports),
                "findings": [
                    {
                        "level": one.level,
                        "rule": one.rule,
                        "line": one.line,
                        "message": one.message,
                    }
                    for one in linted.findings
                ],
            }
            for linted in found.files
        ],
        "unread": [
            {"path": file.path, "level": file.level, "reason": file.reason} for file in found.unread
        ],
        "forecasts": [{"client": client, "cut": cut} for client, cut in found.forecasts],
        "errors": found.count("error"),
        "warnings": found.count("warning"),
    }


def _print_lint(found: Lint) -> None:
    console = people()
    for linted in found.files:
        if linted.file.state != "missing":
            _print_file(console, linted)
    missing = [Path(one.file.path).name for one in found.files if one.file.state == "missing"]
    if missing:
        print_heading(console, f"Not there: {', '.join(map(printable, missing))}")
    for linted in found.files:
        for one in linted.findings:
            if one.rule == "file.missing" and one.level != "note":
                _print_finding(console, one.level, printable(one.message))
    if found.unread:
        print_heading(console, "Not read")
        for file in found.unread:
            _print_finding(console, file.level, f"{printable(file.path)}: {file.reason}")
    if found.forecasts:
        print_heading(console, "What other clients would cut")
        for client, cut in found.forecasts:
            console.print(f"  {client}: {printable(cut)}", soft_wrap=True)
    console.print()
    errors, warnings = (counted(found.count(level), level) for level in ("error", "warning"))
    console.print(f"{errors}, {warnings}.")


def _print_file(console: Console, linted: LintedFile) -> None:
    file = linted.file
    print_heading(console, printable(file.path))
    if file.state in {"ok", "empty"}:
        cut = (
            f", {linted.kept_tokens:,} after the caps" if linted.kept_tokens < linted.tokens else ""
        )
        size = f"{file.encoding}, {file.size_bytes:,} bytes, {linted.tokens:,} tokens"
        console.print(f"  {file.section}: {size}{cut}")
    for path in file.imports:
        console.print(f"  imports {printable(path)}", soft_wrap=True)
    for one in linted.findings:
        place = f"line {one.line}: " if one.line else ""
        _print_finding(console, one.level, f"{place}{one_line(one.message, max_chars=300)}")


def _print_finding(console: Console, level: str, sentence: str) -> None:
    console.print(Text.assemble((f"  {level} ", _STYLES[level]), sentence), soft_wrap=True)
