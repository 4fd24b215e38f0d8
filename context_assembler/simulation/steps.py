"""Each call of a session held against the one before it: what is shared, what it costs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

from context_assembler.gathered import Gathered
from context_assembler.providers import provider_for
from context_assembler.simulation.calls import Segment
from context_assembler.simulation.payloads import Payload, Payloads
from context_assembler.stages.forecast_cache import forecast_cache
from context_assembler.values.forecasts import CacheForecast
from context_assembler.values.messages import Message
from context_assembler.values.prompt_caches import CallSize, KnownPrefix, spelled_alike
from context_assembler.values.simulations import SimulatedStep

_COMPACTED = "A compaction stands for what was sent before."
_CHANGED = "What stands for a message of the last call is another one."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """A call that was made; `ends`: behind how many of its messages it and those before it ended."""

    messages: Sequence[Message]
    ends: tuple[int, ...]
    answered_at: datetime | None


_NOTHING = _Sent(messages=(), ends=(), answered_at=None)


def simulate_steps(payloads: Payloads, segments: Iterable[Segment]) -> Iterator[SimulatedStep]:
    """Yield one step for each call; one that cannot be sent is passed over by the next."""
    sent = _NOTHING
    for segment in segments:
        compacted = _COMPACTED if sent.messages else ""
        for call, payload in payloads.of(segment):
            if isinstance(payload, str):
                yield SimulatedStep(seq=call.seq, overflow=payload)
                continue
            shared = _count_shared(sent.messages, payload.messages)
            is_rewritten = shared < len(sent.messages)
            protocol = provider_for(payloads.gathered.limits)
            alike = spelled_alike(payload.messages, shared, protocol=protocol)
            ends = tuple(end for end in sent.ends if end <= alike)
            measured = _Measured(payload)
            yield SimulatedStep(
                seq=call.seq,
                tokens=measured.tokens[-1],
                budget_tokens=payload.budget_tokens,
                shared_tokens=measured.tokens[shared] if sent.messages else 0,
                level=payload.level,
                forecast=measured.forecast(
                    measured.known(sent, ends=ends, shared=alike),
                    gathered=payloads.gathered,
                    now=call.made_at,
                ),
                rewrite=(compacted or payload.change or _CHANGED) if is_rewritten else "",
            )
            compacted = ""
            sent = _Sent(
                messages=payload.messages,
                ends=(*ends, len(payload.messages)),
                answered_at=call.answered_at,
            )


class _Measured:
    """A payload with its running sums: element *i* is for the first *i* messages."""

    def __init__(self, payload: Payload) -> None:
        self.tokens = list(accumulate([payload.head_tokens, *payload.message_tokens]))
        self._blocks = [0, *accumulate(len(message.parts) for message in payload.messages)]
        self._last_reply = _last_reply(payload.messages)

    def known(self, sent: _Sent, *, ends: Sequence[int], shared: int) -> Iterator[KnownPrefix]:
        """Yield what the calls before have in common with this one.

        All of it stood in the last call, so that is when it was used.
        """
        if not sent.messages:
            return
        used_at = sent.answered_at
        yield KnownPrefix(end="head", tokens=self.tokens[0], used_at=used_at)
        yield KnownPrefix(end="inside", tokens=self.tokens[shared], used_at=used_at)
        for end in ends[-1:]:
            yield KnownPrefix(
                end="call", tokens=self.tokens[end], blocks=self._blocks[end], used_at=used_at
            )

    def forecast(
        self, known: Iterable[KnownPrefix], *, gathered: Gathered, now: datetime | None
    ) -> CacheForecast:
        """Return what is read, written and charged."""
        return forecast_cache(
            CallSize(
                total_tokens=self.tokens[-1],
                head_tokens=self.tokens[0],
                blocks=self._blocks[-1],
                blocks_before_step=self._blocks[self._last_reply],
            ),
            known,
            limits=gathered.limits,
            protocol=provider_for(gathered.limits),
            policy=gathered.settled.options.cache or "auto",
            now=now,
            today=gathered.today,
        )


def _count_shared(before: Sequence[Message], after: Sequence[Message]) -> int:
    """Return with how many equal messages both begin."""
    for at, (old, new) in enumerate(zip(before, after, strict=False)):
        if old is not new and old != new:
            return at
    return min(len(before), len(after))


def _last_reply(messages: Sequence[Message]) -> int:
    backwards = range(len(messages) - 1, -1, -1)
    replies = (at for at in backwards if messages[at].role == "assistant")
    return next(replies, len(messages))
