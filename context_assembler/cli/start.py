"""`demo` and `init`: what a newcomer runs first."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from context_assembler.assembler import ContextAssembler
from context_assembler.cli.screen import (
    JsonFlag,
    entries_table,
    heading,
    one_line,
    payload_outline,
    people,
    print_json,
    print_ledger,
    print_verdict,
    printable,
)
from context_assembler.context import AssembledContext
from context_assembler.events import Json, JsonObject, assistant_event, user_event
from context_assembler.models import bundled_path
from context_assembler.options import SETTINGS, AssemblerConfig
from context_assembler.sessions import open_store
from context_assembler.transcripts import read_transcript

app: Final = typer.Typer(add_completion=False)
_MODELS: Final = ("claude-opus-5-5", "gpt-5.5")
_ANSWER: Final = "The rounding tests: each compares an invoice with what was captured, to the cent."
_REPLY: Final = "Great, that goes into the pull request. I am merging now."


@app.command("demo")
def demo(
    *,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", metavar="ID", help=f"Repeatable; {' and '.join(_MODELS)}."),
    ] = None,
    max_context_tokens: Annotated[
        int, typer.Option(min=1, help="Upper bound of the input, so that something must be cut.")
    ] = 24_000,
    as_json: JsonFlag = False,
) -> None:
    """Assemble a bundled session and show what fills its window.

    Needs no set-up and sends nothing. The session is in a temporary SQLite file.
    """
    sample = read_transcript(Path(bundled_path("samples/coding_agent.json")))
    models = model or list(_MODELS)
    contexts, later = asyncio.run(_play(sample, models, max_context_tokens))
    first = contexts[0].to_request()
    is_whole, share = _shared(first, later.to_request())
    if as_json:
        requests = [
            {
                "model": context.metadata.model_id,
                "payload": context.to_request(),
                "report": context.report.to_json(),
                "violations": [violation._asdict() for violation in context.check()],
            }
            for context in contexts
        ]
        print_json(
            {"requests": requests, "step": {"begins_with_whole_first": is_whole, "share": share}}
        )
        return
    console = people()
    calls = sum(len(event.tool_calls) for event in sample.events)
    task = next(event.text for event in sample.events if event.type == "user")
    console.print("A coding agent has worked on one task for a long time.", style="bold")
    console.print(f"{len(sample.events)} events, {calls} tool calls, {len(sample.tools)} tools.")
    console.print(f"The task: {one_line(task, max_chars=console.width - 11)}")
    console.print(
        "Its next request must be valid, fit, keep what matters, and only grow from then on."
    )
    for number, context in enumerate(contexts, start=1):
        name = context.metadata.model_id
        heading(console, f"{number}. One request for {name}, at most {max_context_tokens:,} tokens")
        _print_request(console, context)
    heading(console, f"{len(contexts) + 1}. One step later with {models[0]}")
    console.print(f"The model answers: {_ANSWER}")
    console.print(f"The user replies: {_REPLY}")
    beginning = "all" if is_whole else "a part"
    console.print(
        f"The second payload begins with {beginning} of the first, byte for byte:\n"
        f"{share:.1%} of it can be read from the provider's prompt cache."
    )
    console.print()
    console.print(
        "With your own: context-assembler import FILE --sessions sqlite:agent.db, then explain."
    )


async def _play(
    sample: Any, models: list[str], bound: int
) -> tuple[list[AssembledContext], AssembledContext]:
    with TemporaryDirectory() as folder:
        store = open_store(f"sqlite:{Path(folder) / 'demo.db'}")
        try:
            await store.append("money-migration", sample.events)
            assembler = ContextAssembler(
                sessions=store,
                bootstrap=Path(bundled_path("bootstrap")),
                tools=list(sample.tools),
                config=AssemblerConfig(folder=folder),
            )

            async def assemble(model: str) -> AssembledContext:
                context = await assembler.assemble(
                    "money-migration", model=model, max_context_tokens=bound
                )
                context.to_request()
                context.report.to_json()
                return context

            contexts = [await assemble(model) for model in models]
            await store.append("money-migration", [assistant_event(_ANSWER), user_event(_REPLY)])
            return contexts, await assemble(models[0])
        finally:
            await store.close()


def _print_request(console: Console, context: AssembledContext) -> None:
    outline = payload_outline(context.to_request(), width_chars=console.width - 1)
    console.print(outline, style="dim")
    print_ledger(console, context.report.ledger, table=False)
    console.print("Decisions about the history, and why:")
    shown = [e for e in context.report.entries if e.kind == "message" or e.decision != "kept"]
    console.print(entries_table(shown)[0])
    print_verdict(console, context.check(), context.provider)


def _shared(first: JsonObject, second: JsonObject) -> tuple[bool, float]:
    """Return whether the second payload begins with the whole first one, and the shared share."""
    one, other = list(_blocks(first)), list(_blocks(second))
    shared = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        shared += len(a)
    return shared == sum(map(len, one)), shared / max(1, sum(map(len, other)))


def _blocks(payload: JsonObject) -> Iterator[str]:
    for name in ("config", "tools", "system", "instructions", "messages", "input", "contents"):
        value = payload.get(name)
        for entry in value if isinstance(value, list) else [value]:
            inner = entry.get("content", entry.get("parts")) if isinstance(entry, dict) else None
            for block in inner if isinstance(inner, list) else [entry]:
                if block is not None:
                    yield json.dumps(_unmarked(block))


def _unmarked(block: Json) -> Json:
    if not isinstance(block, dict):
        return block
    return {key: value for key, value in block.items() if key != "cache_control"}


@app.command("init")
def init(
    *,
    folder: Annotated[Path, typer.Argument(help="Where to; this folder by default.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    samples: Annotated[
        bool, typer.Option("--samples", help="Write the sample sessions of the docs as well.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Write sample instruction files and a commented settings file.

    What exists stays as it is, unless --force is given.
    """
    targets = {
        folder / "bootstrap" / file.name: file.read_bytes()
        for file in sorted(Path(bundled_path("bootstrap")).glob("*.md"))
    }
    targets[folder / "context-assembler.toml"] = settings_file().encode()
    if samples:
        for file in sorted(Path(bundled_path("samples")).glob("*.json")):
            targets[folder / "samples" / file.name] = file.read_bytes()
    done = [(path, _write(path, content, force)) for path, content in targets.items()]
    if as_json:
        print_json([{"path": str(path), "outcome": outcome} for path, outcome in done])
        return
    for path, outcome in done:
        people().print(f"{outcome:10}  {printable(str(path))}", soft_wrap=True)
    if any(outcome == "left alone" for _, outcome in done):
        people().print("Files that exist were left alone; --force replaces them.")


