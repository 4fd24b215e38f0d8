"""The one list of options, and the four layers that settle them.

Each option is declared once: as an entry of `GivenOptions` (what a call can be given) or of a class of
settings. Its annotation holds the type and the bounds, the class's docstring the help. Call options,
`AssembleOptions`, `AssemblerConfig`, TOML, environment variables, command-line flags and
docs/reference/options.md are all read from these declarations.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    TypedDict,
    Union,
    Unpack,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

from context_assembler import errors
from context_assembler.errors import Bounds, ConfigurationError, InvalidParameterError
from context_assembler.events import Json, JsonObject, broken_bound, is_list, is_object, is_plain
from context_assembler.models import ModelLimits, UnknownModelPolicy, merge
from context_assembler.ports import OwnStrategy, ResponseFormat, TextOf, ToolChoice, ToolSpec
from context_assembler.texts import read_file

Layer: TypeAlias = Literal["request", "session", "agent", "system", "model"]
CachePolicy: TypeAlias = Literal["auto", "off"]
OverflowPolicy: TypeAlias = Literal["error", "shorten"]
StrategyName: TypeAlias = Literal["smart", "simple", "sliding"]

LAYERS: Final[tuple[Layer, ...]] = ("request", "session", "agent", "system")
FILES: Final = ("context-assembler.toml", "pyproject.toml")
ENV_PREFIX: Final = "CONTEXT_ASSEMBLER_"
DEFAULT_MAX_TOKENS: Final = 16_000
# The anthropic SDK refuses to wait for a longer reply that is not streamed.
# https://platform.claude.com/docs/en/cli-sdks-libraries/sdks/python#long-requests (2026-11-27)
LONGEST_UNSTREAMED_TOKENS: Final = 21_333
_NOTHING: Final[dict[str, Any]] = {}


# ---- values that are read by a function of their own ----

_MODES: Final[Mapping[str, Literal["auto", "none", "any"]]] = {
    "auto": "auto",
    "none": "none",
    "any": "any",
    "required": "any",
}
_CHOICE_REMEDY: Final = (
    "Use 'auto', 'none', 'any', or {'name': '<tool>'} to force one tool; "
    "the shapes of the anthropic and openai SDKs are read as well."
)


def _read_tool_choice(name: str, value: Json) -> ToolChoice:
    """Read a tool choice: a mode, a tool by name, or the shape of an SDK.

    Source:
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools (2026-11-27)
        https://platform.openai.com/docs/api-reference/chat/create (2026-11-27)
    """
    if isinstance(value, ToolChoice):
        return value
    fields = dict(value) if is_object(value) else {"mode": value}
    for nested in ("function", "allowed_tools"):  # Chat Completions nests what Responses does not
        if is_object(inner := fields.get(nested)):
            fields |= inner
    mode, tool = _MODES.get(str(fields.get("mode", fields.get("type")))), fields.get("name")
    parallel = fields.get("allows_parallel")
    if "disable_parallel_tool_use" in fields:
        parallel = not fields["disable_parallel_tool_use"]
    if allowed := fields.get("allowed", fields.get("tools")):
        tools: list[JsonObject] = [one if is_object(one) else {"name": one} for one in allowed]
        names = tuple(sorted({one.get("function", one)["name"] for one in tools}))
        return ToolChoice(mode=mode or "auto", allowed=names, allows_parallel=parallel)
    if isinstance(tool, str) and tool:
        return ToolChoice(mode="tool", name=tool, allows_parallel=parallel)
    if mode is None:
        rule = "must be a mode or a tool"
        raise InvalidParameterError(name, value, rule=rule, remedy=_CHOICE_REMEDY)
    return ToolChoice(mode=mode, allows_parallel=parallel)


_NO_FORMAT: Final = ResponseFormat(name="text")  # what a higher layer gives to ask for plain text
_SCHEMA_KEYS: Final = (
    *("schema", "response_json_schema", "responseJsonSchema", "response_schema", "responseSchema"),
)
_SAYS_WHAT: Final = frozenset("type properties enum const $ref anyOf oneOf allOf".split())
_TYPES: Final = frozenset("object array string number integer boolean null".split())
_BY_NAME: Final = frozenset("properties patternProperties $defs defs definitions".split())
_LISTS: Final = frozenset("enum required anyOf oneOf allOf".split())
_VALUES: Final = frozenset("enum const default examples dependentRequired".split())


def _read_response_format(name: str, value: Any) -> ResponseFormat:
    """Read a JSON schema, as JSON text as well, a pydantic model, or the form of an SDK."""
    if isinstance(value, ResponseFormat):
        return value
    try:
        return _response_format(json.loads(value) if isinstance(value, str) else value)
    except (TypeError, ValueError, RuntimeError, AttributeError) as error:  # pydantic's too
        why = str(error).partition("\n")[0].rstrip(".")
        rule = f"must be a schema of the reply ({why})"
        remedy = "Pass a JSON schema, or the class of a pydantic model."
        raise InvalidParameterError(name, value, rule=rule, remedy=remedy) from None


def _response_format(value: Any) -> ResponseFormat:
    """Read what is not JSON text; a form of OpenAI's has a name, and is not strict by itself.

    Source:
        types of the packages anthropic 2.14, openai 3.57 and google-genai 3.6: JSONOutputFormatParam,
        ResponseFormatJSONSchema, ResponseTextConfigParam, GenerateContentConfig (read 2026-11-30)
    """
    fields = {} if isinstance(value, type) else {**(value if is_object(value) else _dump(value))}
    for nested in ("format", "json_schema"):
        if is_object(inner := fields.get(nested)):
            fields |= inner
    mime = fields.get("response_mime_type") or fields.get("responseMimeType")
    kind, title = mime or fields.get("type"), fields.get("name")
    if kind in ("text", "text/plain"):
        return _NO_FORMAT
    schema: Any = next((fields[key] for key in _SCHEMA_KEYS if key in fields), None)
    if schema is None and kind in ("json_object", "application/json"):
        return ResponseFormat()
    if mime not in (None, "application/json"):
        raise ValueError(f"{mime} is not JSON")
    schema = (fields or value) if schema is None else schema
    if isinstance(schema, type) and hasattr(schema, "model_json_schema"):
        title, schema = title or schema.__name__, cast("Any", schema).model_json_schema()
    text = json.dumps(schema, default=_dump, allow_nan=False, ensure_ascii=False).encode()
    if broken := broken_bound(plain := json.loads(text)):
        raise ValueError(broken)
    if not is_object(plain) or not plain.keys() & _SAYS_WHAT:
        raise ValueError("it has neither a type nor properties")
    _check_schema(plain)
    title = re.sub(r"[^a-zA-Z0-9_-]", "_", str(title or "reply"))[:64]
    return ResponseFormat(plain, title, bool(fields.get("strict", "name" not in fields)))


def _dump(value: Any) -> dict[str, Any]:
    """Return the fields of an SDK's object."""
    if isinstance(value, type) or not hasattr(value, "model_dump"):
        raise TypeError(f"{errors.brief(value)} is no JSON object")
    return cast("dict[str, Any]", value.model_dump(by_alias=True, exclude_none=True))


