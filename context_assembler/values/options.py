"""What a caller may ask for, and what was settled."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Literal, TypeAlias

from context_assembler.errors import ConfigurationError, InvalidParameterError
from context_assembler.values.parts import Json
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.time_zones import open_zone
from context_assembler.values.tools import ToolChoice

CachePolicy: TypeAlias = Literal["auto", "off"]
BootstrapPolicy: TypeAlias = Literal["refresh", "freeze"]
MaskedPlace: TypeAlias = Literal["files", "tool_results", "user"]
OverflowPolicy: TypeAlias = Literal["error", "shorten"]
UnknownModelPolicy: TypeAlias = Literal["error", "conservative"]
TruncationStrategy: TypeAlias = Literal["smart", "simple", "sliding"]
Layer: TypeAlias = Literal["request", "session", "agent", "system", "model"]

LAYERS: Final[tuple[Layer, ...]] = ("request", "session", "agent", "system")


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembleOptions:
    """Everything `assemble` may be asked for; `None` means "not given".

    Attributes:
        model: Model id, as the provider or a gateway spells it.
        temperature: How much the model varies its words, where it takes one.
        max_tokens: Longest reply, in tokens.
        top_p: Share of the likely words that the model chooses from, where it takes one.
        top_k: Number of likely words that the model chooses from, where it takes one.
        stop_sequences: Texts that end the reply.
        thinking_level: Effort, one of the model's own levels.
        thinking_budget: Tokens for thinking, on models that take a budget.
        additional_system_prompt: Instructions for this call; they stand behind the history.
        additional_tools: Tools for this call: functions, or specs in any provider's shape.
        disabled_tools: Names of tools that are not offered.
        tool_choice: `auto`, `none`, `any`, or the one tool that the model must call.
        max_context_tokens: Upper bound for the whole input, below the model's own.
        reserve_tokens: Tokens set aside for the reply; `max_tokens` by default. Given together
            with `max_context_tokens` it is taken from that bound.
        truncation_strategy: `smart`, `simple` or `sliding`.
        window_turns: Newest turns that `sliding` keeps.
        cache_stable: Whether cuts happen at checkpoints only, so that the prompt cache is hit.
        on_overflow: `error` may shorten all that stays but the user's last words; `shorten` these too.
        skip_skills: Tell the model of no skill at all.
        skill_filter: Globs over the names of skills; only matching skills are listed. One that the
            request itself names in full is active: its instructions are in the prompt.
        active_skills: Skills whose instructions are in the prompt, and whose tools are offered.
        permissions: Globs over tool permissions; only matching tools are offered.
        sandbox_mode: Offer only tools marked safe.
        query: What to recall memory for; what is found stands behind the history.
        recall_tokens: The longest note of what is recalled, with its label and fence.
        recall_namespaces: The only projects, or users, whose memories `query` may recall.
        cache: Prompt-cache policy of the payload.
        exact: Hold the payload against the provider's own count, which asks its endpoint.
        fresh: Do not answer from the assembly cache.
        refresh: Take instruction files as they are, where the policy is to let edits wait.
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
    truncation_strategy: TruncationStrategy | None = None
    window_turns: int | None = None
    cache_stable: bool | None = None
    on_overflow: OverflowPolicy | None = None
    skip_skills: bool | None = None
    skill_filter: tuple[str, ...] | None = None
    active_skills: tuple[str, ...] | None = None
    sandbox_mode: bool | None = None
    permissions: tuple[str, ...] | None = None
    query: str | None = None
    recall_tokens: int | None = None
    recall_namespaces: tuple[str, ...] | None = None
    cache: CachePolicy | None = None
    exact: bool | None = None
    fresh: bool | None = None
    refresh: bool | None = None
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
        window_turns: Newest turns that `sliding` keeps; at least 1.
        cache_stable: Whether cuts happen at checkpoints only.
        step_share: What a rewrite frees, as a share of the room for history; above 0, at most 1.
        opening_share: What `smart` keeps of the history's beginning behind the user's first
            message, as a share of the room for history, so that it stays cached; at most half of
            what a cut leaves, given up for good where it leaves no room for a step. 0: nothing.
        stub_tokens: What is left of a shortened tool result; at least 1.
        on_overflow: `error` may shorten all that stays but the user's last words; `shorten` these too.
        max_result_tokens: Longest text of one tool result, whatever else is sent; `None`: any.
        max_result_tokens_by_tool: The same by the tool's name or a glob of names, first match wins.
        max_user_tokens: Longest text that a user may paste; `None`: any.
        max_image_side_px: Longer side of an image that is sent, at least 64; `None`: any.

    Raises:
        InvalidParameterError: A number that cannot work.
    """

    strategy: str = "smart"
    window_turns: int = 20
    cache_stable: bool = True
    step_share: float = 1 / 3
    opening_share: float = 0.3
    stub_tokens: int = 200
    on_overflow: OverflowPolicy = "error"
    max_result_tokens: int | None = 100_000
    max_result_tokens_by_tool: Mapping[str, int] = field(default_factory=dict[str, int])
    max_user_tokens: int | None = None
    max_image_side_px: int | None = None

    def __post_init__(self) -> None:
        caps = (self.max_result_tokens, *self.max_result_tokens_by_tool.values())
        given = {"max_result_tokens": caps, "max_user_tokens": (self.max_user_tokens,)}
        for name, asked in given.items():
            for cap in asked:
                _check_least(name, 1 if cap is None else cap, least=1, usual="100000")
        side_px = 64 if self.max_image_side_px is None else self.max_image_side_px
        _check_least("max_image_side_px", side_px, least=64, usual="1568")
        _check_least("window_turns", self.window_turns, least=1, usual="20")
        if not 0 < self.step_share <= 1:
            raise InvalidParameterError(
                "step_share",
                self.step_share,
                rule="must be above 0 and at most 1",
                remedy="Give the share of the room that a rewrite frees, for example 0.33.",
            )
        if not 0 <= self.opening_share < 1:
            raise InvalidParameterError(
                "opening_share",
                self.opening_share,
                rule="must be at least 0 and below 1",
                remedy="Give the share of the room that the beginning may take, for example 0.3.",
            )
        _check_least("stub_tokens", self.stub_tokens, least=1, usual="200")

    def asked(self, options: AssembleOptions) -> "TruncationSettings":
        """Return the same, less what a call says of it itself."""
        is_stable = self.cache_stable if options.cache_stable is None else options.cache_stable
        return replace(
            self,
            strategy=options.truncation_strategy or self.strategy,
            window_turns=options.window_turns or self.window_turns,
            cache_stable=is_stable,
            on_overflow=options.on_overflow or self.on_overflow,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSettings:
    """How the model is told the time: `format` as for `strftime`, `time_zone` an IANA name.

    A new clock note is placed on the first turn, when the day changed, and when more than
    `gap_seconds` passed since the last one. With `date_in_system` the system prompt tells the day
    on which the history begins; it changes only where a compaction begins another history.

    Raises:
        InvalidParameterError: The time zone, the format or the gap cannot be used.
    """

    is_enabled: bool = True
    format: str = "%A, %Y-%m-%d %H:%M %Z"
    time_zone: str = "UTC"
    gap_seconds: float = 600.0
    date_in_system: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.gap_seconds < timedelta.max.total_seconds():
            raise InvalidParameterError(
                "gap_seconds",
                self.gap_seconds,
                rule="must be a number of seconds, 0 or more",
                remedy="Set it to 600 for a new clock note after ten minutes.",
            )
        if not _tells_the_time(self.format, open_zone(self.time_zone)):
            raise InvalidParameterError(
                "format",
                self.format,
                rule="must be a format of strftime",
                remedy="Use for example '%A, %Y-%m-%d %H:%M %Z'.",
            )

    @property
    def zone(self) -> tzinfo:
        """The time zone itself."""
        return open_zone(self.time_zone)


def _tells_the_time(form: str, zone: tzinfo) -> bool:
    try:
        told = datetime(2026, 3, 28, tzinfo=UTC).astimezone(zone).strftime(form)
    except ValueError:
        return False
    return bool(form.strip()) and clean_text(form) == form and clean_text(told) == told


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """When a session should be compacted.

    Attributes:
        trigger_share: Of the window less the reserve; above it compaction is advised.
        target_share: What compaction should bring the history down to; below the trigger.
        max_messages: Messages in the history; at least 1.
        max_tool_calls: Tool calls in the history; at least 1.
        min_gain_share: Share of the history that compaction must be able to free.
        min_growth_tokens: What must have come in since the last compaction.
        uses_price_steps: Whether a model's price step is a trigger too.

    Raises:
        InvalidParameterError: A share outside 0 to 1, or a number too small.
        ConfigurationError: The trigger does not exceed the target.
    """

    trigger_share: float = 0.8
    target_share: float = 0.5
    max_messages: int = 100
    max_tool_calls: int = 50
    min_gain_share: float = 0.1
    min_growth_tokens: int = 2000
    uses_price_steps: bool = True

    def __post_init__(self) -> None:
        _check_share("trigger_share", self.trigger_share)
        _check_share("target_share", self.target_share)
        _check_share("min_gain_share", self.min_gain_share)
        _check_least("max_messages", self.max_messages, least=1, usual="100")
        _check_least("max_tool_calls", self.max_tool_calls, least=1, usual="50")
        _check_least("min_growth_tokens", self.min_growth_tokens, least=0, usual="2000")
        if self.trigger_share <= self.target_share:
            raise ConfigurationError(
                f"Compaction is triggered at {self.trigger_share:g} of the window and aims at "
                f"{self.target_share:g}: every message would trigger it again.",
                remedy="Set trigger_share above target_share, for example 0.8 and 0.5.",
            )


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InvalidParameterError(
            name, value, rule="must be between 0 and 1", remedy="Give a share, such as 0.5."
        )


def _check_least(name: str, value: int, *, least: int, usual: str) -> None:
    if value < least:
        raise InvalidParameterError(
            name, value, rule=f"must be at least {least}", remedy=f"Give a number, such as {usual}."
        )
