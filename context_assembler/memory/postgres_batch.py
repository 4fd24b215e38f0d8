"""What keeping a batch of records comes to, worked out before anything is written."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from context_assembler.memory.postgres_words import CUT_NOTICE, Wording, to_tsvectors, wording_of
from context_assembler.memory.preparing import PreparedRecord, moved_notices, normal_text
from context_assembler.values.memories.kinds import KINDS
from context_assembler.values.memories.records import Remembered, RememberOutcome

_UNSTORED: Final = 2**63  # stands behind every key that there is


class Twin(NamedTuple):
    """A record that says something, where another may say the same."""

    key: int
    id: str
    digest: int
    normal: str


@dataclass(slots=True)
class Outcome:
    """What became of a record; notices come in as they become known."""

    id: str
    outcome: RememberOutcome
    notices: tuple[str, ...]

    def told(self) -> Remembered:
        """Return it as the store answers."""
        return Remembered(id=self.id, outcome=self.outcome, notices=self.notices)


@dataclass(slots=True)
class Batch:
    """Records that are kept together; later ones see what became of those before.

    Attributes:
        known: The namespaces of those that are there already, by the ids in question.
        twins: The records with a digest in question that are there already.
        added: To be inserted, by id, in order.
        replaced: To take the place of what is there, by id.
        raised: The least importance of records that were there and were said again, by id.
    """

    known: Mapping[str, str]
    twins: dict[str, Twin]
    added: dict[str, PreparedRecord] = field(default_factory=dict[str, PreparedRecord])
    replaced: dict[str, PreparedRecord] = field(default_factory=dict[str, PreparedRecord])
    raised: dict[str, float] = field(default_factory=dict[str, float])
    outcomes: list[Outcome] = field(default_factory=list[Outcome])

    def keep(self, prepared: PreparedRecord) -> None:
        """Note what becomes of the record: new, in the place of another, or there already."""
        memory_id = prepared.memory_id
        outcome: RememberOutcome = "added"
        notices = prepared.notices
        if not prepared.record.id:
            twin = self._find_twin(prepared)
            if twin is not None:
                self._raise_importance(twin, prepared.record.importance)
                self.outcomes.append(Outcome(twin, "duplicate", prepared.notices))
                return
            memory_id = self._free_id(memory_id)
            prepared = replace(prepared, memory_id=memory_id)
        if memory_id in self.added:
            waiting = self.added[memory_id]
            outcome = "replaced"
            notices = moved_notices(prepared, before=waiting.record.namespace)
            self.added[memory_id] = _merged(waiting, prepared)
        elif memory_id in self.known:
            before = self.replaced.get(memory_id)
            whose = self.known[memory_id] if before is None else before.record.namespace
            outcome, notices = "replaced", moved_notices(prepared, before=whose)
            self.replaced[memory_id] = prepared if before is None else _merged(before, prepared)
            self.raised.pop(memory_id, None)
        else:
            self.added[memory_id] = prepared
        self._note_twin(prepared)
        self.outcomes.append(Outcome(memory_id, outcome, notices))

    def words_of_added(self, last_texts: dict[int, str]) -> list[str]:
        """Return the `tsvector` of each new record, in order.

        Args:
            last_texts: What stands last in each line before.
        """
        wordings = _wordings(list(self.added.values()), last_texts)
        found = to_tsvectors(wordings)
        cut = {m for m, (_, is_whole) in zip(self.added, found, strict=True) if not is_whole}
        for outcome in self.outcomes:
            if outcome.id in cut and outcome.outcome != "duplicate":
                outcome.notices = (*outcome.notices, CUT_NOTICE)
        return [words for words, _ in found]

    def _find_twin(self, prepared: PreparedRecord) -> str | None:
        if prepared.digest is None:
            return None
        normal = normal_text(prepared.text)
        # A short hash alone does not prove anything.
        same = [
            twin
            for twin in self.twins.values()
            if twin.digest == prepared.digest and twin.normal == normal
        ]
        return min(same).id if same else None

    def _note_twin(self, prepared: PreparedRecord) -> None:
        known = self.twins.pop(prepared.memory_id, None)
        if prepared.digest is not None:
            key = _UNSTORED + len(self.outcomes) if known is None else known.key
            self.twins[prepared.memory_id] = Twin(
                key, prepared.memory_id, prepared.digest, normal_text(prepared.text)
            )

    def _raise_importance(self, memory_id: str, importance: float) -> None:
        for waiting in (self.added, self.replaced):
            if memory_id in waiting:
                record = waiting[memory_id].record
                raised = replace(record, importance=max(record.importance, importance))
                waiting[memory_id] = replace(waiting[memory_id], record=raised)
                return
        self.raised[memory_id] = max(self.raised.get(memory_id, 0.0), importance)

    def _free_id(self, memory_id: str) -> str:
        free, number = memory_id, 2
        while free in self.known or free in self.added:
            free, number = f"{memory_id}-{number}", number + 1
        return free


def is_turn_like(kind: str) -> bool:
    """Whether the words of the neighbours count for records of that kind."""
    return kind in _TURN_LIKE


def _wordings(added: Sequence[PreparedRecord], last_texts: dict[int, str]) -> list[Wording]:
    texts_by_line: dict[int, list[str]] = {line: [text] for line, text in last_texts.items()}
    places: list[int] = []
    for prepared in added:
        line = texts_by_line.setdefault(prepared.line, []) if prepared.line is not None else []
        places.append(len(line))
        line.append(prepared.text)
    return [
        wording_of(
            prepared.text,
            prepared.details,
            prepared.record.author,
            _beside(texts_by_line, prepared, at),
        )
        for prepared, at in zip(added, places, strict=True)
    ]


def _beside(
    texts_by_line: dict[int, list[str]], prepared: PreparedRecord, at: int
) -> Iterable[str]:
    if prepared.line is None or not is_turn_like(prepared.record.kind):
        return ()
    line = texts_by_line[prepared.line]
    return (*line[max(at - 1, 0) : at], *line[at + 1 : at + 2])


def _merged(before: PreparedRecord, after: PreparedRecord) -> PreparedRecord:
    """Return the later record with what it leaves to the earlier one of its id."""
    old, new = before.record, after.record
    accessed = [moment for moment in (old.last_access_at, new.last_access_at) if moment]
    record = replace(
        new,
        created_at=new.created_at or old.created_at,
        access_count=max(old.access_count, new.access_count),
        last_access_at=max(accessed, default=None),
    )
    created_at = before.created_at if new.created_at is None else after.created_at
    return replace(after, record=record, created_at=created_at)


_TURN_LIKE: Final = frozenset(kind for kind, spec in KINDS.items() if spec.is_turn_like)
