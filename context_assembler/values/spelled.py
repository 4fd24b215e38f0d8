"""What is spelled of a session for its providers, kept so that a step spells only what is new.

Most of a history stands as it stood at the step before: the same message objects, in the same order.
Up to a place where a reply begins it is *settled*: what was spelled of it is kept, and the next
payload takes copies of that. Whatever reaches back from behind that place – an id that is used
again, an item that refers to another one – makes the whole be spelled anew. What is kept
changes what a payload costs, never what it says.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from context_assembler.values.growing import Growing, first_of
from context_assembler.values.messages import Message
from context_assembler.values.names import NameRule, spell_call_ids
from context_assembler.values.parts import ToolCall, ToolResult
from context_assembler.values.spelled_facts import NO_FACTS, Facts, Features, begins_with

_LEAST_OPEN: Final = 4  # messages that stay open at the end: a reply and what may follow it
_OPEN_SHARE: Final = 2_000  # one more of so many: what is settled is copied to a longer tuple
_LEAST_APART: Final = 32
_MAX_KEPT: Final = 4  # per provider: models in turn, and shorter beginnings to fall back on
_NEWEST: Final = 8  # messages of which nothing is kept: notes are made anew at every step


class SpelledUnit(Protocol):
    """One message as a provider spells it, before its neighbours are joined to it."""

    @property
    def speaker(self) -> str:
        """`model`, `user`, or empty where nothing is sent of the message."""
        ...

    @property
    def stands_alone(self) -> bool:
        """Whether no message of another turn changes it, nor is changed by it, but by call ids."""
        ...


U = TypeVar("U", bound=SpelledUnit)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Speller(Generic[U, T]):
    """How the messages of a draft are spelled for one provider.

    Attributes:
        name: Of what is made: it is kept under it.
        surroundings: Everything beside the messages that it depends on.
        spell: Makes units of messages and the ids of their calls and results, as they are sent.
        add: Makes of units what stands behind that of earlier ones; a reply opens what it is
            asked to add.
    """

    name: str
    surroundings: tuple[object, ...]
    id_rule: NameRule
    spell: Callable[[Sequence[Message], Sequence[tuple[str, ...]]], Sequence[U]]
    add: Callable[[Sequence[T], Sequence[U]], Sequence[T]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CallIds:
    """The ids that stood in messages, and those that calls were sent with."""

    given: frozenset[str] = frozenset()
    sent: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(Generic[T]):
    """The beginning of a history, and what was made of it; nobody else holds that, or changes it."""

    messages: Sequence[Message] = ()
    surroundings: tuple[object, ...] = ()
    ids: _CallIds = _CallIds()
    made: tuple[T, ...] = ()


class SpelledSession:
    """What is kept of one session, for all providers; usable from several threads.

    It is derived: a copy, or one that was pickled, is empty.
    """

    def __init__(self) -> None:
        self._settled: dict[str, tuple[Settled[Any], ...]] = {}
        self._facts: tuple[Sequence[Message], Facts] = ((), NO_FACTS)
        self._features: dict[str, Features] = {}
        self.approved: dict[str, Any] = {}

    def __reduce__(self) -> tuple[type["SpelledSession"], tuple[()]]:
        """Return an empty one: what is kept can be made again."""
        return SpelledSession, ()

    def find(
        self, name: str, messages: Sequence[Message], surroundings: tuple[object, ...]
    ) -> Settled[Any] | None:
        """Return the longest beginning of the messages that is settled in these surroundings."""
        for one in self._settled.get(name, ()):
            if one.surroundings == surroundings and begins_with(messages, one.messages):
                return one
        return None

    def keep(self, name: str, settled: Settled[Any]) -> None:
        """Keep a beginning; shorter ones stay in case that the longer one does not come again."""
        earlier = [
            one
            for one in self._settled.get(name, ())
            if one.surroundings != settled.surroundings
            or abs(len(settled.messages) - len(one.messages)) >= _LEAST_APART
        ]
        kept = [settled, *earlier[: _MAX_KEPT - 1]]
        self._settled[name] = tuple(sorted(kept, key=lambda one: -len(one.messages)))

    def kept_lengths(self, name: str) -> list[int]:
        """Return how many messages each beginning has that is kept under the name."""
        return [len(one.messages) for one in self._settled.get(name, ())]

    def features_of(
        self, name: str, made: Sequence[Any], find: Callable[[Sequence[Any]], Iterable[str]]
    ) -> frozenset[str]:
        """Return what is found in a settled beginning, of which only the new is looked through.

        Args:
            name: Of what is looked for; it is kept under it.
        """
        known = self._features.get(name, Features())
        if not known.are_of(made):
            known = Features()
        if len(made) > known.count:
            found = known.found.union(find(made[known.count :]))
            known = Features(count=len(made), last=made[-1], found=found)
            self._features[name] = known
        return known.found

    def facts_of(self, messages: Sequence[Message]) -> Facts:
        """Return the facts of messages, of which only the new ones are looked at."""
        known, facts = self._facts
        if not begins_with(messages, known):
            known, facts = (), NO_FACTS
        open_end = 0 if isinstance(messages, Growing) else _NEWEST  # what grows stays as it is
        until = max(len(messages) - open_end, len(known))
        settled = facts.with_messages(messages[len(known) : until])
        if until > len(known):
            self._facts = first_of(messages, until), settled
        return settled.with_messages(messages[until:])


def spelled_of(derived: MutableMapping[Hashable, Any] | None) -> SpelledSession | None:
    """Return what is kept among everything that is derived of a session; begun where nothing is."""
    if derived is None:
        return None
    kept = derived.setdefault("spelled", SpelledSession())
    assert isinstance(kept, SpelledSession)
    return kept


def facts_of(messages: Sequence[Message], kept: SpelledSession | None) -> Facts:
    """Return what the spelling of single messages depends on."""
    return NO_FACTS.with_messages(messages) if kept is None else kept.facts_of(messages)


def knows_plain(messages: Sequence[Message], kept: SpelledSession | None) -> bool:
    """Whether it is known that all messages are plain: then no provider has to adapt one."""
    return kept is not None and kept.facts_of(messages).is_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelled(Generic[T]):
    """What was made of a history: of its settled beginning, which is kept, and of the rest."""

    settled: Sequence[T] = ()
    rest: Sequence[T]


def spell_history(
    messages: Sequence[Message], speller: Speller[U, T], kept: SpelledSession | None
) -> Spelled[T]:
    """Return what the speller makes of the messages.

    Args:
        kept: Where what is settled is kept; `None`: nothing is.
    """
    if kept is None:
        ids = spell_call_ids(messages, rule=speller.id_rule)
        return Spelled(rest=speller.add((), speller.spell(messages, ids)))
    start = kept.find(speller.name, messages, speller.surroundings)
    spelled = None if start is None else _go_on(start, messages, speller, kept)
    if spelled is not None:
        return spelled
    begun = _go_on(Settled(surroundings=speller.surroundings), messages, speller, kept)
    assert begun is not None, "nothing stands before the first message"
    return begun


def _go_on(
    start: Settled[T], messages: Sequence[Message], speller: Speller[U, T], kept: SpelledSession
) -> Spelled[T] | None:
    """Return what is made of the messages; `None` where a later one reaches back into the start."""
    rest = messages[len(start.messages) :]
    if start.messages and any(call_id in start.ids.given for call_id in _ids_given(rest)):
        return None
    ids = spell_call_ids(rest, rule=speller.id_rule, taken=start.ids.sent)
    units = speller.spell(rest, ids)
    if start.messages and not _follows(units):
        return None
    is_long = len(rest) > _LEAST_OPEN + len(start.messages) // _OPEN_SHARE
    place = _place_to_settle(rest, ids, units) if is_long else 0
    if not place:
        return Spelled(settled=start.made, rest=speller.add(start.made, units))
    more = Settled(
        messages=first_of(messages, len(start.messages) + place),
        surroundings=speller.surroundings,
        ids=_CallIds(
            given=start.ids.given.union(_ids_given(rest[:place])),
            sent=start.ids.sent.union(*ids[:place]),
        ),
        made=(*start.made, *speller.add(start.made, units[:place])),
    )
    kept.keep(speller.name, more)
    return Spelled(settled=more.made, rest=speller.add(more.made, units[place:]))


def _follows(units: Sequence[SpelledUnit]) -> bool:
    """Whether units stand behind a settled beginning as they would behind its messages."""
    first = next((unit.speaker for unit in units if unit.speaker), "model")
    return first == "model" and all(unit.stands_alone for unit in units)


def _ids_given(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCall | ToolResult):
                yield part.call_id


def _place_to_settle(
    messages: Sequence[Message], ids: Sequence[tuple[str, ...]], units: Sequence[SpelledUnit]
) -> int:
    """Return the last place where a reply begins behind what was said to it; 0: there is none.

    No call before it waits for a result, and everything before it stands alone.
    """
    place, before = 0, ""
    waiting: set[str] = set()
    for at, unit in enumerate(units):
        if unit.speaker == "model" and before == "user" and not waiting:
            place = at
        if not unit.stands_alone:
            break
        before = unit.speaker or before
        parts = (p for p in messages[at].parts if isinstance(p, ToolCall | ToolResult))
        for part, call_id in zip(parts, ids[at], strict=True):
            (waiting.add if isinstance(part, ToolCall) else waiting.discard)(call_id)
    return place
