"""A finished request, before a provider spells it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

from context_assembler.errors import InvalidParameterError
from context_assembler.values.events import Container, Usage
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.options import CachePolicy
from context_assembler.values.parts import Part
from context_assembler.values.prompt import SystemPrompt
from context_assembler.values.spelled import SpelledSession
from context_assembler.values.tool_changes import ToolPlan
from context_assembler.values.tools import ToolChoice, ToolSpec

_NUMBERS: Final = ("max_tokens", "temperature", "top_p", "top_k", "thinking_budget")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Settled sampling and reply parameters; `None` leaves the choice to the provider.

    Whoever holds them may rely on it: every number is finite.
    """

    max_tokens: int
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: tuple[str, ...] = ()
    thinking_level: str | None = None
    thinking_budget: int | None = None
    tool_choice: ToolChoice | None = None

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            value = getattr(self, name)
            if isinstance(value, float) and not isfinite(value):
                raise InvalidParameterError(
                    name, value, rule="must be a finite number", remedy="Leave it out, or give one."
                )


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What a provider renders: `messages` are the kept history, then the notes of this call.

    `tool_plan` tells how the model is told of tools that came or went since its epoch began; without
    one `tools` are all there is. `fenced` are the places of the system messages that the provider
    has no place for as such; they are told of when they are found, and not again. `spelled` is what
    earlier requests of the session were spelled as: nothing but time depends on it.
    """

    limits: ModelLimits
    parameters: Parameters
    system: SystemPrompt = field(default_factory=SystemPrompt)
    messages: Sequence[Message] = ()
    tools: tuple[ToolSpec, ...] = ()
    session_id: str = ""
    cache: CachePolicy = "auto"
    tool_plan: ToolPlan | None = None
    fenced: frozenset[int] = frozenset()
    spelled: SpelledSession | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's answer as a provider's reply reader found it.

    `unfinished_calls` are the ids of the calls that it was cut off in: what they hold of their
    arguments is a part of what the model meant.
    """

    provider: str
    model: str
    parts: tuple[Part, ...]
    unfinished_calls: tuple[str, ...] = ()
    response_id: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    container: Container | None = None
    warnings: tuple[str, ...] = ()
