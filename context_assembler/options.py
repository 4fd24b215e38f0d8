"""The one list of options, and the four layers that settle them.

Each option is declared once: as an entry of `GivenOptions` (what a call can be given) or of a settings
table. Its annotation holds the type, the bounds and the help text. Call options, `AssembleOptions`,
`AssemblerConfig`, TOML, environment variables, command-line flags and docs/reference/options.md are
all read from these declarations.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
    dataclass_transform,
    get_args,
    get_origin,
)

from context_assembler.errors import (
    ConfigurationError,
    InvalidParameterError,
    MissingModelError,
    UnknownOptionError,
    did_you_mean,
    nearest,
    remedy_for_file,
)
from context_assembler.events import Json
from context_assembler.models import ModelLimits
from context_assembler.ports import ToolChoice, ToolSpec

Layer: TypeAlias = Literal["request", "session", "agent", "system", "model"]
CachePolicy: TypeAlias = Literal["auto", "off"]
OverflowPolicy: TypeAlias = Literal["error", "shorten"]
UnknownModelPolicy: TypeAlias = Literal["error", "conservative"]

LAYERS: Final[tuple[Layer, ...]] = ("request", "session", "agent", "system")
DEFAULT_MAX_TOKENS: Final = 16_000
# The anthropic SDK refuses to wait for a longer reply that is not streamed.
# https://platform.claude.com/docs/en/cli-sdks-libraries/sdks/python#long-requests (2026-11-27)
LONGEST_UNSTREAMED_TOKENS: Final = 21_333


class Rule(NamedTuple):
    """Bounds of a value: `least` and `most` are included, `above` is not."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    takes_blank: bool = True


_Word = Rule(takes_blank=False)
_NOTHING: Final[dict[str, Any]] = {}


def _refuse(_: object, name: str, value: object) -> None:
    raise AttributeError(f"Settings are immutable: {name!r} cannot become {value!r}.")


class GivenOptions(TypedDict, total=False):
    """Everything that `assemble` can be given; an option that is left out or `None` is not given.

    Attributes:
        model: Model id, as the provider or a gateway writes it.
        temperature: How much the model varies its words.
        max_tokens: Longest reply, in tokens.
        top_p: Share of likely words to choose from.
        top_k: Number of likely words to choose from.
        stop_sequences: Texts that end the reply.
        thinking_level: Effort: one of the model's own levels.
        thinking_budget: Tokens for thinking, on models that take a budget.
        additional_system_prompt: Instructions for this call; sent as a note after the
            history.
        additional_tools: Tools for this call: functions, or specs in any provider's shape.
        disabled_tools: Names of tools that are not offered.
        tool_choice: `auto`, `none`, `any`, or the one tool that the model must call.
        max_context_tokens: Upper bound for the whole input, below the model's own.
        reserve_tokens: Tokens kept free for the reply, `max_tokens` by default; if
            `max_context_tokens` is given as well, they are taken from it.
        truncation_strategy: How a history that does not fit is cut.
        window_turns: Newest turns that `sliding` keeps.
        cache_stable: Whether cuts happen at checkpoints only, so that the prompt cache is
            hit.
        on_overflow: `error` may shorten everything that stays except the user's last
            message; `shorten` may shorten that too.
        skip_skills: List no skill at all.
        skill_filter: Globs over the names of skills: only matching skills are listed. A
            skill that the request names in full is active.
        active_skills: Skills whose instructions are in the prompt, and whose tools are
            offered.
        sandbox_mode: Offer only tools that are marked safe.
        permissions: Globs over tool permissions: only matching tools are offered.
        query: Text to recall memory for; what is found is a note.
        recall_tokens: Longest note of recalled memory, with its label and fence.
        recall_namespaces: The only projects, or users, whose memories `query` may recall.
        cache: Prompt-cache policy of the payload.
        use_cache: Whether the assembly cache may answer.
        exact: Check the payload with the provider's own count, which asks its endpoint.
        refresh: Apply edited instruction files at once, under `freeze` too.
        unknown_model: What to do with a model that has no row in model_limits.yaml.
    """

    model: Annotated[str | None, _Word]
    temperature: Annotated[float | None, Rule(least=0, most=2)]
    max_tokens: Annotated[int | None, Rule(least=1)]
    top_p: Annotated[float | None, Rule(least=0, most=1)]
    top_k: Annotated[int | None, Rule(least=1)]
    stop_sequences: Annotated[Sequence[str] | None, _Word]
    thinking_level: Annotated[str | None, _Word]
    thinking_budget: Annotated[int | None, Rule(least=0)]
    additional_system_prompt: str | None
    additional_tools: Any
    disabled_tools: Annotated[Sequence[str] | None, _Word]
    tool_choice: Any
    max_context_tokens: Annotated[int | None, Rule(least=1)]
    reserve_tokens: Annotated[int | None, Rule(least=0)]
    truncation_strategy: Literal["smart", "simple", "sliding"] | None
    window_turns: Annotated[int | None, Rule(least=1)]
    cache_stable: bool | None
    on_overflow: OverflowPolicy | None
    skip_skills: bool | None
    skill_filter: Annotated[Sequence[str] | None, _Word]
    active_skills: Annotated[Sequence[str] | None, _Word]
    sandbox_mode: bool | None
    permissions: Annotated[Sequence[str] | None, _Word]
    query: str | None
    recall_tokens: Annotated[int | None, Rule(least=1)]
    recall_namespaces: Sequence[str] | None
    cache: CachePolicy | None
    use_cache: bool | None
    exact: bool | None
    refresh: bool | None
    unknown_model: UnknownModelPolicy | None


class Option(NamedTuple):
    """One declared option; `table` is empty for call options and top-level settings."""

    name: str
    table: str
    kind: Any  # the type, without `None`
    default: Any
    rule: Rule
    owner: type

    @property
    def help(self) -> str:
        """What the class that declares the option says of it."""
        pattern = rf"^ +{self.name}: ((?:.+\n)+?)(?= +\w+: | *$)"
        found = re.search(pattern, self.owner.__doc__ or "", re.MULTILINE)
        return " ".join(found[1].split()) if found else ""

    def read(self, value: Json) -> Any:
        """Return the value in the option's own type.

        Raises:
            InvalidParameterError: The value has the wrong type or is out of bounds.
            UnknownOptionError: A value of a closed set does not exist.
        """
        if self.name == "tool_choice":
            return parse_tool_choice(value)
        if self.name == "additional_tools":
            return _read_tools(value)
        return _read(self.name, value, self.kind, self.rule)


