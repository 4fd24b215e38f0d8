"""How a command is declared, what it reads, and how it answers."""

import asyncio
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TextIO, TypeAlias, get_args, get_origin

import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from context_assembler.errors import ConfigurationError
from context_assembler.events import Json
from context_assembler.providers.wire import as_list, as_object
from context_assembler.texts import decode_text, read_file

# Control characters could steer the reader's terminal, bidirectional ones reorder what it shows,
# lone surrogates cannot be written as UTF-8 at all.
_UNSHOWABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_UNSAFE_IN_JSON: Final = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_HELPS: Final = {
    "as_json": "Print JSON for programs.",
    "sessions": "The session store, such as sqlite:agent.db.",
    "memory": "The memory store, such as sqlite:memory.db; by default that of the settings.",
    "model": "The model's id, as the provider or a gateway writes it.",
    "namespace": "The project that a memory belongs to.",
    "kind": "The kind of memory: memories, code ….",
    "session": "The session's id.",
    "provider": "anthropic, openai_chat, openai_responses or gemini; the model's own by default.",
    "format": "The transcript format, such as claude_code or openai_chat.",
}
_FLAG: Final = inspect.Parameter.KEYWORD_ONLY
_FLAGS: Final = {"as_json": "--json", "truncation_strategy": "--strategy"}
_METAVARS: Final = {int: "N", float: "NUMBER", Path: "PATH"}
STANDARD: Final = Path("-")
Words: TypeAlias = str | None  # what is not given is `None`


class Raw(str):
    """Text that is written to stdout as it is, whatever it holds."""

    __slots__ = ()


class Answer(NamedTuple):
    """What a command found: JSON for programs, lines and tables for people, and an exit code.

    By default people see the JSON's fields.
    """

    value: Json
    shown: Iterable[RenderableType] | None = None
    code: int = 0


# ---- declaring ----


def command(
    app: typer.Typer, name: str, shared: Mapping[str, tuple[Any, str]] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function that returns an `Answer` a command; it may be a coroutine.

    Positional parameters become arguments, keyword-only ones flags, and each has its help from the
    `Args` of the docstring.

    Args:
        shared: Types and helps of parameters that several commands have; the function gets their
            values as a dict, its first argument.
    """

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        text, _, listed = (inspect.getdoc(run) or "").partition("\n\nArgs:\n")
        own = re.findall(r"^    (\w+): (.+(?:\n {6,}.+)*)", listed, re.MULTILINE)
        helps = {**_HELPS, **{key: " ".join(told.split()) for key, told in own}}
        helps |= {key: told for key, (_, told) in (shared or {}).items()}
        given = [*inspect.signature(run, eval_str=True).parameters.values()][1 if shared else 0 :]
        flags = {**{key: kind for key, (kind, _) in (shared or {}).items()}, "as_json": bool}
        given += [
            inspect.Parameter(key, _FLAG, annotation=kind, default=False if kind is bool else None)
            for key, kind in flags.items()
        ]

        def call(**options: Any) -> None:
            as_json, first = options.pop("as_json"), {key: options.pop(key) for key in shared or ()}
            answer = run(*([first] if shared else []), **options)
            answer = asyncio.run(answer) if inspect.iscoroutine(answer) else answer
            show([Raw(json_text(answer.value))] if as_json else _shown(answer))
            raise typer.Exit(answer.code)

        declared = [
            one.replace(annotation=_declared(one, helps.get(one.name, ""))) for one in given
        ]
        call.__signature__ = inspect.Signature(declared)  # type: ignore[attr-defined]  # for Typer
        words = (one.name for one in given if one.kind is not _FLAG)
        told = [text, *(f"{name.upper()}: {helps[name]}" for name in words)]
        call.__annotations__, call.__doc__ = {}, "\n\n".join(told)
        app.command(name)(call)
        return run

    return register


def _declared(parameter: inspect.Parameter, text: str) -> Any:
    """Return the annotation that makes Typer read a parameter."""
    name, kind = parameter.name, parameter.annotation
    if parameter.kind is not _FLAG:
        return Annotated[kind, typer.Argument(metavar=name.upper(), help=text, hidden=True)]
    kinds = [kind] if get_origin(kind) is list else get_args(kind) or (kind,)
    metavar = None if bool in kinds else _METAVARS.get(kinds[0], "TEXT")
    flag = (_FLAGS.get(name) or f"--{name}").replace("_", "-")
    names = [flag, "-m"] if name == "model" else [flag]
    if kind == bool | None:
        names = [f"{flag}/--no-{flag[2:]}"]
    variable = f"CONTEXT_ASSEMBLER_{name.upper()}" if name in ("sessions", "memory") else None
    return Annotated[kind, typer.Option(*names, metavar=metavar, help=text, envvar=variable)]


# ---- answering ----


def console(stream: TextIO) -> Console:
    """Return a console: coloured on a terminal, plain elsewhere."""
    width = 100 if not stream.isatty() and "COLUMNS" not in os.environ else None
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def _shown(answer: Answer) -> Iterable[RenderableType]:
    if answer.shown is not None:
        return answer.shown
    rows = as_list(answer.value)
    return [table_of(rows, *rows[0]) if rows else fields_of(as_object(answer.value))]


def show(shown: Iterable[RenderableType]) -> None:
    """Write lines and tables to stdout."""
    people = console(sys.stdout)
    for one in shown:
        if isinstance(one, str):
            sys.stdout.write(one if isinstance(one, Raw) else f"{printable(one)}\n")
        else:
            people.print(one, soft_wrap=isinstance(one, Text), crop=False)


def print_note(sentence: str, label: str = "Note", style: str = "yellow") -> None:
    """Write one sentence to stderr that is not the answer itself."""
    text = Text.assemble((f"{label}: ", f"bold {style}"), one_line(sentence))
    console(sys.stderr).print(text, soft_wrap=True)


def json_text(value: Json) -> str:
    """Return JSON that a terminal can show."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found.group()):04x}", text) + "\n"


