"""`assemble`, `explain`, `check` and `lint-payload`: requests, and what their providers would say."""

import functools
import inspect
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin

import typer
from rich.console import RenderableType
from rich.text import Text

from context_assembler.assembler import ContextAssembler
from context_assembler.cli import COMPACTION_INFEASIBLE, COMPACTION_NEEDED, PAYLOAD_REFUSED
from context_assembler.cli.command import (
    Answer,
    command,
    console,
    counted,
    fields_of,
    heading,
    json_text,
    parse_json,
    print_note,
    read_text,
    readable,
    table_of,
)
from context_assembler.cli.screen import (
    entries_table,
    ledger_table,
    outline,
    show_ledger,
    show_violations,
)
from context_assembler.cli.sessions import opened_store
from context_assembler.context import AssembledContext
from context_assembler.errors import (
    ConfigurationError,
    UnknownModelError,
    UnknownOptionError,
)
from context_assembler.events import Json, to_json
from context_assembler.forecast import CutPolicy
from context_assembler.models import get_model_limits, protocol_for
from context_assembler.options import CALL_OPTIONS, AssemblerConfig, Option
from context_assembler.providers import PROVIDERS, check_payload
from context_assembler.report import CacheForecast, Violation

app: Final = typer.Typer(add_completion=False)
# By vendor: the key that the environment must hold, and the client of the SDK.
_CLIENTS: Final = {
    "anthropic": ("ANTHROPIC_API_KEY", "anthropic", "AsyncAnthropic"),
    "openai": ("OPENAI_API_KEY", "openai", "AsyncOpenAI"),
    "google": ("GEMINI_API_KEY", "google.genai", "Client"),
}


class Request(NamedTuple):
    """A request as the command line names it; `options` holds the call options that were given."""

    session: str
    sessions: str | None
    agent: str | None
    bootstrap: Path | None
    tools: Path | None
    memory: str | None
    config: Path | None
    options: Mapping[str, Json]


_PLACES: Final = {
    "session": "The session's id.",
    "sessions": "The session store, such as sqlite:agent.db.",
    "agent": "The agent; the session's own by default.",
    "bootstrap": "The folder with AGENT.md and the others.",
    "tools": "JSON with a list of tool specs.",
    "memory": "What --query searches, such as sqlite:memory.db.",
    "config": "The folder with context-assembler.toml.",
}
_NOT_HERE: Final = ("additional_tools", "use_cache")  # objects of a program's own
_OPTIONS: Final = {name: one for name, one in CALL_OPTIONS.items() if name not in _NOT_HERE}


def _kind_of(option: Option) -> Any:
    if get_origin(option.kind) not in (None, Literal):
        return list[str] | None
    return (option.kind if option.kind in (bool, int, float) else str) | None


def _help_of(option: Option) -> str:
    choices = get_args(option.kind) if get_origin(option.kind) is Literal else ()
    return f"{option.help} One of: {', '.join(choices)}." if choices else option.help


