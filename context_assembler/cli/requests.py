"""`assemble`, `explain`, `check`, `compact`, `fit` and `lint-payload`: requests, and what their providers would say."""

from asyncio import to_thread
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import typer
from rich.columns import Columns
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from context_assembler.assembler import ContextAssembler
from context_assembler.cli import COMPACTION_INFEASIBLE, COMPACTION_NEEDED, PAYLOAD_REFUSED
from context_assembler.cli import command as cli
from context_assembler.cli.sessions import opened_store
from context_assembler.compaction import summarize_with
from context_assembler.context import AssembledContext, Ledger
from context_assembler.errors import (
    ConfigurationError,
    MissingModelError,
    UnknownModelError,
    UnknownOptionError,
)
from context_assembler.events import Json, to_json
from context_assembler.fit import fit_messages
from context_assembler.models import get_model_limits, protocol_for
from context_assembler.options import CALL_OPTIONS, AssemblerConfig, Option
from context_assembler.providers import PROVIDERS, check_payload
from context_assembler.providers.wire import as_list, as_object
from context_assembler.report import ReportEntry, Violations
from context_assembler.transcripts.source import parse_source

app: Final = typer.Typer(add_completion=False)
_PLACES: Final[Mapping[str, tuple[Any, str]]] = {
    "sessions": (str | None, "The session store, such as sqlite:agent.db."),
    "agent": (str | None, "The agent; the session's own by default."),
    "bootstrap": (Path | None, "The folder with AGENT.md and the others."),
    "tools": (Path | None, "JSON with a list of tool specs."),
    "memory": (str | None, "What --query searches, such as sqlite:memory.db."),
    "provider": (str | None, "anthropic, openai_chat, openai_responses or gemini."),
    "config": (Path | None, "The folder with context-assembler.toml."),
}
_NOT_HERE: Final = ("additional_tools", "use_cache", "exact")  # these need a program's objects
_OPTIONS: Final = {name: one for name, one in CALL_OPTIONS.items() if name not in _NOT_HERE}
# The cells tell the parts of a window apart without colour.
_LOOKS: Final = "system █ blue tools ▓ magenta overhead = cyan history ▒ green notes # yellow"
_STYLES: Final = {"kept": "green", "dropped": "red", "blocked": "red", "repaired": "cyan"}
_BAR_CELLS: Final = 72
Given = dict[str, Any]  # places and call options, by name


def _parameter_of(option: Option) -> tuple[Any, str]:
    """Return the type and the help of a call option on the command line."""
    kind, text = option.kind, option.help
    if get_origin(kind) is Literal:
        return str | None, f"{text} One of: {', '.join(get_args(kind))}."
    if get_origin(kind) is not None:
        return list[str] | None, f"{text} Repeatable."
    return (kind if kind in (bool, int, float) else str) | None, text


_SHARED: Final = {**_PLACES, **{name: _parameter_of(one) for name, one in _OPTIONS.items()}}


def _options_of(given: Given) -> dict[str, Json]:
    """Return the call options that were given."""
    options = {name: given[name] for name in _OPTIONS if given[name] not in (None, [])}
    if str(options.get("tool_choice", "")).lstrip().startswith("{"):
        remedy = 'Write auto, none, any, or an object such as {"name": "search"}.'
        choice = cli.parse_json(options["tool_choice"], "--tool-choice", remedy)
        return {**options, "tool_choice": choice}
    return options


@asynccontextmanager
async def opened_assembler(given: Given) -> AsyncGenerator[ContextAssembler, None]:
    """Build the assembler that a request names, and close its stores again."""
    cli.check_folder(given["bootstrap"], "AGENT.md")
    cli.check_folder(given["config"], "the settings")
    text = cli.read_text(given["tools"]) if given["tools"] else "[]"
    told = cli.parse_json(text, given["tools"])
    tools = as_object(told).get("tools", told)
    if not isinstance(tools, list):
        remedy = 'Write a JSON list of tool specs, or an object with a list called "tools".'
        raise ConfigurationError(f"{given['tools']} has no list of tools.", remedy=remedy)
    async with (
        opened_store(given["sessions"]) as store,
        ContextAssembler(
            sessions=store,
            bootstrap=given["bootstrap"],
            tools=as_list(tools),
            memory=given["memory"],
            config=AssemblerConfig(**({"folder": given["config"]} if given["config"] else {})),
        ) as assembler,
    ):
        yield assembler


