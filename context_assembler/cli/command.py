"""How a command is declared, what it reads, and how it answers."""

import asyncio
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TextIO, get_args, get_origin

import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from context_assembler.errors import ConfigurationError
from context_assembler.events import Json

# Control characters could steer the reader's terminal, bidirectional ones reorder what it shows,
# lone surrogates cannot be written as UTF-8 at all.
_UNSHOWABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_UNSAFE_IN_JSON: Final = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_HELPS: Final[Mapping[str, str]] = {
    "as_json": "Print JSON for programs.",
    "sessions": "The session store, such as sqlite:agent.db.",
    "memory": "The memory store, such as sqlite:memory.db; by default that of the settings.",
    "model": "The model's id, as the provider or a gateway writes it.",
    "namespace": "The project that a memory belongs to.",
    "embedder": "none, bundled, minilm, openai:MODEL.",
    "provider": "anthropic, openai_chat, openai_responses or gemini; the model's own by default.",
}
_FLAGS: Final = {"as_json": "--json", "truncation_strategy": "--strategy"}
_METAVARS: Final = {int: "N", float: "NUMBER", Path: "PATH"}
STANDARD: Final = Path("-")


class Raw(str):
    """Text that is written to stdout as it is, whatever it holds."""

    __slots__ = ()


class Answer(NamedTuple):
    """What a command found: JSON for programs, lines and tables for people, and an exit code."""

    value: Json
    shown: Iterable[RenderableType] = ()
    code: int = 0


# ---- declaring ----


def command(
    app: typer.Typer, name: str, helps: Mapping[str, str] = _HELPS
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function that returns an `Answer` a command.

    Positional parameters become arguments, keyword-only ones flags, and each has its help from the
    `Args` of the docstring, or from `helps`. The function may be a coroutine.
    """

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        text, _, listed = (inspect.getdoc(run) or "").partition("\n\nArgs:\n")
        own = re.findall(r"^    (\w+): (.+(?:\n {6,}.+)*)", listed, re.MULTILINE)
        known = {**helps, **{key: " ".join(told.split()) for key, told in own}}
        given = list(inspect.signature(run, eval_str=True).parameters.values())
        flag = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, annotation=bool)
        given.append(flag.replace(default=False))

        def call(**options: Any) -> None:
            as_json, answer = options.pop("as_json"), run(**options)
            answer = asyncio.run(answer) if inspect.isawaitable(answer) else answer
            if as_json:
                sys.stdout.write(json_text(answer.value))
            else:
                show(answer.shown)
            raise typer.Exit(answer.code)

        declared = [
            one.replace(annotation=_declared(one, known.get(one.name, ""))) for one in given
        ]
        call.__signature__ = inspect.Signature(declared)  # type: ignore[attr-defined]  # for Typer
        call.__annotations__, call.__doc__ = {}, text
        app.command(name)(call)
        return run

    return register


def _declared(parameter: inspect.Parameter, text: str) -> Any:
    """Return the annotation that makes Typer read a parameter."""
    name, kind = parameter.name, parameter.annotation
    kinds = [one for one in get_args(kind) or (kind,) if one is not type(None)]
    [inner] = get_args(kinds[0]) if get_origin(kinds[0]) is list else kinds
    inner = str if get_origin(kind) is list else inner
    metavar = None if inner is bool else _METAVARS.get(inner, "TEXT")
    if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
        return Annotated[kind, typer.Argument(metavar=name.upper(), help=text, show_default=False)]
    flag = _FLAGS.get(name) or "--" + name.removeprefix("is_").removesuffix("_id")
    flag = flag.replace("_", "-")
    names = [flag, "-m"] if name == "model" else [flag]
    if kind == bool | None:
        names = [f"{flag}/--no-{flag[2:]}"]
    variable = f"CONTEXT_ASSEMBLER_{name.upper()}" if name in ("sessions", "memory") else None
    return Annotated[kind, typer.Option(*names, metavar=metavar, help=text, envvar=variable)]


# ---- answering ----


def console(stream: TextIO | None = None) -> Console:
    """Return a console: coloured on a terminal, plain elsewhere."""
    stream = stream or sys.stdout
    width = 100 if not stream.isatty() and "COLUMNS" not in os.environ else None
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def show(shown: Iterable[RenderableType]) -> None:
    """Write lines and tables to stdout."""
    people = console()
    for one in shown:
        if isinstance(one, str):
            sys.stdout.write(one if isinstance(one, Raw) else f"{printable(one)}\n")
        else:
            people.print(one, soft_wrap=isinstance(one, Text))


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


def counted(count: int, one: str, many: str = "") -> str:
    """Return how many there are, such as `1 question`."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def heading(text: str) -> Text:
    """Return a heading with an empty line before it."""
    return Text(f"\n{text}", style="bold")


def readable(value: Any) -> str:
    """Return a value of a setting or a figure as people write it; empty fields are left out."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        given = {name: held for name, held in value.items() if held not in (None, [], (), "")}
        return ", ".join(f"{name}: {readable(held)}" for name, held in given.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(readable, value)) or "none"
    return str(value)


def table_of(*columns: str, right: Sequence[str] = (), rows: Iterable[Sequence[Any]] = ()) -> Table:
    """Return a table; text in its cells is made safe. A column without a name has no heading."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(columns))
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold",
            no_wrap=column in right,
        )
    for row in rows:
        table.add_row(*(one_line(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def fields_of(fields: Mapping[str, Any]) -> Table:
    """Return names and values as a table without heading."""
    rows = ((name.replace("_", " "), readable(value)) for name, value in fields.items())
    return table_of("", "", rows=rows)


# ---- reading ----


def read_content(path: Path) -> bytes:
    """Return the bytes of a file, or of stdin if the path is `-`."""
    if path != STANDARD:
        return path.read_bytes()
    stdin: TextIO | None = sys.stdin
    if stdin is None:
        raise ConfigurationError("Stdin is closed.", remedy="Name a file, or send one on stdin.")
    return stdin.buffer.read()


def read_text(path: Path) -> str:
    """Return the text of a file or of stdin; a byte that cannot be read is U+FFFD, with a note."""
    from context_assembler.texts import decode_text

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
