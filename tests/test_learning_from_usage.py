"""A loop whose counts are corrected by what it is charged."""

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler import AssembledContext, ContextAssembler
from context_assembler.config import AssemblerConfig
from context_assembler.limits import get_model_limits
from context_assembler.ports import CalibrationStore, TokenCounter
from context_assembler.stages.split_window import add_messages, anchor, measure_window
from context_assembler.sync import run_sync
from context_assembler.tokens import calibrate, counter_for
from context_assembler.values.calibration import UsageObservation, learn
from context_assembler.values.events import AssistantBody, Provenance, SessionEvent, Usage
from context_assembler.values.factors import TokenFactors, read_factors
from context_assembler.values.messages import Message
from context_assembler.values.parts import Text
from context_assembler.values.prompt import SystemPrompt

MODEL = "claude-sonnet-4-5"
WINDOW: dict[str, Any] = {"max_context_tokens": 12_000, "max_tokens": 100}
WILD = [
    1.4,
    1.4,
    1.4,
    2.9,
    0.4,
    2.9,
    2.9,
    2.9,
    0.5,
    1.4,
    1.4,
    2.8,
    1.4,
    0.6,
    1.4,
    1.4,
    2.9,
    0.4,
    2.9,
]
WORDS = Path(__file__).read_text("utf-8").split()


def prose(seed: object, words: int) -> str:
    return " ".join(random.Random(str(seed)).choices(WORDS, k=words))


def answer(text: str, charged_tokens: int) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": charged_tokens, "output_tokens": 10},
    }


def truth(context: AssembledContext, *, ratio: float = 1.4) -> int:
    """Count a payload as an exact tokenizer of another vendor does, times what nobody is told."""
    exact = counter_for(get_model_limits("gpt-4o"))
    texts = [exact.count_text(message.text) + 7 for message in context.messages]
    return round(ratio * (sum(texts) + exact.count_text(context.system_prompt) + 11))


@pytest.fixture
async def assembler(tmp_path: Path) -> AsyncIterator[ContextAssembler]:
    opened = ContextAssembler(f"sqlite:{tmp_path / 'agent.db'}", config=AssemblerConfig())
    yield opened
    await opened.close()


async def step(
    assembler: ContextAssembler, turn: int, *, ratio: float = 1.4, **options: Any
) -> AssembledContext:
    await assembler.add_user("trip", prose(turn, 300))
    context = await assembler.assemble("trip", model=MODEL, **options)
    reply = answer(prose(-turn, 100), truth(context, ratio=ratio))
    await assembler.record("trip", reply, context)
    return context


async def events_of(assembler: ContextAssembler) -> list[SessionEvent]:
    return [event async for event in assembler.sessions.load("trip")]


async def test_counts_come_near_what_is_charged(assembler: ContextAssembler) -> None:
    contexts = [await step(assembler, turn) for turn in range(16)]

    ledgers = [context.metadata.ledger for context in contexts]
    first, last = ledgers[0].used_tokens, ledgers[-1].used_tokens
    before = abs(first / truth(contexts[0]) - 1)
    assert abs(last / truth(contexts[-1]) - 1) < before
    assert ledgers[0].factor == 1.0 != ledgers[-1].factor


async def test_the_factor_in_force_is_stored_with_each_reply(assembler: ContextAssembler) -> None:
    contexts = [await step(assembler, turn) for turn in range(8)]

    replies = [event.body for event in await events_of(assembler) if event.origin == "model"]
    stored = [
        body.made_by.token_factor or 1.0
        for body in replies
        if isinstance(body, AssistantBody) and body.made_by
    ]
    assert stored == [context.metadata.ledger.factor for context in contexts]


async def test_switched_off_nothing_is_learned(tmp_path: Path) -> None:
    config = AssemblerConfig(calibrates_tokens=False)
    assembler = ContextAssembler(f"sqlite:{tmp_path / 'agent.db'}", config=config)

    contexts = [await step(assembler, turn) for turn in range(6)]

    assert {context.metadata.ledger.factor for context in contexts} == {1.0}
    assert all(
        e.body.made_by.token_factor is None
        for e in await events_of(assembler)
        if isinstance(e.body, AssistantBody) and e.body.made_by
    )
    await assembler.close()


async def test_usage_of_small_or_cut_calls_teaches_nothing(assembler: ContextAssembler) -> None:
    await assembler.add_user("trip", "hi")
    context = await assembler.assemble("trip", model=MODEL)
    await assembler.record("trip", answer("hello", 5_000), context)
    await assembler.add_user("trip", prose(1, 2_000))
    context = await assembler.assemble("trip", model=MODEL)
    await assembler.record("trip", {**answer("so", 9_000), "stop_reason": None}, context)

    assert isinstance(assembler.sessions, CalibrationStore)
    assert not await assembler.sessions.calibrations()


async def test_an_outlier_changes_no_payload_that_was_sent(assembler: ContextAssembler) -> None:
    contexts = [await step(assembler, turn, ratio=r, **WINDOW) for turn, r in enumerate(WILD)]

    assert len({context.metadata.ledger.factor for context in contexts}) > 3
    rewritten = 0
    for before, after in pairwise(contexts):
        sent, grown = (
            [plain(message) for message in context.to_anthropic()["messages"]]
            for context in (before, after)
        )
        is_same = before.metadata.cut_level == after.metadata.cut_level
        rewritten += not is_same
        assert not is_same or grown[: len(sent)] == sent
    assert 0 < rewritten < len(WILD) / 2