def _options_of(cls: type, table: str) -> dict[str, Option]:
    """Return the options that a class declares by its annotations."""
    options: dict[str, Option] = {}
    for name, annotation in cls.__annotations__.items():
        base: Any = annotation
        rule, origin = Rule(), get_origin(base)
        if origin is Annotated:
            base, rule = get_args(annotation)
        is_union = get_origin(base) in (Union, UnionType)
        kinds = get_args(base) if is_union else (base,)
        kind = next(kind for kind in kinds if kind is not NoneType)
        options[name] = Option(name, table, kind, vars(cls).get(name), rule, cls)
    return options


def _read(name: str, value: Json, kind: Any, rule: Rule) -> Any:
    origin = get_origin(kind) or kind
    if origin is Any:
        return value
    if origin is Literal:
        if value not in get_args(kind):
            raise UnknownOptionError(value, kind=name, known=get_args(kind))
        return value
    if origin in (tuple, Sequence, list):
        one = get_args(kind)[0]
        entries = [value] if isinstance(value, str) else value
        if not isinstance(entries, Sequence | set | frozenset):
            raise _wrong(name, value, "must be a list", "Pass a list; an empty one means none.")
        return tuple(_read(name, entry, one, rule) for entry in entries)
    if origin is dict:
        if not isinstance(value, Mapping):
            raise _wrong(name, value, "must be a table", "Pass names with their values.")
        inner = get_args(kind)[1]
        return {str(key): _read(f"{name}.{key}", one, inner, rule) for key, one in value.items()}
    if origin is bool:
        if not isinstance(value, bool):
            raise _wrong(name, value, "must be true or false", "Pass a boolean, or leave it out.")
        return value
    if origin in (int, float):
        return _read_number(name, value, origin, rule)
    if origin is Path:
        if not isinstance(value, str | os.PathLike):
            raise _wrong(name, value, "must be a path", "Pass a folder's path.")
        return Path(os.path.expanduser(value))
    if not isinstance(value, str) or not (rule.takes_blank or value.strip()):
        must = "must be text" if rule.takes_blank else "must be non-empty text"
        raise _wrong(name, value, must, "Pass a string, or leave it out.")
    return value if rule.takes_blank else value.strip()


def _read_number(name: str, value: Json, kind: type, rule: Rule) -> float:
    least, most, above = rule.least, rule.most, rule.above
    fits = isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    if (
        not fits
        or isnan(value)
        or (least is not None and value < least)
        or (most is not None and value > most)
        or (above is not None and value <= above)
    ):
        whole = "a whole number" if kind is int else "a number"
        bounds = (
            f"between {least:g} and {most:g}"
            if least is not None and most is not None
            else f"{whole} above {above:g}" + (f" and at most {most:g}" if most is not None else "")
            if above is not None
            else f"{whole} of at least {least:g}"
            if least is not None
            else whole
        )
        raise _wrong(name, value, f"must be {bounds}", "Pass such a number, or leave it out.")
    number: float = value if kind is int else float(value)
    return number


def _wrong(name: str, value: object, rule: str, remedy: str) -> InvalidParameterError:
    return InvalidParameterError(name, value, rule=rule, remedy=remedy)


def _read_tools(value: Json) -> tuple[Json, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return tuple(value)
    if isinstance(value, str | bytes | int | float):
        remedy = "Pass functions, tool specs, or an object with list_tools()."
        raise _wrong("additional_tools", value, "must be a list of tools", remedy)
    return (value,)


CALL_OPTIONS: Final[Mapping[str, Option]] = _options_of(GivenOptions, "")


class AssembleOptions:
    """Options by attribute; one that is not given is `None`. Immutable.

    Raises:
        UnknownOptionError: An option, or a value of a closed set, does not exist.
        InvalidParameterError: A value has the wrong type or is out of bounds.
    """

    __slots__ = ("_given",)

    def __init__(self, **options: Unpack[GivenOptions]) -> None:
        object.__setattr__(self, "_given", read_options(options))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "AssembleOptions":
        """Return options whose values were read before."""
        made = cls()
        object.__setattr__(made, "_given", dict(given))
        return made

    def __getattr__(self, name: str) -> Any:
        if name not in CALL_OPTIONS:
            raise AttributeError(name)
        return self._given.get(name)

    __setattr__ = _refuse

    @property
    def given(self) -> Mapping[str, Any]:
        """The options that have a value, by name."""
        given: Mapping[str, Any] = self._given
        return given

    def without(self, name: str, **changes: Any) -> "AssembleOptions":
        """Return the same options without one of them, and with others changed."""
        kept = {key: value for key, value in self.given.items() if key != name}
        return AssembleOptions.of({**kept, **changes})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AssembleOptions) and self.given == other.given

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"AssembleOptions({', '.join(f'{k}={v!r}' for k, v in self.given.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return AssembleOptions.of, (dict(self.given),)


