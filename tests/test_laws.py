"""Laws of the whole: any session, any strategy, either provider, through the facade."""

import asyncio
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Final, TypeAlias

import anthropic
import openai
import pytest
from hypothesis import Phase, assume, event, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from context_assembler import (
    AssembledContext,
    AssemblerConfig,
    ContextAssembler,
    ContextOverflowError,
    EmptySessionError,
    InMemoryStore,
    Opaque,
    SessionEvent,
    TokenCounter,
    ToolCall,
    Truncator,
    assistant_event,
    get_model_limits,
    open_store,
    system_event,
    tool_result_event,
    user_event,
)
from context_assembler.testing import ProviderServer, ScriptedReply, serve_providers
from context_assembler.truncation import TRUNCATIONS
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    EventBatch,
    Provenance,
    Session,
    SessionHead,
    UserBody,
)
from context_assembler.values.options import TruncationSettings, TruncationStrategy
from context_assembler.values.parts import FileIdSource, Image, Part, Text, Thinking
from tests.strategies import broken_event_logs, event_logs
from tests.test_cases import (
    MODELS,
    as_events,
    assert_only_grew,
    assert_promised,
    breaches,
    sent,
    wire_of,
    words,
)

# A failing example may be long; a warning about that would hide the failure.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

ROOT: Final = Path(__file__).parents[1]

every_provider = pytest.mark.parametrize("provider", MODELS)
every_way = pytest.mark.parametrize(("strategy", "provider"), list(product(TRUNCATIONS, MODELS)))
shares = st.integers(1, 105).map(lambda percent: percent / 100)
policies = st.sampled_from(["error", "shorten"])


def search_flights(city: str = "", page: int = 0) -> str:
    """Search flights to a city."""
    return f"{city} {page}"


class AsItIs(InMemoryStore):
    """A store of someone else's, which returns events just as it was given them.

    It hands them out at once: whoever yields them one by one out of order is told so.
    """

    def __init__(self, events: Iterable[SessionEvent]) -> None:
        super().__init__()
        self._events = tuple(events)

    async def head(self, session_id: str) -> SessionHead:
        last_seq = max((stored.seq for stored in self._events), default=0)
        return SessionHead(session=Session(id=session_id), last_seq=last_seq)

    async def read_batch(
        self, session_id: str, *, after_seq: int = 0, until_seq: int | None = None
    ) -> EventBatch:
        assert session_id
        assert until_seq is not None
        events = (one for one in self._events if one.seq > after_seq or not one.seq)
        return EventBatch(
            events=tuple(one for one in events if one.seq <= until_seq), incarnation=""
        )


@cache
def _config() -> AssemblerConfig:
    return AssemblerConfig()


def unstored(events: Iterable[SessionEvent]) -> list[SessionEvent]:
    return [replace(stored, id="", seq=0) for stored in events]


async def _assemble(
    events: Sequence[SessionEvent], *, model: str, is_foreign: bool, **options: Any
) -> AssembledContext:
    store = AsItIs(events) if is_foreign else InMemoryStore()
    if not is_foreign:
        await store.create(Session(id="s"))
        await store.append("s", unstored(events))
    assembler = ContextAssembler(store, tools=[search_flights], config=_config())
    return await assembler.assemble("s", model=model, **options)


def assemble(
    events: Sequence[SessionEvent], *, model: str, is_foreign: bool = False, **options: Any
) -> AssembledContext:
    """Assemble a session of these events; one of which nothing can be sent is no case for a law."""
    try:
        context = asyncio.run(_assemble(events, model=model, is_foreign=is_foreign, **options))
        assert all(context.to_request(provider) for provider in MODELS)
    except EmptySessionError:
        assume(condition=False)
        raise
    return context


def attempt(
    events: Sequence[SessionEvent], *, model: str, is_foreign: bool, **options: Any
) -> AssembledContext | ContextOverflowError:
    """Assemble a session that has something to send, or return why it cannot fit."""
    try:
        return asyncio.run(_assemble(events, model=model, is_foreign=is_foreign, **options))
    except ContextOverflowError as error:
        return error


