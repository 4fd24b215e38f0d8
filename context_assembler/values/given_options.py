"""The options of a call as a caller may spell them."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict

from context_assembler.values.options import (
    CachePolicy,
    OverflowPolicy,
    TruncationStrategy,
    UnknownModelPolicy,
)
from context_assembler.values.parts import Json
from context_assembler.values.tools import ToolChoice

GivenTexts: TypeAlias = str | Sequence[str]
GivenToolChoice: TypeAlias = (
    Literal["auto", "none", "any", "required"] | ToolChoice | Mapping[str, Json]
)


class GivenOptions(TypedDict, total=False):
    """What `assemble` takes by name, for type checkers and editors.

    `AssembleOptions` says what each means; `None` means "not given". A dict that is passed with
    `**` is annotated with this, or, where other options stand beside it, as a `dict[str, Any]`.
    """

    model: str | None
    temperature: float | None
    max_tokens: int | None
    top_p: float | None
    top_k: int | None
    stop_sequences: GivenTexts | None
    thinking_level: str | None
    thinking_budget: int | None
    additional_system_prompt: str | None
    additional_tools: Json
    disabled_tools: GivenTexts | None
    tool_choice: GivenToolChoice | None
    max_context_tokens: int | None
    reserve_tokens: int | None
    truncation_strategy: TruncationStrategy | None
    window_turns: int | None
    cache_stable: bool | None
    on_overflow: OverflowPolicy | None
    skip_skills: bool | None
    skill_filter: GivenTexts | None
    active_skills: GivenTexts | None
    sandbox_mode: bool | None
    permissions: GivenTexts | None
    query: str | None
    recall_tokens: int | None
    recall_namespaces: GivenTexts | None
    cache: CachePolicy | None
    exact: bool | None
    fresh: bool | None
    refresh: bool | None
    unknown_model: UnknownModelPolicy | None