def read_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that have a value, each in its own type.

    Raises:
        UnknownOptionError: An option, or a value of a closed set, does not exist.
        InvalidParameterError: A value has the wrong type or is out of bounds.
    """
    read: dict[str, Any] = {}
    for name, value in given.items():
        option = CALL_OPTIONS.get(name)
        if option is None:
            raise UnknownOptionError(name, kind="option", known=CALL_OPTIONS)
        if value is not None:
            read[name] = option.read(value)
    return read


# ---- settings ----

_T = TypeVar("_T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def _table(cls: type[_T]) -> type[_T]:
    """Make a class of annotated defaults a table of settings that checks what it is given."""
    table = cls.__dict__.get("TABLE", cls.__name__.removesuffix("Settings").lower())
    options = _options_of(cls, table)

    def init(self: Any, **given: Any) -> None:
        for name in given:
            if name not in options:
                raise UnknownOptionError(name, kind="setting", known=options)
        for name, option in options.items():
            value = given.get(name)
            read = option.default if value is None else option.read(value)
            self.__dict__[name] = read
        if check := getattr(cls, "check", None):
            check(self)

    def as_text(self: Any) -> str:
        changed = {k: v for k, v in vars(self).items() if v != options[k].default}
        return f"{cls.__name__}({', '.join(f'{k}={v!r}' for k, v in changed.items())})"

    def same(self: Any, other: object) -> bool:
        return type(other) is cls and vars(self) == vars(other)

    for name, method in {
        "__init__": init,
        "__setattr__": _refuse,
        "__repr__": as_text,
        "__eq__": same,
        "__hash__": lambda self: hash(repr(self)),
        "OPTIONS": options,
    }.items():
        setattr(cls, name, method)
    return cls


@_table
class BootstrapSettings:
    """Which instruction files are read, and how much of them.

    Attributes:
        folder: Their folder, relative to the configuration's.
        agent_names: Names that are accepted for AGENT.md, first match wins.
        searches_upward: Whether the parent folders up to the repository's root are read as
            well.
        required: Sections that are never shortened or dropped; a missing one is a warning.
        max_file_tokens: Longest text of one file.
        max_total_tokens: Longest text of all files together; the nearest is cut last.
        ttl_seconds: How long the folder's listing is trusted; files are always checked.
        policy: `refresh` sends an edit in the next call, which starts a new epoch;
            `freeze` waits for the next rewrite point or `refresh=True`.
    """

    folder: Path = Path("bootstrap")
    agent_names: Annotated[tuple[str, ...], _Word] = ("AGENT.md", "AGENTS.md", "CLAUDE.md")
    searches_upward: bool = False
    required: tuple[str, ...] = ("agent",)
    max_file_tokens: Annotated[int, Rule(least=1)] = 25000
    max_total_tokens: Annotated[int, Rule(least=1)] = 50000
    ttl_seconds: Annotated[float, Rule(least=0)] = 60.0
    policy: Literal["refresh", "freeze"] = "refresh"


@_table
class PromptSettings:
    """How the system prompt is put together.

    Attributes:
        separator: Text between sections.
        priorities: Priorities by section, instead of the standard ones.
        summarizes_tools: Whether the prompt lists the tools as well.
        skills_tokens: Longest list of skills; instructions of active skills do not count.
        inherits: By agent, the only sections that its prompt has; an agent that is not
            named has all.
        max_tokens: Longest text by section; a required one is never shortened.
    """

    separator: str = "\n\n---\n\n"
    priorities: dict[str, int] = _NOTHING
    summarizes_tools: bool = False
    skills_tokens: Annotated[int, Rule(least=1)] = 2000
    inherits: dict[str, tuple[str, ...]] = _NOTHING
    max_tokens: Annotated[dict[str, int], Rule(least=1)] = _NOTHING

    def has_section(self, name: str, *, agent_id: str | None) -> bool:
        """Whether the agent's prompt may have the section."""
        inherited = self.inherits.get(agent_id or "")
        return inherited is None or name in inherited


@_table
class SkillSettings:
    """Where skills come from.

    Attributes:
        folders: Folders of skills, relative to the configuration's; of two skills with one
            name the earlier folder's stays.
    """

    folders: tuple[Path, ...] = ()


TABLE = "skills"


@_table
class ToolSettings:
    """Which tools are offered: globs over names; nothing included means everything.

    Attributes:
        include: Only matching tools are offered.
        exclude: Matching tools are not offered.
        timeout_seconds: How long one tool source may take.
        defers_above: If there are more tools than this, the model searches for the others,
            if its provider has a search.
        changes: `append` announces tools that come or go after the history, if the
            provider has a form for it; `rewrite` declares them again.
    """

    include: Annotated[tuple[str, ...], _Word] = ()
    exclude: Annotated[tuple[str, ...], _Word] = ()
    timeout_seconds: Annotated[float, Rule(above=0)] = 30.0
    defers_above: Annotated[int | None, Rule(least=0)] = None
    changes: Literal["append", "rewrite"] = "append"


TABLE = "tools"


@_table
class MemorySettings:
    """What `assemble(query=…)` and `recall` search, and how much of it is sent.

    Attributes:
        store: URL of the store (`sqlite:memory.db`).
        max_tokens: Longest note; never more than a quarter of what the call may send.
        limit: Most memories in a note.
        context_types: The only kinds to search; all by default.
        namespaces: The only projects to search; all by default.
        preset: Settings for a kind of agent: see RECALL_PRESETS.
        strategy: Instead of the preset's.
        embedder: Finds memories by meaning as well: bundled, minilm, openai:MODEL.
        near_duplicate: Likeness from which two memories count as one.
        merges_alike: Likeness from which a new memory is a duplicate.
        fades_half_life_days: Time unused after which a memory is worth half.
        fades_below: `memory fade` forgets what is worth less.
        seconds_per_source: How long one source may take.
        seconds_in_all: How long all sources may take.
    """

    store: Annotated[str | None, _Word] = None
    max_tokens: Annotated[int, Rule(least=1)] = 2000
    limit: Annotated[int, Rule(least=1, most=10000)] = 20
    context_types: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    preset: Annotated[str, _Word] = "general"
    strategy: Literal["balanced", "recent", "important"] | None = None
    embedder: Annotated[str | None, _Word] = None
    near_duplicate: Annotated[float | None, Rule(least=0.5, most=1)] = None
    merges_alike: Annotated[float | None, Rule(least=0.5, most=1)] = None
    fades_half_life_days: Annotated[float | None, Rule(above=0)] = None
    fades_below: Annotated[float, Rule(least=0, most=1)] = 0.05
    seconds_per_source: Annotated[float, Rule(above=0)] = 2.0
    seconds_in_all: Annotated[float, Rule(above=0)] = 5.0


@_table
class CacheSettings:
    """What is kept between calls.

    Attributes:
        ttl_seconds: How long an assembled context is kept.
        max_entries: Most assembled contexts.
        max_sessions: Sessions whose columns and messages are kept.
    """

    ttl_seconds: Annotated[float, Rule(least=0)] = 60.0
    max_entries: Annotated[int, Rule(least=1)] = 256
    max_sessions: Annotated[int, Rule(least=1)] = 256


