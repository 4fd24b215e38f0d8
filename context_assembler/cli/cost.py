"""What `explain --cost` shows: a session replayed under several policies, and what each costs."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final

from rich.table import Table
from rich.text import Text

from context_assembler.cli.assembling import opened_assembler
from context_assembler.cli.recorded_pieces import missing_pieces_warning, uncounted_tools_warning
from context_assembler.cli.request_options import Request
from context_assembler.cli.screen import (
    counted,
    notes,
    one_line,
    people,
    print_heading,
    print_json,
    print_note,
    printable,
)
from context_assembler.errors import AssemblyError, ConfigurationError
from context_assembler.simulation.charts import draw_costs
from context_assembler.values.codec import to_json
from context_assembler.values.forecasts import CacheForecast
from context_assembler.values.options import TruncationStrategy
from context_assembler.values.parts import Json
from context_assembler.values.simulations import CutPolicy, SimulatedRun, Simulation
from context_assembler.whole_files import written_whole

_MANNERS: Final[Sequence[tuple[TruncationStrategy, bool]]] = (
    ("smart", True),
    ("smart", False),
    ("simple", True),
    ("simple", False),
    ("sliding", True),
)


def show_costs(
    request: Request, *, budgets: Sequence[str], chart: Path | None, as_json: bool
) -> None:
    """Replay the session that a request names, and show what its calls would have cost."""
    if chart is not None and str(chart) == "-":
        raise ConfigurationError(
            "A chart is written to a file; stdout has the table, or the JSON.",
            remedy="Write --svg cost.svg.",
        )
    policies = list(_policies(budgets))
    simulation, warning = asyncio.run(_simulated(request, policies))
    if chart is not None:
        with written_whole(chart) as file:
            file.write(draw_costs(simulation).encode())
        print_note(f"The chart is in {chart}.")
    if as_json:
        told = simulation_json(simulation)
        print_json({**told, "warnings": [warning] if warning else []})
        return
    console = people()
    if warning:
        console.print(printable(warning), style="yellow")
        console.print()
    calls = len(simulation.everything.steps)
    print_heading(
        console,
        f"Session {one_line(request.session_id, max_chars=60)} replayed for {simulation.model}: "
        f"{counted(calls, 'call')}, the last of {simulation.everything.steps[-1].tokens if calls else 0:,} "
        "tokens",
    )
    console.print(costs_table(simulation))
    for remark in _remarks(simulation):
        console.print(remark, style="dim")


async def _simulated(
    request: Request, policies: Sequence[CutPolicy]
) -> tuple[Simulation, str | None]:
    """Replay the session, and say where that is about less than what it was with."""
    async with opened_assembler(request) as assembler:
        asked = (request.session_id, request.agent_id)
        # Without steps a policy cuts at every call: thousands of calls take minutes.
        with notes().status(f"Replaying the session under {len(policies):,} policies …"):
            simulation = await assembler.simulate(*asked, policies=policies, **request.options)
        options = {name: value for name, value in request.options.items() if name != "exact"}
        try:
            context = await assembler.assemble(*asked, **options)
        except AssemblyError:  # what cannot be assembled can be replayed all the same
            return simulation, None
        events = assembler.sessions.load(request.session_id)
        warning = missing_pieces_warning(context) or await uncounted_tools_warning(context, events)
        return simulation, warning


def _policies(budgets: Sequence[str]) -> Iterator[CutPolicy]:
    yield CutPolicy()
    for budget, (strategy, is_stable) in product(budgets or [""], _MANNERS):
        tokens, share = _read_budget(budget)
        yield CutPolicy(
            strategy=strategy, cache_stable=is_stable, budget_tokens=tokens, budget_share=share
        )


def _read_budget(budget: str) -> tuple[int | None, float | None]:
    """Return the tokens, or the share of the session, that a budget is written as."""
    if not budget:
        return None, None
    number = budget.removesuffix("%").replace(",", "").replace("_", "").strip()
    is_number = number.isdecimal() and int(number) > 0
    if is_number and budget.endswith("%") and int(number) > 100:
        raise ConfigurationError(
            f"{budget!r} is more than the whole session.",
            remedy="Write at most 100%, or tokens, such as 24000.",
        )
    if not is_number:
        raise ConfigurationError(
            f"{budget!r} is no budget.",
            remedy="Write tokens, such as 24000, or a share of the session, such as 50%.",
        )
    return (None, int(number) / 100) if budget.endswith("%") else (int(number), None)


def costs_table(simulation: Simulation) -> Table:
    """Return a row for sending everything and one for each policy."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("policy", overflow="fold")
    for name in ("input", "fill", "read", "rewrites", "too big", "cost", "of everything"):
        table.add_column(name, justify="right", no_wrap=True)
    runs = simulation.distinct_runs if _cuts_anything(simulation) else [simulation.everything]
    for run in runs:
        relative = simulation.relative_usd(run)
        table.add_row(
            run.name,
            f"{run.tokens:,}",
            f"{run.mean_fill:.0%}" if run is not simulation.everything else "–",
            f"{run.read_share:.1%}",
            f"{run.rewrites:,}",
            Text(_too_big(run), style="red" if run.overflows else ""),
            "–" if run.is_never_sent else spell_usd(run.usd),
            "–" if relative is None else f"{relative:.0%}",
        )
    return table


