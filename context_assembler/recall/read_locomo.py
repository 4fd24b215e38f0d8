"""LoCoMo's published file: long conversations of two people, with questions and their evidence.

Source: https://github.com/snap-research/locomo, data/locomo10.json (read 2026-11-27)
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from context_assembler.errors import MemoryFormatError
from context_assembler.recall.evaluate import Conversations, Question
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.parts import Json, JsonObject

CATEGORIES: Final[Mapping[Json, str]] = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
WITHOUT_ANSWER: Final = "adversarial"
"""Questions about what nobody said; they are left out unless they are asked for."""

_SESSION: Final = re.compile(r"session_(\d+)")
_TURN_ID: Final = re.compile(r"D\s*:?\s*(\d+)\s*:\s*(\d+)")
_DATE: Final = "%I:%M %p on %d %B, %Y"
_REMEDY: Final = "Pass the file as it is published: a list of samples with 'conversation' and 'qa'."


class _Remark(NamedTuple):
    """What was wrong with several things of a kind, and with one."""

    many: str
    one: str


_BAD_TURN: Final = _Remark(
    "turns were left out: they have no text, or no id of their own",
    "turn was left out: it has no text, or no id of its own",
)
_BAD_FACT: Final = _Remark(
    "observations were left out: no turn is said to say them",
    "observation was left out: no turn is said to say it",
)
_NO_EVIDENCE: Final = _Remark(
    "questions were left out: no turn is their evidence",
    "question was left out: no turn is its evidence",
)
_REPAIRED: Final = _Remark(
    "questions have evidence whose ids were repaired",
    "question has evidence whose ids were repaired",
)
_LEFT_OUT: Final = _Remark(
    "questions name evidence that no turn is, which was left out",
    "question names evidence that no turn is, which was left out",
)
_NO_DATE: Final = _Remark(
    "sessions have no date that can be read", "session has no date that can be read"
)


def is_locomo(read: Json) -> bool:
    """Whether that is what such a file holds."""
    first = next(iter(read), None) if is_array(read) else None
    return is_object(first) and "conversation" in first and "qa" in first


def read_locomo(read: Json, *, name: str = "The conversations") -> Conversations:
    """Return the turns, the questions and the observations of every sample.

    A turn is `Speaker: text [image: caption]`. Ids of evidence that are spelled otherwise are
    repaired; those that no turn has are left out, and so is a question that has no other.

    Raises:
        MemoryFormatError: The file is of another shape.
    """
    if not is_locomo(read) or not is_array(read):
        raise MemoryFormatError(where=name, reason="it holds no such samples", remedy=_REMEDY)
    reading = _Reading(name)
    for number, sample in enumerate(read, 1):
        reading.add(sample, number)
    return reading.finish()


@dataclass(slots=True)
class _Reading:
    """What was read so far, and what was wrong with it."""

    name: str
    turns: dict[str, MemoryRecord] = field(default_factory=dict[str, MemoryRecord])
    facts: dict[str, MemoryRecord] = field(default_factory=dict[str, MemoryRecord])
    turns_by_fact: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    questions: list[Question] = field(default_factory=list[Question])
    wrong: Counter[_Remark] = field(default_factory=Counter[_Remark])

    def add(self, sample: Json, number: int) -> None:
        conversation = sample.get("conversation") if is_object(sample) else None
        if not is_object(sample) or not is_object(conversation):
            raise MemoryFormatError(
                where=self.name, reason=f"sample {number} has no 'conversation'", remedy=_REMEDY
            )
        namespace = str(sample.get("sample_id") or f"sample-{number}")
        moments = {
            session: self._moment(conversation.get(f"session_{session}_date_time"))
            for session, _ in _sessions(conversation)
        }
        for session, turns in _sessions(conversation):
            for turn in _objects(turns):
                self._add_turn(turn, namespace, session, moments[session])
        self._add_facts(sample.get("observation"), namespace, moments)
        for asked, question in enumerate(_objects(sample.get("qa")), 1):
            self._add_question(question, namespace, asked)

    def finish(self) -> Conversations:
        return Conversations(
            turns=tuple(self.turns.values()),
            facts=tuple(self.facts.values()),
            turns_by_fact=self.turns_by_fact,
            questions=tuple(self.questions),
            remarks=tuple(
                f"{count:,} {remark.one if count == 1 else remark.many}"
                for remark, count in sorted(self.wrong.items())
            ),
        )

    def _add_turn(
        self, turn: JsonObject, namespace: str, session: int, moment: datetime | None
    ) -> None:
        ids = _turn_ids(turn.get("dia_id"), namespace)
        said = str(turn.get("text") or "").strip()
        caption = str(turn.get("blip_caption") or "").strip()
        text = " ".join((said, *([f"[image: {caption}]"] if caption else ()))).strip()
        if len(ids) != 1 or not text or ids[0] in self.turns:
            self.wrong[_BAD_TURN] += 1
            return
        speaker = str(turn.get("speaker") or "").strip()
        self.turns[ids[0]] = MemoryRecord(
            id=ids[0],
            text=f"{speaker}: {text}" if speaker else text,
            kind="events",
            namespace=namespace,
            session_id=_session_id(namespace, session),
            created_at=moment,
        )

    def _add_facts(
        self, observations: Json, namespace: str, moments: Mapping[int, datetime | None]
    ) -> None:
        for session, noted in _sessions(observations if is_object(observations) else {}):
            for speaker, facts in noted.items() if is_object(noted) else ():
                for number, fact in enumerate(facts if is_array(facts) else ()):
                    text, said_in = fact if is_array(fact) and len(fact) == 2 else (None, None)
                    ids = [found for found in _turn_ids(said_in, namespace) if found in self.turns]
                    if not isinstance(text, str) or not text.strip() or not ids:
                        self.wrong[_BAD_FACT] += 1
                        continue
                    fact_id = f"{namespace}/fact-{session}-{speaker}-{number}"
                    self.turns_by_fact[fact_id] = tuple(ids)
                    self.facts[fact_id] = MemoryRecord(
                        id=fact_id,
                        text=text,
                        kind="observations",
                        namespace=namespace,
                        author=speaker,
                        session_id=_session_id(namespace, session),
                        created_at=moments.get(session),
                    )

    def _add_question(self, asked: JsonObject, namespace: str, number: int) -> None:
        given = asked.get("evidence")
        spelled = [given] if isinstance(given, str) else given if is_array(given) else []
        ids = _turn_ids(spelled, namespace)
        known = [found for found in ids if found in self.turns]
        question = str(asked.get("question") or "").strip()
        if not question or not known:
            self.wrong[_NO_EVIDENCE] += 1
            return
        if [f"{namespace}/{one}" for one in spelled] != ids:
            self.wrong[_REPAIRED] += 1
        if known != ids:
            self.wrong[_LEFT_OUT] += 1
        category = asked.get("category")
        self.questions.append(
            Question(
                id=f"{namespace}/{number}",
                question=question,
                evidence=tuple(known),
                category=CATEGORIES.get(category, f"category {category}"),
                namespace=namespace,
            )
        )

    def _moment(self, written: Json) -> datetime | None:
        text = " ".join(str(written or "").split())
        try:
            return datetime.strptime(text, _DATE).replace(tzinfo=UTC)
        except ValueError:
            self.wrong[_NO_DATE] += 1
            return None


def _session_id(namespace: str, session: int) -> str:
    return f"{namespace}/session-{session}"


def _sessions(part: JsonObject) -> list[tuple[int, Json]]:
    """Return the sessions in order, by number: `session_2`, or `session_2_observation`."""
    found = {
        int(match[1]): value
        for key, value in part.items()
        if (match := _SESSION.match(key)) is not None and not isinstance(value, str)
    }
    return sorted(found.items(), key=lambda entry: entry[0])


def _objects(entries: Json) -> Iterator[JsonObject]:
    return (entry for entry in (entries if is_array(entries) else ()) if is_object(entry))


def _turn_ids(spelled: Json, namespace: str) -> list[str]:
    """Return every id that the text, or the texts, name, each once."""
    texts: Iterable[Json] = spelled if is_array(spelled) else (spelled,)
    pairs = [pair for text in texts if isinstance(text, str) for pair in _TURN_ID.findall(text)]
    return list(dict.fromkeys(f"{namespace}/D{int(day)}:{int(turn)}" for day, turn in pairs))
