"""What one model takes, refuses and costs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final, Literal, TypeAlias

from context_assembler.values.given import check_type

ModelStatus: TypeAlias = Literal["active", "legacy", "deprecated", "retired"]
WindowKind: TypeAlias = Literal["shared", "separate"]
ThinkingKind: TypeAlias = Literal["adaptive", "budget", "effort", "toggle"]
TemperatureRule: TypeAlias = Literal[
    "always", "legacy_api", "effort_none", "ignored", "fixed", "never"
]

_BYTES_PER_TOKEN: Final = 1.8


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingRule:
    """How a model's reasoning is asked for.

    Attributes:
        kinds: Ways to ask for it; empty means the model does not reason.
        levels: Effort levels, lowest first; `none` is among them where it may be switched off so.
        default_level: What the provider assumes; `None` where unknown.
        disable: `yes`, `no`, `between_tools`, or `effort_up_to_high`.
        is_prefix_bound: Whether signed reasoning is refused once what stood before it changed.
        is_account_bound: Whether it is refused under another account, and so at another host.
    """

    kinds: tuple[ThinkingKind, ...] = ()
    levels: tuple[str, ...] = ()
    default_level: str | None = None
    disable: Literal["yes", "no", "between_tools", "effort_up_to_high"] = "yes"
    is_prefix_bound: bool = False
    is_account_bound: bool = True
    min_budget_tokens: int | None = None
    max_budget_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterRules:
    """Which sampling parameters a model takes, and their ranges.

    `accepts_stop` is about the vendor's own API; a gateway may stop for the model.
    """

    temperature: TemperatureRule = "always"
    fixed_temperature: float | None = None
    max_temperature: float = 2.0
    accepts_top_p_with_temperature: bool = True
    accepts_stop: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRule:
    """How a provider caches prompts; `min_tokens` `None`: not known."""

    mode: Literal["explicit", "implicit", "none"] = "none"
    min_tokens: int | None = None
    ttls: tuple[str, ...] = ()

    @property
    def least_bytes(self) -> int:
        """Of how many bytes on a prefix may hold `min_tokens`: of what is densest, numbers in JSON.

        A mark in front of too little costs nothing and does nothing, so that there is one as soon as
        there may be enough: prose is marked at half of the minimum.
        """
        return int((self.min_tokens or 0) * _BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens; `None` where no price is known.

    The row holds from `from_date` on and for prompts above `above_input_tokens`.
    """

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    from_date: date | None = None
    above_input_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLimits:
    """One row of model_limits.yaml, resolved.

    Attributes:
        provider: The vendor: `anthropic`, `openai`, `google` …
        window_tokens: What the vendor prints as context window.
        window_kind: `shared` when input and reply must fit it together.
        input_tokens: Largest input, where the vendor names one.
        output_tokens: Largest reply; `None` where the vendor names none.
        features: Feature name → whether the model has it; a missing name is unknown, not absent.
        encoding: Tokenizer family (`o200k_base`, `anthropic-new` …).
        image_rule: How the vendor counts images, a row of `tokens.IMAGE_RULES`; empty: a flat
            figure.
        token_frame: How the vendor wraps messages, calls and tools, a row of `tokens.FRAMES`;
            empty: by the encoding.
        tool_prompt_tokens: Size of the hidden system prompt that comes with tools; `None`: unknown.
        weak: Fields that fewer than two sources agree on.
        locked: Fields that `models refresh` never proposes to change.
        asked_id: The id as the caller wrote it.
        api_id: The id to send to the vendor's own API.
        host: The gateway or cloud named in the asked id; `None`: the vendor itself.
        has_host_dates: Whether status and retirement date are the host's own, not the vendor's.
        is_assumed: Whether these are conservative guesses for an unknown model.
        protocol: The wire protocol to speak; `None`: the one that is usual for the model.
    """

    id: str
    provider: str
    status: ModelStatus = "active"
    retires_on: date | None = None
    aliases: tuple[str, ...] = ()
    window_tokens: int
    window_kind: WindowKind = "shared"
    input_tokens: int | None = None
    output_tokens: int | None = None
    features: Mapping[str, bool] = field(default_factory=dict[str, bool])
    thinking: ThinkingRule = field(default_factory=ThinkingRule)
    parameters: ParameterRules = field(default_factory=ParameterRules)
    encoding: str = "o200k_base"
    image_rule: str = ""
    token_frame: str = ""
    tool_prompt_tokens: int | None = None
    cache: CacheRule = field(default_factory=CacheRule)
    prices: tuple[Price, ...] = ()
    checked: date | None = None
    sources: tuple[str, ...] = ()
    weak: tuple[str, ...] = ()
    locked: tuple[str, ...] = ()
    remarks: str = ""
    asked_id: str = ""
    api_id: str = ""
    host: str | None = None
    has_host_dates: bool = False
    is_assumed: bool = False
    protocol: str | None = None

    @property
    def wire_id(self) -> str:
        """The id that a payload names the model by: the vendor's own, where it is known."""
        return self.api_id or self.id

    def supports(self, feature: str) -> bool:
        """Whether the model is known to have the feature."""
        check_type("feature", feature, str, such_as="a feature, such as 'tools'")
        return self.features.get(feature, False)