def _check_schema(given: Json) -> None:
    """Raise if a schema, or one inside it, has what JSON Schema has not."""
    for one in given if is_list(given) else [given]:
        for key, value in one.items() if is_object(one) else ():
            is_sound = value is not None or key in _VALUES
            if key in _BY_NAME or key in _LISTS:
                is_sound = is_object(value) if key in _BY_NAME else is_list(value)
            if not is_sound:
                raise TypeError(f"{key!r} cannot be {errors.brief(value)}")
            kinds = (value if is_list(value) else [value]) if key == "type" else ()
            if wrong := [kind for kind in kinds if kind not in _TYPES]:
                raise ValueError(f"{wrong[0]!r} is not a type of JSON Schema")
            if key not in _VALUES:
                inner = [*value.values()] if key in _BY_NAME and is_object(value) else value
                _check_schema(inner)


def _read_tools(_: str, value: Any) -> tuple[Any, ...]:
    tools: list[Any] = [*value] if isinstance(value, list | tuple) else [value]
    return tuple(tools)


def _read_text(name: str, value: Any) -> Any:
    """Read a text, or a function of the session that returns one."""
    if isinstance(value, str) or callable(value):
        return value
    rule, remedy = "must be text, or a function of the session", "Pass a str, or such a function."
    raise InvalidParameterError(name, value, rule=rule, remedy=remedy)


def _read_notes(name: str, value: Any) -> dict[str, Any]:
    if is_object(value):
        return {str(key): _read_text(f"{name}.{key}", one) for key, one in value.items()}
    rule, remedy = "must name each note", "Pass {name: text}."
    raise InvalidParameterError(name, value, rule=rule, remedy=remedy)


def _read_strategy(name: str, value: Any) -> Any:
    if not callable(value) and value not in get_args(StrategyName):
        raise errors.UnknownOptionError(value, kind=name, known=get_args(StrategyName))
    return value


def _read_time_zone(name: str, value: Json) -> str:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(value).key
    except (KeyError, TypeError, ValueError, OSError):
        rule, remedy = "must be an IANA time zone", "Use a name such as 'Europe/Berlin', or 'UTC'."
        raise InvalidParameterError(name, value, rule=rule, remedy=remedy) from None


def _read_format(name: str, value: Json) -> str:
    if isinstance(value, str) and is_plain(value):
        return value
    rule, remedy = "must be a format of strftime", "Use one such as '%A, %Y-%m-%d %H:%M'."
    raise InvalidParameterError(name, value, rule=rule, remedy=remedy)


def _read_compaction(name: str, value: Any) -> int | str:
    if value == "now" or str(value).isdigit():
        return value if value == "now" else int(value)
    rule, remedy = "must be a number of tokens, or 'now'", "Pass one such as 150_000."
    raise InvalidParameterError(name, value, rule=rule, remedy=remedy)


# The API's names of its edits, in the order that it wants: thinking comes first.
# https://platform.claude.com/docs/en/build-with-claude/context-editing (read 2026-11-30)
_EDITS: Final = ("clear_thinking_20251015", "clear_tool_uses_20250919")


def _read_edits(name: str, value: Any) -> tuple[JsonObject, ...]:
    read: dict[str, JsonObject] = {}
    for given in _read_tools(name, value):
        fields: JsonObject = given if is_object(given) else {"type": given}
        asked = str(fields.get("type"))
        kind = next((one for one in _EDITS if asked in (one, one.rpartition("_")[0])), "")
        if not kind or broken_bound(fields):
            rule, remedy = "must name edits", "Use 'clear_tool_uses', 'clear_thinking' or both."
            raise InvalidParameterError(name, value, rule=rule, remedy=remedy)
        read[kind] = {**fields, "type": kind}
    return tuple(read[kind] for kind in _EDITS if kind in read)


# ---- what a call can be given ----

_AtLeastOne: Final = Bounds(least=1)
_Word: Final = _AtLeastOne  # of text: it is not blank
_NotNegative: Final = Bounds(least=0)
_Positive: Final = Bounds(least=0.001)
_Share: Final = Bounds(least=0, most=1)


