"""The socket of wire protocols."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol

from context_assembler.values.context import Payload
from context_assembler.values.deferral import ToolSearch
from context_assembler.values.draft import Draft, Reply
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import JsonObject
from context_assembler.values.report import ReportEntry, Violation
from context_assembler.values.tool_changes import NO_CHANGES, ChangeForms
from context_assembler.values.vouching import SpelledPayload


class CheckPayload(Protocol):
    """Finds the rules of a provider that a payload breaks."""

    def __call__(
        self,
        payload: JsonObject,
        /,
        *,
        limits: ModelLimits | None = None,
        today: date | None = None,
    ) -> list[Violation]:
        """Return the violations in order of appearance.

        Args:
            limits: The model's row; without it the rules that depend on the model are left out.
            today: Against which dated rules are checked; without it the newest hold.
        """
        ...


def no_change_forms(_limits: ModelLimits) -> ChangeForms:
    """Return the forms of a provider that is told of its tools in front of the history alone."""
    return NO_CHANGES


def no_tool_search(_limits: ModelLimits) -> ToolSearch | None:
    """Return the search of a provider that has none."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One wire protocol.

    Attributes:
        adapt: Make a draft one that the provider can take, with a row for every change: parts
            replaced by a text that names them, tools left out, parameters corrected. Pure, and
            twice is the same as once; the number of messages stays.
        render: Spell a draft as keyword arguments for the SDK; adapts it first.
        spell: The same, with what of it was kept of an earlier payload.
        read_reply: Read an SDK's reply object or its dict; the draft gives tools their names back.
        matches_reply: Whether a reply is of this provider's shape.
        check_payload: The provider's rules.
        fingerprints: One per message boundary of a draft: element *i* identifies everything before
            message *i* as rendered; cache markers and thinking do not count.
        change_forms: What a model can be told of tools behind the history.
        tool_search: How a model searches for tools whose definitions are held back; `None`: it
            cannot.
    """

    name: str
    adapt: Callable[[Draft], tuple[Draft, tuple[ReportEntry, ...]]]
    render: Callable[[Draft], Payload]
    spell: Callable[[Draft], SpelledPayload]
    read_reply: Callable[[Any, Draft | None], Reply]
    matches_reply: Callable[[Any], bool]
    check_payload: CheckPayload
    fingerprints: Callable[[Draft], tuple[str, ...]]
    change_forms: Callable[[ModelLimits], ChangeForms] = no_change_forms
    tool_search: Callable[[ModelLimits], ToolSearch | None] = no_tool_search