@_table
class SafetySettings:
    """What is hidden from the model, or was refused by its provider.

    Attributes:
        masks_secrets_in: Where secrets are masked: `files` (skills included),
            `tool_results`, `user`.
        on_refusal: What is sent of a reply that the provider refused to give: a line that says so
            (`replace`), what there is of it (`keep`), or nothing, nor of its question (`drop`).
    """

    masks_secrets_in: tuple[Literal["files", "tool_results", "user"], ...] = ()
    on_refusal: Literal["replace", "keep", "drop"] = "replace"


@_table
class ClockSettings:
    """How the model learns the time: notes after user messages.

    Attributes:
        is_enabled: Whether clock notes are sent.
        format: As for strftime.
        time_zone: IANA name.
        gap_seconds: A new note is sent after this time, or on a new day.
        date_in_system: Whether the system prompt has the day on which the history begins.
    """

    is_enabled: bool = True
    format: str = "%A, %Y-%m-%d %H:%M %Z"
    time_zone: Annotated[str, _Word] = "UTC"
    gap_seconds: Annotated[float, Rule(least=0, most=86400000000000.0)] = 600.0
    date_in_system: bool = False

    def check(self) -> None:
        """Refuse a time zone or format that cannot be used."""
        if self.time_zone != "UTC":
            from zoneinfo import ZoneInfo, available_timezones

            try:
                ZoneInfo(self.time_zone)
            except (KeyError, ValueError, OSError):
                known = available_timezones()
                remedy = did_you_mean(self.time_zone, known, otherwise="Use 'UTC'.")
                raise _wrong(
                    "time_zone", self.time_zone, "must be an IANA time zone", remedy
                ) from None
        if "%" not in self.format or not self.format.isprintable():
            remedy = "Use for example '%A, %Y-%m-%d %H:%M %Z'."
            raise _wrong("format", self.format, "must be a format of strftime", remedy)


@_table
class TruncationSettings:
    """How a history is made to fit.

    Attributes:
        strategy: How messages are left out.
        window_turns: Newest turns that `sliding` keeps.
        cache_stable: Whether cuts happen at checkpoints only.
        step_share: What a rewrite frees, as a share of the room for history.
        opening_share: What `smart` keeps after the task, as a share of the room, so that
            it stays cached; at most half of what a cut leaves.
        stub_tokens: What is left of a shortened tool result.
        on_overflow: `shorten` may shorten the user's last message as well.
        max_result_tokens: Longest text of one tool result, whatever else is sent.
        max_result_tokens_by_tool: The same by tool name or glob; the first match wins.
        max_user_tokens: Longest text that a user may paste.
        max_image_side_px: Longer side of an image that is sent.
    """

    strategy: Literal["smart", "simple", "sliding"] = "smart"
    window_turns: Annotated[int, Rule(least=1)] = 20
    cache_stable: bool = True
    step_share: Annotated[float, Rule(above=0, most=1)] = 1 / 3
    opening_share: Annotated[float, Rule(least=0, most=0.999)] = 0.3
    stub_tokens: Annotated[int, Rule(least=1)] = 200
    on_overflow: OverflowPolicy = "error"
    max_result_tokens: Annotated[int | None, Rule(least=1)] = 100000
    max_result_tokens_by_tool: Annotated[dict[str, int], Rule(least=1)] = _NOTHING
    max_user_tokens: Annotated[int | None, Rule(least=1)] = None
    max_image_side_px: Annotated[int | None, Rule(least=64)] = None


@_table
class CompactionSettings:
    """When a session should be compacted.

    Attributes:
        trigger_share: Share of the window without the reserve that triggers it.
        target_share: What the history should come down to; below the trigger.
        max_messages: Messages in the history.
        max_tool_calls: Tool calls in the history.
        min_gain_share: Share of the history that it must be able to free.
        min_growth_tokens: What must have been added since the last compaction.
        uses_price_steps: Whether a model's price step is a trigger too.
    """

    trigger_share: Annotated[float, Rule(least=0, most=1)] = 0.8
    target_share: Annotated[float, Rule(least=0, most=1)] = 0.5
    max_messages: Annotated[int, Rule(least=1)] = 100
    max_tool_calls: Annotated[int, Rule(least=1)] = 50
    min_gain_share: Annotated[float, Rule(least=0, most=1)] = 0.1
    min_growth_tokens: Annotated[int, Rule(least=0)] = 2000
    uses_price_steps: bool = True

    def check(self) -> None:
        """Refuse a trigger that every message would pull again."""
        if self.trigger_share <= self.target_share:
            raise ConfigurationError(
                f"Compaction is triggered at {self.trigger_share:g} of the window and aims at "
                f"{self.target_share:g}: every message would trigger it again.",
                remedy="Set trigger_share above target_share, for example 0.8 and 0.5.",
            )


TABLES: Final[Mapping[str, type]] = {
    "bootstrap": BootstrapSettings,
    "prompt": PromptSettings,
    "skills": SkillSettings,
    "tools": ToolSettings,
    "memory": MemorySettings,
    "cache": CacheSettings,
    "safety": SafetySettings,
    "clock": ClockSettings,
    "truncation": TruncationSettings,
    "compaction": CompactionSettings,
}


@_table
class _RootSettings:
    """Settings outside of tables.

    Attributes:
        folder: Where the configuration files are looked for.
        account: Your tag for the API account; signed reasoning is only sent back to the account that
            it came from.
        token_counter: `auto` counts exactly if a tokenizer is bundled; `exact` refuses models without
            one; `estimate` never counts exactly; `simple` takes 4 characters a token.
        calibrates_tokens: Whether reported usage corrects the counts of later messages.
        on_tool_conflict: What to do if two sources define one tool differently.
        unknown_model: What to do with a model that has no row in model_limits.yaml.
        checks_payloads: Check every payload with its provider's rules; see PayloadWarning.
    """

    TABLE = ""
    folder: Path = Path()
    account: str | None = None
    token_counter: Literal["auto", "exact", "estimate", "simple"] = "auto"
    calibrates_tokens: bool = True
    on_tool_conflict: Literal["rename", "error"] = "rename"
    unknown_model: UnknownModelPolicy = "error"
    checks_payloads: bool = True