class GivenOptions(TypedDict, total=False):
    """What `assemble` takes; an option that is left out or `None` is not given.

    Attributes:
        model: Model id, as the provider or a gateway writes it.
        temperature: How much the model varies its words.
        max_tokens: Longest reply, in tokens.
        top_p: Share of the most likely words to choose from.
        top_k: Number of the most likely words to choose from.
        stop_sequences: Texts that end the reply.
        thinking_level: How much the model thinks: one of its own levels.
        thinking_budget: Tokens for thinking, on models that take a budget.
        system: The system prompt: text, or a function of the session that returns it. AGENT.md
            replaces it.
        notes: Texts by name, or functions of the session, sent after the history; each is sent
            again only if it changes.
        additional_system_prompt: Instructions for this call; sent as a note after the
            history.
        additional_tools: Tools for this call: functions, or specs in any provider's shape.
        disabled_tools: Names of tools that are not offered.
        tool_choice: `auto`, `none`, `any`, or the one tool that the model must call.
        response_format: What the reply must be: a JSON schema, a pydantic model, or the
            provider's own form of either.
        max_context_tokens: Upper bound for the whole input, below the model's own.
        reserve_tokens: Tokens kept free for the reply, `max_tokens` by default; if
            `max_context_tokens` is given as well, they are taken from it.
        truncation_strategy: How a history that does not fit is cut: a name, or a function
            (`OwnStrategy`).
        window_turns: Newest turns that `sliding` keeps.
        keep_last_messages: Newest messages that a cut keeps, if they fit.
        keep_last_turns: Newest turns that a cut keeps, if they fit.
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
        query: Text to search memory for; the memories found are sent as a note.
        recall_tokens: Longest note of recalled memories, with its tags.
        recall_namespaces: The only projects or users whose memories may be recalled, also by
            the tool `memory`.
        memory_tool: Offer the tool `memory`: `search`, to search and read memories; `files`,
            to keep the files of a folder of notes, for Claude as `memory_20250818`.
        history_tool: Offer the tool `history`, which searches and reads all that the session
            holds, also what caps, cuts and compactions left out; the lines in place of that say
            what to ask for.
        provider_compaction: Tokens of input above which Anthropic or OpenAI compacts the history
            in its reply; `now` asks for a compaction instead of a reply.
        context_edits: What Anthropic clears of the history before the model reads it:
            `clear_tool_uses`, `clear_thinking`, or the API's own form of either.
        cache: `auto` marks what the provider's prompt cache should keep; `off` sets no marks.
        use_cache: Whether an unchanged session may get the same context again.
        exact: Check the size of the payload by asking the provider to count it.
        refresh: Apply edited instruction files at once, also under `freeze`.
        unknown_model: What to do with a model that has no row in model_limits.yaml.
    """

    model: Annotated[str | None, _Word]
    temperature: Annotated[float | None, Bounds(least=0, most=2)]
    max_tokens: Annotated[int | None, _AtLeastOne]
    top_p: Annotated[float | None, _Share]
    top_k: Annotated[int | None, _AtLeastOne]
    stop_sequences: Annotated[Sequence[str] | None, _Word]
    thinking_level: Annotated[str | None, _Word]
    thinking_budget: Annotated[int | None, _NotNegative]
    system: Annotated[str | TextOf | None, _read_text]
    notes: Annotated[Mapping[str, str | TextOf] | None, _read_notes]
    additional_system_prompt: str | None
    additional_tools: Annotated[Any, _read_tools]
    disabled_tools: Annotated[Sequence[str] | None, _Word]
    tool_choice: Annotated[Any, _read_tool_choice]
    response_format: Annotated[Any, _read_response_format]
    max_context_tokens: Annotated[int | None, _AtLeastOne]
    reserve_tokens: Annotated[int | None, _NotNegative]
    truncation_strategy: Annotated[StrategyName | OwnStrategy | None, _read_strategy]
    window_turns: Annotated[int | None, _AtLeastOne]
    keep_last_messages: Annotated[int | None, _AtLeastOne]
    keep_last_turns: Annotated[int | None, _AtLeastOne]
    cache_stable: bool | None
    on_overflow: OverflowPolicy | None
    skip_skills: bool | None
    skill_filter: Annotated[Sequence[str] | None, _Word]
    active_skills: Annotated[Sequence[str] | None, _Word]
    sandbox_mode: bool | None
    permissions: Annotated[Sequence[str] | None, _Word]
    query: str | None
    recall_tokens: Annotated[int | None, _AtLeastOne]
    recall_namespaces: Sequence[str] | None
    memory_tool: Literal["search", "files"] | None
    history_tool: bool | None
    provider_compaction: Annotated[str | int | None, _read_compaction]
    context_edits: Annotated[Sequence[str | JsonObject] | None, _read_edits]
    cache: CachePolicy | None
    use_cache: bool | None
    exact: bool | None
    refresh: bool | None
    unknown_model: UnknownModelPolicy | None


class Option(NamedTuple):
    """One declared option."""

    name: str
    kind: Any  # the type, without `None`; another class of settings is a table
    default: Any
    rule: Bounds | Callable[[str, Json], Any]  # a function reads a value of any type
    owner: type

    @property
    def help(self) -> str:
        """What the class that declares the option says of it."""
        pattern = rf"^ +{self.name}: ((?:.+\n)+?)(?= +\w+: | *$)"
        found = re.search(pattern, self.owner.__doc__ or "", re.MULTILINE)
        return " ".join(found[1].split()) if found else ""


def _options_of(cls: type) -> dict[str, Option]:
    """Return the options that a class declares by its annotations."""
    options: dict[str, Option] = {}
    kind: Any
    for name, annotation in cls.__annotations__.items():
        kind, rule = annotation, Bounds()
        if get_origin(kind) is Annotated:
            kind, rule = get_args(kind)
        if get_origin(kind) in (Union, UnionType):  # X | None
            kind = get_args(kind)[0]
        options[name] = Option(name, kind, vars(cls).get(name), rule, cls)
    return options


CALL_OPTIONS: Final[Mapping[str, Option]] = _options_of(GivenOptions)


def read_options(
    given: Mapping[str, Json],
    options: Mapping[str, Option] = CALL_OPTIONS,
    *,
    table: str = "",
) -> dict[str, Any]:
    """Return the options that have a value, each in its own type; tables as dicts.

    Args:
        table: The name of the table that holds them, for errors.

    Raises:
        UnknownOptionError: An option does not exist.
        InvalidParameterError: A value has the wrong type or is out of bounds.
    """
    read: dict[str, Any] = {}
    for name, value in given.items():
        if name not in options:
            kind = f"setting of {table}" if table else "option"
            raise errors.UnknownOptionError(name, kind=kind, known=options)
        if value is not None:
            path, option = f"{table}.{name}" if table else name, options[name]
            read[name] = _read(path, value, option.kind, option.rule)
    return read


def _read(name: str, value: Json, kind: Any, rule: Any) -> Any:
    if callable(rule):
        return rule(name, value)
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin is Literal and value not in inner:
        raise errors.UnknownOptionError(value, kind=name, known=inner)
    if isinstance(kind, type) and issubclass(kind, Settings):
        return _read_table(name, value, kind.options)
    if origin is dict and is_object(value):
        return {str(key): _read(f"{name}.{key}", one, inner[1], rule) for key, one in value.items()}
    if origin in (tuple, Sequence) and isinstance(value, str | Sequence | AbstractSet):
        entries: list[Json] = [value] if isinstance(value, str) else [*value]
        return tuple(_read(name, one, inner[0], rule) for one in entries)
    remedy = "Correct it, or leave it out."
    if kind is Path and isinstance(value, str | Path):
        if "\0" in str(value):
            raise InvalidParameterError(name, value, rule="must be a path", remedy=remedy)
        return Path(os.path.expanduser(value))
    if not errors.fits(value, kind, rule):
        needed = errors.expected(kind, rule)
        raise InvalidParameterError(name, value, rule=f"must be {needed}", remedy=remedy)
    return float(value) if kind is float else value


