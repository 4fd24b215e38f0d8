"""`compact()` and `auto_compact=`: what is covered, who writes the summary, and what a failure leaves."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from google.genai import Client
from google.genai.types import HttpOptions
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import TemplateSyntaxError
from openai import AsyncOpenAI

from context_assembler import (
    AssembledContext,
    ContextAssembler,
    MemoryAssembler,
    SessionEvent,
    ToolCall,
    assistant_event,
    read_transcript,
    user_event,
)
from context_assembler.compaction import (
    Compaction,
    Compactor,
    SummaryRequest,
    extract_summary,
    summarize_with,
)
from context_assembler.errors import CompactionError
from context_assembler.events import Opaque
from context_assembler.options import AssemblerConfig, CompactionSettings
from context_assembler.ports import SessionStore
from context_assembler.testing import (
    ManualClock,
    ProviderServer,
    ScriptedReply,
    event_log,
    serve_providers,
)
from tests.history.logs import broken_logs

OPUS: Any = {"model": "claude-opus-5-5", "max_tokens": 1000}
PROVIDERS = ("anthropic", "openai_chat", "openai_responses", "gemini")
FILLER = "The checkout rounds half up, and the test for it passes. "
RULE = "You must never touch src/billing/legacy.py."
SUMMARY = f"""## Goal
Checkout in cents.
## Constraints
- {RULE}
- Please keep the JSON of the API.
## Progress
The rounding is done.
## Open tasks
- migrate the invoices
## Files and names
src/billing/legacy.py, src/billing/cents.py, round_half_up, ORDER-4711
"""


def session(turns: int = 12, *, size: int = 6) -> list[SessionEvent]:
    """Return a task with a rule, an order, a list of tasks and as many turns with a call each."""
    todo = {
        "todos": [
            {"content": "measure the loss", "status": "completed"},
            {"content": "migrate the invoices", "status": "pending"},
        ]
    }
    lines = [
        f"U Make the checkout count in cents. {RULE}",
        f"A[t0:plan {json.dumps(todo)}] I begin.",
        "T[t0] ok",
    ]
    for turn in range(turns):
        path = f'{{"path": "src/billing/cents.py", "line": {turn}}}'
        lines += [
            f"U Go on with ORDER-4711, step {turn}. Please keep the JSON of the API.",
            f"A[c{turn}:read_file {path}] I look at `round_half_up`.",
            f"T[c{turn}] {FILLER * size}",
            f"A {FILLER * size} Step {turn} is done.",
        ]
    return [*event_log(*lines, "U What is next?")]


async def begun(store: Any = "memory:", **given: Any) -> ContextAssembler:
    assembler = ContextAssembler(store, **given)
    await assembler.sessions.append("shop", session())
    return assembler


async def bodies(assembler: ContextAssembler, name: str = "shop") -> list[SessionEvent]:
    return [event async for event in assembler.sessions.load(name)]


def written(*texts: str) -> Any:
    """Return a summarizer that says one text after the other, and the requests that it got."""
    seen: list[SummaryRequest] = []

    async def summarize(request: SummaryRequest) -> str:
        seen.append(request)
        await asyncio.sleep(0)
        return texts[min(len(seen), len(texts)) - 1]

    return summarize, seen


# ---- what comes of it ----


async def test_a_summary_stands_for_what_it_covers_and_the_rest_stays() -> None:
    assembler = await begun()
    before = await bodies(assembler)

    done = await assembler.compact("shop", written(SUMMARY)[0], keep=6, **OPUS)
    context = await assembler.assemble("shop", **OPUS)

    said = [one for one in context.messages if one.get("kind") != "note"]
    texts = [str(message["parts"]) for message in said]
    assert RULE in texts[0]  # the task
    assert said[1].get("kind") == "summary"
    assert "migrate the invoices" in texts[1]
    assert "What is next?" in texts[-1]
    assert 6 <= len(texts) <= 9
    assert done.covered_tokens > 2 * done.summary_tokens > 0
    assert all(context.check(name).refused == [] for name in PROVIDERS)
    assert (await bodies(assembler))[: len(before)] == before
    [entry] = [one for one in context.report.entries if one.rule == "compaction.covers"]
    assert "It stands for" in entry.reason
    assert context.sent().row.details["compaction"] == done.event.seq


@pytest.mark.parametrize("model", ["claude-haiku-5-5", "gpt-5.5", "gemini-3.5-flash"])
async def test_each_sdk_writes_a_summary_and_is_told_what_it_lacks(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = SUMMARY.replace(RULE, "Take care.").replace("ORDER-4711", "")
    assembler = await begun()
    with serve_providers([ScriptedReply(text=short), ScriptedReply(text=SUMMARY)]) as provider:
        for name, value in provider.environment.items():
            monkeypatch.setenv(name, value)
        done = await assembler.compact("shop", summarize_with(model), **OPUS)
        first, second = (json.dumps(one.body, ensure_ascii=False) for one in provider.requests)

    assert (done.requests, done.event.text) == (2, SUMMARY.strip())
    made_by = done.event.made_by
    assert made_by is not None
    assert made_by.model == model
    assert made_by.usage is not None
    assert made_by.usage.output_tokens > 0
    assert "\\n## Goal\\n## Constraints\\n" in first
    assert "round_half_up" in first
    assert "refused" not in first
    assert f"word for word: {RULE}" in second
    assert "word for word: ORDER-4711" in second
    report = await assembler.explain("shop", **OPUS)
    [entry] = [one for one in report.entries if one.rule == "compaction.covers"]
    assert f"{model} wrote it, with {made_by.usage.input_tokens:,} tokens input" in entry.reason


async def test_a_range_that_is_too_long_for_the_summarizer_is_read_in_parts() -> None:
    summarize, seen = written(SUMMARY)
    summarize.max_prompt_tokens = 2500
    assembler = await begun()

    done = await assembler.compact("shop", summarize, keep=2, **OPUS)

    count = seen[0].count_text
    assert done.requests == len(seen) > 1
    assert all(count(request) <= 2500 for request in seen)
    assert [request.previous for request in seen] == ["", *[SUMMARY.strip()] * (len(seen) - 1)]
    assert f"(part {len(seen)} of {len(seen)})" in seen[-1]
    said = "".join(seen)
    assert all(f"step {turn}." in said for turn in range(11))


async def test_a_template_of_ones_own_is_the_prompt() -> None:
    summarize, seen = written("Done")
    compactor = Compactor(
        summarize, template="Say it: {{ transcript }}{{ faults|join }}", headings=()
    )
    with pytest.raises(CompactionError, match="lacks"):
        await (await begun()).compact("shop", compactor, **OPUS)

    assert seen[0].startswith("Say it: [1] user: Make the checkout")
    assert "word for word" in seen[1]
    with pytest.raises(TemplateSyntaxError):
        Compactor(template="{{ transcript")


async def test_each_further_summary_takes_the_place_of_the_last_one() -> None:
    assembler = await begun()
    for turn in range(4):
        done = await assembler.compact("shop", keep=2, **OPUS)
        assert done.event.text == extract_text(done.event)
        await assembler.sessions.append("shop", session(6)[3:])
        context = await assembler.assemble("shop", **OPUS)
        kinds = [message.get("kind") for message in context.messages]
        assert kinds.count("summary") == 1
        assert RULE in json.dumps(context.to_anthropic())
        assert done.summary_tokens < 2000, turn


async def test_the_next_summarizer_reads_the_last_summary_and_what_came_since() -> None:
    assembler = await begun()
    summarize, seen = written(SUMMARY, f"{SUMMARY}\n{LONG_LINE}".replace("Checkout", "Money"))
    await assembler.compact("shop", summarize, keep=20, **OPUS)
    done = await assembler.compact("shop", summarize, keep=10, **OPUS)

    first, second = seen
    assert "step 5." in first
    assert "step 8." not in first
    assert second.previous == SUMMARY.strip()
    assert SUMMARY.strip() in second
    assert "step 8." in second
    assert "step 5." not in second
    assert [m.get("kind") for m in (await assembler.assemble("shop", **OPUS)).messages].count(
        "summary"
    ) == 1
    assert done.event.covers is not None
    assert done.event.covers.last_seq < done.event.seq - 2


def extract_text(event: SessionEvent) -> str:
    assert all(f"## {heading}" in event.text for heading in ("Goal", "Constraints", "Open tasks"))
    assert "- [ ] migrate the invoices" in event.text
    assert "measure the loss" not in event.text
    return event.text


async def test_secrets_that_are_masked_in_requests_are_masked_in_summaries() -> None:
    key = "sk-ant-api03-" + "q8Zr" * 20
    config = AssemblerConfig(safety={"masks_secrets_in": ["tool_results", "user"]})
    assembler = ContextAssembler(config=config)
    await assembler.sessions.append("shop", [user_event(f"Use the key {key}."), *session()])
    summarize, seen = written(f"{SUMMARY}\n{key}")

    done = await assembler.compact("shop", summarize, **OPUS)

    assert key not in seen[0]
    assert key not in done.event.text


# ---- what is never covered ----


@settings(max_examples=60)
@given(events=broken_logs, keep=st.integers(0, 6), pin=st.integers(0, 40))
def test_of_any_session_a_compaction_leaves_a_valid_one(
    events: list[SessionEvent], keep: int, pin: int
) -> None:
    async def run() -> None:
        assembler = ContextAssembler()
        long = [replace(event, is_pinned=n == pin) for n, event in enumerate(events)]
        long = [*event_log(f"U {FILLER * 20}", f"A {FILLER * 20}", "U Yes."), *long]
        stored = await assembler.sessions.append(
            "s", [replace(one, id="", seq=0, covers=None) for one in long]
        )
        before = await assembler.assemble("s", **OPUS)
        try:
            done = await assembler.compact("s", keep=keep, **OPUS)
        except CompactionError:
            assert await bodies(assembler, "s") == stored
            return
        context = await assembler.assemble("s", **OPUS)
        for name in PROVIDERS:
            assert context.check(name).refused == []
        covers = done.event.covers
        assert covers is not None
        kept = {*covers.excluded_ids}
        for event in stored[: covers.last_seq]:
            assert not event.is_pinned or event.id in kept
        shown = [[*m["parts"]] for m in context.messages if m.get("is_pinned")]
        assert len(shown) == len([m for m in before.messages if m.get("is_pinned")])

    asyncio.run(run())


async def test_calls_without_a_result_and_approvals_nobody_gave_stay() -> None:
    asked = Opaque(
        provider="openai_responses",
        block={"type": "mcp_approval_request", "id": "mcpr_1", "name": "pay", "arguments": "{}"},
    )
    waits = [
        assistant_event([asked]),
        *event_log("U Wait.", "A[w1:pay] I ask first.", "U And the rest?"),
    ]
    assembler = ContextAssembler()
    events = session()
    stored = await assembler.sessions.append("s", [*events[:3], *waits, *events[3:]])

    done = await assembler.compact("s", keep=2, **OPUS)

    covers = done.event.covers
    assert covers is not None
    names = {stored[0].id, stored[3].id, stored[5].id}
    assert names <= {*covers.excluded_ids}
    await assembler.add_tool_result("s", "w1", "paid 10 EUR")
    context = await assembler.assemble("s", **OPUS)
    assert "paid 10 EUR" in json.dumps(context.to_anthropic())
    assert all(context.check(name).refused == [] for name in PROVIDERS)


# ---- failures ----

LONG_LINE = "The rounding is done and every test of the suite passes, and so do those of the API."
REFUSED: dict[str, tuple[Any, str]] = {
    "no text": (None, "must return text, not NoneType"),
    "empty": (" \n", "It is empty"),
    "larger than what it covers": (SUMMARY + FILLER * 2000, "It has .* tokens. Write at most"),
    "without a heading": (SUMMARY.replace("## Open tasks", ""), "'## Open tasks' is missing"),
    "without an open task": (
        SUMMARY.replace("migrate the invoices", ""),
        "of Open tasks, word for word: migrate the invoices",
    ),
    "without a rule of the user": (SUMMARY.replace("never", "rarely"), "of Constraints"),
    "without a file": (SUMMARY.replace("src/billing/cents.py", ""), "of Files"),
    "without an identifier": (SUMMARY.replace("ORDER-4711", ""), "of Names"),
    "repeating itself": (f"{SUMMARY}\n{LONG_LINE}\n{LONG_LINE}", "same line twice"),
}


@pytest.mark.parametrize(("text", "fault"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_summary_with_a_fault_is_refused_and_nothing_changes(text: Any, fault: str) -> None:
    assembler = await begun()
    before = await bodies(assembler), (await assembler.assemble("shop", **OPUS)).to_anthropic()
    summarize, seen = written(text)

    with pytest.raises(CompactionError, match=fault):
        await assembler.compact("shop", summarize, **OPUS)

    assert len(seen) == 1 + CompactionSettings().max_corrections * (text is not None)
    after = await bodies(assembler), (await assembler.assemble("shop", **OPUS)).to_anthropic()
    assert after == before


async def test_a_summary_that_quotes_the_one_before_is_refused() -> None:
    assembler = await begun()
    await assembler.compact("shop", written(SUMMARY)[0], **OPUS)
    await assembler.sessions.append("shop", session()[3:])

    with pytest.raises(CompactionError, match="repeats the summary before it word for word"):
        await assembler.compact("shop", written(f"{SUMMARY}\nMore was done.")[0], **OPUS)


def _explode(request: SummaryRequest) -> str:
    raise ConnectionError("no route to host")


async def test_after_failures_nobody_tries_again_until_the_cool_down_is_over(
    tmp_path: Path,
) -> None:
    url, clock = f"sqlite:{tmp_path / 'agent.db'}", ManualClock()
    options = {**OPUS, "max_context_tokens": 5500}
    tried: list[str] = []

    def now() -> datetime:
        return datetime(2026, 11, 3, tzinfo=UTC) + timedelta(seconds=clock())

    def failing(request: SummaryRequest) -> str:
        tried.append(request)
        return _explode(request)

    async def step() -> tuple[int, Sequence[str]]:
        async with ContextAssembler(url, auto_compact=failing, now=now) as assembler:
            context = await assembler.assemble("shop", **options)
            assert context.check().refused == []
            return len(tried), context.report.warnings

    async with await begun(url) as assembler:
        assert (await assembler.check_compaction("shop", **options)).needed
    number, [warning] = await step()
    assert "ConnectionError: no route to host" in warning
    for seconds, tries in ((1, 1), (60, 2), (60, 2), (60, 3)):
        assert number == len(tried)
        clock.advance(seconds=seconds)
        number, [warning] = await step()  # each in a process of its own, as far as memory goes
        assert number == tries
    assert "ConnectionError" in warning
    async with ContextAssembler(url, now=now) as assembler:
        await assembler.compact("shop", **options)  # a caller who asks does not wait
        assert not (await assembler.check_compaction("shop", **options)).needed


async def test_what_arrives_meanwhile_is_kept() -> None:
    assembler = await begun()

    async def summarize(request: SummaryRequest) -> str:
        await assembler.add_user("shop", "One thing more: RUSH-99.")
        return SUMMARY

    done = await assembler.compact("shop", summarize, **OPUS)

    stored = await bodies(assembler)
    assert [event.text for event in stored[-2:]] == ["One thing more: RUSH-99.", done.event.text]
    assert "RUSH-99" in json.dumps((await assembler.assemble("shop", **OPUS)).to_anthropic())


async def test_two_compactors_at_once_make_one_compaction(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'agent.db'}"
    one, other = await begun(url), ContextAssembler(url)
    summarize, _ = written(SUMMARY)

    done = await asyncio.gather(
        one.compact("shop", summarize, **OPUS),
        one.compact("shop", summarize, **OPUS),
        other.compact("shop", summarize, **OPUS),
    )

    made = [event for event in await bodies(one) if event.type == "compaction"]
    assert len(made) == 1
    assert [each.event.id for each in done] == [made[0].id] * 3
    assert [each.is_own for each in done].count(True) == 1
    await one.close()
    await other.close()


async def test_hooks_see_what_goes_first_and_what_came_of_it() -> None:
    memory = MemoryAssembler("memory:", extract=lambda _: ["The order is ORDER-4711."])
    seen: list[Any] = []
    compactor = Compactor(before=memory.learn_from, after=seen.append)
    assembler = await begun()

    done = await assembler.compact("shop", compactor, **OPUS)

    assert seen == [done]
    recalled = await memory.assemble_context("which order")
    assert "ORDER-4711" in recalled.markdown

    def refuse(session_id: str, events: Sequence[SessionEvent]) -> None:
        raise OSError(f"{session_id}: {len(events)} events")

    await assembler.sessions.append("shop", session()[3:])
    with pytest.raises(CompactionError, match=r"OSError: shop: \d+ events"):
        await assembler.compact("shop", Compactor(before=refuse), **OPUS)


async def test_a_hook_that_fails_afterwards_undoes_nothing() -> None:
    def fail(done: Compaction) -> None:
        raise OSError(f"{done.session_id} is not to be told")

    options = {**OPUS, "max_context_tokens": 5500}
    assembler = await begun(auto_compact=Compactor(after=fail))

    context = await assembler.assemble("shop", **options)

    [warning] = context.report.warnings
    assert "OSError: shop is not to be told" in warning
    assert not context.metadata.should_compact
    assert not context.metadata.truncated


async def test_a_summarizer_may_assemble_the_session_that_it_summarises() -> None:
    options, refused = {**OPUS, "max_context_tokens": 5500}, list[str]()

    async def summarize(request: SummaryRequest) -> str:
        context = await assembler.assemble("shop", **options)
        assert context.check().refused == []
        with pytest.raises(CompactionError, match="is being compacted"):
            await assembler.compact("shop", **options)
        refused.append(request)
        return SUMMARY

    assembler = await begun(auto_compact=summarize)

    context = await assembler.assemble("shop", **options)

    assert len(refused) == 1
    assert context.report.warnings == ()
    assert "migrate the invoices" in json.dumps(context.to_anthropic())


async def test_nobody_is_asked_for_a_summary_that_cannot_be_stored() -> None:
    class Readable:
        """A store of one's own that has no `append`."""

        def __init__(self, store: SessionStore) -> None:
            self.load, self.head = store.load, store.head

    summarize, seen = written(SUMMARY)
    assembler = ContextAssembler(Readable((await begun()).sessions))

    with pytest.raises(CompactionError, match="cannot be written to"):
        await assembler.compact("shop", summarize, **OPUS)

    assert seen == []