def bounded(whole: AssembledContext, share: float) -> int:
    """Return the fixed part and this share of the room that the whole history takes."""
    ledger = whole.metadata.ledger
    return ledger.fixed_tokens + int(share * (ledger.used_tokens - ledger.fixed_tokens))


# ---- valid, within budget, nothing vital lost ----


@every_way
@settings(max_examples=12)
@given(events=broken_event_logs, share=shares, data=st.data())
def test_any_broken_session_comes_out_valid_and_within_budget(
    strategy: str, provider: str, events: list[SessionEvent], share: float, data: st.DataObject
) -> None:
    is_foreign, on_overflow = data.draw(st.booleans()), data.draw(policies)
    events = [with_readable_blocks(stored) for stored in events]
    model = MODELS[provider]
    whole = assemble(events, model=model, is_foreign=is_foreign)
    budget = bounded(whole, share)

    cut = attempt(
        events,
        model=model,
        is_foreign=is_foreign,
        truncation_strategy=strategy,
        max_context_tokens=budget,
        on_overflow=on_overflow,
    )

    assert_promised(whole)
    if isinstance(cut, ContextOverflowError):
        assert cut.needed_tokens > cut.budget_tokens
        assert cut.remedy
    else:
        assert_promised(cut, budget=budget, system=whole.system_prompt)
        assert lost_by(whole, cut, keeps_task=strategy == "smart") == []


def with_readable_blocks(stored: SessionEvent) -> SessionEvent:
    """Give blocks of a provider's own in the user's turns a text that others can read."""
    if not isinstance(stored.body, UserBody):
        return stored
    parts = tuple(
        replace(part, text=part.text or "ran code") if isinstance(part, Opaque) else part
        for part in stored.parts
    )
    return replace(stored, body=replace(stored.body, parts=parts))


@every_provider
def test_a_turn_that_cannot_be_told_is_no_silent_loss(provider: str) -> None:
    block = Opaque(provider="gemini", block={"executable_code": {"code": "1"}})

    context = assemble([user_event(block), system_event("Mind.")], model=MODELS[provider])

    assert context.report.changed
    assert breaches(context.to_openai_chat(), "openai_chat") == []


def lost_by(whole: AssembledContext, cut: AssembledContext, *, keeps_task: bool) -> list[str]:
    """Return what a cut may not leave out and did."""
    kept = {message.id for message in cut.messages}
    messages = whole.messages
    asked = [at for at, message in enumerate(messages) if message.is_from_user]
    turns = [at for at, message in enumerate(messages) if message.role in ("user", "assistant")]
    spoken = [at for at in turns if messages[at].kind != "note"]
    in_flight = [at for at in spoken[-1:] if messages[at].role == "assistant"]
    vital = (*(asked[:1] if keeps_task else ()), *asked[-1:], *in_flight)
    return [messages[at].id for at in vital if messages[at].id not in kept]


@every_way
@settings(max_examples=8)
@given(events=event_logs)
def test_within_the_budget_nothing_is_changed(
    strategy: str, provider: str, events: list[SessionEvent]
) -> None:
    model = MODELS[provider]
    whole = assemble([without_thinking(stored) for stored in events], model=model)
    used = whole.metadata.ledger.used_tokens

    bound = assemble(
        [without_thinking(stored) for stored in events],
        model=model,
        truncation_strategy=strategy,
        max_context_tokens=used,
    )

    assert sent(bound) == sent(whole)
    assert not bound.metadata.truncated
    assert bound.messages == whole.messages


def without_thinking(stored: SessionEvent) -> SessionEvent:
    if not isinstance(stored.body, AssistantBody):
        return stored
    parts = tuple(part for part in stored.parts if not isinstance(part, Thinking))
    return replace(stored, body=replace(stored.body, parts=parts or (Text("Done."),)))


