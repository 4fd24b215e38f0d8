"""What a forecast says of the next call, held against the provider's own figures where there are any."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from context_assembler import ContextAssembler
from context_assembler.limits import get_model_limits
from context_assembler.stages.forecast_cache import forecast_cache
from context_assembler.testing import ScriptedReply, event_log, serve_providers
from context_assembler.values.answered_calls import answered_calls
from context_assembler.values.events import AssistantBody, Provenance, SessionEvent, assistant_event
from context_assembler.values.forecasts import CacheForecast
from context_assembler.values.prompt_caches import CallSize, KnownPrefix
from context_assembler.values.tools import ToolSpec
from tests.calling import call_model

START = datetime(2026, 11, 28, 9, 0, tzinfo=UTC)
CLAUDE = "claude-opus-5-5"
MODELS = [CLAUDE, "gpt-5.5", "gemini-4-argon"]
LONG = "so that it is worth caching " * 300


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def pass_minutes(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)


class Loop:
    """A session with recorded replies; `bound` is what it has to fit."""

    def __init__(self, folder: Path, *, model: str = CLAUDE, bound: int = 60_000) -> None:
        self.clock = Clock()
        self.folder = folder
        self.model = model
        self.bound = bound
        self.tools: list[ToolSpec] = []
        (folder / "AGENT.md").write_text(f"You are a clerk. {LONG}", encoding="utf-8")
        self.assembler = self._open()

    def _open(self) -> ContextAssembler:
        sessions = getattr(self, "assembler", None)
        return ContextAssembler(
            "memory:" if sessions is None else sessions.sessions,
            bootstrap=self.folder,
            tools=self.tools,
            now=self.clock,
        )

    def reopen(self, *tools: ToolSpec) -> None:
        self.tools = list(tools)
        self.assembler = self._open()

    async def forecast(self, **options: Any) -> CacheForecast:
        context = await self.assembler.assemble("s", **self._options(options))
        forecast = context.report.forecast
        assert forecast is not None
        assert forecast.split.total_tokens == context.report.ledger.used_tokens
        return forecast

    async def step(self, question: str = "And then?", **options: Any) -> CacheForecast:
        await self.assembler.add_user("s", question)
        told = await self.forecast(**options)
        context = await self.assembler.assemble("s", **self._options(options))
        with serve_providers([ScriptedReply(text="Then this happened.")]) as server:
            await self.assembler.record("s", await call_model(server, context), context)
        return told

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        usual = {"model": self.model, "max_tokens": 1000, "max_context_tokens": self.bound}
        return usual | options


async def test_a_first_call_has_nothing_to_read(tmp_path: Path) -> None:
    forecast = await Loop(tmp_path).step("Hello.")

    assert forecast.split.read_tokens == 0
    assert forecast.broken is None
    assert forecast.after == ""
    assert forecast.read_share == 0
    assert forecast.price.usd is not None


@pytest.mark.parametrize("model", MODELS)
async def test_a_call_that_adds_reads_what_the_one_before_sent(model: str, tmp_path: Path) -> None:
    loop = Loop(tmp_path, model=model)
    first = await loop.step(LONG + LONG)
    second = await loop.step()

    third = await loop.step()

    assert first.split.total_tokens - 128 < second.split.read_tokens <= first.split.total_tokens
    assert second.split.total_tokens - 128 < third.split.read_tokens <= second.split.total_tokens
    assert third.broken is None
    assert third.read_share > 0.9
    assert (third.price.usd or 0) < (third.price.uncached_usd or 0)


@pytest.mark.parametrize("model", [CLAUDE, "gpt-5.5"])
async def test_the_provider_reads_what_was_forecast(model: str) -> None:
    shares: list[tuple[float, float]] = []
    with serve_providers([ScriptedReply(text=f"Step {n}. {LONG}") for n in range(9)]) as server:
        assembler = ContextAssembler("memory:")
        for step in range(9):
            await assembler.add_user("s", f"Question {step}. {LONG}")
            context = await assembler.assemble(
                "s", model=model, max_tokens=1000, max_context_tokens=16_000
            )
            forecast = context.report.forecast
            [*_, event] = await assembler.record("s", await call_model(server, context), context)
            [call] = answered_calls([event])
            usage = call.made_by.usage
            assert usage is not None and forecast is not None  # noqa: PT018 - for the types
            shares.append((forecast.read_share, usage.cache_read_tokens / usage.input_tokens))

    assert len({told == 0 for told, _ in shares}) == 2, "some calls are rewrites"
    assert all(abs(told - seen) < 0.05 for told, seen in shares), shares


async def test_a_cut_breaks_the_prefix_and_the_forecast_says_where_and_why(tmp_path: Path) -> None:
    loop = Loop(tmp_path, bound=12_500)
    forecasts = [await loop.step(f"Question {n}: {LONG}") for n in range(7)]

    broken = [forecast for forecast in forecasts if forecast.broken is not None]

    assert broken
    assert broken[0].broken is not None
    assert broken[0].broken.piece == "message"
    assert broken[0].broken.id == "marker"
    assert "does not fit" in broken[0].broken.reason
    assert broken[0].split.read_tokens <= broken[0].broken.shared_tokens
    assert 0 < broken[0].split.read_tokens < forecasts[1].split.total_tokens


async def test_a_strategy_without_a_marker_names_the_first_message_left(tmp_path: Path) -> None:
    loop = Loop(tmp_path, bound=12_500)
    forecasts = [
        await loop.step(f"Question {n}: {LONG}", truncation_strategy="simple") for n in range(7)
    ]

    [broken, *_] = [forecast.broken for forecast in forecasts if forecast.broken is not None]

    assert broken.id.startswith("evt_")
    assert "oldest exchanges go first" in broken.reason


async def test_an_edited_file_breaks_the_prefix_at_its_section(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    await loop.step()
    (tmp_path / "AGENT.md").write_text(f"You are a sailor. {LONG}", encoding="utf-8")
    loop.assembler.invalidate_cache()

    forecast = await loop.step()

    assert forecast.broken is not None
    assert (forecast.broken.piece, forecast.broken.id) == ("section", "agent")
    assert forecast.split.read_tokens == 0


async def test_a_new_tool_breaks_the_prefix_where_it_stands(tmp_path: Path) -> None:
    loop = Loop(tmp_path, model="deepseek-flash")
    loop.reopen(ToolSpec(name="look_up"))
    await loop.step()
    loop.reopen(ToolSpec(name="look_up"), ToolSpec(name="write"))

    forecast = await loop.step()

    assert forecast.broken is not None
    assert (forecast.broken.piece, forecast.broken.id) == ("tool", "write")


async def test_another_model_has_a_cache_of_its_own(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    await loop.step()
    elsewhere = await loop.step(model="gpt-5.5")

    back = await loop.step()

    assert elsewhere.broken is not None
    assert elsewhere.broken.piece == "model"
    assert "claude-opus-5-5 over anthropic" in elsewhere.broken.reason
    assert elsewhere.split.read_tokens == 0
    assert back.broken is not None
    assert back.split.read_tokens > 0, "what this model was sent before is there still"


async def test_what_waits_too_long_is_read_no_more(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    await loop.step(LONG)
    loop.clock.pass_minutes(30)
    late = await loop.step()
    loop.clock.pass_minutes(120)

    too_late = await loop.step()

    assert late.broken is None
    assert 0 < late.split.read_tokens < too_late.split.total_tokens / 2, "the system prompt alone"
    assert "kept for 5 min" in late.split.remarks[0]
    assert too_late.split.read_tokens == 0


async def test_a_context_from_the_assembly_cache_is_judged_by_the_present_time(
    tmp_path: Path,
) -> None:
    loop = Loop(tmp_path)
    await loop.step(LONG)
    await loop.assembler.add_user("s", "Go on.")
    soon = await loop.forecast()
    loop.clock.pass_minutes(8)

    later = await loop.forecast()

    assert later.split.read_tokens < soon.split.read_tokens


async def test_reasoning_that_is_left_out_ends_what_is_shared(tmp_path: Path) -> None:
    read_before: list[int] = []
    script = [ScriptedReply(text="Yes. " + LONG, thinking=f"Thought {n}.") for n in range(8)]
    with serve_providers(script) as server:
        assembler = ContextAssembler("memory:")
        for step in range(8):
            await assembler.add_user("s", f"Question {step}.")
            context = await assembler.assemble(
                "s", model=CLAUDE, max_tokens=1000, max_context_tokens=9_000
            )
            forecast = context.report.forecast
            assert forecast is not None
            if forecast.broken is not None:
                read_before.append(forecast.split.read_tokens)
                assert forecast.broken.shared_tokens < context.report.ledger.used_tokens / 2
            await assembler.record("s", await call_model(server, context), context)

    assert read_before


async def test_another_account_has_a_cache_of_its_own(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    await loop.step()
    events = [event async for event in loop.assembler.sessions.load("s")]
    reply = events[-1]
    assert isinstance(reply.body, AssistantBody)
    assert reply.body.made_by is not None
    made_by = replace(reply.body.made_by, account="theirs")
    theirs = replace(reply, id="", seq=0, body=replace(reply.body, made_by=made_by))
    await loop.assembler.sessions.append("s", [theirs])

    forecast = await loop.step()

    assert forecast.broken is not None
    assert "under the account 'theirs'" in forecast.broken.reason


def test_calls_without_a_fingerprint_or_a_maker_are_none() -> None:
    made_by = Provenance(provider="anthropic", model=CLAUDE)
    events: Sequence[SessionEvent] = [
        *event_log("U hello", "A hi"),
        assistant_event("hi", made_by=made_by),
        replace(
            assistant_event("hi", made_by=replace(made_by, prefix_fingerprint="f")),
            id="e",
            created_at=START.replace(tzinfo=None),
        ),
        assistant_event("hi", made_by=replace(made_by, prefix_fingerprint="g")),
    ]

    calls = answered_calls(events)

    assert [call.event_id for call in calls] == ["e", ""]
    assert [call.at for call in calls] == [START, None]


def test_a_call_above_a_step_of_the_price_is_dearer_as_a_whole() -> None:
    limits = get_model_limits("claude-haiku-5-5")

    below, above = (
        forecast_cache(
            CallSize(total_tokens=total),
            [KnownPrefix(end="call", tokens=90_000)],
            limits=limits,
            protocol="anthropic",
            today=date(2026, 11, 28),
        )
        for total in (100_000, 100_001)
    )

    assert (above.price.usd or 0) > 4.9 * (below.price.usd or 0)


def test_prices_are_those_of_the_day() -> None:
    limits = get_model_limits("gemini-4-argon")

    before, after = (
        forecast_cache(
            CallSize(total_tokens=10_000), [], limits=limits, protocol="gemini", today=day
        ).price.usd
        for day in (date(2026, 11, 30), date(2026, 12, 1))
    )

    assert after == 2 * (before or 0)