def _read_table(name: str, value: Any, options: Mapping[str, Option]) -> dict[str, Any]:
    first = next(iter(options))
    if isinstance(value, str) and first in ("store", "folder", "folders"):  # memory = "sqlite:m.db"
        value = {first: value}
    given = value.given if isinstance(value, Settings) else value
    if not is_object(given):
        remedy = "Pass names with their values."
        raise InvalidParameterError(name, value, rule="must be a table", remedy=remedy)
    return read_options(given, options, table=name)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Settings:
    """A table of settings: its annotations declare them, with their defaults. Immutable.

    Raises:
        UnknownOptionError: A setting does not exist.
        InvalidParameterError: A value has the wrong type or is out of bounds.
    """

    options: ClassVar[Mapping[str, Option]] = {}

    def __init_subclass__(cls, declared_by: type | None = None) -> None:
        cls.options = _options_of(declared_by or cls)

    def __init__(self, **given: Any) -> None:
        defaults = {name: option.default for name, option in self.options.items()}
        vars(self).update(defaults | read_options(given, self.options))

    @property
    def given(self) -> dict[str, Any]:
        """What is not as by default, by name."""
        options = self.options
        return {name: value for name, value in vars(self).items() if value != options[name].default}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Settings are immutable: {name!r} cannot become {value!r}.")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.given.items())
        return f"{type(self).__name__}({shown})"


class AssembleOptions(Settings, declared_by=GivenOptions):
    """Options by attribute; one that is not given is `None`. Immutable.

    Raises:
        UnknownOptionError: An option does not exist.
        InvalidParameterError: A value has the wrong type or is out of bounds.
    """

    def __init__(self, **options: Unpack[GivenOptions]) -> None:
        super().__init__(**options)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def without(self, name: str, **changes: Any) -> "AssembleOptions":
        """Return the same options without one of them, and with others changed."""
        return AssembleOptions(**{**self.given, name: None, **changes})


# ---- settings ----


class BootstrapSettings(Settings):
    """Which instruction files are read, and how much of them.

    Attributes:
        folder: Their folder, relative to the configuration's.
        agent_names: Names that are accepted for AGENT.md, first match wins.
        searches_upward: Whether to read the parent folders, up to the repository's root, too.
        required: Sections that are never shortened or dropped; if one is missing, a warning says
            so.
        max_file_tokens: Longest text of one file.
        max_total_tokens: Longest text of all files together; files of the nearest folder are cut
            last.
        ttl_seconds: How long the folder's listing is trusted; files are always checked.
        policy: `refresh` sends an edit in the next call, which starts a new epoch;
            `freeze` waits for the next rewrite point or `refresh=True`.
    """

    folder: Path = Path("bootstrap")
    agent_names: Annotated[tuple[str, ...], _Word] = ("AGENT.md", "AGENTS.md", "CLAUDE.md")
    searches_upward: bool = False
    required: tuple[str, ...] = ("agent",)
    max_file_tokens: Annotated[int, _AtLeastOne] = 25000
    max_total_tokens: Annotated[int, _AtLeastOne] = 50000
    ttl_seconds: Annotated[float, _NotNegative] = 60.0
    policy: Literal["refresh", "freeze"] = "refresh"


class PromptSettings(Settings):
    """How the system prompt is put together.

    Attributes:
        separator: Text between sections.
        priorities: Priorities by section, instead of the standard ones.
        summarizes_tools: Whether the prompt lists the tools as well.
        skills_tokens: Longest list of skills; instructions of active skills do not count.
        inherits: By agent, the only sections that its prompt has; an agent that is not
            named has all.
        timeout_seconds: How long a function that returns a text may take.
    """

    separator: str = "\n\n---\n\n"
    priorities: dict[str, int] = _NOTHING
    summarizes_tools: bool = False
    skills_tokens: Annotated[int, _AtLeastOne] = 2000
    inherits: dict[str, tuple[str, ...]] = _NOTHING
    timeout_seconds: Annotated[float, _Positive] = 10.0

    def has_section(self, name: str, *, agent_id: str | None) -> bool:
        """Whether the agent's prompt may have the section."""
        inherited = self.inherits.get(agent_id or "")
        return inherited is None or name in inherited


class SkillSettings(Settings):
    """Where skills come from.

    Attributes:
        folders: Folders of skills, relative to the configuration's; if two skills have the same
            name, the one of the earlier folder stays.
        shows_examples: Whether the examples of an active skill follow its instructions.
    """

    folders: tuple[Path, ...] = ()
    shows_examples: bool = False


class ToolSettings(Settings):
    """Which tools are offered.

    Attributes:
        include: Globs over names: only matching tools are offered; all if there are none.
        exclude: Globs over names: matching tools are not offered.
        timeout_seconds: How long one tool source may take.
        defers_above: If there are more tools than this, the model searches for tools, if its
            provider offers tool search.
        changes: `append` announces tools that come or go after the history, if the
            provider has a form for it; `rewrite` declares them again.
    """

    include: Annotated[tuple[str, ...], _Word] = ()
    exclude: Annotated[tuple[str, ...], _Word] = ()
    timeout_seconds: Annotated[float, _Positive] = 30.0
    defers_above: Annotated[int | None, _NotNegative] = None
    changes: Literal["append", "rewrite"] = "append"


class MemorySettings(Settings):
    """What `assemble(query=…)` and `recall` search, and how much of it is sent.

    Attributes:
        store: URL of the store (`sqlite:memory.db`).
        max_tokens: Longest note; never more than a quarter of the input budget.
        limit: Most memories in a note; by default only `max_tokens` limits them.
        context_types: The only kinds to search; all by default.
        namespaces: The only projects to search, none if it is empty; all by default.
        preset: Settings for a kind of agent; see RECALL_PRESETS.
        strategy: How memories are ranked, instead of by the preset's strategy.
        embedder: Finds memories by meaning, too: bundled, minilm or openai:MODEL.
        fades_half_life_days: Time without use after which a memory is worth half.
        fades_below: `memory fade` forgets memories that are worth less.
        seconds_per_source: How long one source may take.
        seconds_in_all: How long all sources may take.
        cache_seconds: How long an answer is reused if nothing is written; 0: never.
    """

    store: Annotated[str | None, _Word] = None
    max_tokens: Annotated[int, _AtLeastOne] = 2000
    limit: Annotated[int | None, Bounds(least=1, most=10000)] = None
    context_types: tuple[str, ...] = ()
    namespaces: tuple[str, ...] | None = None
    preset: Annotated[str, _Word] = "general"
    strategy: Literal["balanced", "recent", "important"] | None = None
    embedder: Annotated[str | None, _Word] = None
    fades_half_life_days: Annotated[float | None, _Positive] = None
    fades_below: Annotated[float, _Share] = 0.05
    seconds_per_source: Annotated[float, _Positive] = 2.0
    seconds_in_all: Annotated[float, _Positive] = 5.0
    cache_seconds: Annotated[float, Bounds(least=0)] = 30.0