async def test_what_a_caller_asks_for_in_vain_makes_nobody_wait() -> None:
    options = {**OPUS, "max_context_tokens": 5500}
    assembler = await begun(auto_compact=extract_summary)
    with pytest.raises(CompactionError, match="too few to be worth it"):
        await assembler.compact("shop", keep=1000, **options)
    with pytest.raises(CompactionError, match="no route"):
        await assembler.compact("shop", _explode, **options)

    context = await assembler.assemble("shop", **options)

    assert context.report.warnings == ()
    assert not context.metadata.should_compact


async def test_a_compaction_that_is_cancelled_leaves_nothing_behind() -> None:
    assembler, begins = await begun(), asyncio.Event()

    async def summarize(_: SummaryRequest) -> str:
        begins.set()
        return await asyncio.Future[str]()

    before = await bodies(assembler)
    running = asyncio.create_task(assembler.compact("shop", summarize, **OPUS))
    await begins.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert await bodies(assembler) == before
    assert (await assembler.compact("shop", written(SUMMARY)[0], **OPUS)).is_own


# ---- by itself ----


@pytest.mark.parametrize("is_sync", [False, True])
async def test_a_session_is_compacted_before_the_call_that_would_overflow(is_sync: bool) -> None:
    config = AssemblerConfig(clock={"is_enabled": False})  # nothing is recorded here
    assembler = ContextAssembler(auto_compact=extract_summary, config=config)
    options = {**OPUS, "max_context_tokens": 12_000, "cache": "off"}
    await assembler.sessions.append("shop", session(1))
    before: list[Any] = []
    covered = cuts = 0
    for turn in range(60):
        await assembler.sessions.append("shop", session(1)[4:7])
        await assembler.add_user("shop", f"Go on with {turn}.")
        context = (
            assembler.assemble_sync("shop", **options)
            if is_sync
            else await assembler.assemble("shop", **options)
        )
        payload: Any = context.to_anthropic()
        sent = [json.dumps(one) for one in payload["messages"]]
        if context.sent().row.details.get("compaction", 0) == covered:
            assert sent[: len(before)] == before, turn  # later payloads only grow
        covered = context.sent().row.details.get("compaction", 0)
        before = sent
        cuts += context.metadata.truncated
        assert context.metadata.ledger.free_tokens > 0
        assert RULE in json.dumps(payload)
        assert not context.metadata.should_compact
        assert context.report.warnings == ()

    made = [event for event in await bodies(assembler) if event.type == "compaction"]
    assert len(made) > 1
    assert cuts == 0


