"""`demo`, `init` and `lint`: what a newcomer runs first."""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import typer
from rich.console import RenderableType

from context_assembler.assembler import ContextAssembler
from context_assembler.cli import LINT_FOUND, requests
from context_assembler.cli import command as cli
from context_assembler.context import AssembledContext
from context_assembler.events import Json, JsonObject, assistant_event, user_event
from context_assembler.history.secrets import mask_kinds
from context_assembler.models import bundled_path
from context_assembler.options import SETTINGS, AssemblerConfig
from context_assembler.prompt import BootstrapLoader, lint_files
from context_assembler.providers.wire import as_list
from context_assembler.tokens import TokenCounter
from context_assembler.transcripts import ReadTranscript, read_transcript

app: Final = typer.Typer(add_completion=False)
_MODELS: Final = ("claude-opus-5-5", "gpt-6.2-sol")
_SESSION: Final = "money-migration"
_ANSWER: Final = "The rounding tests: each compares an invoice with what was captured, to the cent."
_REPLY: Final = "Great, that goes into the pull request. I am merging now."


@cli.command(app, "demo")
async def demo(*, model: list[str] | None = None, max_context_tokens: int = 24_000) -> cli.Answer:
    """Assemble a bundled session and show what fills its window.

    It needs no set-up and sends nothing. The session is in a temporary SQLite file.

    Args:
        model: Repeatable; by default claude-opus-5-5 and gpt-6.2-sol.
        max_context_tokens: Upper bound of the input; a small number shows a cut.
    """
    sample = read_transcript(Path(bundled_path("samples/coding_agent.json")))
    models, contexts = model or _MODELS, list[AssembledContext]()
    options: dict[str, Any] = {"max_context_tokens": max_context_tokens}
    with TemporaryDirectory() as folder:
        async with ContextAssembler(
            sessions=f"sqlite:{Path(folder) / 'demo.db'}",
            bootstrap=Path(bundled_path("bootstrap")),
            tools=list(sample.tools),
            config=AssemblerConfig(folder=folder),
        ) as assembler:
            await assembler.sessions.append(_SESSION, sample.events)
            for name in models:
                options["model"] = name
                contexts.append(await assembler.assemble(_SESSION, **options))
                contexts[-1].report.to_json()  # computed while the store is open
            later = [assistant_event(_ANSWER), user_event(_REPLY)]
            await assembler.sessions.append(_SESSION, later)
            last = await assembler.assemble(_SESSION, **options | {"model": models[0]})
    first, second = _prompt_of(contexts[0].to_request()), _prompt_of(last.to_request())
    pairs = zip(first, second, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    value = [
        {
            "model": context.metadata.model_id,
            "payload": context.to_request(),
            "report": context.report.to_json(),
            "violations": [violation._asdict() for violation in context.check()],
        }
        for context in contexts
    ]
    share = shared / len(second)
    step = {"begins_with_whole_first": shared == len(first), "share": share}
    return cli.Answer({"requests": value, "step": step}, _story(sample, contexts, share))


def _story(
    sample: ReadTranscript, contexts: Sequence[AssembledContext], share: float
) -> Iterator[RenderableType]:
    calls = sum(len(event.tool_calls) for event in sample.events)
    task = next(event.text for event in sample.events if event.type == "user")
    yield f"A coding agent: {len(sample.events)} events, {calls} calls, {len(sample.tools)} tools."
    yield f"The task: {cli.one_line(task, max_chars=88)}"
    yield "Its next request must be valid, fit, keep what matters, and only grow from then on."
    for context in contexts:
        report = context.report
        budget = f"{report.ledger.budget_tokens:,} tokens"
        yield cli.heading(f"One request for {context.metadata.model_id}, within {budget}")
        yield from requests.show_ledger(report.ledger)
        entries = [e for e in report.entries if e.kind == "message" or e.decision != "kept"]
        yield requests.entries_table(entries)
        yield from requests.show_checks(context)
    yield cli.heading(f"One step later with {contexts[0].metadata.model_id}")
    yield f"The model answers: {_ANSWER}\nThe user replies: {_REPLY}"
    yield f"{share:.1%} of the payload is the last one, byte for byte: the prompt cache has it."
    yield "\nWith your own: context-assembler import FILE --sessions sqlite:agent.db, then explain."


def _prompt_of(payload: JsonObject) -> str:
    """Return the prompt as JSON, without the brackets that close it and without cache marks."""
    names = ("config", "tools", "system", "instructions", "messages", "input", "contents")
    text = json.dumps([payload[name] for name in names if name in payload])
    return re.sub(r'(, )?"cache_control": {[^}]*}', "", text).rstrip("]}")


@cli.command(app, "init")
def init(folder: Path = Path(), *, force: bool = False, samples: bool = False) -> cli.Answer:
    """Write sample instruction files and a settings file.

    It keeps existing files, unless you pass --force.

    Args:
        folder: The folder to write to; by default this one.
        force: Replace files that exist.
        samples: Write the sample sessions of the docs as well.
    """
    names = [Path("bootstrap"), *([Path("samples")] if samples else [])]
    found = [file for name in names for file in sorted(Path(bundled_path(str(name))).iterdir())]
    files = {folder / file.parent.name / file.name: file.read_bytes() for file in found}
    files[folder / "context-assembler.toml"] = settings_file().encode()
    done = [{"path": str(p), "outcome": _write(p, c, force=force)} for p, c in files.items()]
    return cli.Answer(done)


def _write(path: Path, content: bytes, *, force: bool) -> str:
    existed = path.exists() or path.is_symlink()
    if existed and not force:
        return "left alone"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # a link is replaced, not its target
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
        return json.dumps([str(one) for one in as_list(value)])
    is_plain = isinstance(value, bool | int | float | dict)
    return json.dumps(value if is_plain else "" if value is None else str(value))


@cli.command(app, "lint")
def lint(
    folder: Path, *, agent: str | None = None, model: str = "gpt-6.2-sol", strict: bool = False
) -> cli.Answer:
    """Check a folder of instruction files.

    It shows each file's encoding, size, tokens and imports, what the caps cut, links, copies and
    secrets.
    Exit code: 14 if there is an error, or with --strict a warning.

    Args:
        folder: The folder of the files.
        agent: The agent whose files are read.
        model: The model whose tokens are counted.
        strict: Warnings count as errors.
    """
    cli.check_folder(folder, "AGENT.md")
    settings, today = AssemblerConfig().bootstrap, datetime.now(tz=UTC).date().isoformat()
    names = ("agent_names", "searches_upward", "max_file_tokens", "max_total_tokens")
    loader = BootstrapLoader(folder, **{name: getattr(settings, name) for name in names})
    variables = {"agent": agent or "", "session": "lint", "model": model, "date": today}
    found = lint_files(
        loader,
        agent,
        count_text=TokenCounter(model).count_text,
        variables={**variables, "skills": [], "tools": []},
        required=settings.required,
        mask=mask_kinds,
    )
    fails = found.count("error") or (strict and found.count("warning"))
    return cli.Answer(found.to_json(), _show_lint(found), LINT_FOUND if fails else 0)


def _show_lint(found: Any) -> Iterator[RenderableType]:
    for one in found.files:
        file = one.file
        size = f"{file.encoding}, {file.size_bytes:,} bytes, {one.tokens:,} tokens"
        cut = f", {one.kept_tokens:,} after the caps" if one.kept_tokens < one.tokens else ""
        yield cli.heading(f"{file.path} ({file.section}: {size}{cut})")
        yield from (f"  imports {path}" for path in file.imports)
        for finding in one.findings:
            place = f"line {finding.line}: " if finding.line else ""
            yield f"  {finding.level} {place}{cli.one_line(finding.message, max_chars=300)}"
    yield ""
    yield f"{found.count('error')} errors, {found.count('warning')} warnings."
