"""Rolling fingerprints of a history, kept so that a step digests only what is new."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from context_assembler.values.fingerprints import digest_json, roll_on
from context_assembler.values.messages import Message
from context_assembler.values.parts import Json
from context_assembler.values.spelled import (
    SpelledSession,
    SpelledUnit,
    Speller,
    spell_history,
)

U = TypeVar("U", bound=SpelledUnit)


def fingerprints_of(
    messages: Sequence[Message],
    speller: Speller[U, Any],
    kept: SpelledSession | None,
    *,
    head: Json,
    identity: Callable[[U], Json],
    restarts: Callable[[U], bool] = lambda _: False,
) -> tuple[str, ...]:
    """Return one fingerprint per boundary: element *i* stands for the head and *i* messages.

    Args:
        speller: Of the payloads; its units are what is digested.
        kept: Where those of settled messages are kept; `None`: none are.
        head: What stands in front of the history, as JSON.
        identity: What counts of a unit; `None` where nothing of it is sent: it changes nothing.
        restarts: Whether a unit stands for all before it: behind it only the head and what follows
            counts.
    """
    first = digest_json(head)

    def add(before: Sequence[str], units: Sequence[U]) -> Sequence[str]:
        counting = ((identity(unit), restarts(unit)) for unit in units)
        return roll_on(before[-1] if before else first, counting, head=first)

    prints = Speller(
        name=f"{speller.name} fingerprints",
        surroundings=(*speller.surroundings, first),
        id_rule=speller.id_rule,
        spell=speller.spell,
        add=add,
    )
    spelled = spell_history(messages, prints, kept)
    return (first, *spelled.settled, *spelled.rest)
