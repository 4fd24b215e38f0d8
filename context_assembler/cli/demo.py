"""`demo`: the story of one long session, told with the real parts."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer
from rich.console import Console

from context_assembler.assembler import ContextAssembler
from context_assembler.cli.ledger_view import ledger_bar, ledger_legend, ledger_summary
from context_assembler.cli.opening import opened_store
from context_assembler.cli.payload_view import SharedPrefix, payload_outline, shared_prefix
from context_assembler.cli.report_view import runs_by_fate, runs_table, verdict
from context_assembler.cli.request_options import JsonFlag
from context_assembler.cli.screen import one_line, people, print_heading, print_json
from context_assembler.config import AssemblerConfig
from context_assembler.ports import ReadTranscript
from context_assembler.resources import bundled_path
from context_assembler.transcripts import read_transcript
from context_assembler.values.codec import to_json
from context_assembler.values.context import AssembledContext
from context_assembler.values.events import UserBody, assistant_event, user_event
from context_assembler.values.parts import Json
from context_assembler.values.report import ReportEntry

_SAMPLE: Final = "coding_agent.json"
_SESSION: Final = "money-migration"
_MODELS: Final = ("claude-opus-5-5", "gpt-5.5")
_BOUND_TOKENS: Final = 24_000
_ANSWER: Final = "The rounding tests: each compares an invoice with what was captured, to the cent."
_REPLY: Final = "Great, that goes into the pull request. I am merging now."

app: Final = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Played:
    """What happened: the session, its request for each model, and the one a step later."""

    sample: ReadTranscript
    contexts: tuple[AssembledContext, ...]
    shared: SharedPrefix


@app.command()
def demo(
    *,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", metavar="ID", help=f"Repeatable; {' and '.join(_MODELS)}."),
    ] = None,
    max_context_tokens: Annotated[
        int, typer.Option(min=1, help="Upper bound of the input, so that something must be cut.")
    ] = _BOUND_TOKENS,
    as_json: JsonFlag = False,
) -> None:
    """Assemble a bundled session and tell the story of its window.

    Needs no set-up and sends nothing.
    The session lies in a temporary SQLite file.
    """
    played = asyncio.run(_play(model or _MODELS, bound_tokens=max_context_tokens))
    if as_json:
        print_json(_as_json(played))
    else:
        _tell(people(), played, bound_tokens=max_context_tokens)


async def _play(models: Sequence[str], *, bound_tokens: int) -> _Played:
    sample = read_transcript(bundled_path("samples") / _SAMPLE)
    with TemporaryDirectory() as folder:
        async with opened_store(f"sqlite:{Path(folder) / 'demo.db'}", creates=True) as store:
            await store.append(_SESSION, sample.events)
            assembler = ContextAssembler(
                sessions=store,
                bootstrap=bundled_path("bootstrap"),
                tools=sample.tools,
                config=AssemblerConfig(folder=Path(folder)),
            )
            contexts = [
                await assembler.assemble(_SESSION, model=model, max_context_tokens=bound_tokens)
                for model in models
            ]
            await store.append(_SESSION, [assistant_event(_ANSWER), user_event(_REPLY)])
            later = await assembler.assemble(
                _SESSION, model=models[0], max_context_tokens=bound_tokens
            )
    shared = shared_prefix(contexts[0].to_request(), later.to_request())
    return _Played(sample=sample, contexts=tuple(contexts), shared=shared)


def _as_json(played: _Played) -> Json:
    requests = [
        {
            "model": context.metadata.model_id,
            "payload": context.to_request(),
            "report": to_json(context.report),
            "violations": to_json(context.check()),
        }
        for context in played.contexts
    ]
    shared = played.shared
    step = {"begins_with_whole_first": shared.is_whole_first, "share": shared.share_of_second}
    return {"requests": requests, "step": step}


def _tell(console: Console, played: _Played, *, bound_tokens: int) -> None:
    _introduce(console, played.sample)
    for number, context in enumerate(played.contexts, start=1):
        model = context.metadata.model_id
        print_heading(
            console, f"{number}. One request for {model}, at most {bound_tokens:,} tokens"
        )
        _print_request(console, context)
    model = played.contexts[0].metadata.model_id
    print_heading(console, f"{len(played.contexts) + 1}. One step further with {model}")
    _print_step(console, played.shared)


def _introduce(console: Console, sample: ReadTranscript) -> None:
    calls = sum(len(event.tool_calls) for event in sample.events)
    task = next(event.text for event in sample.events if isinstance(event.body, UserBody))
    console.print("A coding agent has worked on one task for a long time.", style="bold")
    console.print(f"{len(sample.events)} events, {calls} tool calls, {len(sample.tools)} tools.")
    console.print(f"The task: {one_line(task, max_chars=console.width - 11)}")
    console.print(
        "Its next request must be valid, fit, keep what matters, and only grow from then on."
    )


def _print_request(console: Console, context: AssembledContext) -> None:
    console.print(payload_outline(context.to_request(), width_chars=console.width - 1), style="dim")
    ledger = context.report.ledger
    console.print(ledger_bar(ledger))
    console.print(ledger_legend(ledger))
    console.print(ledger_summary(ledger))
    console.print("What became of the history, and why:")
    told = [entry for entry in context.report.entries if _is_told(entry)]
    console.print(runs_table(runs_by_fate(told)))
    console.print(verdict(context.check(), provider=context.provider))


def _is_told(entry: ReportEntry) -> bool:
    return entry.kind == "message" or entry.decision != "kept"


def _print_step(console: Console, shared: SharedPrefix) -> None:
    beginning = "all" if shared.is_whole_first else "a part"
    console.print(f"The model answers: {_ANSWER}")
    console.print(f"The user goes on: {_REPLY}")
    console.print(
        f"The second payload begins with {beginning} of the first, byte for byte:\n"
        f"{shared.share_of_second:.1%} of it can be read from the provider's prompt cache."
    )
    console.print()
    console.print(
        "With your own: context-assembler import FILE --sessions sqlite:agent.db, then explain."
    )