def _cuts_anything(simulation: Simulation) -> bool:
    """Whether any policy sends something else than everything."""
    whole = [step.tokens for step in simulation.everything.steps]
    return any([step.tokens for step in run.steps] != whole for run in simulation.runs)


def spell_usd(usd: float | None) -> str:
    """Return a price as people read it: to the cent, small ones to three figures."""
    if usd is None:
        return "unknown"
    return f"${usd:,.2f}" if usd >= 1 or usd == 0 else f"${usd:.3g}"


def _remarks(simulation: Simulation) -> Iterator[str]:
    everything = simulation.everything
    if not everything.steps:
        yield "No reply is recorded, so no call can be replayed."
        return
    if everything.why_unknown:
        yield everything.why_unknown
    if not _cuts_anything(simulation):
        yield "Nothing has to be cut: --budget 50% replays it with half of the room it takes."
    policies = Counter(_tell_overflows(run) for run in simulation.distinct_runs if run.overflows)
    for unsent, count in policies.items():
        yield f"{unsent} under {count} {'policy' if count == 1 else 'policies'}; they have no cost."
    yield (
        "read: the share of the input that the prompt cache has; rewrites: calls that do not begin "
        "with all that the one before sent. Replies are not priced."
    )


def _too_big(run: SimulatedRun) -> str:
    return f"{run.overflows:,} of {len(run.steps):,}" if run.overflows else "0"


def _tell_overflows(run: SimulatedRun) -> str:
    return f"{_too_big(run)} calls did not fit"


def forecast_line(forecast: CacheForecast) -> str:
    """Return what a call will find in the prompt cache, in one sentence."""
    split = forecast.split
    found = (
        f"{split.read_tokens:,} tokens will be read, {split.written_tokens:,} written, "
        f"{split.uncached_tokens:,} neither"
    )
    if forecast.price.usd is None:
        return f"{found}; the price is not known: {forecast.price.why_unknown}"
    plain = spell_usd(forecast.price.uncached_usd)
    return f"{found}: {spell_usd(forecast.price.usd)} ({plain} without a cache)."


def simulation_json(simulation: Simulation) -> dict[str, Json]:
    """Return all figures of a simulation, sums included."""
    return {
        "model": simulation.model,
        "session_tokens": simulation.session_tokens,
        "runs": [_run_json(simulation, run) for run in simulation.distinct_runs],
    }


def _run_json(simulation: Simulation, run: SimulatedRun) -> Json:
    return {
        "name": run.name,
        "policy": to_json(run.policy),
        "tokens": run.tokens,
        "shared_tokens": run.shared_tokens,
        "read_tokens": run.read_tokens,
        "written_tokens": run.written_tokens,
        "mean_fill": run.mean_fill,
        "rewrites": run.rewrites,
        "overflows": run.overflows,
        "usd": run.usd,
        "why_unknown": run.why_unknown,
        "relative_usd": simulation.relative_usd(run),
        "steps": to_json(run.steps),
    }