def test_reasoning_that_is_not_sent_takes_no_room() -> None:
    block = {"type": "thinking", "thinking": "", "signature": "Eq" * 2_000}
    made_by = Provenance(
        provider="anthropic", model=MODELS["anthropic"], prefix_fingerprint="of another epoch"
    )
    reply = (Thinking(provider="anthropic", block=block), Text("Another."))
    events = [
        *(user_event("The task."), assistant_event("An answer."), user_event("More.")),
        *(assistant_event(reply, made_by=made_by), user_event("Go on.")),
    ]
    whole = assemble(events, model=MODELS["anthropic"])
    used = whole.metadata.ledger.used_tokens

    bound = assemble(events, model=MODELS["anthropic"], max_context_tokens=used)

    assert bound.messages == whole.messages


def _can_be_told(part: Part, provider: str) -> bool:
    """Whether a part goes along: no reasoning, and nothing that another provider alone understands.

    The lines that stand for such things do not count either.
    """
    match part:
        case Opaque():
            return part.provider == provider or bool(part.text.strip())
        case Image(source=FileIdSource()):
            return provider == "anthropic"  # whose file ids they are
        case Text(text=text):
            return " left out: " not in text
        case _:
            return not isinstance(part, Thinking)


@every_provider
@settings(max_examples=15)
@given(events=event_logs)
def test_what_needs_no_repair_is_sent_in_full(provider: str, events: list[SessionEvent]) -> None:
    """All but reasoning, whose signatures a made-up session cannot have right."""
    events = [stored for stored in events if not isinstance(stored.body, CompactionBody)]

    context = assemble(events, model=MODELS[provider])

    has_system = events[0].type == "system"
    stored_parts = [part for stored in events[has_system:] for part in stored.parts]
    sent_parts = [part for message in context.messages if message.seq for part in message.parts]
    told_parts = [part for part in sent_parts if _can_be_told(part, provider)]
    assert told_parts == [
        _as_told(part, context.provider) for part in stored_parts if _can_be_told(part, provider)
    ]
    assert context.system_prompt == (events[0].text if has_system else "")


def _as_told(part: Part, provider: str) -> Part:
    """Return the part as this provider is told it: another one's block is its text."""
    if isinstance(part, Opaque) and part.provider != provider:
        return Text(part.text)
    return part


@every_provider
@settings(max_examples=20)
@given(events=broken_event_logs)
def test_repairing_what_was_repaired_changes_nothing(
    provider: str, events: list[SessionEvent]
) -> None:
    events = [stored for stored in events if not isinstance(stored.body, CompactionBody)]
    repaired = assemble(events, model=MODELS[provider])
    assume(repaired.messages[0].role != "system")
    system = [system_event(repaired.system_prompt)] if repaired.system_prompt else []

    again = assemble([*system, *as_events(repaired.messages)], model=MODELS[provider])

    assert sent(again) == sent(repaired)
    assert not again.report.changed


# ---- the same bytes ----

PROGRAM: Final = """
import asyncio, hashlib, json, sys
from context_assembler import ContextAssembler, ContextOverflowError, EmptySessionError

def search_flights(city: str = "", page: int = 0) -> str:
    "Search flights to a city."
    return ""

async def outcome(assembler, name, **options):
    try:
        context = await assembler.assemble(
            name, max_context_tokens=900, on_overflow="shorten", **options
        )
    except (ContextOverflowError, EmptySessionError) as error:
        return str(error)
    payloads = json.dumps([context.to_anthropic(), context.to_openai_chat()])
    return payloads + repr(context.report.entries)

async def main(location, models, strategies):
    async with ContextAssembler(location, tools=[search_flights]) as assembler:
        for head in await assembler.sessions.list_sessions():
            for model in models:
                for strategy in strategies:
                    name = head.session.id
                    text = await outcome(
                        assembler, name, model=model, truncation_strategy=strategy
                    )
                    digest = hashlib.sha256(text.encode()).hexdigest()
                    print(name, model, strategy, digest)

asyncio.run(main(sys.argv[1], sys.argv[2].split(), sys.argv[3].split()))
"""