async def _assembled(given: Given, session: str) -> AssembledContext:
    """Return the context; its report is computed while the store is open."""
    _check_provider(given["provider"])
    async with opened_assembler(given) as assembler:
        context = await assembler.assemble(session, given["agent"], **_options_of(given))
        context.report.to_json()
        return context


def _check_provider(provider: str | None) -> None:
    if provider is not None and provider not in PROVIDERS:
        raise UnknownOptionError(provider, kind="provider", known=PROVIDERS)


def _code_of(violations: Violations) -> int:
    return PAYLOAD_REFUSED if violations.refused else 0


@cli.command(app, "assemble", _SHARED)
async def assemble(given: Given, session: str) -> cli.Answer:
    """Print the payload of a session's next model call as JSON.

    Nothing is sent and nothing is stored. Warnings go to stderr.
    Exit code: 12 if the provider would refuse the payload.
    """
    context, provider = await _assembled(given, session), given["provider"]
    payload, violations = context.to_request(provider), context.check(provider)
    told = [f"{one.level}: {one}" for one in violations]
    for warning in (*context.report.warnings, *told):
        cli.print_note(warning)
    return cli.Answer(payload, [cli.Raw(cli.json_text(payload))], _code_of(violations))


@cli.command(app, "explain", _SHARED)
async def explain(
    given: Given, session: str, *, every: bool = False, html: Path | None = None
) -> cli.Answer:
    """Show what fills the window, what was cut, and why.

    A dry run: what 'assemble' would send, piece by piece, with the layer of each setting.

    Args:
        every: One line for every piece.
        html: Write the session's page of the inspector to this file instead; it needs nothing else.
    """
    if html is not None:
        from context_assembler.server.inspector import session_file

        async with opened_assembler(given) as assembler:
            text = await session_file(assembler, session, **_options_of(given))
        content = text.encode("utf-8", "replace")
        await to_thread(html.write_bytes, content)
        return cli.Answer({"written": str(html), "bytes": len(content)})
    context = await _assembled(given, session)
    if not context.tools and any(e.rule == "rewrite.tools" for e in context.report.entries):
        cli.print_note("The last call had tools: pass --tools to see the next one with them.")
    return cli.Answer(context.report.to_json(), _show(context, given["provider"], every=every))


def _show(context: AssembledContext, provider: cli.Words, *, every: bool) -> Iterator[Any]:
    report, about = context.report, context.metadata
    yield Text(f"Session {about.session_id} for {about.model_id}", style="bold")
    yield from show_ledger(report.ledger)
    yield cli.heading("Kept, shortened, dropped")
    yield entries_table(report.entries, every=every)
    if forecast := report.forecast:
        yield cli.heading("Prompt cache")
        yield Text(str(forecast))
    yield cli.heading("Settings")
    rows = [{**one._asdict(), "value": to_json(one.value)} for one in report.parameters]
    yield cli.table_of(rows, "name", "value", "layer")
    yield cli.heading("Checks")
    yield from (Text(f"· {warning}", style="yellow") for warning in report.warnings)
    yield from show_checks(context, provider)
    if about.should_compact:
        yield f"Compaction is advised: {about.compaction_reason}."


