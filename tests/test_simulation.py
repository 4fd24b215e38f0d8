"""A replayed session costs what it really cost: held against loops over HTTP and against assembling."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise, product
from typing import Any

import pytest

from context_assembler import ContextAssembler, CutPolicy, InvalidParameterError, draw_costs
from context_assembler.sessions import InMemoryStore
from context_assembler.testing import event_log, serve_providers
from context_assembler.values.events import CompactionBody, SessionEvent, UserBody
from context_assembler.values.options import TruncationStrategy
from context_assembler.values.parts import Base64Source, Image, Text
from context_assembler.values.simulations import SimulatedRun, SimulatedStep, Simulation
from context_assembler.values.standing import with_numbers
from tests.calling import call_model
from tests.test_agent_loop import QUESTIONS, read_log, script

MODEL = "claude-opus-5-5"
SMALL: dict[str, Any] = {"max_tokens": 1000, "max_context_tokens": 5000}
BOUND: dict[str, Any] = {"max_tokens": 1000, "max_context_tokens": 8000}
MODELS = ["claude-opus-5-5", "gpt-5.5", "deepseek-flash", "gemini-4-argon"]
HTTP_STEPS = 14
STRATEGIES: tuple[TruncationStrategy, ...] = ("smart", "simple", "sliding")
POLICIES = [
    CutPolicy(strategy=strategy, cache_stable=is_stable)
    for strategy, is_stable in product(STRATEGIES, (True, False))
]


def long_talk(*, turns: int = 40, words: int = 60) -> list[SessionEvent]:
    """Return questions with a call, its result and an answer each, some results bulky."""
    lines = ["S You are brief."]
    for turn in range(turns):
        size = words * (12 if turn % 5 == 0 else 1)
        lines += [
            f"U Question {turn}: " + "why is that so " * (words // 4),
            f"A[c{turn}:search] I look it up.",
            f"T[c{turn}] " + " ".join(f"found{turn}x{n}" for n in range(size)),
            f"A Answer {turn}: " + "because of this " * (words // 4),
        ]
    return list(event_log(*lines))


async def assembler_of(events: Sequence[SessionEvent]) -> ContextAssembler:
    store = InMemoryStore()
    await store.append("talk", events)
    return ContextAssembler(store)


async def simulated(
    events: Sequence[SessionEvent], *policies: CutPolicy, model: str = MODEL, **options: Any
) -> Simulation:
    assembler = await assembler_of(events)
    return await assembler.simulate("talk", policies=policies, model=model, **BOUND | options)


async def assembled_steps(
    events: Sequence[SessionEvent], *, model: str = MODEL, **options: Any
) -> list[tuple[int, int]]:
    """Return tokens and level of the call before each reply, each assembled for itself."""
    store = InMemoryStore()
    assembler = ContextAssembler(store)
    steps: list[tuple[int, int]] = []
    for event in events:
        if event.type == "assistant":
            context = await assembler.assemble("talk", model=model, **BOUND | options)
            steps.append((context.report.ledger.used_tokens, context.metadata.cut_level))
        await store.append("talk", [event])
    return steps


def sizes(run: SimulatedRun) -> list[tuple[int, int]]:
    return [(step.tokens, step.level) for step in run.steps]


@pytest.mark.parametrize("model", MODELS)
async def test_a_replay_sends_what_a_loop_over_http_has_sent(model: str) -> None:
    sent: list[int] = []
    with serve_providers(list(script())[:HTTP_STEPS]) as server:
        assembler = ContextAssembler(sessions="memory:", tools=[read_log])
        for step in range(HTTP_STEPS):
            if step in QUESTIONS:
                await assembler.add_user("loop", QUESTIONS[step])
            context = await assembler.assemble("loop", model=model, **SMALL)
            sent.append(context.report.ledger.used_tokens)
            reply = await call_model(server, context)
            for call in (await assembler.record("loop", reply, context))[-1].tool_calls:
                await assembler.add_tool_result("loop", call.call_id, read_log(**call.arguments))

        simulation = await assembler.simulate("loop", model=model, **SMALL)

    [run] = simulation.runs
    assert [step.tokens for step in run.steps] == sent
    assert run.rewrites >= 1


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: f"{p.strategy}-{p.cache_stable}")
async def test_every_policy_sends_what_assembling_step_by_step_sends(policy: CutPolicy) -> None:
    events = with_numbers(long_talk(turns=12))

    simulation = await simulated(events, policy)

    told: dict[str, Any] = {
        "truncation_strategy": policy.strategy,
        "cache_stable": policy.cache_stable,
    }
    assert sizes(simulation.runs[0]) == await assembled_steps(events, **told)
    assert simulation.runs[0].rewrites > 0


@pytest.mark.parametrize("model", ["claude-opus-5-5", "gpt-5.5", "gemini-4-argon"])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: f"{p.strategy}-{p.cache_stable}")
async def test_no_more_is_read_than_is_shared_and_all_of_it_where_a_step_only_adds(
    policy: CutPolicy, model: str
) -> None:
    [run] = (await simulated(long_talk(turns=12), policy, model=model)).runs

    least = {"claude-opus-5-5": 512, "gpt-5.5": 1024, "gemini-4-argon": 4096}[model]
    for before, step in pairwise(run.steps):
        assert step.forecast is not None
        assert step.forecast.split.total_tokens == step.tokens
        assert step.forecast.split.read_tokens <= step.shared_tokens
        if not step.rewrite and before.tokens >= least:
            assert step.forecast.split.read_tokens > before.tokens - 128


async def test_sending_everything_costs_what_no_bound_costs() -> None:
    events = with_numbers(long_talk(turns=10))

    simulation = await simulated(events)

    unbounded = await assembled_steps(events, max_context_tokens=None)
    assert sizes(simulation.everything) == unbounded
    assert simulation.everything.rewrites == 0
    assert simulation.session_tokens == unbounded[-1][0]


def broken_sessions() -> dict[str, list[SessionEvent]]:
    """Return sessions of which a step is not simply the beginning of a later one."""
    late = event_log(
        "U one", "A[c1] looking", "U are you there?", "A wait", "T[c1] " + "late " * 300, "A done"
    )
    picture = Image(source=Base64Source(data="aGVsbG8=", media_type="image/png"))
    seen = event_log("U look", "A nice", "U again", "A still nice")
    seen = (replace(seen[0], body=UserBody(parts=(picture, Text("look")))), *seen[1:])
    told = event_log("U one", "A two", "A three", "U four", "A five")
    summary = CompactionBody(summary="They said one and two.", first_seq=1, last_seq=2)
    compacted = [
        *event_log(*["U one " * 50, "A two " * 50, "U three", "A four", "U five", "A six"])
    ]
    compacted.insert(4, SessionEvent(body=summary))
    return {
        "a result that came late": list(late),
        "pictures": list(seen),
        "two replies in a row": list(told),
        "a compaction": compacted,
        "no reply": list(event_log("U one")),
    }


@pytest.mark.parametrize("name", broken_sessions())
@pytest.mark.parametrize("model", ["claude-opus-5-5", "deepseek-v4-pro"])
async def test_a_session_in_disorder_is_replayed_as_it_is_assembled(name: str, model: str) -> None:
    events = with_numbers(broken_sessions()[name])

    simulation = await simulated(events, CutPolicy(), model=model)

    assert sizes(simulation.runs[0]) == await assembled_steps(events, model=model)


async def test_a_compaction_is_a_rewrite() -> None:
    events = with_numbers(broken_sessions()["a compaction"])

    [run] = (await simulated(events, CutPolicy())).runs

    assert [bool(step.rewrite) for step in run.steps] == [False, False, True]
    assert "compaction" in run.steps[2].rewrite


async def test_a_step_that_cannot_fit_is_told_and_passed_over() -> None:
    talk = event_log("U one", "A two", "U " + "three " * 9000, "A four", "U five", "A six")

    [run] = (await simulated(list(talk), CutPolicy(budget_tokens=2000))).runs

    assert [bool(step.overflow) for step in run.steps] == [False, True, False]
    assert run.overflows == 1
    assert run.steps[1].usd is None
    assert run.usd is not None
    assert run.mean_fill > 0


async def test_what_some_steps_cost_is_not_held_against_what_all_would() -> None:
    talk = event_log("U one", "A two", "U " + "three " * 9000, "A four", "U five", "A six")

    simulation = await simulated(list(talk), CutPolicy(budget_tokens=2000))

    assert simulation.everything.usd
    assert simulation.relative_usd(simulation.runs[0]) is None


async def test_instructions_that_leave_no_room_are_told_at_every_step() -> None:
    [run] = (await simulated(long_talk(turns=2), CutPolicy(budget_tokens=1))).runs

    assert [step.tokens for step in run.steps] == [0] * 4
    assert run.overflows == 4
    assert run.mean_fill == run.read_share == 0


async def test_a_policy_under_which_no_step_fits_is_not_the_cheapest() -> None:
    simulation = await simulated(long_talk(turns=2), CutPolicy(budget_tokens=1))

    [run] = simulation.runs
    assert (run.usd, simulation.relative_usd(run)) == (None, None)
    assert run.why_unknown == "4 of 4 calls did not fit."
    costs = draw_costs(simulation).partition("Cost of the input so far")[2]
    assert f"<title>{simulation.everything.name}</title>" in costs
    assert f"<title>{run.name}</title>" not in costs


async def test_an_own_budget_is_a_share_of_the_whole_session() -> None:
    simulation = await simulated(long_talk(), CutPolicy(budget_share=0.5, strategy="simple"))

    [run] = simulation.runs
    assert run.steps[0].budget_tokens == simulation.session_tokens // 2
    assert run.name == f"simple, in steps, {simulation.session_tokens // 2:,}"
    assert max(step.fill for step in run.steps) <= 1


async def test_cuts_in_steps_keep_more_of_the_prefix_than_cuts_at_every_call() -> None:
    stable = CutPolicy(cache_stable=True, budget_share=0.4)

    simulation = await simulated(long_talk(), stable, replace(stable, cache_stable=False))

    in_steps, at_every_call = simulation.runs
    assert in_steps.written_tokens < at_every_call.written_tokens
    grown = [now.shared_tokens == before.tokens for before, now in pairwise(in_steps.steps)]
    assert grown == [not step.rewrite for step in in_steps.steps[1:]]
    assert sum(grown) > 0.9 * len(grown)
    assert (
        in_steps.shared_tokens / in_steps.tokens
        > at_every_call.shared_tokens / at_every_call.tokens
    )
    assert (in_steps.usd or 0) < (at_every_call.usd or 0)


async def test_a_price_that_is_not_known_is_none_with_the_reason() -> None:
    simulation = await simulated(
        long_talk(turns=3), CutPolicy(), model="nobodys-model", unknown_model="conservative"
    )

    assert simulation.everything.usd is None
    assert "has no price" in simulation.runs[0].why_unknown
    assert simulation.relative_usd(simulation.runs[0]) is None
    assert simulation.relative_tokens(simulation.runs[0]) == 1


async def test_a_pause_longer_than_the_lifetime_costs_the_cache() -> None:
    quick = long_talk(turns=6)
    slow = [
        replace(e, created_at=e.created_at + timedelta(hours=2)) if at > 12 and e.created_at else e
        for at, e in enumerate(quick)
    ]

    fast, late = [(await simulated(talk)).everything for talk in (quick, slow)]

    assert late.read_tokens < fast.read_tokens
    assert (late.usd or 0) > (fast.usd or 0)
    assert late.shared_tokens == fast.shared_tokens


async def test_a_note_for_one_call_is_left_out_of_a_replay() -> None:
    talk = long_talk(turns=3)

    plain = await simulated(talk, CutPolicy())
    noted = await simulated(talk, CutPolicy(), additional_system_prompt="Today you rhyme.")

    assert sizes(plain.runs[0]) == sizes(noted.runs[0])


@pytest.mark.parametrize(
    "wrong",
    [
        {"strategy": "clever"},
        {"budget_tokens": 0},
        {"budget_share": 1.5},
        {"budget_tokens": 9, "budget_share": 0.5},
    ],
)
def test_a_policy_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError):
        CutPolicy(**wrong)


def test_runs_of_one_name_are_shown_once() -> None:
    run = SimulatedRun(name="smart", policy=CutPolicy(), steps=(SimulatedStep(seq=1, tokens=5),))
    everything = replace(run, name="everything")

    simulation = Simulation(
        model="m", session_tokens=5, everything=everything, runs=(run, replace(run, steps=()))
    )

    assert simulation.distinct_runs == (everything, run)
    assert run.steps[0].fill == 0
    assert run.steps[0].shared_share == 0
    assert (
        Simulation(model="m", session_tokens=0, everything=replace(run, steps=())).relative_tokens(
            run
        )
        == 1
    )