def _write(path: Path, content: bytes, force: bool) -> str:
    existed = path.exists() or path.is_symlink()
    if existed and not force:
        return "left alone"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        path.unlink()  # replace the link, not its target
    path.write_bytes(content)
    return "replaced" if existed else "written"


def settings_file() -> str:
    """Return a settings file that shows every setting; all but the folder of files are comments."""
    lines = [
        "# Settings of context-assembler. Every line is optional and shows the default.",
        "# Highest first: arguments of the call, CONTEXT_ASSEMBLER_* variables, this file,",
        "# [tool.context-assembler] in pyproject.toml.",
    ]
    for table, options in SETTINGS.items():
        lines += ["", f"[{table}]"] if table else [""]
        for name, option in options.items():
            if name != "folder" or table:
                mark = "" if (table, name) == ("bootstrap", "folder") else "# "  # `init` writes it
                lines.append(f"{mark}{name} = {_toml(option.default)}  # {option.help}")
        if not table:
            lines += [
                "",
                "# What every call gets unless the call, session or agent says otherwise.",
            ]
            lines += ["[defaults]", '# model = "claude-opus-5-5"', "# max_tokens = 16000"]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if value is None:
        return '""'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, tuple):
        return json.dumps([str(one) for one in value])
    return repr(value) if isinstance(value, int | float) else json.dumps(str(value))