@cli.command(app, "check", {name: one for name, one in _SHARED.items() if name != "provider"})
async def check(given: Given, session: str) -> cli.Answer:
    """Say whether a session should be compacted.

    Exit code: 0 not needed, 10 needed, 11 cannot help, because what must stay is too large.
    """
    async with opened_assembler(given) as assembler:
        answer = await assembler.check_compaction(session, given["agent"], **_options_of(given))
    code = COMPACTION_NEEDED if answer.needed else 0
    return cli.Answer(to_json(answer), code=code if answer.feasible else COMPACTION_INFEASIBLE)


@cli.command(app, "compact", {name: one for name, one in _SHARED.items() if name != "provider"})
async def compact(
    given: Given, session: str, *, summarizer: cli.Words = None, keep: int | None = None
) -> cli.Answer:
    """Replace the older part of a session with a summary.

    The store keeps all events.

    Args:
        summarizer: The model that writes the summary; without one no model is asked.
        keep: How many of the newest messages stay as they are.
    """
    writer = summarize_with(summarizer) if summarizer else None
    async with opened_assembler(given) as assembler:
        done = await assembler.compact(
            session, writer, given["agent"], keep=keep, **_options_of(given)
        )
    value = {**done._asdict(), "event": to_json(done.event)}
    sizes = f"{done.summary_tokens:,} tokens stand for {done.covered_tokens:,}"
    return cli.Answer(value, [cli.Raw(done.event.text), f"Event {done.event.seq}: {sizes}."])


@cli.command(app, "fit")
def fit(
    file: Path,
    *,
    model: cli.Words = None,
    max_tokens: int | None = None,
    truncation_strategy: cli.Words = None,
) -> cli.Answer:
    """Make the messages in a file fit, and print them.

    They are JSON, in the shape of the file. --json also lists all changes. A summary goes to stderr.

    Args:
        file: JSON with a list of messages, or a request with its system prompt and tools; '-' reads
            stdin.
        model: The model; by default the one that the file names.
        max_tokens: Limit for system prompt, tools and messages together; by default the model's window
            less a reserve.
        truncation_strategy: smart, simple or sliding; smart by default.
    """
    rows = parse_source(cli.read_text(file), str(file)).rows("messages", "input", "contents")
    head, config = rows.head, as_object(rows.head.get("config"))
    if not (name := model or head.get("model")):
        raise MissingModelError(layers=["request"])
    prompts = "system instructions systemInstruction system_instruction".split()
    systems = (held[key] for held in (head, config) for key in prompts if held.get(key))
    prompt = next(systems, None)
    fitted = fit_messages(
        [row.value for row in rows.rows],
        model=str(name),
        max_tokens=max_tokens,
        system=as_object(prompt).get("parts", prompt),
        tools=as_list(head.get("tools") or config.get("tools")),
        strategy=truncation_strategy or "smart",  # type: ignore[arg-type]  # checked there
    )
    changes = Counter(entry.decision for entry in fitted.changes if entry.kind == "message")
    told = "".join(f", {count:,} {decision}" for decision, count in changes.items())
    sizes = f"{fitted.tokens:,} of {fitted.max_tokens:,} tokens"
    cli.print_note(f"{len(fitted.messages):,} of {len(rows.rows):,} messages{told}; {sizes}.")
    names = ("messages", "indices", "changes", "tokens", "max_tokens")
    value = {key: getattr(fitted, key) for key in names}
    value["changes"] = [entry._asdict() for entry in fitted.changes]
    return cli.Answer(value, [cli.Raw(cli.json_text(fitted.messages))])


