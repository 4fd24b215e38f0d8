"""`simulate`: a whole session replayed, call by call, under several policies; pure from end to end."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from context_assembler.gathered import Gathered
from context_assembler.pipeline import ContextPipeline
from context_assembler.simulation.calls import split_segments
from context_assembler.simulation.payloads import Payloads
from context_assembler.simulation.steps import simulate_steps
from context_assembler.values.events import SessionEvent
from context_assembler.values.given import listed
from context_assembler.values.simulations import CutPolicy, SimulatedRun, Simulation
from context_assembler.values.standing import in_order, with_numbers

__all__ = ["EVERYTHING", "checked_policies", "simulate"]

EVERYTHING: Final = "everything"


def simulate(
    pipeline: ContextPipeline,
    gathered: Gathered,
    events: Iterable[SessionEvent],
    policies: Sequence[CutPolicy] | None = None,
) -> Simulation:
    """Return what every call of a session would have cost.

    Each reply of the session is the answer to a call that was made from what stands before it. System
    prompt and tools are those that hold at this moment, as if they had from the beginning; notes that
    are not recorded yet are left out. Where nothing of the history depends on what follows it – the
    rule – a step costs what is new in it.

    Args:
        gathered: What the session's next call is made from.
        events: All of them.
        policies: How histories are cut, by default as settled; a share of a budget is one of the whole session.
    """
    ordered = in_order(with_numbers(events))
    segments = list(split_segments(ordered))
    plain = replace(gathered.settled.options, additional_system_prompt=None)
    gathered = replace(gathered, settled=replace(gathered.settled, options=plain))
    whole = Payloads(pipeline=pipeline, gathered=gathered, is_bounded=False)
    steps = tuple(simulate_steps(whole, segments))
    everything = SimulatedRun(name=EVERYTHING, policy=CutPolicy(), steps=steps)
    session_tokens = max((step.tokens for step in steps), default=0)
    runs: list[SimulatedRun] = []
    for policy in (CutPolicy(),) if policies is None else policies:
        cut = _apply(gathered, policy, session_tokens=session_tokens)
        steps = tuple(simulate_steps(Payloads(pipeline=pipeline, gathered=cut), segments))
        runs.append(SimulatedRun(name=_name_of(cut, pipeline), policy=policy, steps=steps))
    return Simulation(
        model=gathered.limits.id,
        session_tokens=session_tokens,
        everything=everything,
        runs=tuple(runs),
    )


def checked_policies(given: Iterable[CutPolicy] | None) -> Sequence[CutPolicy] | None:
    """Return the policies, `None` where none are given.

    Raises:
        InvalidParameterError: Something among them is none.
    """
    if given is None:
        return None
    return listed("policies", given, CutPolicy, such_as="[CutPolicy(strategy='sliding'), …]")


def _apply(gathered: Gathered, policy: CutPolicy, *, session_tokens: int) -> Gathered:
    options = gathered.settled.options
    budget = policy.budget_tokens
    if policy.budget_share is not None:
        budget = max(1, int(policy.budget_share * session_tokens)) + (options.reserve_tokens or 0)
    options = replace(
        options,
        truncation_strategy=policy.strategy or options.truncation_strategy,
        cache_stable=(options.cache_stable if policy.cache_stable is None else policy.cache_stable),
        max_context_tokens=options.max_context_tokens if budget is None else budget,
    )
    return replace(gathered, settled=replace(gathered.settled, options=options))


def _name_of(gathered: Gathered, pipeline: ContextPipeline) -> str:
    settings = pipeline.truncation.asked(gathered.settled.options)
    manner = "in steps" if settings.cache_stable else "no steps"
    bound = gathered.settled.options.max_context_tokens
    return f"{settings.strategy}, {manner}, " + ("whole window" if bound is None else f"{bound:,}")
