"""Spans, metrics and log records of what an assembler does, in OpenTelemetry's `gen_ai` words.

    from context_assembler.telemetry import instrument
    instrument(assembler)

Nothing of this is loaded or counted until it is asked for, and nothing holds content: no text of a
message, file or memory, and of an error its type alone.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Any, Final, TypeAlias

from context_assembler.errors import MissingExtraError

_NAME: Final = "context_assembler"
# https://opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai/ (read 2026-11-30)
_PROVIDERS: Final[Mapping[str, str]] = {
    "openai_chat": "openai",
    "openai_responses": "openai",
    "gemini": "gcp.gemini",
}
Attributes: TypeAlias = dict[str, str | int | float | bool]


def instrument(assembler: Any, *, tracer_provider: Any = None, meter_provider: Any = None) -> None:
    """Report every call of `assemble`, `record`, `recall`, `compact` and `check_compaction`.

    Each is a span, a record of the logger `context_assembler`, and a value of the histograms
    `context_assembler.duration` (seconds), `gen_ai.client.token.usage`, and
    `context_assembler.cached_share` (of a call's input, as its usage says).

    Args:
        tracer_provider: By default OpenTelemetry's global one; likewise `meter_provider`.

    Raises:
        MissingExtraError: `opentelemetry-api` is not installed.
    """
    try:
        trace, metrics = map(import_module, ("opentelemetry.trace", "opentelemetry.metrics"))
    except ImportError as error:
        raise MissingExtraError("Telemetry", extra="telemetry") from error
    reporter = _Reporter(
        trace.get_tracer(_NAME, tracer_provider=tracer_provider),
        trace.Status(trace.StatusCode.ERROR),
        metrics.get_meter(_NAME, meter_provider=meter_provider),
    )
    for name in _READ:
        setattr(assembler, name, reporter.watched(name, getattr(assembler, name)))


class _Reporter:
    """Where operations are reported."""

    def __init__(self, tracer: Any, failed: Any, meter: Any) -> None:
        self._tracer, self._failed, self._log = tracer, failed, logging.getLogger(_NAME)
        self._duration = meter.create_histogram(f"{_NAME}.duration", "s")
        self._tokens = meter.create_histogram("gen_ai.client.token.usage", "{token}")
        self._cached = meter.create_histogram(f"{_NAME}.cached_share", "1")

    def watched(self, name: str, act: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        """Return the operation, reported."""

        @wraps(act)
        async def call(*given: Any, **options: Any) -> Any:
            session = options.get("session_id", *given[:1]) if name != "recall" else None
            with self._span(name, session) as told:
                done = await act(*given, **options)
                told.update(_READ[name](done))
                self._count(told)
                return done

        return call

    @contextmanager
    def _span(self, name: str, session: Any) -> Generator[Attributes]:
        told: Attributes = {"gen_ai.operation.name": name}
        if isinstance(session, str):
            told["gen_ai.conversation.id"] = session
        started = time.perf_counter()
        with self._tracer.start_as_current_span(
            f"{_NAME} {name}", record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield told
            except BaseException as error:
                told["error.type"] = type(error).__name__
                span.set_status(self._failed)
                raise
            finally:
                spent = time.perf_counter() - started
                span.set_attributes(told)
                labels = ("gen_ai.operation.name", "gen_ai.request.model", "error.type")
                self._duration.record(spent, {key: told[key] for key in labels if key in told})
                fields = {key.replace(".", "_"): value for key, value in told.items()}
                self._log.info("%s in %.1f ms", name, spent * 1_000, extra=fields)

    def _count(self, told: Attributes) -> None:
        about = {key: told[key] for key in ("gen_ai.request.model",) if key in told}
        for kind in ("input", "output"):
            if (tokens := told.get(f"gen_ai.usage.{kind}_tokens")) is not None:
                self._tokens.record(tokens, {**about, "gen_ai.token.type": kind})
        if (share := told.get(f"{_NAME}.cached_share")) is not None:
            self._cached.record(share, about)


def _of_context(context: Any) -> Attributes:
    about, ledger, provider = context.metadata, context.metadata.ledger, str(context.provider)
    return {
        "gen_ai.request.model": about.model_id,
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        f"{_NAME}.tokens": ledger.used_tokens,
        f"{_NAME}.budget_tokens": ledger.budget_tokens,
        f"{_NAME}.is_cut": about.cut_id != 0,
        f"{_NAME}.removed_messages": about.truncation.removed_count,
        f"{_NAME}.cache_hit": about.cache_hit,
    }


def _of_recorded(events: Any) -> Attributes:
    made_by = next((one.made_by for one in reversed(events) if one.made_by is not None), None)
    if made_by is None:
        return {}
    told: Attributes = {"gen_ai.request.model": str(made_by.model)}
    if (usage := made_by.usage) is not None:
        told["gen_ai.usage.input_tokens"] = usage.input_tokens
        told["gen_ai.usage.output_tokens"] = usage.output_tokens
        if usage.input_tokens:
            told[f"{_NAME}.cached_share"] = usage.cache_read_tokens / usage.input_tokens
    return told


_READ: Final[Mapping[str, Callable[[Any], Attributes]]] = {
    "assemble": _of_context,
    "record": _of_recorded,
    "recall": lambda it: {f"{_NAME}.items": len(it.items), f"{_NAME}.tokens": it.token_count},
    "compact": lambda it: {
        **_of_recorded([it.event]),
        f"{_NAME}.covered_tokens": it.covered_tokens,
        f"{_NAME}.summary_tokens": it.summary_tokens,
        f"{_NAME}.requests": it.requests,
    },
    "check_compaction": lambda it: {
        f"{_NAME}.is_needed": it.needed,
        f"{_NAME}.tokens": it.current_tokens,
    },
}