class SessionStartSettings(Settings):
    """What a coding agent's session starts with.

    Attributes:
        budget_tokens: Most tokens of the whole text.
        reserve_tokens: Tokens of the budget for the title and the last lines.
        index_tokens: Most tokens for the last sessions.
        index_sessions: Most of the last sessions.
        functions_tokens: Most tokens for changed functions.
        max_functions: Most changed functions.
        learnings_tokens: Most tokens for learnings.
        least_confidence: How sure a learning must be, from 0 to 1.
        observations_tokens: Most tokens for observations.
        max_observations: Most observations.
        seconds_per_layer: How long one layer may take.
        model: The model whose tokens are counted.
    """

    budget_tokens: Annotated[int, _AtLeastOne] = 2000
    reserve_tokens: Annotated[int, _NotNegative] = 200
    index_tokens: Annotated[int, _NotNegative] = 400
    index_sessions: Annotated[int, _AtLeastOne] = 10
    functions_tokens: Annotated[int, _NotNegative] = 500
    max_functions: Annotated[int, _AtLeastOne] = 30
    learnings_tokens: Annotated[int, _NotNegative] = 300
    least_confidence: Annotated[float, _Share] = 0.5
    observations_tokens: Annotated[int, _NotNegative] = 600
    max_observations: Annotated[int, _AtLeastOne] = 50
    seconds_per_layer: Annotated[float, _Positive] = 2.0
    model: Annotated[str, _Word] = "claude-opus-5-5"


class CacheSettings(Settings):
    """What is kept between calls.

    Attributes:
        ttl_seconds: How long an assembled context is kept.
        max_entries: Most assembled contexts.
        max_sessions: Sessions whose columns and messages are kept.
    """

    ttl_seconds: Annotated[float, _NotNegative] = 60.0
    max_entries: Annotated[int, _AtLeastOne] = 256
    max_sessions: Annotated[int, _AtLeastOne] = 256


class SafetySettings(Settings):
    """What is hidden from the model, or was refused by its provider.

    Attributes:
        masks_secrets_in: Where secrets are masked: `files` (skills included),
            `tool_results`, `user`.
        on_refusal: What is sent later of a reply that the provider refused: a line that says so
            (`replace`), the part that arrived (`keep`), or neither reply nor question (`drop`).
    """

    masks_secrets_in: tuple[Literal["files", "tool_results", "user"], ...] = ()
    on_refusal: Literal["replace", "keep", "drop"] = "replace"


class ClockSettings(Settings):
    """How the model learns the time: notes after user messages.

    Attributes:
        is_enabled: Whether clock notes are sent.
        format: The format of the time, as for strftime.
        time_zone: Its IANA name, such as Europe/Berlin.
        gap_seconds: A new note is sent after this time, or on a new day.
        date_in_system: Whether the system prompt has the date on which the history begins.
    """

    is_enabled: bool = True
    format: Annotated[str, _read_format] = "%A, %Y-%m-%d %H:%M %Z"
    time_zone: Annotated[str, _read_time_zone] = "UTC"
    gap_seconds: Annotated[float, Bounds(least=0, most=86400000000000.0)] = 600.0
    date_in_system: bool = False


class TruncationSettings(Settings):
    """How a history is made to fit.

    Attributes:
        strategy: How messages are left out: a name, or a function (`OwnStrategy`).
        window_turns: Newest turns that `sliding` keeps.
        keep_last_messages: Newest messages that a cut keeps, if they fit.
        keep_last_turns: Newest turns that a cut keeps, if they fit.
        note_above_share: Share of the input budget above which a note says that the window is
            nearly full; no note by default.
        cache_stable: Whether cuts happen at checkpoints only.
        step_share: How much a cut frees besides its own line, as a share of the room for history.
        opening_share: How much `smart` keeps after the task, as a share of the room, so that it
            stays cached; at most half of what a cut leaves.
        marker_tokens: The most that a cut's line may take to list names of what was left out, and
            never more than 3 % of the room; 0 lists none.
        stub_tokens: Size of a shortened tool result.
        shorten_repeats: Whether a cut by `smart` shortens a large tool result to one line if the
            same call, with the same arguments, got a newer one.
        on_overflow: `shorten` may shorten the user's last message as well.
        max_result_tokens: Longest text of one tool result; the rest is cut off when it is sent.
        max_result_tokens_by_tool: The same by tool name or glob; the first match applies.
        max_user_tokens: Longest text of one user message; the rest is cut off when it is sent.
        max_image_side_px: Longest side of an image; larger ones are scaled down.
    """

    strategy: Annotated[StrategyName | OwnStrategy, _read_strategy] = "smart"
    window_turns: Annotated[int, _AtLeastOne] = 20
    keep_last_messages: Annotated[int | None, _AtLeastOne] = None
    keep_last_turns: Annotated[int | None, _AtLeastOne] = None
    note_above_share: Annotated[float | None, _Share] = None
    cache_stable: bool = True
    step_share: Annotated[float, Bounds(least=0.001, most=1)] = 1 / 3
    opening_share: Annotated[float, Bounds(least=0, most=0.999)] = 0.3
    marker_tokens: Annotated[int, _NotNegative] = 2000
    stub_tokens: Annotated[int, _AtLeastOne] = 200
    shorten_repeats: bool = False
    on_overflow: OverflowPolicy = "error"
    max_result_tokens: Annotated[int | None, _AtLeastOne] = 100000
    max_result_tokens_by_tool: Annotated[dict[str, int], _AtLeastOne] = _NOTHING
    max_user_tokens: Annotated[int | None, _AtLeastOne] = None
    max_image_side_px: Annotated[int | None, Bounds(least=64)] = None