@pytest.mark.parametrize("model", ["claude-opus-5-5", "gpt-5.5", "gemini-3.5-flash"])
async def test_a_provider_takes_every_request_around_a_compaction(model: str) -> None:
    calls = [
        ToolCall(call_id=f"c{turn}", name="look", arguments={"at": turn}) for turn in range(24)
    ]
    script = [ScriptedReply("I look.", [call], thinking=FILLER * 4) for call in calls]

    def look(at: int) -> str:
        """Look at a place."""
        return f"{at}: {FILLER * 30}"

    assembler = ContextAssembler(tools=[look], auto_compact=extract_summary)
    await assembler.add_user("shop", f"Look everywhere. {RULE}")
    options: Any = {"model": model, "max_tokens": 2000, "max_context_tokens": 6000}
    with serve_providers(script) as provider:
        for _ in script:
            context = await assembler.assemble("shop", **options)
            reply = await ask(provider, context)
            answer = await assembler.record("shop", reply, context)
            assert await assembler.run_tools("shop", answer) == []
        assert provider.refusals == ()

    stored = await bodies(assembler)
    assert len([event for event in stored if event.type == "compaction"]) > 1
    assert len([event for event in stored if event.type == "tool_result"]) == len(calls)


async def ask(provider: ProviderServer, context: AssembledContext) -> Any:
    if context.provider == "anthropic":
        async with AsyncAnthropic(base_url=provider.anthropic_url, api_key="test") as client:
            return await client.messages.create(**context.to_anthropic())
    if context.provider == "gemini":
        http = HttpOptions(base_url=provider.gemini_url)
        gemini = Client(api_key="test", http_options=http)
        return await gemini.aio.models.generate_content(**context.to_gemini())
    async with AsyncOpenAI(base_url=provider.openai_url, api_key="test") as openai:
        return await openai.responses.create(**context.to_openai_responses())


