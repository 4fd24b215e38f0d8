"""What a call adds to its session: the notes it sent, the reply, and the row of the call."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from math import exp, log
from typing import Any, Final, NamedTuple

from context_assembler.context import AssembledContext, Sent, learned_key
from context_assembler.errors import ConcurrentAppendError, InvalidParameterError
from context_assembler.events import (
    CallRow,
    Covers,
    Json,
    JsonObject,
    Opaque,
    Part,
    Provenance,
    SessionEvent,
    SessionHead,
    Text,
    Usage,
    part_from_json,
    to_json,
)
from context_assembler.ports import ColumnStore, Turn
from context_assembler.providers import PROVIDERS, Reply, provider_for_reply
from context_assembler.providers.wire import read_object

COMPACTION: Final = "compaction"
# Where the blocks of each provider hold what was compacted; an Anthropic block without content has
# failed, and the server ignores it. Types of anthropic 2.14 and openai 3.57 (read 2026-11-27)
_CONTENT_KEYS: Final = {"anthropic": "content", "openai_responses": "encrypted_content"}
_UNUSED_SUMMARY: Final = "A summary was given, but the reply holds no compaction; it was not used."
_NO_TEXT: Final = (
    "The compaction has no plain text, so other models, accounts and providers will be sent what it "
    "covers; pass record(…, summary=…)."
)


class Answer(NamedTuple):
    """A call and its reply, read, before any of it is an event.

    `window` are the provider's own blocks of a compaction in the reply, `summary` its plain text;
    `before` and `after` are the parts of the reply around it.
    """

    sent: Sent
    reply: Reply
    summary: str
    window: tuple[Opaque, ...]
    before: tuple[Part, ...]
    after: tuple[Part, ...]
    now: datetime
    warnings: tuple[str, ...]

    def events(self, *, last_seq: int, arrived_ids: Sequence[str] = ()) -> list[SessionEvent]:
        """Return the notes that the call was sent, then the reply.

        A compaction in the reply is an event of its own between all that was sent, which it covers,
        and what the model said after it.

        Args:
            last_seq: Of the session as it is when they are appended.
            arrived_ids: Events that the provider has not seen: no compaction of its own covers them.
        """
        sent, prefix = self.sent, self.sent.row.prefix
        covered = list(sent.notes)
        if not self.window:
            return [*covered, self._event(self.after, prefix)]
        if self.before:
            covered.append(self._event(self.before, prefix, is_last=False))
        summary = (Text(self.summary),) if self.summary else ()
        event = self._event((*summary, *self.window), prefix, is_last=not self.after)
        if not self.summary:
            said = filter(None, [event.metadata.get("warnings"), _NO_TEXT])
            event = replace(event, metadata={**event.metadata, "warnings": "; ".join(said)})
        covers = Covers(
            first_seq=1, last_seq=last_seq + len(covered), excluded_ids=tuple(arrived_ids)
        )
        covered.append(replace(event, type=COMPACTION, covers=covers))
        if self.after:
            covered.append(self._event(self.after, self._prefix_after()))
        return covered

    def row(self, event_count: int, known: JsonObject | None) -> CallRow:
        """Return the row of the call.

        Args:
            event_count: How many events are stored with it.
            known: What earlier calls learned; see `learn`.
        """
        row, reply = self.sent.row, self.reply
        details = {**row.details, "events": event_count}
        if reply.response_id is not None:
            details["response_id"] = reply.response_id
        key, counted = self.learned_key, self.sent.counted_as
        if key and counted and reply.usage is not None:
            details["learned"] = learn(known, key, counted[2], reply.usage)
        return replace(row, usage=reply.usage, created_at=self.now, details=details)

    @property
    def learn(known: JsonObject | None, key: str, counted_tokens: int, usage: Usage) -> JsonObject:
    """Return what is known after one more call.

    The factor moves part of the way to the median of the latest ratios: no single call moves it by
    much, and one that is out of all proportion does not move it at all.
    """
    before: JsonObject = known or {"factor": 1.0, "observations": 0, "recent": []}
    ratio = usage.input_tokens / max(1, counted_tokens)
    if not 1 / _PLAUSIBLE_RATIO <= ratio <= _PLAUSIBLE_RATIO:
        return {**before, "key": key}
    recent = [*before["recent"], round(ratio, _DIGITS + 1)][-_LATEST:]
    factor, observations = before["factor"], before["observations"] + 1
    if observations >= _LEAST_OBSERVATIONS:
        ordered, half = sorted(map(log, recent)), len(recent) // 2
        target = (ordered[half] + ordered[-half - 1]) / 2
        moved = exp(log(factor) + _STEP * (target - log(factor)))
        factor = round(min(_MOST_FACTOR, max(1 / _MOST_FACTOR, moved)), _DIGITS)
    return {"key": key, "factor": factor, "observations": observations, "recent": recent}
