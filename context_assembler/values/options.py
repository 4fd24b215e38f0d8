"""What a caller may ask for, and what was settled."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final, Literal, TypeAlias

from context_assembler.values.parts import Json
from context_assembler.values.tools import ToolChoice

CachePolicy: TypeAlias = Literal["auto", "off"]
OverflowPolicy: TypeAlias = Literal["error", "shorten"]
UnknownModelPolicy: TypeAlias = Literal["error", "conservative"]
Layer: TypeAlias = Literal["request", "session", "agent", "system", "model"]

LAYERS: Final[tuple[Layer, ...]] = ("request", "session", "agent", "system")


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembleOptions:
    """Everything `assemble` may be asked for; `None` means "not given".

    Attributes:
        model: Model id, as the provider or a gateway spells it.
        max_tokens: Longest reply, in tokens.
        thinking_level: Effort, one of the model's own levels.
        thinking_budget: Tokens for thinking, on models that take a budget.
        max_context_tokens: Upper bound for the whole input, below the model's own.
        reserve_tokens: Tokens set aside for the reply; `max_tokens` by default. Given together
            with `max_context_tokens` it is taken from that bound.
        truncation_strategy: `smart`, `simple` or `sliding`.
        window_turns: Newest turns that `sliding` keeps.
        cache_stable: Whether cuts happen at checkpoints only, so that the prompt cache is hit.
        on_overflow: Whether text of the user may be shortened where nothing else helps.
        permissions: Globs over tool permissions; only matching tools are offered.
        sandbox_mode: Offer only tools marked safe.
        query: What to recall memory for.
        cache: Prompt-cache policy of the payload.
        fresh: Do not answer from the assembly cache.
        unknown_model: What to do with a model that has no row in model_limits.yaml.
    """

    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: tuple[str, ...] | None = None
    thinking_level: str | None = None
    thinking_budget: int | None = None
    additional_system_prompt: str | None = None
    additional_tools: tuple[Json, ...] | None = None
    disabled_tools: tuple[str, ...] | None = None
    tool_choice: ToolChoice | None = None
    max_context_tokens: int | None = None
    reserve_tokens: int | None = None
    truncation_strategy: str | None = None
    window_turns: int | None = None
    cache_stable: bool | None = None
    on_overflow: OverflowPolicy | None = None
    skip_skills: bool | None = None
    skill_filter: tuple[str, ...] | None = None
    sandbox_mode: bool | None = None
    permissions: tuple[str, ...] | None = None
    query: str | None = None
    cache: CachePolicy | None = None
    fresh: bool | None = None
    unknown_model: UnknownModelPolicy | None = None


OPTION_NAMES: Final[tuple[str, ...]] = tuple(f.name for f in fields(AssembleOptions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Options with every layer applied.

    `layers` says for each option that has a value which layer gave it; `warnings` names the values
    of lower layers that the model rejects and that were therefore left out.
    """

    options: AssembleOptions
    layers: Mapping[str, Layer] = field(default_factory=dict[str, Layer])
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncationSettings:
    """How a history is made to fit.

    Attributes:
        strategy: Name of a row in `TRUNCATIONS`.
        window_turns: Newest turns that `sliding` keeps.
        cache_stable: Whether cuts happen at checkpoints only.
        step_share: What a rewrite frees, as a share of the room for history.
        stub_tokens: What is left of a shortened tool result.
        on_overflow: Whether text of the user may be shortened where nothing else helps.
    """

    strategy: str = "smart"
    window_turns: int = 20
    cache_stable: bool = True
    step_share: float = 1 / 3
    stub_tokens: int = 200
    on_overflow: OverflowPolicy = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSettings:
    """How the model is told the time: `format` as for `strftime`, `time_zone` an IANA name.

    A new clock note is placed on the first turn, when the day changed, and when more than
    `gap_seconds` passed since the last one.
    """

    is_enabled: bool = True
    format: str = "%A, %Y-%m-%d %H:%M %Z"
    time_zone: str = "UTC"
    gap_seconds: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """When a session should be compacted.

    Attributes:
        trigger_share: Of the window less the reserve; above it compaction is advised.
        target_share: What compaction should bring the history down to; below the trigger.
        max_messages: Messages in the history.
        max_tool_calls: Tool calls in the history.
        min_gain_share: Share of the history that compaction must be able to free.
        min_growth_tokens: What must have come in since the last compaction.
        uses_price_steps: Whether a model's price step is a trigger too.
    """

    trigger_share: float = 0.8
    target_share: float = 0.5
    max_messages: int = 100
    max_tool_calls: int = 50
    min_gain_share: float = 0.1
    min_growth_tokens: int = 2000
    uses_price_steps: bool = True
