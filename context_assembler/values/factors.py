"""Which correction holds for which message: a pure function of the append-only history."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    Provenance,
    SessionEvent,
    SystemBody,
    ToolCallBody,
    UserBody,
)
from context_assembler.values.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFactors:
    """The factor by which each message's count is corrected.

    A message keeps the factor of the first call that it was sent in: the one in force then is stored
    with the reply. Only what no call was sent yet is counted by the newest, so a later correction
    moves no count that a cut was made by.

    Attributes:
        current: In force for what no reply answers yet.
        seqs: Up to where each reply of the model read, ascending.
        stored: The factor stored with each of them.
        places: Where notes stand that were stored later than they were sent.
    """

    current: float = 1.0
    seqs: tuple[int, ...] = ()
    stored: tuple[float, ...] = ()
    places: Mapping[int, int] = field(default_factory=dict[int, int])

    @property
    def first(self) -> float:
        """What holds for what every call of the session shares: its system prompt and tools."""
        return self.stored[0] if self.stored else self.current

    @property
    def is_neutral(self) -> bool:
        """Whether nothing is corrected."""
        return {self.current, *self.stored} == {1.0}

    def followed_by(self, later: "TokenFactors") -> "TokenFactors":
        """Return these with what further events store; of two replies to one event the first counts."""
        first = bisect_left(later.seqs, self.seqs[-1] + 1) if self.seqs else 0
        if first:  # a reply to what an earlier one answered already, or to something before it
            steps = dict(zip(later.seqs, later.stored, strict=True))
            steps |= dict(zip(self.seqs, self.stored, strict=True))
            seqs, stored = zip(*sorted(steps.items()), strict=True)
        else:
            seqs, stored = (*self.seqs, *later.seqs), (*self.stored, *later.stored)
        places = self.places if not later.places else {**self.places, **later.places}
        return TokenFactors(current=later.current, seqs=seqs, stored=stored, places=places)

    def of(self, message: Message) -> float:
        """Return the factor of a message; what the assembler put between the events has the first."""
        if message.is_fresh_note:
            return self.current
        return self.at(message.seq) if message.seq else self.first

    def at(self, seq: int) -> float:
        """Return the factor of the event with this number."""
        index = bisect_left(self.seqs, self.places.get(seq, seq))
        return self.stored[index] if index < len(self.stored) else self.current


def read_factors(
    events: Iterable[SessionEvent], *, model: str, current: float = 1.0
) -> TokenFactors:
    """Return the factors of a session for one model; replies without one were counted by 1.

    Args:
        model: The registry's id; what other models' replies were counted by says nothing here.
        current: In force at this moment.
    """
    steps: dict[int, float] = {}
    places: dict[int, int] = {}
    for event in events:
        body = event.body
        if event.answers_seq and isinstance(body, UserBody | SystemBody) and body.note:
            places[event.seq] = event.answers_seq
        made_by = _provenance(event)
        if made_by is not None and made_by.model == model:
            read_up_to = event.answers_seq or event.seq - 1
            steps.setdefault(read_up_to, made_by.token_factor or 1.0)
    ordered = sorted(steps.items())
    return TokenFactors(
        current=current,
        seqs=tuple(seq for seq, _ in ordered),
        stored=tuple(factor for _, factor in ordered),
        places=places,
    )


def _provenance(event: SessionEvent) -> Provenance | None:
    body = event.body
    return body.made_by if isinstance(body, AssistantBody | ToolCallBody | CompactionBody) else None
