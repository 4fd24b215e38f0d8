"""`explain`: the window, and what became of every piece."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from context_assembler.cli.assembling import opened_assembler
from context_assembler.cli.cost import forecast_line, show_costs
from context_assembler.cli.ledger_view import (
    ledger_bar,
    ledger_legend,
    ledger_summary,
    ledger_table,
)
from context_assembler.cli.recorded_pieces import missing_pieces_warning
from context_assembler.cli.report_view import (
    parameters_table,
    runs_by_fate,
    runs_of,
    runs_table,
    single_runs,
    verdict,
)
from context_assembler.cli.request_options import JsonFlag, ProviderName, Request, takes_request
from context_assembler.cli.screen import one_line, people, print_heading, print_json, printable
from context_assembler.cli.setting_origins import setting_origins
from context_assembler.errors import ConfigurationError
from context_assembler.values.codec import to_json
from context_assembler.values.context import AssembledContext
from context_assembler.values.forecasts import CacheForecast
from context_assembler.values.parts import Json
from context_assembler.values.report import CompactionCheck, Report

_MOST_RUNS_SHOWN: Final = 16

app: Final = typer.Typer(add_completion=False)


@app.command()
@takes_request
def explain(
    request: Request,
    *,
    provider: ProviderName = None,
    every: Annotated[
        bool, typer.Option("--every", help="One line for every piece, none put together.")
    ] = False,
    cost: Annotated[
        bool,
        typer.Option(
            "--cost", help="Replay the whole session: what its calls cost, policy by policy."
        ),
    ] = False,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOKENS|SHARE%",
            help="With --cost: replay with this much room, as 24000 or 50%; repeatable.",
        ),
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --cost: write a chart of it here.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what fills the window, what was cut, and why.

    A dry run: what 'assemble' would send, piece by piece,
    with the layer behind each setting.
    """
    if cost:
        show_costs(request, budgets=budget or [], chart=svg, as_json=as_json)
        return
    if budget or svg is not None:
        raise ConfigurationError(
            "--budget and --svg belong to --cost.", remedy="Add --cost, or leave them out."
        )
    context, check = asyncio.run(_explained(request))
    origins = setting_origins(
        context.report.parameters, folder=request.config, agent_id=context.metadata.agent_id
    )
    if as_json:
        print_json(_as_json(context, origins))
        return
    console = people()
    if missing := missing_pieces_warning(context):
        console.print(printable(missing), style="yellow")
        console.print()
    _print_window(console, context)
    _print_pieces(console, context.report, every=every)
    _print_forecast(console, context.report.forecast)
    print_heading(console, "Settings")
    console.print(parameters_table(context.report.parameters, origins=origins))
    _print_checks(console, context, provider=provider)
    if check is not None:
        console.print(f"Compaction is advised: {check.details['why']}.")


async def _explained(request: Request) -> tuple[AssembledContext, CompactionCheck | None]:
    """Assemble what a request asks for; with the figures of the advice to compact, if it is given."""
    async with opened_assembler(request) as assembler:
        context = await assembler.assemble(
            request.session_id, agent_id=request.agent_id, **request.options
        )
        check = await assembler.check_compaction(
            request.session_id, agent_id=request.agent_id, **request.options
        )
        return context, check if check.needed else None


def _as_json(context: AssembledContext, origins: Mapping[str, str]) -> dict[str, Json]:
    report = to_json(context.report)
    missing = missing_pieces_warning(context)
    return {
        **report,
        "parameters": [{**row, "origin": origins[row["name"]]} for row in report["parameters"]],
        "warnings": [*([missing] if missing else []), *report["warnings"]],
        "forecast": to_json(context.report.forecast),
    }


def _print_window(console: Console, context: AssembledContext) -> None:
    ledger = context.report.ledger
    name = f"Session {context.metadata.session_id} for {context.metadata.model_id}"
    console.print(printable(name), style="bold")
    console.print(ledger_bar(ledger))
    console.print(ledger_legend(ledger))
    console.print(ledger_summary(ledger))
    console.print()
    console.print(ledger_table(ledger))


def _print_pieces(console: Console, report: Report, *, every: bool) -> None:
    print_heading(console, "Kept, shortened, dropped")
    runs = single_runs(report.entries) if every else runs_of(report.entries)
    if not every and len(runs) > _MOST_RUNS_SHOWN:
        runs = runs_by_fate(report.entries)
    console.print(runs_table(runs))
    if len(runs) < len(report.entries):
        console.print("--every shows each piece on a line of its own.", style="dim")


def _print_forecast(console: Console, forecast: CacheForecast | None) -> None:
    assert forecast is not None, "whatever is assembled has one"
    print_heading(console, "Prompt cache")
    console.print(forecast_line(forecast))
    if forecast.broken is not None:
        broken = forecast.broken
        console.print(
            f"It stops to be what the last call was at {broken.piece} "
            f"{one_line(broken.id, max_chars=48)}: {one_line(broken.reason, max_chars=240)}",
            style="yellow",
        )
    for remark in forecast.split.remarks:
        console.print(remark, style="dim")


def _print_checks(console: Console, context: AssembledContext, *, provider: str | None) -> None:
    warnings = context.report.warnings
    if warnings:
        print_heading(console, "Warnings")
    for warning in warnings:
        console.print(f"· {printable(warning)}", style="yellow")
    print_heading(console, "Checks")
    console.print(verdict(context.check(provider), provider=provider or context.provider))