def drawn_logs(count: int) -> list[list[SessionEvent]]:
    """Return logs, the same at every run."""
    logs: list[list[SessionEvent]] = []

    @settings(max_examples=count, phases=[Phase.generate], database=None, derandomize=True)
    @given(log=broken_event_logs)
    def draw(log: list[SessionEvent]) -> None:
        logs.append(log)

    draw()
    return logs


async def _keep(logs: Iterable[Sequence[SessionEvent]], location: str) -> None:
    store = open_store(location)
    for number, log in enumerate(logs):
        await store.create(Session(id=f"s{number}"))
        await store.append(f"s{number}", unstored(log))
    await store.close()


def digests(location: str, strategies: Iterable[str], *, hash_seed: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, location, " ".join(MODELS.values()), " ".join(strategies)],
        check=True,
        cwd=Path(location.removeprefix("sqlite:")).parent,
        env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        encoding="utf-8",
        timeout=100,
    )
    return sorted(done.stdout.splitlines())


def test_broken_sessions_give_the_same_bytes_and_reports_in_every_process(tmp_path: Path) -> None:
    location = f"sqlite:{tmp_path / 'sessions.db'}"
    logs = drawn_logs(25)
    asyncio.run(_keep(logs, location))

    first = digests(location, TRUNCATIONS, hash_seed="1")
    second = digests(location, reversed(list(TRUNCATIONS)), hash_seed="77")

    assert len(first) == len(logs) * len(MODELS) * len(TRUNCATIONS)
    assert len({line.split()[-1] for line in first}) > len(logs)
    assert first == second


# ---- only growing ----

Step: TypeAlias = tuple[str, int]
histories: SearchStrategy[list[Step]] = st.lists(
    st.tuples(st.sampled_from(["asks", "calls", "calls", "calls", "both"]), st.integers(1, 150)),
    min_size=6,
    max_size=16,
)


def grown(history: Sequence[Step]) -> Iterator[list[SessionEvent]]:
    """Yield what each step adds: what the user says, or a set of calls with their results."""
    yield [user_event("Find me a way to Faro.")]
    for number, (kind, size) in enumerate(history):
        if kind == "asks":
            yield [assistant_event(f"Answer {number}."), user_event(words(size, "ask"))]
            continue
        ids = [f"call_{number}_{n}" for n in range(2 if kind == "both" else 1)]
        calls = [ToolCall(call_id=i, name="search_flights", arguments={"city": i}) for i in ids]
        yield [
            assistant_event((Text("Let me see."), *calls)),
            *(tool_result_event(i, words(size * (1 + 2 * n))) for n, i in enumerate(ids)),
        ]


def level_of(context: AssembledContext, whole: AssembledContext, strategy: str) -> int:
    """Return the level that the context was cut at; the same cut made by hand vouches for it."""
    truncation = Truncator(TruncationSettings(strategy=strategy, on_overflow="shorten")).truncate(
        whole.messages,
        room_tokens=context.metadata.ledger.room_tokens,
        counter=TokenCounter(
            get_model_limits(context.metadata.model_id), protocol=context.provider
        ),
    )
    assert truncation.messages == context.messages
    return truncation.level


async def _walk(
    history: Sequence[Step], *, strategy: TruncationStrategy, provider: str, room: int
) -> list[tuple[int, AssembledContext]]:
    assembler = ContextAssembler(tools=[search_flights], config=_config())
    walked: list[tuple[int, AssembledContext]] = []
    for added in grown(history):
        await assembler.sessions.append("s", added)
        whole = await assembler.assemble("s", model=MODELS[provider])
        context = await assembler.assemble(
            "s",
            model=MODELS[provider],
            truncation_strategy=strategy,
            max_context_tokens=whole.metadata.ledger.fixed_tokens + room,
            on_overflow="shorten",
        )
        walked.append((level_of(context, whole, strategy), context))
    return walked