# ---- recorded sessions ----

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{5,}")
_TELLING = re.compile(r"[/._]|[a-z][A-Z]|\d")


def names_in(text: str) -> set[str]:
    found = (name.strip("./-") for name in _NAME.findall(re.sub(r"\\+[nt]", " ", text)))
    return {name for name in found if len(name) > 5 and _TELLING.search(name)}


async def test_names_of_the_last_turns_outlast_a_compaction_without_a_model(corpus: Path) -> None:
    kept = named = sessions = 0
    paths = sorted((corpus / "trajectories").glob("c*/**/*.jsonl"))
    for path in Random(1).sample(paths, min(24, len(paths))):
        assembler = ContextAssembler()
        stored = await assembler.sessions.append("s", read_transcript(path).events)
        check = await assembler.check_compaction("s", is_explicit=True, **OPUS)
        if check.details["compactable_tokens"] < 3000:
            continue
        await assembler.compact("s", keep=2, **OPUS)
        context = await assembler.assemble("s", **OPUS)
        assert all(context.check(name).refused == [] for name in PROVIDERS)
        payload = json.dumps(context.to_anthropic(), ensure_ascii=False)
        payload = re.sub(r"\\+[nt]", " ", payload)
        recent = [event for event in stored if event.type == "assistant"][-10:]
        said = set[str]()
        for event in recent:
            calls = (
                json.dumps(dict(call.arguments), ensure_ascii=False) for call in event.tool_calls
            )
            said |= names_in(" ".join([event.text, *calls]))
        named += len(said)
        kept += sum(name in payload for name in said)
        sessions += 1
        assert (await bodies(assembler, "s"))[: len(stored)] == stored

    print(f"{kept} of {named} names in {sessions} sessions: {kept / named:.1%}")
    assert sessions > 10
    assert kept >= 0.95 * named