SETTINGS: Final[Mapping[str, Mapping[str, Option]]] = {
    name: vars(table)["OPTIONS"] for name, table in (("", _RootSettings), *TABLES.items())
}
FILES: Final = ("context-assembler.toml", "pyproject.toml")
ENV_PREFIX: Final = "CONTEXT_ASSEMBLER_"
# Read by the command line, the registry and the tests, or set by Kubernetes for a service.
_OTHER_VARIABLES: Final = ("models", "sessions", "corpus", "bench", "port", "service", "config")
_NAMES: Final = (*SETTINGS[""], *TABLES, "defaults", "agents")


class AssemblerConfig:
    """Everything that holds for all sessions of one assembler. Immutable.

    Highest first: arguments, `CONTEXT_ASSEMBLER_*` (nested with `__`; lists and tables as JSON),
    `context-assembler.toml`, the table `[tool.context-assembler]` of `pyproject.toml`. Both files
    are looked for in `folder`. `defaults` are the system layer of options, `agents` the agent layer.

    Raises:
        UnknownOptionError: A name that does not exist.
        ConfigurationError: A value of the wrong type or out of bounds, or an unreadable file.
    """

    folder: Path
    account: str | None
    token_counter: Literal["auto", "exact", "estimate", "simple"]
    calibrates_tokens: bool
    on_tool_conflict: Literal["rename", "error"]
    unknown_model: UnknownModelPolicy
    checks_payloads: bool
    defaults: AssembleOptions
    agents: Mapping[str, AssembleOptions]
    bootstrap: BootstrapSettings
    prompt: PromptSettings
    skills: SkillSettings
    tools: ToolSettings
    memory: MemorySettings
    cache: CacheSettings
    safety: SafetySettings
    clock: ClockSettings
    truncation: TruncationSettings
    compaction: CompactionSettings

    def __init__(self, **given: Any) -> None:
        env = _read_environment({})
        folder = SETTINGS[""]["folder"].read(given.get("folder", env.get("folder", ".")))
        files = [(str(folder / name), _read_file(folder / name)) for name in FILES]
        chosen: dict[str, Any] = {}
        for _, settings in (("", given), *files):
            chosen = _merge(chosen, _plain(settings))
        sources = [("", given), ("the environment", _read_environment(chosen)), *files]
        merged: dict[str, Any] = {}
        for place, settings in sources:
            merged = _merge(merged, _checked(settings, place))
        for name, option in SETTINGS[""].items():
            self.__dict__[name] = merged.get(name, option.default)
        self.__dict__["defaults"] = AssembleOptions.of(merged.get("defaults", {}))
        self.__dict__["agents"] = {
            name: AssembleOptions.of(one) for name, one in merged.get("agents", {}).items()
        }
        for name, table in TABLES.items():
            self.__dict__[name] = table(**merged.get(name, {}))

    __setattr__ = _refuse

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AssemblerConfig) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # holds mappings

    def __repr__(self) -> str:
        own = {name: getattr(self, name) for name in _NAMES}
        told = {k: v for k, v in own.items() if v and v != SETTINGS[""].get(k, (0,) * 4)[3]}
        text = ", ".join(f"{k}={v!r}" for k, v in told.items() if not str(v).endswith("()"))
        return f"AssemblerConfig({text})" if len(text) < 280 else f"AssemblerConfig({text[:270]} …)"

    @property
    def bootstrap_folder(self) -> Path:
        """The folder of the instruction files."""
        return self.folder / self.bootstrap.folder

    @property
    def skill_folders(self) -> list[Path]:
        """The folders of skills."""
        return [self.folder / folder for folder in self.skills.folders]


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as nested dicts, whether given as tables or as mappings."""
    return {
        name: dict(value.given)
        if isinstance(value, AssembleOptions)
        else {k: v for k, v in vars(value).items() if v != type(value).OPTIONS[k].default}
        if type(value) in TABLES.values()
        else _plain(value)
        if name == "agents" and isinstance(value, Mapping)
        else value
        for name, value in settings.items()
        if value is not None
    }


def _checked(settings: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return settings of one place, each in its own type; an error names the place and the key."""
    read: dict[str, Any] = {}
    for name, value in _plain(settings).items():
        try:
            read[name] = _read_setting(name, value)
        except (UnknownOptionError, InvalidParameterError) as error:
            if not place:
                raise
            problem = f"In {place}, {name}: {error.problem}"
            raise ConfigurationError(problem, remedy=error.remedy) from error
    return read


def _read_setting(name: str, value: Any) -> Any:
    if name in SETTINGS[""]:
        return SETTINGS[""][name].read(value)
    if name not in _NAMES:
        raise UnknownOptionError(name, kind="setting", known=_NAMES)
    if not isinstance(value, Mapping):
        raise _wrong(name, value, "must be a table", "Pass names with their values.")
    if name == "defaults":
        return read_options(value)
    if name != "agents":
        table = TABLES[name](**value)
        return {key: getattr(table, key) for key, one in value.items() if one is not None}
    for agent, options in value.items():
        if not isinstance(options, Mapping):
            raise _wrong(f"agents.{agent}", options, "must be a table", "Pass options by name.")
    return {agent: read_options(options) for agent, options in value.items()}


def _merge(above: Mapping[str, Any], below: Mapping[str, Any]) -> dict[str, Any]:
    """Return both, the first one winning: tables are merged, anything else is replaced."""
    merged = dict(below) | dict(above)
    for name in above.keys() & below.keys():
        if isinstance(above[name], Mapping) and isinstance(below[name], Mapping):
            merged[name] = _merge(above[name], below[name])
    return merged


def _read_file(path: Path) -> dict[str, Any]:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read: {error.strerror}.", remedy=remedy_for_file(error)
        ) from error
    import tomllib

    try:
        settings = tomllib.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"{path} is not TOML: {error}.", remedy="Correct the file; write paths in '…'."
        ) from error
    tool = settings.get("tool", {})
    if path.name == FILES[0]:
        if "context-assembler" in tool:
            raise ConfigurationError(
                f"{path}: the table [tool.context-assembler] belongs in {FILES[1]}.",
                remedy="In this file settings stand without it, such as [defaults].",
            )
        return settings
    for name in tool:
        if name != "context-assembler" and name.replace("_", "-").lower() == "context-assembler":
            raise ConfigurationError(
                f"{path}: the table [tool.{name}] is not read.",
                remedy="Write [tool.context-assembler].",
            )
    own = tool.get("context-assembler", {})
    if not isinstance(own, dict):
        raise ConfigurationError(
            f"{path}: tool.context-assembler must be a table.", remedy="Write it as one."
        )
    return own