def printable(text: str) -> str:
    """Return the text with every character that a terminal would obey written out."""
    return _UNSHOWABLE.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


def one_line(text: str, *, max_chars: int = 2_000) -> str:
    """Return the text on one line, cut with an ellipsis if it is longer."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= max_chars else f"{flat[: max_chars - 1].rstrip()}…"


def heading(text: str) -> Text:
    """Return a heading with an empty line before it."""
    return Text(f"\n{printable(text)}", style="bold")


def readable(value: Any) -> str:
    """Return a value of a setting or a figure as people write it; empty fields are left out."""
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(readable, as_list(value)))
    given = {name: one for name, one in as_object(value).items() if one not in (None, [], "")}
    texts = [f"{name}: {readable(held)}" for name, held in given.items()]
    return ", ".join(texts) if isinstance(value, Mapping) else str(value)


def table_of(rows: Iterable[Mapping[str, Any]], *columns: str) -> Table:
    """Return some fields of objects as a table; numbers stand to the right.

    The first column has the names: it is as wide as the longest one.
    """
    listed = list(rows)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        is_number = all(isinstance(row.get(name), int | float | None) for row in listed)
        justify: Any = "right" if is_number else "left"
        no_wrap = name == columns[0]
        table.add_column(name.replace("_", " "), justify=justify, overflow="fold", no_wrap=no_wrap)
    for row in listed:
        cells = (row.get(name) for name in columns)
        table.add_row(*(v if isinstance(v, Text) else one_line(readable(v)) for v in cells))
    return table


def fields_of(fields: Mapping[str, Any]) -> Table:
    """Return names and values as a table; what has no value is left out."""
    held = {name: value for name, value in fields.items() if value is not None}
    rows = ({"field": name.replace("_", " "), "value": one} for name, one in held.items())
    return table_of(({**row, "value": readable(row["value"])} for row in rows), "field", "value")


# ---- reading ----


def read_content(path: Path) -> bytes:
    """Return the bytes of a file, or of stdin if the path is `-`."""
    return read_file(path)[0] if path != STANDARD else sys.stdin.buffer.read()


def read_text(path: Path) -> str:
    """Return the text of a file or of stdin; a byte that cannot be read is U+FFFD, with a note."""
    text, _, warnings = decode_text(read_content(path))
    for warning in warnings:
        print_note(f"{path}: {warning}.")
    return text


def parse_json(text: str, name: object, remedy: str = "Correct it, or name another file.") -> Json:
    """Return the JSON in a text that the user gave."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{name} is not JSON: {error}.", remedy=remedy) from error


def check_folder(folder: Path | None, holds: str) -> None:
    """Refuse a path that was given and is not a folder."""
    if folder is not None and not folder.is_dir():
        remedy = f"Name the folder that holds {holds}."
        raise ConfigurationError(f"{folder} is not a folder.", remedy=remedy)