class CompactionSettings(Settings):
    """When a session should be compacted.

    Attributes:
        trigger_share: Share of the window without the reserve above which a compaction is due.
        target_share: Share to come down to; below `trigger_share`.
        max_messages: Number of messages above which a compaction is due.
        max_tool_calls: Number of tool calls above which a compaction is due.
        min_history_share: Share of the window without the reserve that the history must fill before
            these two counts matter.
        min_gain_share: Share of the history that a compaction must be able to free.
        min_growth_tokens: Tokens that must have been added since the last compaction.
        uses_price_steps: Whether a compaction is also due above a step of the model's price.
        summary_tokens: The most that a summary may take; never more than half of what it covers, or
            a quarter of what the history should come down to.
        max_corrections: How often a summarizer may correct its summary.
        timeout_seconds: How long all requests for one summary may take together.
        cooldown_seconds: How long `auto_compact` waits after a failure; each further failure doubles
            the wait, up to a day.
    """

    trigger_share: Annotated[float, _Share] = 0.8
    target_share: Annotated[float, _Share] = 0.5
    max_messages: Annotated[int, _AtLeastOne] = 100
    max_tool_calls: Annotated[int, _AtLeastOne] = 50
    min_history_share: Annotated[float, Bounds(least=0, most=1)] = 0.3
    min_gain_share: Annotated[float, _Share] = 0.1
    min_growth_tokens: Annotated[int, _NotNegative] = 2000
    uses_price_steps: bool = True
    summary_tokens: Annotated[int, Bounds(least=100)] = 4000
    max_corrections: Annotated[int, _NotNegative] = 2
    timeout_seconds: Annotated[float, Bounds(least=0.001)] = 300.0
    cooldown_seconds: Annotated[float, _NotNegative] = 60.0

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        if self.trigger_share <= self.target_share:
            raise ConfigurationError(
                f"Compaction would start above {self.trigger_share:g} of the window and stop at "
                f"{self.target_share:g}, so every message would start it again.",
                remedy="Set trigger_share above target_share, for example 0.8 and 0.5.",
            )


class AssemblerConfig(Settings):
    """Everything that holds for all sessions of one assembler. Immutable.

    Highest first: arguments, `CONTEXT_ASSEMBLER_*` (nested with `__`; lists and tables as JSON),
    `context-assembler.toml`, the table `[tool.context-assembler]` of `pyproject.toml`. Both files
    are looked for in `folder`. `defaults` are the system layer of options, `agents` the agent layer.

    Attributes:
        folder: Where the configuration files are looked for.
        account: Your tag for the API account; signed reasoning is only sent back to the account that
            it came from.
        token_counter: `auto` counts exactly if a tokenizer is bundled; `exact` refuses models without
            one; `estimate` always estimates; `simple` counts 4 characters as a token.
        calibrates_tokens: Whether reported usage corrects the counts of later messages.
        on_tool_conflict: What to do if two sources define one tool differently.
        unknown_model: What to do with a model that has no row in model_limits.yaml.
        checks_payloads: Check every payload with its provider's rules; see PayloadWarning.

    Raises:
        UnknownOptionError: An argument that does not exist.
        ConfigurationError: A value of the wrong type or out of bounds, or an unreadable file.
    """

    folder: Path = Path()
    account: str | None = None
    token_counter: Literal["auto", "exact", "estimate", "simple"] = "auto"
    calibrates_tokens: bool = True
    on_tool_conflict: Literal["rename", "error"] = "rename"
    unknown_model: UnknownModelPolicy = "error"
    checks_payloads: bool = True
    defaults: AssembleOptions = AssembleOptions()
    agents: dict[str, AssembleOptions] = _NOTHING
    bootstrap: BootstrapSettings = BootstrapSettings()
    prompt: PromptSettings = PromptSettings()
    skills: SkillSettings = SkillSettings()
    tools: ToolSettings = ToolSettings()
    memory: MemorySettings = MemorySettings()
    session_start: SessionStartSettings = SessionStartSettings()
    cache: CacheSettings = CacheSettings()
    safety: SafetySettings = SafetySettings()
    clock: ClockSettings = ClockSettings()
    truncation: TruncationSettings = TruncationSettings()
    compaction: CompactionSettings = CompactionSettings()

    def __init__(self, **given: Any) -> None:
        options = self.options
        merged = read_options(given, options)
        for variable, settings in _read_environment():
            merged = merge(_read_place(variable, settings), merged)
        folder = merged.get("folder", self.folder)
        for path in (folder / name for name in FILES):
            merged = merge(_read_place(str(path), _read_file(path)), merged)
        for name, table in TABLES.items():
            merged[name] = table(**merged.get(name, {}))
        agents = merged.get("agents", {})
        merged["agents"] = {agent: AssembleOptions(**one) for agent, one in agents.items()}
        vars(self).update({name: option.default for name, option in options.items()} | merged)

    def __repr__(self) -> str:
        text = super().__repr__()
        return text if len(text) < 300 else f"{text[:290]} …)"

    @property
    def bootstrap_folder(self) -> Path:
        """The folder of the instruction files."""
        return self.folder / self.bootstrap.folder

    @property
    def skill_folders(self) -> list[Path]:
        """The folders of skills."""
        return [self.folder / folder for folder in self.skills.folders]


TABLES: Final[Mapping[str, type[Settings]]] = {
    name: option.kind
    for name, option in AssemblerConfig.options.items()
    if isinstance(option.default, Settings)
}
# By table, its settings; those outside of tables come first.
SETTINGS: Final[Mapping[str, Mapping[str, Option]]] = {
    "": {n: one for n, one in AssemblerConfig.options.items() if n not in (*TABLES, "agents")},
    **{name: table.options for name, table in TABLES.items() if name != "defaults"},
}


def _read_place(place: str, given: Mapping[str, Json]) -> dict[str, Any]:
    """Return the settings of a file or variable; an error names it."""
    if not is_object(given):
        raise ConfigurationError(f"In {place}: it must be a table.", remedy=errors.CHECK_FILE)
    try:
        return read_options(given, AssemblerConfig.options)
    except ConfigurationError as error:
        raise ConfigurationError(f"In {place}: {error.problem}", remedy=error.remedy) from error


