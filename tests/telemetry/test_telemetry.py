"""Spans, metrics and logs of an assembler: in the words of gen_ai, and without content."""

import json
import logging
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from context_assembler import ContextAssembler, UnknownSessionError
from context_assembler.telemetry import instrument
from tests.core.sessions import answer, text

SECRET = "The plan is to buy the orchard."
USAGE = {"input_tokens": 100, "cache_read_input_tokens": 300, "output_tokens": 7}


class Told:
    """What was reported, in memory."""

    def __init__(self) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader])

    @property
    def spans(self) -> list[tuple[str, dict[str, Any]]]:
        return [
            (one.name, dict(one.attributes or {})) for one in self._exporter.get_finished_spans()
        ]

    @property
    def everything(self) -> str:
        data: Any = self._reader.get_metrics_data()
        spans = [span.to_json() for span in self._exporter.get_finished_spans()]
        return json.dumps(spans) + str(data.to_json())


@pytest.fixture
def told() -> Told:
    return Told()


async def test_each_operation_is_a_span_with_its_figures(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "context_assembler")
    async with ContextAssembler(memory="sqlite::memory:") as assembler:
        instrument(assembler, tracer_provider=told.tracers, meter_provider=told.meters)
        await assembler.add_user("s1", SECRET)
        context = await assembler.assemble("s1", model="claude-opus-5-5")
        await assembler.record("s1", answer(text(SECRET)) | {"usage": USAGE}, context)
        await assembler.recall(SECRET)
        await assembler.check_compaction("s1", model="claude-opus-5-5")

    *asked, check = told.spans
    spans = dict(asked)
    assert list(spans) == [f"context_assembler {name}" for name in ("assemble", "record", "recall")]
    assert check[0] == "context_assembler check_compaction"
    assert check[1]["context_assembler.is_needed"] is False
    assembled, recorded = spans["context_assembler assemble"], spans["context_assembler record"]
    assert assembled["gen_ai.request.model"] == "claude-opus-5-5"
    assert assembled["gen_ai.provider.name"] == "anthropic"
    assert assembled["gen_ai.conversation.id"] == "s1"
    assert assembled["context_assembler.tokens"] == context.metadata.ledger.used_tokens
    assert recorded["gen_ai.usage.input_tokens"] == 400
    assert recorded["context_assembler.cached_share"] == 0.75
    assert "gen_ai.client.token.usage" in told.everything
    assert [record.message.split()[0] for record in caplog.records][:2] == ["assemble", "record"]
    assert SECRET not in told.everything + caplog.text


async def test_a_compaction_says_what_it_covers_and_takes(told: Told) -> None:
    async with ContextAssembler() as assembler:
        instrument(assembler, tracer_provider=told.tracers, meter_provider=told.meters)
        for number in range(30):
            await assembler.add_user("s1", f"{SECRET} {number} " * 20)
        done = await assembler.compact("s1", model="claude-opus-5-5", keep=2)

    [(name, attributes)] = told.spans
    assert name == "context_assembler compact"
    assert attributes["context_assembler.covered_tokens"] == done.covered_tokens
    assert attributes["context_assembler.summary_tokens"] == done.summary_tokens
    assert SECRET not in told.everything


async def test_an_error_is_told_by_its_type_alone(told: Told) -> None:
    async with ContextAssembler() as assembler:
        instrument(assembler, tracer_provider=told.tracers, meter_provider=told.meters)
        await assembler.add_user("the secret orchard", "x")
        with pytest.raises(UnknownSessionError):
            await assembler.assemble("none", model="claude-opus-5-5")

    [(_, attributes)] = told.spans
    assert attributes["error.type"] == "UnknownSessionError"
    assert "secret orchard" not in told.everything
