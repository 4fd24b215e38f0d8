"""`demo` and `init`: what a newcomer runs first."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import typer
from rich.console import RenderableType
from rich.text import Text

from context_assembler.assembler import ContextAssembler
from context_assembler.cli.command import Answer, command, console, heading, one_line
from context_assembler.cli.screen import entries_table, outline, show_ledger, show_violations
from context_assembler.context import AssembledContext
from context_assembler.events import Json, JsonObject, assistant_event, user_event
from context_assembler.models import bundled_path
from context_assembler.options import SETTINGS, AssemblerConfig
from context_assembler.transcripts import ReadTranscript, read_transcript

app: Final = typer.Typer(add_completion=False)
_MODELS: Final = ("claude-opus-5-5", "gpt-5.5")
_SESSION: Final = "money-migration"
_ANSWER: Final = "The rounding tests: each compares an invoice with what was captured, to the cent."
_REPLY: Final = "Great, that goes into the pull request. I am merging now."


@command(app, "demo")
async def demo(*, model: list[str] | None = None, max_context_tokens: int = 24_000) -> Answer:
    """Assemble a bundled session and show what fills its window.

    Needs no set-up and sends nothing. The session is in a temporary SQLite file.

    Args:
        model: Repeatable; by default claude-opus-5-5 and gpt-5.5.
        max_context_tokens: Upper bound of the input, so that something must be cut.
    """
    sample = read_transcript(Path(bundled_path("samples/coding_agent.json")))
    models, contexts = model or _MODELS, list[AssembledContext]()
    with TemporaryDirectory() as folder:
        async with ContextAssembler(
            sessions=f"sqlite:{Path(folder) / 'demo.db'}",
            bootstrap=Path(bundled_path("bootstrap")),
            tools=list(sample.tools),
            config=AssemblerConfig(folder=folder),
        ) as assembler:
            store = assembler.sessions
            await store.append(_SESSION, sample.events)
            for name in (*models, models[0]):
                if len(contexts) == len(models):
                    later = [assistant_event(_ANSWER), user_event(_REPLY)]
                    await store.append(_SESSION, later)
                context = await assembler.assemble(
                    _SESSION, model=name, max_context_tokens=max_context_tokens
                )
                context.report.to_json()  # computed while the store is open
                contexts.append(context)
    *contexts, last = contexts
    is_whole, share = _compare(contexts[0].to_request(), last.to_request())
    requests = [
        {
            "model": context.metadata.model_id,
            "payload": context.to_request(),
            "report": context.report.to_json(),
            "violations": [violation._asdict() for violation in context.check()],
        }
        for context in contexts
    ]
    step = {"begins_with_whole_first": is_whole, "share": share}
    story = _story(sample, contexts, max_context_tokens, is_whole=is_whole, share=share)
    return Answer({"requests": requests, "step": step}, story)


def _story(
    sample: ReadTranscript,
    contexts: Sequence[AssembledContext],
    bound: int,
    *,
    is_whole: bool,
    share: float,
) -> Iterator[RenderableType]:
    width = console().width
    calls = sum(len(event.tool_calls) for event in sample.events)
    task = next(event.text for event in sample.events if event.type == "user")
    yield Text("A coding agent has worked on one task for a long time.", style="bold")
    yield f"{len(sample.events)} events, {calls} tool calls, {len(sample.tools)} tools."
    yield f"The task: {one_line(task, max_chars=width - 11)}"
    yield "Its next request must be valid, fit, keep what matters, and only grow from then on."
    for number, context in enumerate(contexts, start=1):
        name, report = context.metadata.model_id, context.report
        yield heading(f"{number}. One request for {name}, at most {bound:,} tokens")
        yield Text(outline(context.to_request(), width_chars=width), style="dim")
        yield from show_ledger(report.ledger)
        yield "Decisions about the history, and why:"
        entries = [e for e in report.entries if e.kind == "message" or e.decision != "kept"]
        yield entries_table(entries)
        violations = context.check()
        yield f"Checked against {context.provider}'s rules: {len(violations)} broken."
        yield from show_violations(violations)
    yield heading(f"{len(contexts) + 1}. One step later with {contexts[0].metadata.model_id}")
    yield f"The model answers: {_ANSWER}"
    yield f"The user replies: {_REPLY}"
    beginning = "all" if is_whole else "a part"
    yield f"The second payload begins with {beginning} of the first, byte for byte:"
    yield f"{share:.1%} of it can be read from the provider's prompt cache."
    yield "\nWith your own: context-assembler import FILE --sessions sqlite:agent.db, then explain."


def _compare(first: JsonObject, second: JsonObject) -> tuple[bool, float]:
    """Return whether the second payload begins with the whole first one, and the shared share."""
    one, other = list(_blocks(first)), list(_blocks(second))
    pairs = zip(one, other, strict=False)
    same = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
    return same == len(one), sum(map(len, other[:same])) / max(1, sum(map(len, other)))


def _blocks(payload: JsonObject) -> Iterator[str]:
    for name in ("config", "tools", "system", "instructions", "messages", "input", "contents"):
        value = payload.get(name)
        for entry in value if isinstance(value, list) else [value]:
            inner = entry.get("content", entry.get("parts")) if isinstance(entry, dict) else None
            for block in inner if isinstance(inner, list) else [entry]:
                fields = block.items() if isinstance(block, dict) else ()
                kept = {key: held for key, held in fields if key != "cache_control"}
                yield json.dumps(kept or block)


@command(app, "init")
def init(folder: Path = Path(), *, force: bool = False, samples: bool = False) -> Answer:
    """Write sample instruction files and a commented settings file.

    What exists stays as it is, unless --force is given.

    Args:
        folder: Where to; this folder by default.
        force: Replace files that exist.
        samples: Write the sample sessions of the docs as well.
    """
    bundled = {"bootstrap": "*.md", **({"samples": "*.json"} if samples else {})}
    files = {
        folder / name / file.name: file.read_bytes()
        for name, pattern in bundled.items()
        for file in sorted(Path(bundled_path(name)).glob(pattern))
    }
    files[folder / "context-assembler.toml"] = settings_file().encode()
    done = [
        {"path": str(path), "outcome": _write(path, content, force=force)}
        for path, content in files.items()
    ]
    shown = [f"{one['outcome']:10}  {one['path']}" for one in done]
    if any(one["outcome"] == "left alone" for one in done):
        shown.append("Files that exist were left alone; --force replaces them.")
    return Answer(done, shown)


def _write(path: Path, content: bytes, *, force: bool) -> str:
    existed = path.exists() or path.is_symlink()
    if existed and not force:
        return "left alone"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        path.unlink()  # replace the link, not its target
    path.write_bytes(content)
    return "replaced" if existed else "written"


def settings_file() -> str:
    """Return a settings file that shows every setting with its default, commented out."""
    lines = [
        "# Settings of context-assembler. Every line is optional and shows the default.",
        "# Highest first: arguments of the call, CONTEXT_ASSEMBLER_* variables, this file,",
        "# [tool.context-assembler] in pyproject.toml.",
    ]
    for table, options in SETTINGS.items():
        lines += ["", f"[{table}]"] if table else [""]
        for name, option in options.items():
            if name != "folder" or table:
                lines.append(f"# {name} = {_toml(option.default)}  # {option.help}")
        if not table:
            lines.append("\n# What every call gets unless the call, session or agent overrides it.")
            lines += ["[defaults]", '# model = "claude-opus-5-5"', "# max_tokens = 16000"]
    return "\n".join(lines) + "\n"


def _toml(value: Json) -> str:
    if isinstance(value, tuple):
        return json.dumps([str(one) for one in value])
    if isinstance(value, bool | int | float | dict):
        return json.dumps(value)
    return json.dumps("" if value is None else str(value))