async def test_replaying_any_step_gives_the_payload_that_was_sent(
    assembler: ContextAssembler,
) -> None:
    contexts = [await step(assembler, turn, ratio=r, **WINDOW) for turn, r in enumerate(WILD)]
    events = await events_of(assembler)
    gathered = await assembler._assembling._before.gather("trip", None, {"model": MODEL, **WINDOW})

    for context in contexts:
        last_seq = context.metadata.last_seq
        factor = read_factors(events, model=gathered.limits.id).at(last_seq)
        then = replace(gathered, last_seq=last_seq, token_factor=factor)
        replayed = assembler._assembling._pipeline.make(then, events[:last_seq]).context

        assert replayed.to_anthropic() == context.to_anthropic()
        assert replayed.metadata.cut_level == context.metadata.cut_level


async def test_two_processes_over_one_store_agree(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'agent.db'}"
    one, other = ContextAssembler(url), ContextAssembler(url)

    for turn in range(8):
        sent = await step(one, turn, **WINDOW)
        await one.add_user("trip", prose(f"b{turn}", 50))
        contexts = [await each.assemble("trip", model=MODEL, **WINDOW) for each in (one, other)]
        assert contexts[0].to_anthropic() == contexts[1].to_anthropic()
        assert sent.metadata.ledger.counter == contexts[0].metadata.ledger.counter
    await one.close()
    await other.close()


def plain(message: dict[str, Any]) -> Any:
    """Return the message without its cache markers."""
    content = message["content"]
    if isinstance(content, str):
        return message["role"], [{"type": "text", "text": content}]
    return message["role"], [
        {key: value for key, value in block.items() if key != "cache_control"} for block in content
    ]


# --- the anchored total ---------------------------------------------------------------------------


def simulate(seed: int, *, ratio: float, turns: int = 30) -> list[tuple[float, float, float]]:
    """Return for each turn the errors of the plain, the corrected and the anchored total."""
    ours: TokenCounter = counter_for(get_model_limits(MODEL))
    exact = counter_for(get_model_limits("gpt-4o"))
    limits, drawn = get_model_limits(MODEL), random.Random(seed)
    system = SystemPrompt(text=prose(seed, 400))
    messages: list[Message] = []
    errors: list[tuple[float, float, float]] = []
    known = None

    def charged() -> int:
        texts = sum(exact.count_text(message.text) + 6 for message in messages)
        return round(ratio * (texts + exact.count_text(system.text)) + 37)

    for turn in range(turns):
        for part in range(drawn.randint(1, 4)):
            said = Text(prose(f"{seed} {turn} {part}", drawn.randint(20, 400)))
            messages.append(Message(role="user", parts=(said,), seq=len(messages) + 1))
        counter = calibrate(ours, TokenFactors(current=known.factor if known else 1.0))
        ledger, corrected = (
            add_messages(
                measure_window(limits, system=system, tools=(), counter=each, max_tokens=0),
                messages,
                counter=each,
            )
            for each in (ours, counter)
        )
        prints = [str(n) for n in range(len(messages) + 1)]
        anchored = anchor(corrected, messages, fingerprints=prints, limits=limits, counter=counter)
        tokens = charged()
        totals = (ledger.used_tokens, corrected.used_tokens, anchored.expected_tokens)
        errors.append((totals[0] / tokens - 1, totals[1] / tokens - 1, totals[2] / tokens - 1))
        seen = UsageObservation(
            provider="anthropic",
            model=MODEL,
            shape="text",
            counter="c",
            counted_tokens=ledger.used_tokens,
            reported_tokens=tokens,
        )
        known = learn(known, seen)
        made_by = Provenance(
            provider="anthropic",
            model=limits.id,
            prefix_fingerprint=str(len(messages)),
            usage=Usage(input_tokens=tokens),
        )
        reply = Text(prose(f"{seed} {turn} r", drawn.randint(20, 200)))
        messages.append(
            Message(role="assistant", parts=(reply,), made_by=made_by, seq=len(messages) + 1)
        )
    return errors


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1_000), ratio=st.sampled_from([0.8, 1.0, 1.24, 1.55, 1.8]))
def test_the_anchored_total_is_within_one_percent(seed: int, ratio: float) -> None:
    settled = simulate(seed, ratio=ratio)[5:]

    plain, corrected, anchored = (
        sum(abs(errors[which]) for errors in settled) / len(settled) for which in range(3)
    )

    assert anchored <= 0.01
    assert corrected <= max(plain, 0.05)


def test_the_sync_face_learns_as_well(tmp_path: Path) -> None:
    assembler = ContextAssembler(f"sqlite:{tmp_path / 'agent.db'}")

    async def talk() -> float:
        contexts = [await step(assembler, turn) for turn in range(6)]
        await assembler.close()
        return contexts[-1].metadata.ledger.factor

    assert run_sync(talk()) != 1.0