@cli.command(app, "lint-payload")
def lint_payload(file: Path, *, provider: cli.Words = None, model: cli.Words = None) -> cli.Answer:
    """Check a payload against its provider's rules.

    Exit code: 12 if the provider would refuse it.

    Args:
        file: JSON; '-' reads stdin.
        model: The model; by default the one that the payload names.
    """
    given = cli.parse_json(cli.read_text(file), file)
    payload = as_object(given)
    if not isinstance(given, dict):
        remedy = "A payload is a JSON object of keyword arguments."
        raise ConfigurationError(f"{file} is not a payload.", remedy=remedy)
    _check_provider(provider)
    try:
        limits = get_model_limits(model or str(payload.get("model", "")))
    except UnknownModelError:
        if model:
            raise
        limits = None
    name = provider or (protocol_for(limits) if limits else None)
    if name is None:
        raise ConfigurationError(
            "The payload names no known model, so its provider is not clear.",
            remedy=f"Pass --provider, one of: {', '.join(PROVIDERS)}.",
        )
    today = datetime.now(tz=UTC).date()
    violations = check_payload(name, payload, limits=limits, today=today)
    value = [violation._asdict() for violation in violations]
    return cli.Answer(value, _show_violations(violations, name), _code_of(violations))


# ---- a window, and what became of each piece ----


def show_ledger(ledger: Ledger) -> Iterator[RenderableType]:
    """Yield the budget as a bar, its legend, and one sentence."""
    words = f"{_LOOKS} free · bright_black over ! red".split()
    looks = {words[at]: (words[at + 1], words[at + 2]) for at in range(0, len(words), 3)}
    tokens = {kind: ledger.tokens_of(kind) for kind in looks}  # type: ignore[arg-type]  # 0 if none
    tokens |= {"free": ledger.free_tokens, "over": -ledger.free_tokens}
    parts = {kind: count for kind, count in tokens.items() if count > 0}
    bar, legend = Text(), list[Text]()
    for kind, count in parts.items():
        cell, style = looks[kind]
        cells = max(1, round(count * _BAR_CELLS / sum(parts.values())))
        bar.append(cell * cells, style=style)
        legend.append(Text.assemble((cell, style), f" {kind} {count:,}"))
    yield bar
    yield Columns(legend, padding=(0, 3, 0, 0))
    how = "counted" if ledger.is_exact else "estimated"
    used = f"{ledger.used_tokens:,} of {ledger.budget_tokens:,} tokens used"
    yield f"{used}, {ledger.reserve_tokens:,} for the reply ({how} by {ledger.counter})."


def entries_table(entries: Sequence[ReportEntry], *, every: bool = False) -> Table:
    """Return the entries; by default those of one decision and rule on one line."""
    by_fate: dict[Any, list[ReportEntry]] = {}
    for number, entry in enumerate(entries):
        fate = number if every else (entry.kind, entry.decision, entry.rule)
        by_fate.setdefault(fate, []).append(entry)
    return cli.table_of(map(_row_of, by_fate.values()), "what", "decision", "tokens", "why")


def _row_of(run: Sequence[ReportEntry]) -> dict[str, Any]:
    first, name = run[0], cli.one_line(run[0].id, max_chars=42)
    before, after = (sum(tokens) for tokens in zip(*(entry[3:5] for entry in run), strict=True))
    others = len({entry.reason for entry in run}) - 1
    return {
        "what": f"{first.kind} {name}" if len(run) == 1 else f"{len(run)} {first.kind}s",
        "decision": Text(first.decision, style=_STYLES.get(first.decision, "yellow")),
        "tokens": f"{after:,}" if before == after else f"{before:,} → {after:,}",
        "why": f"{first.reason} (and {others} like it)" if others else first.reason,
    }


def show_checks(context: AssembledContext, provider: str | None = None) -> Iterator[RenderableType]:
    """Yield how many of the provider's rules a payload breaks, both levels apart, and each of them."""
    yield from _show_violations(context.check(provider), provider or context.provider)


def _show_violations(violations: Violations, provider: str) -> Iterator[RenderableType]:
    apart = f": {len(violations.refused)} refused, {len(violations.advice)} advice"
    yield f"Checked against {provider}'s rules: {len(violations)} broken{apart * bool(violations)}."
    for one in (*violations.refused, *violations.advice):
        level = (f"{one.level:8}", "red" if one.level == "refused" else "yellow")
        text = cli.one_line(f"{one.where}: {one.message}", max_chars=300)
        yield Text.assemble(level, (f"{one.rule:5}", "bold"), text)