def request_command(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function a command that takes the places and call options of a `Request` as well."""

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        def call(**given: Any) -> Any:
            places = {name: given.pop(name) for name in _PLACES}
            options = {name: given.pop(name) for name in _OPTIONS}
            options = {name: held for name, held in options.items() if held not in (None, [])}
            choice = str(options.get("tool_choice", ""))
            if choice.lstrip().startswith("{"):
                remedy = 'Write auto, none, any, or an object such as {"name": "search"}.'
                options["tool_choice"] = parse_json(choice, "--tool-choice", remedy)
            return run(Request(**places, options=options), **given)

        kinds = {place: Request.__annotations__[place] for place in _PLACES}
        kinds |= {option.name: _kind_of(option) for option in _OPTIONS.values()}
        shared = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=None)
            for key, kind in kinds.items()
        ]
        shared[0] = inspect.Parameter(
            "session", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=str
        )
        own = list(inspect.signature(run, eval_str=True).parameters.values())[1:]
        call.__signature__ = inspect.Signature([*shared, *own])  # type: ignore[attr-defined]  # for `command`
        helps = {option.name: _help_of(option) for option in _OPTIONS.values()}
        return command(app, name, {**_PLACES, **helps, "as_json": "Print JSON for programs."})(call)

    return register


@asynccontextmanager
async def opened_assembler(request: Request) -> AsyncGenerator[ContextAssembler, None]:
    """Build the assembler that a request names, and close its stores again."""
    for folder, name in ((request.bootstrap, "AGENT.md"), (request.config, "the settings")):
        if folder is not None and not folder.is_dir():
            remedy = f"Name the folder that holds {name}."
            raise ConfigurationError(f"{folder} is not a folder.", remedy=remedy)
    tools = parse_json(read_text(request.tools), request.tools) if request.tools else []
    tools = tools.get("tools") if isinstance(tools, dict) else tools
    if not isinstance(tools, list):
        remedy = 'Write a JSON list of tool specs, or an object with a list called "tools".'
        raise ConfigurationError(f"{request.tools} holds no list of tools.", remedy=remedy)
    clients = {
        vendor: getattr(import_module(module), name)()
        for vendor, (key, module, name) in _CLIENTS.items()
        if request.options.get("exact") and os.environ.get(key) and find_spec(module.split(".")[0])
    }
    async with (
        opened_store(request.sessions) as store,
        ContextAssembler(
            sessions=store,
            bootstrap=request.bootstrap,
            tools=tools,
            memory=request.memory,
            config=AssemblerConfig(**({"folder": request.config} if request.config else {})),
            clients=clients or None,
        ) as assembler,
    ):
        yield assembler


async def _assembled(request: Request, provider: str | None) -> tuple[AssembledContext, int]:
    """Return the context, its report computed while the store is open, and an exit code."""
    if provider is not None and provider not in PROVIDERS:
        raise UnknownOptionError(provider, kind="provider", known=PROVIDERS)
    async with opened_assembler(request) as assembler:
        context = await assembler.assemble(request.session, request.agent, **request.options)
        context.report.to_json()
        return context, _code_of(context.check(provider))


def _code_of(violations: Sequence[Violation]) -> int:
    return PAYLOAD_REFUSED if any(one.level == "refused" for one in violations) else 0


@request_command("assemble")
async def assemble(
    request: Request, *, provider: str | None = None, outline_only: bool = False
) -> Answer:
    """Print the payload of a session's next model call as JSON.

    Nothing is sent and nothing is stored. Warnings go to stderr.
    Exit code: 12 if the provider would refuse the payload.

    Args:
        provider: anthropic, openai_chat, openai_responses or gemini; the model's own by default.
        outline_only: Print an outline for people.
    """
    context, code = await _assembled(request, provider)
    payload = context.to_request(provider)
    for warning in (*context.report.warnings, *map(str, context.check(provider))):
        print_note(warning)
    text = outline(payload, width_chars=console().width) + "\n"
    return Answer(payload, [text if outline_only else json_text(payload)], code)


@request_command("explain")
async def explain(
    request: Request,
    *,
    provider: str | None = None,
    every: bool = False,
    cost: bool = False,
    budget: list[str] | None = None,
) -> Answer:
    """Show what fills the window, what was cut, and why.

    A dry run: what 'assemble' would send, piece by piece, with the layer of each setting.

    Args:
        provider: anthropic, openai_chat, openai_responses or gemini; the model's own by default.
        every: One line for every piece.
        cost: Replay the session: what its calls cost, by policy.
        budget: With --cost: the room, as 24000 tokens or 50% of the session; repeatable.
    """
    if cost:
        return await _explain_cost(request, budget or [])
    if budget:
        remedy = "Add --cost, or leave it out."
        raise ConfigurationError("--budget belongs to --cost.", remedy=remedy)
    context, _ = await _assembled(request, provider)
    return Answer(context.report.to_json(), _show_context(context, provider, every=every))


def _show_context(
    context: AssembledContext, provider: str | None, *, every: bool
) -> Iterator[RenderableType]:
    report, about = context.report, context.metadata
    yield Text(f"Session {about.session_id} for {about.model_id}", style="bold")
    yield from show_ledger(report.ledger)
    yield ""
    yield ledger_table(report.ledger)
    yield heading("Kept, shortened, dropped")
    yield entries_table(report.entries, every=every)
    if report.forecast is not None:
        yield heading("Prompt cache")
        yield from _show_forecast(report.forecast)
    yield heading("Settings")
    rows = [(one.name, readable(to_json(one.value))[:80], one.layer) for one in report.parameters]
    yield table_of("setting", "value", "from", rows=rows)
    if report.warnings:
        yield heading("Warnings")
    yield from (Text(f"· {warning}", style="yellow") for warning in report.warnings)
    yield heading("Checks")
    violations = context.check(provider)
    yield f"Checked against {provider or context.provider}'s rules: {len(violations)} broken."
    yield from show_violations(violations)
    if about.should_compact:
        yield f"Compaction is advised: {about.compaction_reason}."


def _show_forecast(forecast: CacheForecast) -> Iterator[str]:
    split, usd = forecast.split, forecast.price.usd
    price = forecast.price.why_unknown if usd is None else f"The input costs ${usd:.4g}."
    yield (
        f"{split.read_tokens:,} tokens ({forecast.read_share:.0%}) are read from it, "
        f"{split.written_tokens:,} written to it. {price}"
    )
    if forecast.broken is not None:
        yield f"It begins like the last call up to a {forecast.broken.piece}: {forecast.broken.reason}"
    yield from split.remarks


async def _explain_cost(request: Request, budgets: list[str]) -> Answer:
    policies = [CutPolicy()]
    for tokens, share in map(_parse_budget, budgets or [""]):
        for name in ("smart", "simple", "sliding"):
            policies += [CutPolicy(name, stable, tokens, share) for stable in (True, False)]
    async with opened_assembler(request) as assembler:
        simulation = await assembler.simulate(
            request.session, request.agent, policies=policies, **request.options
        )
    value = simulation.to_json()
    right = ("input", "fill", "read", "rewrites", "too big", "cost", "of everything")
    rows = [
        (
            run["name"],
            f"{run['tokens']:,}",
            f"{run['mean_fill']:.0%}",
            f"{run['read_share']:.1%}",
            f"{run['rewrites']:,}",
            f"{run['overflows']:,}",
            "–" if run["usd"] is None else f"${run['usd']:.3g}",
            "–" if run["relative_usd"] is None else f"{run['relative_usd']:.0%}",
        )
        for run in value["runs"]
    ]
    calls = counted(len(simulation.everything.steps), "call")
    title = heading(f"Session {request.session} replayed for {simulation.model}: {calls}")
    table = table_of("policy", *right, right=right, rows=rows)
    return Answer(value, [title, table, "Replies are not priced."])


def _parse_budget(text: str) -> tuple[int | None, float | None]:
    """Return the tokens, or the share of the session, that a budget is written as."""
    number = text.removesuffix("%").replace(",", "").replace("_", "").strip()
    is_share = text.endswith("%")
    if not text:
        return None, None
    if not number.isdecimal() or int(number) == 0 or (is_share and int(number) > 100):
        remedy = "Write tokens, such as 24000, or a share of the session, such as 50%."
        raise ConfigurationError(f"{text!r} is not a budget.", remedy=remedy)
    return (None, int(number) / 100) if is_share else (int(number), None)


@request_command("check")
async def check(request: Request) -> Answer:
    """Say whether a session should be compacted.

    Exit code: 0 not needed, 10 needed, 11 it cannot help: system prompt and tools alone are over
    the threshold.
    """
    async with opened_assembler(request) as assembler:
        answer = await assembler.check_compaction(request.session, request.agent, **request.options)
    verdict = f"needed: {answer.details['why']}" if answer.needed else "not needed"
    shown: list[RenderableType] = [
        Text(f"Compaction is {verdict}.", style="bold"),
        f"{answer.current_tokens:,} tokens, threshold {answer.threshold:,}, of which "
        f"{answer.floor_tokens:,} cannot be freed.",
    ]
    if not answer.feasible:
        shown.append("It cannot help: the fixed part alone is over the threshold.")
    details = to_json(answer.details)
    shown.append(fields_of({k: v for k, v in details.items() if v is not None and k != "why"}))
    code = COMPACTION_NEEDED if answer.needed else 0
    value = {**answer._asdict(), "details": details}
    return Answer(value, shown, code if answer.feasible else COMPACTION_INFEASIBLE)


@command(app, "lint-payload")
def lint_payload(file: Path, *, provider: str | None = None, model: str | None = None) -> Answer:
    """Check a payload against its provider's rules.

    Without --model, a payload that is plainly written for another provider is refused by name.
    Exit code: 12 if the provider would refuse it.

    Args:
        file: JSON; '-' reads stdin.
        model: By default the payload's own model.
    """
    payload = parse_json(read_text(file), file)
    if not isinstance(payload, dict):
        remedy = "A payload is a JSON object of keyword arguments."
        raise ConfigurationError(f"{file} is not a payload.", remedy=remedy)
    if provider is not None and provider not in PROVIDERS:
        raise UnknownOptionError(provider, kind="provider", known=PROVIDERS)
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
    check = functools.partial(
        check_payload, payload=payload, limits=limits, today=datetime.now(tz=UTC).date()
    )
    violations = check(name)
    if not model and any(one.rule in ("A0", "C0", "G0", "R0") for one in violations):
        # Those rules are about what a payload is made of.
        for other in (other for other in PROVIDERS if not check(other)):
            raise ConfigurationError(
                f"{file} is written for {other}, not for {name}.",
                remedy=f"Pass --provider {other}, or the model that it is sent to with -m.",
            )
    refused = sum(one.level == "refused" for one in violations)
    verb, avoid = "refuse" if refused else "accept", len(violations) - refused
    verdict = f"{name} would {verb} it: {counted(refused, 'rule')} broken, {avoid} to avoid."
    value = [violation._asdict() for violation in violations]
    return Answer(value, [*show_violations(violations), verdict], _code_of(violations))
