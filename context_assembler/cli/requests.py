"""`assemble`, `explain`, `check` and `lint-payload`: requests, and what their providers would say."""

import asyncio
import functools
import inspect
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_origin

import typer

from context_assembler.assembler import ContextAssembler
from context_assembler.cli import COMPACTION_INFEASIBLE, COMPACTION_NEEDED, PAYLOAD_REFUSED
from context_assembler.cli.screen import (
    JsonFlag,
    SessionsUrl,
    counted,
    entries_table,
    heading,
    notes,
    one_line,
    payload_outline,
    people,
    print_json,
    print_ledger,
    print_note,
    print_verdict,
    printable,
    read_json,
    readable,
    table_of,
    violation_lines,
)
from context_assembler.cli.sessions import opened_store
from context_assembler.context import AssembledContext
from context_assembler.errors import ConfigurationError, UnknownModelError, UnknownOptionError
from context_assembler.events import Json, to_json
from context_assembler.models import get_model_limits, protocol_for
from context_assembler.options import CALL_OPTIONS, AssemblerConfig, Option
from context_assembler.providers import PROVIDERS, check_payload
from context_assembler.report import Violation

app: Final = typer.Typer(add_completion=False)
_NOT_HERE: Final = ("additional_tools", "use_cache")  # objects of a program's own

Provider = Annotated[
    str | None,
    typer.Option(
        "--provider",
        metavar="NAME",
        help="anthropic, openai_chat, openai_responses or gemini; the model's own by default.",
    ),
]


class Request(NamedTuple):
    """A request as the command line names it; `options` holds what was given."""

    session_id: str
    sessions: str | None
    agent_id: str | None
    bootstrap: Path | None
    tools: Path | None
    memory: str | None
    config: Path | None
    options: Mapping[str, Json]


def _option(*names: str, metavar: str, help: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=help)


_PLACES: Final[Mapping[str, Any]] = {
    "session_id": Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")],
    "sessions": SessionsUrl,
    "agent_id": Annotated[
        str | None, _option("--agent", metavar="ID", help="The agent; the session's by default.")
    ],
    "bootstrap": Annotated[
        Path | None,
        _option("--bootstrap", metavar="FOLDER", help="The folder with AGENT.md and the others."),
    ],
    "tools": Annotated[
        Path | None, _option("--tools", metavar="FILE", help="JSON with a list of tool specs.")
    ],
    "memory": Annotated[
        str | None,
        _option("--memory", metavar="URL", help="What --query searches, as sqlite:memory.db."),
    ],
    "config": Annotated[
        Path | None,
        _option("--config", metavar="FOLDER", help="The folder with context-assembler.toml."),
    ],
}


def _parameter_of(option: Option) -> Any:
    """Return a call option as a command-line option: its name, type and help."""
    flag = "--strategy" if option.name == "truncation_strategy" else f"--{option.name}"
    flag = flag.replace("_", "-")
    names = [flag, "-m"] if option.name == "model" else [flag]
    choices = get_args(option.kind) if get_origin(option.kind) is Literal else ()
    text = f"{option.help} One of: {', '.join(choices)}." if choices else option.help
    if option.kind is bool:
        return Annotated[bool | None, typer.Option(f"{flag}/--no-{flag[2:]}", help=text)]
    if get_origin(option.kind) is not None and not choices:
        return Annotated[list[str] | None, _option(*names, metavar="TEXT", help=text)]
    kind: Any = option.kind if option.kind in (int, float) else str
    return Annotated[kind | None, _option(*names, metavar=kind.__name__.upper(), help=text)]


_OPTIONS: Final = {
    name: _parameter_of(option) for name, option in CALL_OPTIONS.items() if name not in _NOT_HERE
}


