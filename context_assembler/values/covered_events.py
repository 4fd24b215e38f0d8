"""What the summaries of a session stand for, as a report tells it."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from context_assembler.values.events import CompactionBody, SessionEvent
from context_assembler.values.parts import Document, Part, Text, Thinking, ToolCall, ToolResult

_BYTES_PER_TOKEN: Final = 4
"""Of UTF-8, in any script about: Latin has 4 letters of one byte to a token, Chinese 1.5 of three."""


def covered_by_each(
    events: Iterable[SessionEvent], standing: Iterable[SessionEvent | None]
) -> Iterator[tuple[SessionEvent, Sequence[SessionEvent]]]:
    """Yield every summary that stands, with the events that are not sent because of it, in order.

    Of earlier summaries that went into it the events count, not the summaries.
    """
    stands = [event for event in standing if event is not None]
    summaries = [event for event in stands if isinstance(event.body, CompactionBody)]
    if not summaries:
        return
    sent = set(map(id, stands))
    covered: dict[int, list[SessionEvent]] = {id(summary): [] for summary in summaries}
    for event in events:
        if id(event) not in sent and not isinstance(event.body, CompactionBody):
            covered[id(_summary_of(event, summaries))].append(event)
    for summary in summaries:
        yield summary, covered[id(summary)]


def about_tokens(events: Iterable[SessionEvent]) -> int:
    """Return about how many tokens the events' texts take, without a tokenizer; media count nothing."""
    texts = (text for event in events for part in event.parts for text in _texts_of(part))
    return sum(-(-_size_bytes(text) // _BYTES_PER_TOKEN) for text in texts)


def _summary_of(event: SessionEvent, summaries: Sequence[SessionEvent]) -> SessionEvent:
    """Return the latest summary whose range has the event; else one that took in what covered it."""
    for summary in reversed(summaries):
        body = summary.body
        if isinstance(body, CompactionBody) and body.first_seq <= event.seq <= body.last_seq:
            return summary
    return next((one for one in summaries if one.seq > event.seq), summaries[-1])


def _texts_of(part: Part) -> Iterator[str]:
    match part:
        case Text(text=text) | Thinking(text=text):
            yield text
        case Document(text=text):
            yield text or ""
        case ToolCall():
            yield part.name
            yield part.arguments_json or json.dumps(part.arguments, ensure_ascii=False, default=str)
        case ToolResult():
            for held in part.content:
                yield from _texts_of(held)
        case _:
            return


def _size_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