def _read_file(path: Path) -> Mapping[str, Json]:
    try:
        raw, _ = read_file(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        problem = f"{path} cannot be read: {error.strerror}."
        raise ConfigurationError(problem, remedy=errors.CHECK_FILE) from error
    is_shared = path.name == FILES[1]
    if is_shared and b"context-assembler" not in raw:
        return {}
    import tomllib

    try:
        settings = tomllib.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        remedy = "Correct the file; write paths in '…'."
        raise ConfigurationError(f"{path} is not TOML: {error}.", remedy=remedy) from error
    return settings.get("tool", {}).get("context-assembler", {}) if is_shared else settings


def _read_environment() -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield each variable that sets something, the most specific first, as nested tables.

    Other programs' variables begin so as well (`CONTEXT_ASSEMBLER_PORT`): one that names no setting
    is an error only if it names a table or is nearly a setting.
    """
    names = AssemblerConfig.options
    for variable in sorted(os.environ, key=lambda name: (-name.count("__"), name)):
        first, *rest = variable.lower().removeprefix(ENV_PREFIX.lower()).split("__")
        if not variable.upper().startswith(ENV_PREFIX) or not os.environ[variable]:
            continue
        if first in names or rest or errors.is_misspelt(first, names):
            value = _read_variable(variable, os.environ[variable])
            for step in reversed((first, *rest)):
                value = {step: value}
            yield variable, value


def _read_variable(variable: str, text: str) -> Json:
    """Read JSON; anything else is text."""
    try:
        return json.loads(text)
    except ValueError as error:
        if not text.lstrip().startswith(("{", "[")):
            return text
        remedy = 'Write lists and tables as JSON, such as ["a", "b"] or {"a": 1}.'
        raise ConfigurationError(f"{variable} is not JSON: {error}.", remedy=remedy) from None


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
    response_format: ResponseFormat | None = None
    provider_compaction: str | int | None = None
    context_edits: tuple[JsonObject, ...] = ()


# If such an option of a session cannot be read, no tool is offered rather than every one.
_LIMITS_OF_TOOLS: Final = ("permissions", "sandbox_mode", "disabled_tools")
_Given: TypeAlias = AssembleOptions | Mapping[str, Any] | None


class DefaultsResolver:
    """Settles every option from four layers; the highest that gives a value wins.

    >>> DefaultsResolver({"model": "gpt-5.5"}).resolve({"max_tokens": 500}).layers
    {'max_tokens': 'request', 'model': 'system'}
    """

    def __init__(self, system_defaults: _Given = None) -> None:
        self._system = _given(system_defaults)

    def resolve(
        self,
        request: _Given = None,
        *,
        session: Mapping[str, Any] | None = None,
        agent: _Given = None,
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
                closed = {"permissions": ()} if name in _LIMITS_OF_TOOLS else closed
        by_layer = (_given(request), stored | closed, _given(agent), self._system)
        values: dict[str, Any] = {}
        layers: dict[str, Layer] = {}
        for layer, given in zip(LAYERS, by_layer, strict=True):
            layers |= dict.fromkeys((name for name in given if name not in values), layer)
            values = {**given, **values}
        if "model" not in values:
            raise errors.MissingModelError(layers=LAYERS)
        return Settled(AssembleOptions(**values), layers, tuple(warnings))


def _given(options: _Given) -> Mapping[str, Any]:
    return read_options(options.given if isinstance(options, Settings) else options or {})


# ---- what one model takes ----


class _Objection(NamedTuple):
    """Why an option may not be sent; one that is not `is_refused` merely has no effect."""

    name: str
    rule: str
    remedy: str = "Leave it out."
    is_refused: bool = True


# Why a model of each rule refuses temperature, top_p and top_k.
_REFUSALS: Final[Mapping[str, str]] = {
    "never": "is not supported",
    "ignored": "has no effect",
    "effort_none": "is only supported with thinking_level='none'",
    "fixed": "is fixed",
}


def _exclude(settled: Settled, first: str, second: str, *, unless: str = "") -> _Objection:
    """Of two options that exclude each other, the lower layer's is left out."""
    ranks = [LAYERS.index(settled.layers.get(name, "request")) for name in (first, second)]
    weaker, stronger = (first, second) if ranks[0] > ranks[1] else (second, first)
    rule = f"cannot be combined with {stronger}{unless}"
    return _Objection(weaker, rule, f"Pass only one of {first} and {second}.")


def _thinking_objections(settled: Settled, limits: ModelLimits) -> Iterator[_Objection]:
    options, thinking = settled.options, limits.thinking
    level, budget, levels = options.thinking_level, options.thinking_budget, thinking.levels
    listed, wants_none = ", ".join(levels), level == "none" or budget == 0
    if level is None and budget is None:
        return
    name = "thinking_level" if level == "none" or budget is None else "thinking_budget"
    if not thinking.kinds and not limits.is_assumed:
        rule = "is not supported, as the model does not reason,"
        yield _Objection(name, rule, is_refused=not wants_none)
    # Some models always think.
    # https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking (2026-11-27)
    # https://platform.openai.com/docs/guides/latest-model (2026-11-27)
    if wants_none and thinking.disable == "no":
        lowest = f"The least is thinking_level={levels[0]!r}." if levels else "Leave it out."
        yield _Objection(name, "cannot switch thinking off", lowest)
    if level not in (None, "none", *levels) and not limits.is_assumed:
        rule = f"must be one of {listed}" if levels else "is not supported, but thinking_budget is,"
        yield _Objection("thinking_level", rule)
    if budget and not limits.is_assumed:
        least, most = thinking.min_budget_tokens or 0, thinking.max_budget_tokens
        if "budget" not in thinking.kinds:
            yield _Objection(
                "thinking_budget", f"is not supported, but thinking_level is ({listed}),"
            )
        elif not least <= budget <= (most or budget):
            bounds = f"at least {least:,}" if most is None else f"between {least:,} and {most:,}"
            remedy = "Pass such a number, or 0 if thinking may be switched off."
            yield _Objection("thinking_budget", f"must be {bounds} tokens", remedy)
    # Thinking counts toward the reply.
    # https://platform.claude.com/docs/en/build-with-claude/extended-thinking (2026-11-27)
    if budget and budget >= (options.max_tokens or budget + 1):
        rule = f"must be less than max_tokens ({options.max_tokens:,})"
        yield _Objection("thinking_budget", rule, "Lower thinking_budget, or raise max_tokens.")
    # A level and a budget go together with Anthropic alone, and its highest levels need thinking.
    # https://ai.google.dev/gemini-api/docs/thinking (2026-11-27)
    # https://platform.claude.com/docs/en/build-with-claude/effort (2026-11-27)
    if level is not None and budget is not None and not (level == "none" and budget == 0):
        is_too_high = level in ("xhigh", "max") and thinking.disable != "yes"
        may_be_off = level != "none" and (budget or not is_too_high)
        if limits.provider != "anthropic" or not may_be_off:
            yield _exclude(settled, "thinking_level", "thinking_budget")


def _sampling_objections(settled: Settled, limits: ModelLimits) -> Iterator[_Objection]:
    # https://platform.claude.com/docs/en/api/versioning (2026-10-21)
    # https://platform.openai.com/docs/guides/latest-model (2026-11-27)
    options, rules, thinking = settled.options, limits.parameters, limits.thinking
    level, budget = options.thinking_level, options.thinking_budget
    names = ("temperature", "top_p", "top_k")
    given = {name: held for name in names if (held := getattr(options, name)) is not None}
    reasons = (level or thinking.default_level) != "none" and budget != 0
    for name, value in given.items():
        is_temperature, is_refused = name == "temperature", rules.temperature != "ignored"
        is_free = rules.temperature == "effort_none" and not reasons
        if rules.temperature == "fixed":
            is_free = is_temperature and value == rules.fixed_temperature
        if name == "top_k" and limits.provider == "openai":
            remedy = "Leave it out, or use top_p."
            yield _Objection(name, "is not supported", remedy, is_refused)
        elif rules.temperature in _REFUSALS and not is_free:
            yield _Objection(name, _REFUSALS[rules.temperature], is_refused=is_refused)
        elif is_temperature and value > rules.max_temperature:
            yield _Objection(name, f"must be between 0 and {rules.max_temperature:g}")
    # While an Anthropic model thinks, temperature and top_k are refused, and top_p below 0.95.
    # https://platform.claude.com/docs/en/build-with-claude/extended-thinking (2026-11-27)
    thinks = budget or ("adaptive" in thinking.kinds and level is not None)
    if limits.provider == "anthropic" and thinks and level != "none" and budget != 0:
        cause = "thinking_budget" if budget else "thinking_level"
        for name, value in given.items():
            if name != "top_p":
                yield _exclude(settled, cause, name)
            elif value < 0.95:
                yield _exclude(settled, cause, name, unless=" unless it is at least 0.95")
    # https://platform.claude.com/docs/en/about-claude/models/migration-guide (2026-11-27)
    if not rules.accepts_top_p_with_temperature and {"temperature", "top_p"} <= given.keys():
        yield _exclude(settled, "temperature", "top_p")


def _other_objections(settled: Settled, limits: ModelLimits) -> Iterator[_Objection]:
    options, features, choice = settled.options, limits.features, settled.options.tool_choice
    # The Responses API takes no stop sequences, and some of OpenAI's models take none at all.
    # https://developers.openai.com/api/docs/api-reference/responses/create (2026-11-27)
    if options.stop_sequences and limits.provider == "openai" and limits.host in (None, "azure"):
        speaks_responses = features.get("chat_tools_with_reasoning") is False
        is_requested = settled.layers.get("stop_sequences", "request") == "request"
        if not limits.parameters.accepts_stop or (speaks_responses and not is_requested):
            remedy = "Leave it out, and say in the prompt where to stop."
            yield _Objection("stop_sequences", "is not supported", remedy)
    # https://platform.claude.com/docs/en/build-with-claude/compaction-threshold, /context-editing
    # types of the openai package 3.57, ContextManagement (read 2026-11-30)
    compacts, is_claude = options.provider_compaction, limits.provider == "anthropic"
    least = 50_000 if is_claude else 1_000
    # https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand (read 2026-11-30)
    is_missing = not features.get("compaction") or (compacts == "now" and limits.host == "bedrock")
    if compacts is not None and is_missing:
        remedy = "Leave it out, and use compact()."
        yield _Objection("provider_compaction", "is not supported", remedy)
    elif isinstance(compacts, int) and compacts < least:
        remedy = "Pass a larger number."
        yield _Objection("provider_compaction", f"must be at least {least:,} tokens", remedy)
    if options.context_edits and not is_claude:
        yield _Objection("context_edits", "is not supported")
    # https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools (2026-11-27)
    if choice is not None:
        remedy = "Use 'auto' and ask for the tool in the prompt, or choose another model."
        is_forced = choice.mode in ("any", "tool")
        if features.get("tools") is False and choice.mode != "none":
            yield _Objection("tool_choice", "is not supported, nor are tools,", remedy)
        elif is_forced and features.get("forced_tools") is False:
            yield _Objection("tool_choice", "cannot force a call", remedy)
        elif is_forced and limits.provider == "anthropic" and options.thinking_budget:
            yield _exclude(settled, "thinking_budget", "tool_choice")


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
    wanted, largest = settled.options.max_tokens, limits.output_tokens
    if wanted is not None and largest is not None and wanted > largest:
        rule = f"must be at most {largest:,}, the longest reply,"
        remedy = "Pass a smaller max_tokens, or leave it out."
        settled = _leave_out(settled, _Objection("max_tokens", rule, remedy), limits.id, largest)
    elif wanted is None:
        settled = _with_max_tokens(settled, limits)
    # Thinking first, since sampling depends on it.
    kinds = (_thinking_objections, _sampling_objections, _other_objections)
    while found := next((one for kind in kinds for one in kind(settled, limits)), None):
        settled = _leave_out(settled, found, limits.id)
    given = settled.options.given
    chosen = {name: given[name] for name in Parameters._fields if name in given}
    if chosen.get("response_format") == _NO_FORMAT:
        del chosen["response_format"]
    return Parameters(**chosen), settled


def _with_max_tokens(settled: Settled, limits: ModelLimits) -> Settled:
    budget = settled.options.thinking_budget or 0
    room = [DEFAULT_MAX_TOKENS + budget]
    if limits.output_tokens:
        room.append(limits.output_tokens)
    if limits.window_kind == "shared":
        room.append(max(1, limits.window_tokens // 4))
    if limits.provider == "anthropic" and budget < LONGEST_UNSTREAMED_TOKENS:
        room.append(LONGEST_UNSTREAMED_TOKENS)
    options = settled.options.without("max_tokens", max_tokens=min(room))
    return settled._replace(options=options, layers={**settled.layers, "max_tokens": "model"})


def _leave_out(
    settled: Settled, found: _Objection, model: str | None = None, instead: Any = None
) -> Settled:
    """Raise if the request gave the option; else return the options without it, or with another."""
    name, value = found.name, getattr(settled.options, found.name)
    error = InvalidParameterError(name, value, rule=found.rule, remedy=found.remedy, model=model)
    layer = settled.layers.get(name, "request")
    if layer == "request" and found.is_refused:
        raise error
    fate = "left out" if instead is None else f"lowered to {instead:,}"
    warning = f"{error.problem} It comes from the {layer} layer and was {fate}."
    options = settled.options.without(name, **{name: instead})
    layers: dict[str, Layer] = {**settled.layers}
    if instead is None:
        layers.pop(name, None)
    return Settled(options, layers, (*settled.warnings, warning))


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
    near = errors.nearest(unknown or "", names)
    remedy = f"Did you mean {near[0]!r}?" if near else "The report says which tools were left out."
    return _leave_out(settled, _Objection("tool_choice", rule, remedy))