def takes_request(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the places and the call options; it receives them as one `Request`."""

    @functools.wraps(command)
    def run(**given: Any) -> None:
        places = {name: given.pop(name) for name in _PLACES}
        options = {name: given.pop(name) for name in _OPTIONS}
        kept = {name: value for name, value in options.items() if value not in (None, [])}
        if str(kept.get("tool_choice", "")).lstrip().startswith("{"):
            kept["tool_choice"] = _json_option("--tool-choice", kept["tool_choice"])
        command(Request(**places, options=kept), **given)

    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    shared = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=kind,
            default=inspect.Parameter.empty if name == "session_id" else None,
        )
        for name, kind in {**_PLACES, **_OPTIONS}.items()
    ]
    run.__annotations__ = {}
    run.__signature__ = inspect.Signature([*shared, *own])  # type: ignore[attr-defined]  # for Typer
    return run


def _json_option(flag: str, text: str) -> Json:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        remedy = 'Write auto, none, any, or an object such as {"name": "search"}.'
        raise ConfigurationError(f"{flag} is not JSON: {error}.", remedy=remedy) from error


@asynccontextmanager
async def opened_assembler(request: Request) -> AsyncGenerator[ContextAssembler, None]:
    """Build the assembler that a request names, and close its stores again."""
    for folder, name in ((request.bootstrap, "AGENT.md"), (request.config, "the settings")):
        if folder is not None and not folder.is_dir():
            remedy = f"Name the folder that holds {name}."
            raise ConfigurationError(f"{folder} is not a folder.", remedy=remedy)
    tools = read_json(request.tools) if request.tools else []
    tools = tools.get("tools") if isinstance(tools, dict) else tools
    if not isinstance(tools, list):
        remedy = 'Write a JSON list of tool specs, or an object with a list called "tools".'
        raise ConfigurationError(f"{request.tools} holds no list of tools.", remedy=remedy)
    async with opened_store(request.sessions) as store:
        assembler = ContextAssembler(
            sessions=store,
            bootstrap=request.bootstrap,
            tools=tools,
            memory=request.memory,
            config=AssemblerConfig(**({"folder": request.config} if request.config else {})),
            clients=_clients() if request.options.get("exact") else None,
        )
        try:
            yield assembler
        finally:
            await assembler.close()


def _clients() -> dict[str, Any]:
    """Return a client of each vendor whose key is set and whose SDK is installed."""
    from context_assembler.tokens import open_clients

    return open_clients()


async def _assembled(request: Request) -> AssembledContext:
    async with opened_assembler(request) as assembler:
        context = await assembler.assemble(
            request.session_id, agent_id=request.agent_id, **request.options
        )
        context.report.entries  # noqa: B018
        return context


@app.command("assemble")
@takes_request
def assemble(
    request: Request,
    *,
    provider: Provider = None,
    as_json: Annotated[
        bool, typer.Option("--json/--outline", help="The whole payload, or its outline.")
    ] = True,
) -> None:
    """Print the payload of a session's next model call as JSON.

    Nothing is sent and nothing is stored. Warnings go to stderr.
    Exit code: 12 if the provider would refuse the payload.
    """
    context = asyncio.run(_assembled(request))
    payload, violations = context.to_request(_known(provider)), context.check(provider)
    if as_json:
        print_json(payload)
    else:
        console = people()
        outline = payload_outline(payload, width_chars=console.width - 1)
        console.print(outline, soft_wrap=True)
    for warning in context.report.warnings:
        print_note(warning)
    for line in violation_lines(violations):
        notes().print(line, soft_wrap=True)
    _exit_if_refused(violations)


def _known(provider: str | None) -> str | None:
    if provider is not None and provider not in PROVIDERS:
        raise UnknownOptionError(provider, kind="provider", known=PROVIDERS)
    return provider


def _exit_if_refused(violations: list[Violation]) -> None:
    if any(violation.level == "refused" for violation in violations):
        raise typer.Exit(PAYLOAD_REFUSED)


@app.command("explain")
@takes_request
def explain(
    request: Request,
    *,
    provider: Provider = None,
    every: Annotated[bool, typer.Option("--every", help="One line for every piece.")] = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="Replay the session: what its calls cost, by policy.")
    ] = False,
    budget: Annotated[
        list[str] | None,
        typer.Option(metavar="TOKENS|SHARE%", help="With --cost: the room, as 24000 or 50%."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what fills the window, what was cut, and why.

    A dry run: what 'assemble' would send, piece by piece, with the layer of each setting.
    """
    if cost:
        _explain_cost(request, budget or [], as_json=as_json)
        return
    if budget:
        remedy = "Add --cost, or leave it out."
        raise ConfigurationError("--budget belongs to --cost.", remedy=remedy)
    context = asyncio.run(_assembled(request))
    report = context.report
    if as_json:
        print_json(report.to_json())
        return
    console = people()
    name = f"Session {context.metadata.session_id} for {context.metadata.model_id}"
    console.print(printable(name), style="bold")
    print_ledger(console, report.ledger)
    heading(console, "Kept, shortened, dropped")
    table, is_summed = entries_table(report.entries, every=every)
    console.print(table)
    if is_summed:
        console.print("--every shows each piece on a line of its own.", style="dim")
    if (forecast := report.forecast) is not None:
        heading(console, "Prompt cache")
        console.print(forecast.sentence)
    heading(console, "Settings")
    settings = table_of("setting", "value", "from")
    for one in report.parameters:
        settings.add_row(one.name, one_line(readable(to_json(one.value)), max_chars=80), one.layer)
    console.print(settings)
    if report.warnings:
        heading(console, "Warnings")
    for warning in report.warnings:
        console.print(f"· {printable(warning)}", style="yellow")
    heading(console, "Checks")
    print_verdict(console, context.check(_known(provider)), provider or context.provider)
    if context.metadata.should_compact:
        console.print(f"Compaction is advised: {context.metadata.compaction_reason}.")


def _explain_cost(request: Request, budgets: list[str], *, as_json: bool) -> None:
    from context_assembler.forecast import CutPolicy

    manners = [(s, stable) for s in ("smart", "simple", "sliding") for stable in (True, False)]
    policies = [CutPolicy()]
    for budget in budgets or [""]:
        tokens, share = _budget(budget)
        policies += [CutPolicy(s, stable, tokens, share) for s, stable in manners]

    async def replay() -> Any:
        async with opened_assembler(request) as assembler:
            return await assembler.simulate(
                request.session_id, request.agent_id, policies=policies, **request.options
            )

    simulation = asyncio.run(replay())
    if as_json:
        print_json(simulation.to_json())
        return
    right = ("input", "fill", "read", "rewrites", "too big", "cost", "of everything")
    table = table_of("policy", *right, right=right)
    for run in simulation.distinct_runs:
        relative = simulation.relative_usd(run)
        table.add_row(
            run.name,
            f"{run.tokens:,}",
            f"{run.mean_fill:.0%}",
            f"{run.read_share:.1%}",
            f"{run.rewrites:,}",
            f"{run.overflows:,}",
            "–" if run.usd is None else f"${run.usd:.3g}",
            "–" if relative is None else f"{relative:.0%}",
        )
    console = people()
    steps = counted(len(simulation.everything.steps), "call")
    heading(console, f"Session {request.session_id} replayed for {simulation.model}: {steps}")
    console.print(table)
    console.print(
        "read: the share of the input that the prompt cache has; rewrites: calls that do not begin "
        "with all that the one before sent. Replies are not priced.",
        style="dim",
    )


def _budget(text: str) -> tuple[int | None, float | None]:
    """Return the tokens, or the share of the session, that a budget is written as."""
    if not text:
        return None, None
    number = text.removesuffix("%").replace(",", "").replace("_", "").strip()
    if not number.isdecimal() or int(number) == 0 or (text.endswith("%") and int(number) > 100):
        remedy = "Write tokens, such as 24000, or a share of the session, such as 50%."
        raise ConfigurationError(f"{text!r} is not a budget.", remedy=remedy)
    return (None, int(number) / 100) if text.endswith("%") else (int(number), None)


@app.command("check")
@takes_request
def check(request: Request, *, as_json: JsonFlag = False) -> None:
    """Say whether a session should be compacted.

    Exit code: 0 not needed, 10 needed, 11 it cannot help: system prompt and tools alone are over
    the threshold.
    """

    async def ask() -> Any:
        async with opened_assembler(request) as assembler:
            return await assembler.check_compaction(
                request.session_id, agent_id=request.agent_id, **request.options
            )

    answer = asyncio.run(ask())
    if as_json:
        print_json({**answer._asdict(), "details": to_json(answer.details)})
    else:
        console = people()
        verdict = f"needed: {answer.details['why']}" if answer.needed else "not needed"
        console.print(f"Compaction is {verdict}.", style="bold")
        console.print(
            f"{answer.current_tokens:,} tokens, threshold {answer.threshold:,}, of which "
            f"{answer.floor_tokens:,} cannot be freed."
        )
        if not answer.feasible:
            text = "It cannot help: the fixed part alone is over the threshold."
            console.print(text, style="red")
        for name, value in answer.details.items():
            if value is not None and name != "why":
                text = one_line(readable(to_json(value)), max_chars=200)
                console.print(f"  {name.replace('_', ' ')}: {text}")
    if not answer.feasible:
        raise typer.Exit(COMPACTION_INFEASIBLE)
    if answer.needed:
        raise typer.Exit(COMPACTION_NEEDED)


@app.command("lint-payload")
def lint_payload(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON; '-' reads stdin.")],
    provider: Provider = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="ID", help="By default the payload's own model."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check a payload against its provider's rules.

    Without --model, a payload that is plainly written for another provider is refused by name.
    Exit code: 12 if the provider would refuse it.
    """
    payload = read_json(file)
    if not isinstance(payload, dict):
        remedy = "A payload is a JSON object of keyword arguments."
        raise ConfigurationError(f"{file} is not a payload.", remedy=remedy)
    try:
        limits = get_model_limits(model or str(payload.get("model", "")))
    except UnknownModelError:
        if model:
            raise
        limits = None
    name = _known(provider) or (protocol_for(limits) if limits else None)
    if name is None:
        raise ConfigurationError(
            "The payload names no known model, so its provider is not clear.",
            remedy=f"Pass --provider, one of: {', '.join(PROVIDERS)}.",
        )
    today = datetime.now(tz=UTC).date()
    violations = check_payload(name, payload, limits=limits, today=today)
    shapes = ("A0", "C0", "G0", "R0")  # the rules about what a payload is made of
    if not model and violations and any(one.rule in shapes for one in violations):
        others = (n for n in PROVIDERS if not check_payload(n, payload, limits=limits, today=today))
        if (other := next(others, None)) is not None:
            raise ConfigurationError(
                f"{file} is written for {other}, not for {name}.",
                remedy=f"Pass --provider {other}, or the model that it is sent to with -m.",
            )
    if as_json:
        print_json([violation._asdict() for violation in violations])
    else:
        for line in violation_lines(violations):
            people().print(line)
        refused = sum(one.level == "refused" for one in violations)
        verb = "refuse" if refused else "accept"
        rules = counted(refused, "rule")
        avoid = len(violations) - refused
        people().print(f"{name} would {verb} it: {rules} broken, {avoid} to avoid.")
    _exit_if_refused(violations)
