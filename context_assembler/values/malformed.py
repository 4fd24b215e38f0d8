"""Blocks of a provider's own that lack what their type promises: told in words, never sent as they are."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from context_assembler.values.adapting import Change, Judge
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.messages import Role
from context_assembler.values.native.unfolding import unfold
from context_assembler.values.parts import Json, JsonObject, Opaque, ResultPart

RULE: Final = "content.malformed"

FindFlaw: TypeAlias = Callable[[JsonObject, Role], str | None]
"""Says why a block is refused where it stands, half a sentence; `None`: it may be sent."""

Suits: TypeAlias = Callable[[Json], bool]
"""Says whether a field holds what it has to."""


def is_filled(value: Json) -> bool:
    """Whether the value is text that says something."""
    return isinstance(value, str) and bool(value.strip())


def is_text(value: Json) -> bool:
    """Whether the value is text, be it blank."""
    return isinstance(value, str)


def is_text_or_null(value: Json) -> bool:
    """Whether the value is text or says that there is none."""
    return value is None or isinstance(value, str)


def is_flag(value: Json) -> bool:
    """Whether the value is true or false."""
    return isinstance(value, bool)


def is_mapping(value: Json) -> bool:
    """Whether the value is an object."""
    return is_object(value)


def is_content(value: Json) -> bool:
    """Whether the value is text, an object, or a list of such."""
    return all(isinstance(one, str) or is_object(one) for one in _listed(value))


def _listed(value: Json) -> Sequence[Json]:
    return value if is_array(value) else (value,)


def judge_malformed(*, provider: str, find_flaw: FindFlaw) -> Judge:
    """Return the judge of the provider's own blocks that it would refuse.

    What can be read of one is sent, its text and the media in it; a line stands for one with neither,
    except in what the model itself said.
    """

    def judge(part: ResultPart, role: Role) -> Change | None:
        if not isinstance(part, Opaque) or part.provider != provider:
            return None
        flaw = find_flaw(part.block, role)
        if flaw is None:
            return None
        sent = unfold(part)
        kind = part.block.get("type")
        block = f"A block of {provider}" + (f" ({kind:.40})" if isinstance(kind, str) else "")
        reason = f"{block} is {'told in words' if sent else 'left out'}: {flaw}."
        return Change(
            text="" if sent or role == "assistant" else f"[{reason}]",
            decision="repaired" if sent else "dropped",
            rule=RULE,
            reason=reason,
            parts=sent,
        )

    return judge