def _read_environment(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the environment; names that somebody chose are matched with `known`."""
    found: dict[str, Any] = {}
    for variable in sorted(os.environ, key=lambda name: (name.count("__"), name)):
        if not variable.upper().startswith(ENV_PREFIX):
            continue
        first, *rest = variable[len(ENV_PREFIX) :].split("__")
        first = first.lower()
        if first not in _NAMES:
            if first.split("_")[0] not in _OTHER_VARIABLES and (rest or nearest(first, _NAMES)):
                kind = f"setting in {variable}"
                raise UnknownOptionError(first, kind=kind, known=_NAMES)
            continue
        if first == "agents" and rest:
            rest[0] = _chosen(rest[0], [*known.get("agents", {}), *found.get("agents", {})])
        steps = [first, *rest[: first == "agents"], *(s.lower() for s in rest[first == "agents" :])]
        table = found
        for step in steps[:-1]:
            table = table.setdefault(step, {})
        table[steps[-1]] = _environment_value(variable, steps)
    return found


def _chosen(name: str, known: Iterable[str]) -> str:
    if name != name.upper():
        return name
    return next((one for one in known if one.lower() == name.lower()), name.lower())


def _environment_value(variable: str, steps: Sequence[str]) -> Any:
    text = os.environ[variable]
    if steps == ["memory"] and not text.lstrip().startswith("{"):
        return {"store": text or None}
    calls = steps[0] in ("defaults", "agents")
    option = (CALL_OPTIONS if calls else SETTINGS.get("" if len(steps) == 1 else steps[0], {})).get(
        steps[-1]
    )
    if option is not None and option.kind is str:
        return text
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if not text.lstrip().startswith(("{", "[")):
            return {"true": True, "false": False}.get(text.lower(), text)
        raise ConfigurationError(
            f"{variable} is not JSON: {error}.",
            remedy='Write lists and tables as JSON, such as ["a", "b"] or {"a": 1}.',
        ) from None


# ---- layers ----


class Settled(NamedTuple):
    """Options with every layer applied.

    `layers` has the layer of each option that has a value; `warnings` name the values of lower
    layers that could not be read or that the model rejects, and that were therefore left out.
    """

    options: AssembleOptions
    layers: Mapping[str, Layer] = _NOTHING
    warnings: tuple[str, ...] = ()


class Parameters(NamedTuple):
    """Settled parameters of the request; `None` leaves the choice to the provider."""

    max_tokens: int
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: tuple[str, ...] = ()
    thinking_level: str | None = None
    thinking_budget: int | None = None
    tool_choice: ToolChoice | None = None


# If such an option of a session cannot be read, nothing is offered rather than everything.
_CLOSED: Final[Mapping[str, Mapping[str, Any]]] = {
    "permissions": {"permissions": ()},
    "sandbox_mode": {"sandbox_mode": True},
    "disabled_tools": {"permissions": ()},
}


class DefaultsResolver:
    """Settles every option from four layers; the highest that gives a value wins.

    >>> DefaultsResolver({"model": "gpt-5.5"}).resolve({"max_tokens": 500}).layers
    {'max_tokens': 'request', 'model': 'system'}
    """

    def __init__(self, system_defaults: AssembleOptions | Mapping[str, Any] | None = None) -> None:
        self._system = _given(system_defaults)

    def resolve(
        self,
        request: AssembleOptions | Mapping[str, Any] | None = None,
        *,
        session: Mapping[str, Any] | None = None,
        agent: AssembleOptions | Mapping[str, Any] | None = None,
    ) -> Settled:
        """Return the options with every layer applied.

        Args:
            session: Defaults stored with the session. What cannot be read there is left out with a
                warning, since the caller of this step cannot correct it.

        Raises:
            UnknownOptionError: The request or the agent names an option that does not exist.
            InvalidParameterError: The request or the agent gives a value out of bounds.
            MissingModelError: No layer names a model.
        """
        stored: dict[str, Any] = {}
        closed: dict[str, Any] = {}
        warnings: list[str] = []
        for name, value in (session or {}).items():
            try:
                stored |= read_options({name: value})
            except ConfigurationError as error:
                warnings.append(f"A default of the session was left out: {error}")
                closed |= _CLOSED.get(name, {})
        by_layer: list[tuple[Layer, Mapping[str, Any]]] = [
            ("request", _given(request)),
            ("session", stored | closed),
            ("agent", _given(agent)),
            ("system", self._system),
        ]
        values: dict[str, Any] = {}
        layers: dict[str, Layer] = {}
        for layer, given in by_layer:
            for name, value in given.items():
                if name not in values:
                    values[name] = value
                    layers[name] = layer
        if "model" not in values:
            raise MissingModelError(layers=LAYERS)
        return Settled(AssembleOptions.of(values), layers, tuple(warnings))


def _given(options: AssembleOptions | Mapping[str, Any] | None) -> Mapping[str, Any]:
    if isinstance(options, AssembleOptions):
        return options.given
    return read_options(options or {})


_MODES: Final = {"auto": "auto", "none": "none", "any": "any", "required": "any"}
_CHOICE_REMEDY: Final = (
    "Use 'auto', 'none', 'any', or {'name': '<tool>'} to force one tool; "
    "the shapes of the anthropic and openai SDKs are read as well."
)


def parse_tool_choice(value: Json) -> ToolChoice:
    """Read a tool choice: a mode, a tool by name, or the shape of an SDK.

    Source:
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools (2026-11-27)
        https://platform.openai.com/docs/api-reference/chat/create (2026-11-27)
    """
    if isinstance(value, ToolChoice):
        return value
    if isinstance(value, str):
        if value not in _MODES:
            raise UnknownOptionError(value, kind="tool_choice", known=_MODES)
        return ToolChoice(mode=_MODES[value])  # type: ignore[arg-type]  # one of the modes
    if not isinstance(value, Mapping):
        raise _wrong("tool_choice", value, "must be a mode or a tool", _CHOICE_REMEDY)
    parallel = value.get("allows_parallel")
    if isinstance(value.get("disable_parallel_tool_use"), bool):
        parallel = not value["disable_parallel_tool_use"]
    inner, allowed = value.get("allowed_tools"), value.get("allowed")
    if value.get("type") == "allowed_tools":
        inner = inner if isinstance(inner, Mapping) else value
        allowed = inner.get("tools")
    mode = (inner if isinstance(inner, Mapping) else value).get("mode", value.get("type"))
    if isinstance(allowed, Sequence) and not isinstance(allowed, str):
        tools = [t.get("function", t) if isinstance(t, Mapping) else {"name": t} for t in allowed]
        names = {tool.get("name") for tool in tools}
        return ToolChoice(
            mode=_MODES.get(mode, "auto"),  # type: ignore[arg-type]  # one of the modes
            allowed=tuple(sorted(name for name in names if isinstance(name, str))),
            allows_parallel=parallel,
        )
    function = value.get("function")
    name = function.get("name") if isinstance(function, Mapping) else value.get("name")
    if isinstance(name, str) and name and mode in (None, "tool", "function", "custom"):
        return ToolChoice(mode="tool", name=name, allows_parallel=parallel)
    if mode in _MODES and name is None:
        return ToolChoice(mode=_MODES[mode], allows_parallel=parallel)  # type: ignore[arg-type]  # one of the modes
    raise _wrong("tool_choice", dict(value), "names no known mode and no tool", _CHOICE_REMEDY)


# ---- what one model takes ----


class _Objection(NamedTuple):
    """Why an option may not be sent; one that is not `is_refused` merely has no effect."""

    name: str
    rule: str
    remedy: str = "Leave it out."
    is_refused: bool = True


def _objections(settled: Settled, limits: ModelLimits) -> Iterator[_Objection]:
    """Yield why options may not be sent, in order: thinking first, since sampling depends on it."""
    options, thinking, rules = settled.options, limits.thinking, limits.parameters
    level, budget, choice = options.thinking_level, options.thinking_budget, options.tool_choice
    levels, listed = thinking.levels, ", ".join(thinking.levels)
    wants_none = level == "none" or budget == 0
    is_anthropic = limits.provider == "anthropic"

    def exclude(first: str, second: str, unless: str = "") -> _Objection:
        """Of two options that exclude each other, the lower layer's is left out."""
        ranks = [LAYERS.index(settled.layers.get(name, "request")) for name in (first, second)]
        weaker, stronger = (first, second) if ranks[0] > ranks[1] else (second, first)
        rule = f"cannot be combined with {stronger}{unless}"
        return _Objection(weaker, rule, f"Pass only one of {first} and {second}.")

    name = "thinking_level" if level == "none" else "thinking_budget"
    if not thinking.kinds and not limits.is_assumed:
        for given in {"thinking_level": level, "thinking_budget": budget}.items():
            if given[1] is not None:
                rule = "is not taken, as the model does not reason,"
                yield _Objection(given[0], rule, is_refused=not wants_none)
    # Some models always think.
    # https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking (2026-11-27)
    # https://platform.openai.com/docs/guides/latest-model (2026-11-27)
    if thinking.disable == "no" and wants_none:
        lowest = f"The least is thinking_level={levels[0]!r}." if levels else "Leave it out."
        yield _Objection(name, "cannot switch thinking off", lowest)
    if level not in (None, "none", *levels) and not limits.is_assumed:
        rule = f"must be one of {listed}" if levels else "is not taken"
        instead = "Use thinking_budget (tokens), or leave it out."
        yield _Objection("thinking_level", rule, f"Pass one of: {listed}." if levels else instead)
    if budget and not limits.is_assumed:
        least, most = thinking.min_budget_tokens or 1024, thinking.max_budget_tokens
        if "budget" not in thinking.kinds:
            instead = f"Use thinking_level, one of: {listed}." if listed else "Leave it out."
            yield _Objection("thinking_budget", "is not taken", instead)
        elif budget < least or (most is not None and budget > most):
            bounds = f"at least {least:,}" if most is None else f"between {least:,} and {most:,}"
            remedy = "Pass such a number, or 0 if thinking may be switched off."
            yield _Objection("thinking_budget", f"must be {bounds} tokens", remedy)
    # Thinking counts toward the reply.
    # https://platform.claude.com/docs/en/build-with-claude/extended-thinking (2026-11-27)
    reply = options.max_tokens
    if budget and reply is not None and budget >= reply:
        rule = f"must be less than max_tokens ({reply:,})"
        yield _Objection("thinking_budget", rule, "Lower thinking_budget, or raise max_tokens.")
    # A level and a budget go together with Anthropic alone, and its highest levels need thinking.
    # https://ai.google.dev/gemini-api/docs/thinking (2026-11-27)
    # https://platform.claude.com/docs/en/build-with-claude/effort (2026-11-27)
    if level is not None and budget is not None and not (level == "none" and budget == 0):
        is_too_high = level in ("xhigh", "max") and thinking.disable != "yes"
        if not (is_anthropic and level != "none" and (budget or not is_too_high)):
            yield exclude("thinking_level", "thinking_budget")
    sampling = {n: getattr(options, n) for n in ("temperature", "top_p", "top_k")}
    sampling = {n: value for n, value in sampling.items() if value is not None}
    for name, value in sampling.items():
        yield from _sampling_objection(name, value, limits, options)
    # While an Anthropic model thinks, temperature and top_k are refused, and top_p below 0.95.
    # https://platform.claude.com/docs/en/build-with-claude/extended-thinking (2026-11-27)
    thinks = budget or ("adaptive" in thinking.kinds and level is not None)
    if is_anthropic and thinks and not wants_none:
        cause = "thinking_budget" if budget else "thinking_level"
        for name, value in sampling.items():
            if not (name == "top_p" and value >= 0.95):
                yield exclude(cause, name, " unless it is at least 0.95" if name == "top_p" else "")
    # https://platform.claude.com/docs/en/about-claude/models/migration-guide (2026-11-27)
    if not rules.accepts_top_p_with_temperature and {"temperature", "top_p"} <= sampling.keys():
        yield exclude("temperature", "top_p")
    # The Responses API takes no stop sequences, and some of OpenAI's models take none at all.
    # https://developers.openai.com/api/docs/api-reference/responses/create (2026-11-27)
    if options.stop_sequences and limits.provider == "openai" and limits.host in (None, "azure"):
        speaks_responses = limits.features.get("chat_tools_with_reasoning") is False
        is_requested = settled.layers.get("stop_sequences", "request") == "request"
        if not rules.accepts_stop or (speaks_responses and not is_requested):
            remedy = "Leave it out, and say in the prompt where to stop."
            yield _Objection("stop_sequences", "is not taken", remedy)
    # https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools (2026-11-27)
    if choice is not None:
        remedy = "Use 'auto' and ask for the tool in the prompt, or choose another model."
        is_forced = choice.mode in ("any", "tool")
        if limits.features.get("tools") is False and choice.mode != "none":
            yield _Objection("tool_choice", "is not taken, nor are tools,", remedy)
        elif is_forced and limits.features.get("forced_tools") is False:
            yield _Objection("tool_choice", "cannot force a call", remedy)
        elif is_forced and is_anthropic and budget:
            yield exclude("thinking_budget", "tool_choice")


def _sampling_objection(
    name: str, value: float, limits: ModelLimits, options: AssembleOptions
) -> Iterator[_Objection]:
    # https://platform.claude.com/docs/en/api/versioning (2026-10-21)
    # https://platform.openai.com/docs/guides/latest-model (2026-11-27)
    rules, is_temperature = limits.parameters, name == "temperature"
    level = options.thinking_level or limits.thinking.default_level
    if name == "top_k" and limits.provider == "openai":
        is_refused = rules.temperature != "ignored"
        rule, remedy = "has no meaning to openai", "Leave it out, or use top_p."
        yield _Objection(name, rule, remedy, is_refused)
    elif rules.temperature == "never":
        remedy = "Leave it out: the model chooses its own sampling."
        yield _Objection(name, "is not taken", remedy)
    elif rules.temperature == "ignored":
        yield _Objection(name, "has no effect", is_refused=False)
    elif rules.temperature == "effort_none" and level != "none" and options.thinking_budget != 0:
        remedy = "Pass thinking_level='none' with it, or leave it out."
        yield _Objection(name, "is only taken while the model does not reason", remedy)
    elif rules.temperature == "fixed" and not (is_temperature and value == rules.fixed_temperature):
        fixed = rules.fixed_temperature if is_temperature else None
        yield _Objection(name, "is fixed" if fixed is None else f"is fixed at {fixed:g}")
    elif is_temperature and value > rules.max_temperature:
        remedy = "Pass a number in that range, or leave it out."
        yield _Objection(name, f"must be between 0 and {rules.max_temperature:g}", remedy)


def validate_for_model(settled: Settled, limits: ModelLimits) -> tuple[Parameters, Settled]:
    """Check the settled options against what one model takes.

    A value that the model rejects is an error if the request itself gave it. One that comes from a
    lower layer is left out with a warning: it was not chosen for this model.

    Returns:
        The parameters to send, and the settled options without what was left out. `max_tokens`
        always has a value: if no layer gives one, the model's largest reply, at most
        `DEFAULT_MAX_TOKENS` beyond the thinking budget, at most a quarter of a shared window.

    Raises:
        InvalidParameterError: The request gives a value that the model rejects.
    """
    settled = _settle_max_tokens(settled, limits)
    while (found := next(_objections(settled, limits), None)) is not None:
        settled = _leave_out(settled, found, model=limits.id)
    given = settled.options.given
    names = (name for name in Parameters._fields if name in given)
    return Parameters(**{name: given[name] for name in names}), settled


def _leave_out(settled: Settled, found: _Objection, *, model: str | None = None) -> Settled:
    """Raise if the request gave the option; else return the options without it."""
    name, value = found.name, getattr(settled.options, found.name)
    error = InvalidParameterError(name, value, rule=found.rule, remedy=found.remedy, model=model)
    layer = settled.layers.get(name, "request")
    if layer == "request" and found.is_refused:
        raise error
    warning = f"{error.problem} It comes from the {layer} layer and was left out."
    layers = {key: one for key, one in settled.layers.items() if key != name}
    return Settled(settled.options.without(name), layers, (*settled.warnings, warning))


def _settle_max_tokens(settled: Settled, limits: ModelLimits) -> Settled:
    wanted, largest = settled.options.max_tokens, limits.output_tokens
    if wanted is not None and (largest is None or wanted <= largest):
        return settled
    layer: Layer = settled.layers.get("max_tokens", "request")
    warnings = settled.warnings
    if wanted is None:
        budget = settled.options.thinking_budget or 0
        room = [DEFAULT_MAX_TOKENS + budget, *([largest] if largest else [])]
        if limits.window_kind == "shared":
            room.append(max(1, limits.window_tokens // 4))
        if limits.provider == "anthropic" and budget < LONGEST_UNSTREAMED_TOKENS:
            room.append(LONGEST_UNSTREAMED_TOKENS)
        tokens, layer = min(room), "model"
    else:
        assert largest is not None
        error = InvalidParameterError(
            "max_tokens",
            wanted,
            rule=f"must be at most {largest:,}, the longest reply,",
            remedy="Pass a smaller max_tokens, or leave it out.",
            model=limits.id,
        )
        if layer == "request":
            raise error
        tokens = largest
        lowered = f"{error.problem} It comes from the {layer} layer and was lowered to {largest:,}."
        warnings = (*warnings, lowered)
    options = settled.options.without("max_tokens", max_tokens=tokens)
    return Settled(options, {**settled.layers, "max_tokens": layer}, warnings)


def validate_tool_choice(settled: Settled, tools: Iterable[ToolSpec], *, provider: str) -> Settled:
    """Check the settled tool choice against the tools that are really offered.

    Raises:
        InvalidParameterError: The request forces a tool, or any tool, that is not there.
    """
    choice = settled.options.tool_choice
    if choice is None:
        return settled
    names = [t.name for t in tools if not t.native_specs or provider in t.native_specs]
    unknown = next((name for name in choice.allowed or () if name not in names), choice.name)
    if unknown in names or (unknown is None and (names or choice.mode in ("auto", "none"))):
        return settled
    rule = f"names {unknown!r}, which is not offered" if unknown else "needs a tool to call"
    near = nearest(unknown or "", names)
    remedy = f"Did you mean {near[0]!r}?" if near else "The report says which tools were left out."
    return _leave_out(settled, _Objection("tool_choice", rule, remedy))
