"""A simulation as a picture: what each call holds, and what the session has cost by then."""

from collections.abc import Iterator, Sequence

from context_assembler.values.given import check_type
from context_assembler.values.line_charts import LineChart, Series, draw_charts
from context_assembler.values.simulations import SimulatedRun, Simulation


def draw_costs(simulation: Simulation) -> str:
    """Return an SVG document: input tokens and input cost, call by call, a line for each policy.

    A dot marks a call that does not begin with all that the call before sent.
    """
    check_type("simulation", simulation, Simulation, such_as="what simulate() returned")
    runs = simulation.distinct_runs
    tokens = LineChart(
        title=f"Input tokens of each call, for {simulation.model}",
        across="call (a dot: what was sent before is rewritten)",
        series=[_tokens(run) for run in runs],
    )
    if all(run.usd is None for run in runs):
        return draw_charts([tokens])
    costs = LineChart(
        title="Cost of the input so far",
        across="call",
        series=[Series(name=run.name, values=list(_sums(run))) for run in runs],
        unit="$",
    )
    return draw_charts([tokens, costs])


def _tokens(run: SimulatedRun) -> Series:
    values: Sequence[int | None] = [None if step.overflow else step.tokens for step in run.steps]
    marked = [at for at, step in enumerate(run.steps) if step.rewrite]
    return Series(name=run.name, values=values, marked=marked)


def _sums(run: SimulatedRun) -> Iterator[float | None]:
    """Yield what the calls up to each have cost; nothing from a call on whose price is not known.

    Nothing at all where no call fits: a line along zero would be the cheapest.
    """
    spent: float | None = None if run.is_never_sent else 0.0
    for step in run.steps:
        if not step.overflow:
            spent = None if spent is None or step.usd is None else spent + step.usd
        yield spent