@every_way
@settings(max_examples=3)
@given(history=histories, room=st.integers(700, 2_500))
def test_while_the_cut_stays_each_payload_is_the_one_before_plus_messages(
    strategy: TruncationStrategy, provider: str, history: list[Step], room: int
) -> None:
    walked = asyncio.run(_walk(history, strategy=strategy, provider=provider, room=room))

    for (level, before), (next_level, after) in pairwise(walked):
        event(f"uncut {level == 0}, cut stays {level == next_level}")
        if level == next_level:
            assert_only_grew(before, after)


# ---- recorded loops ----


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One step of a loop: what the model answers, and what befalls the loop around it."""

    model: str
    calls: int
    thinks: bool
    says: bool
    dies: bool  # before a result is stored; the user writes again
    adds_note: bool  # an instruction for this call alone
    restarts: bool
    size: int


LOOP_MODELS: Final = ("claude-opus-5-5", "claude-opus-5", "claude-haiku-4-5", "gpt-4.1")
seldom = st.integers(0, 7).map(lambda number: number == 7)
loops: SearchStrategy[list[Act]] = st.lists(
    st.builds(
        Act,
        model=st.sampled_from(LOOP_MODELS),
        calls=st.integers(0, 3),
        thinks=st.booleans(),
        says=st.booleans(),
        dies=seldom,
        adds_note=seldom,
        restarts=seldom,
        size=st.integers(1, 400),
    ),
    min_size=4,
    max_size=10,
)


def played(loop: Sequence[Act]) -> Iterator[ScriptedReply]:
    for number, act in enumerate(loop):
        calls = tuple(
            ToolCall(call_id=f"call_{number}_{n}", name="search_flights", arguments={"page": n})
            for n in range(act.calls)
        )
        yield ScriptedReply(
            text=f"Step {number}." if act.says or not calls else "",
            thinking=f"I think about {number}." if act.thinks else None,
            tool_calls=calls,
        )


async def _play(
    server: ProviderServer, loop: Sequence[Act], *, models: Sequence[str], **options: Any
) -> None:
    """Run a loop as an agent does; some steps begin in a new assembler over the same store."""
    store = open_store("memory:")
    assembler = ContextAssembler(store, tools=[search_flights], config=_config())
    claude = anthropic.AsyncAnthropic(base_url=server.anthropic_url, api_key="x", max_retries=0)
    gpt = openai.AsyncOpenAI(base_url=server.openai_url, api_key="x", max_retries=0)
    creators: dict[str, Any] = {
        "anthropic": claude.messages.create,
        "openai_chat": gpt.chat.completions.create,
    }
    await assembler.add_user("s", "Find me a way to Faro.")
    async with claude, gpt:
        for number, (act, model) in enumerate(zip(loop, models, strict=True)):
            if act.restarts:
                assembler = ContextAssembler(store, tools=[search_flights], config=_config())
            note = f"Mind {number}." if act.adds_note else None
            context = await assembler.assemble(
                "s", model=model, max_tokens=800, additional_system_prompt=note, **options
            )
            reply = await creators[wire_of(context)](**sent(context))
            *_, answer = await assembler.record("s", reply, context)
            for call in answer.tool_calls[: -1 if act.dies else None]:
                await assembler.add_tool_result("s", call.call_id, words(act.size))
            if act.dies or not answer.tool_calls:
                await assembler.add_user("s", f"And then, {number}?")


@pytest.mark.parametrize("strategy", TRUNCATIONS)
@settings(max_examples=2)
@given(loop=loops, room=st.integers(4_000, 12_000), changes_model=seldom)
def test_signed_thinking_stays_accepted_over_any_recorded_loop(
    strategy: str, loop: list[Act], room: int, changes_model: bool
) -> None:
    models = [act.model if changes_model else loop[0].model for act in loop]
    options = {
        "truncation_strategy": strategy,
        "max_context_tokens": room,
        "on_overflow": "shorten",
    }

    with serve_providers(played(loop)) as server:
        asyncio.run(_play(server, loop, models=models, **options))

    assert [seen.refusal for seen in server.requests] == [None] * len(loop)
