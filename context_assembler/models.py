"""`ModelRegistry` over model_limits.yaml: what each model takes, refuses and costs.

A first call looks one model up, so that neither yaml nor dataclasses are loaded for it: the bundled
file is cut into rows as text, and only the row that is asked for is read.
"""

import itertools
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeGuard

from context_assembler import errors
from context_assembler.texts import read_file

ModelStatus: TypeAlias = Literal["active", "legacy", "deprecated", "retired"]
ThinkingKind: TypeAlias = Literal["adaptive", "budget", "effort", "toggle"]
ThinkingSwitch: TypeAlias = Literal["yes", "no", "between_tools", "effort_up_to_high"]
TemperatureRule: TypeAlias = Literal[
    "always", "legacy_api", "effort_none", "ignored", "fixed", "never"
]
UnknownModelPolicy: TypeAlias = Literal["error", "conservative"]
Json: TypeAlias = Any
Row: TypeAlias = dict[str, Json]  # one row of model_limits.yaml

CONSERVATIVE_WINDOW_TOKENS: Final = 32_000
CONSERVATIVE_OUTPUT_TOKENS: Final = 4_096
_MOST_ANSWERS: Final = 1_000
_NOT_INHERITED: Final = dict.fromkeys(("aliases", "api_id", "extends"))
_NOT_OF_HOSTS: Final = ("extends", "provider", "api_id", "aliases", "meta")
_BYTES_PER_TOKEN: Final = 1.8  # of the densest text there is: numbers in JSON


# ---- values ----


class ThinkingRule(NamedTuple):
    """How a model's reasoning is switched on.

    Attributes:
        kinds: Ways to ask for it; empty means the model does not reason.
        levels: Effort levels, lowest first; `none` is among them if it switches reasoning off.
        default_level: What the provider assumes; `None`: unknown.
        disable: `yes`, `no`, `between_tools`, or `effort_up_to_high`.
        is_prefix_bound: Whether signed reasoning is refused once what was before it changed.
        is_account_bound: Whether it is refused under another account, and so at another host.
        back: Which replies' unsigned reasoning is sent back: those with `calls`, or `always`; `None`:
            none. The feature `reasoning_back` says whether a reply with calls is refused without.
    """

    kinds: tuple[ThinkingKind, ...] = ()
    levels: tuple[str, ...] = ()
    default_level: str | None = None
    disable: ThinkingSwitch = "yes"
    is_prefix_bound: bool = False
    is_account_bound: bool = True
    min_budget_tokens: int | None = None
    max_budget_tokens: int | None = None
    back: Literal["calls", "always"] | None = None


class ParameterRules(NamedTuple):
    """Which sampling parameters a model takes, and their ranges.

    `accepts_stop` is about the vendor's own API; a gateway may stop for the model.
    """

    temperature: TemperatureRule = "always"
    fixed_temperature: float | None = None
    max_temperature: float = 2.0
    accepts_top_p_with_temperature: bool = True
    accepts_stop: bool = True


class CacheRule(NamedTuple):
    """How a provider caches prompts; `min_tokens` `None`: not known."""

    mode: Literal["explicit", "implicit", "none"] = "none"
    min_tokens: int | None = None
    ttls: tuple[str, ...] = ()

    @property
    def least_bytes(self) -> int:
        """From how many bytes on a prefix may hold `min_tokens`.

        A mark after too little costs nothing and does nothing, so the densest text decides.
        """
        return int((self.min_tokens or 0) * _BYTES_PER_TOKEN)


class Price(NamedTuple):
    """US dollars per million tokens; `None`: not known.

    The price holds from `from_date` on and for prompts above `above_input_tokens`.
    """

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    from_date: date | None = None
    above_input_tokens: int = 0


class ModelLimits(NamedTuple):
    """One row of model_limits.yaml, resolved; `limits._replace(…)` returns a changed copy.

    Attributes:
        provider: The vendor: `anthropic`, `openai`, `google` …
        window_tokens: What the vendor prints as context window.
        window_kind: `shared` if input and reply must fit it together.
        input_tokens: Largest input, if the vendor names one.
        output_tokens: Largest reply; `None` if the vendor names none.
        features: Feature name → whether the model has it; a missing name is unknown, not absent.
        encoding: Tokenizer family (`o200k_base`, `anthropic-new` …).
        image_rule: How the vendor counts images, a key of `tokens.IMAGE_RULES`; empty: flat.
        token_frame: How the vendor wraps messages, calls and tools, a key of `tokens.FRAMES`;
            empty: by the encoding.
        tool_prompt_tokens: Size of the hidden system prompt that comes with tools; `None`: unknown.
        weak: Fields that fewer than two sources agree on.
        locked: Fields that a refresh never proposes to change.
        asked_id: The id as the caller wrote it.
        api_id: The id to send to the vendor's own API.
        host: The gateway or cloud named in `asked_id`; `None`: the vendor itself.
        has_host_dates: Whether status and retirement date are the host's own, not the vendor's.
        is_assumed: Whether these are conservative guesses for an unknown model.
        protocol: The wire protocol to speak; `None`: the one that is usual for the model.
    """

    id: str
    provider: str
    window_tokens: int
    status: ModelStatus = "active"
    retires_on: date | None = None
    aliases: tuple[str, ...] = ()
    window_kind: Literal["shared", "separate"] = "shared"
    input_tokens: int | None = None
    output_tokens: int | None = None
    features: Mapping[str, bool] = {}
    thinking: ThinkingRule = ThinkingRule()
    parameters: ParameterRules = ParameterRules()
    encoding: str = "o200k_base"
    image_rule: str = ""
    token_frame: str = ""
    tool_prompt_tokens: int | None = None
    cache: CacheRule = CacheRule()
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

    def __repr__(self) -> str:
        return errors.brief_repr(self)

    @property
    def wire_id(self) -> str:
        """The id that a payload names the model by."""
        return self.api_id or self.id

    def supports(self, feature: str) -> bool:
        """Whether the model is known to have the feature."""
        return self.features.get(feature, False)


# ---- ids as people write them ----


def _table(text: str) -> dict[str, str]:
    """Return `a=b c` as a → b, c → c."""
    pairs = (word.partition("=") for word in text.split())
    return {name: target or name for name, _, target in pairs}


FEATURE_SYNONYMS: Final = _table(
    "caching=prompt_cache documents=pdf function_calling=tools images=vision"
    " parallel_tool_calls=parallel_tools prompt_caching=prompt_cache reasoning=thinking"
    " tool_use=tools"
)
KNOWN_FEATURES: Final = tuple(
    _table(
        "tools parallel_tools forced_tools vision pdf prefill mid_conversation_system thinking"
        " cache_breakpoints chat_tools_with_reasoning reasoning_back tool_search prompt_cache"
        " compaction"
    )
)
# Routing prefix → the host it names. What follows the prefix is what that host expects.
GATEWAYS: Final = _table(
    "amazon-bedrock=bedrock azure azure_ai=azure azure_openai=azure bedrock"
    " bedrock_converse=bedrock cerebras cloudflare databricks deepinfra fireworks_ai github"
    " github_copilot google-vertex=vertex_ai groq hosted_vllm=vllm litellm_proxy nvidia_nim"
    " opencode openrouter portkey requesty sambanova together_ai vercel vercel_ai_gateway=vercel"
    " vertex_ai vertex_ai_beta=vertex_ai vllm"
)
# Vendor prefix, as gateways and catalogues write it → `ModelLimits.provider`.
VENDORS: Final = _table(
    "alibaba=qwen amazon anthropic dashscope=qwen deepseek deepseek-ai=deepseek gemini=google"
    " google meta meta-llama=meta minimax minimaxai=minimax mistral mistralai=mistral"
    " models=google moonshot moonshotai=moonshot openai qwen x-ai=xai xai z-ai=zai zai zai-org=zai"
)
_ROUTES: Final = (
    r"^(?:(?:[a-z]{2}(?:-gov)?-[a-z]+-\d|converse|invoke|responses|eu|us|global|global-standard)/)+"
)
# What is taken off one after the other, and the host that it implies. A group names the vendor.
_STEPS: Final = (
    (r"^arn:aws[\w-]*:bedrock:.+/", "bedrock"),
    (r"^(?:projects|publishers)/.+/models/", "vertex_ai"),
    (rf"^(?:({'|'.join(VENDORS)})/)+", None),
    (r"^(?:us-gov|us|eu|apac|jp|au|ca|global)\.(?=[a-z])", "bedrock"),
    (r"(?::(?:free|thinking|batch|beta|nitro|floor|extended|online|exacto)|\[1m\])$", None),
    (r"-v?\d+:\d+$|(?<=\d)-v\d$", "bedrock"),
    (rf"^({'|'.join(VENDORS)})\.", "bedrock"),
    (r"(?:-v\d)?@(?:\d{8}|default|latest)$", "vertex_ai"),
)
_DATE: Final = r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$"
_CLAUDE: Final = r"claude-(?:(\d+(?:-\d+)?)-([a-z]+)|([a-z]+)-(\d+(?:-\d+)?))"


class _Spelling(NamedTuple):
    """One way to look an id up.

    `host_id` is what the host expects: the id without its routing prefix. `snapshot` is the date
    (or `-latest`) taken off the end, which the vendor's API wants back.
    """

    name: str
    host: str | None = None
    host_id: str = ""
    snapshot: str = ""
    vendor: str | None = None


def _plainer(asked: str) -> Iterator[_Spelling]:
    """Yield ways to look an id up, the most literal first.

    Every step takes off one known prefix or suffix; nothing is matched by its beginning, so that an
    unlisted model never passes for a listed one.
    """
    name = asked.strip()
    yield (now := _Spelling(name, host_id=name))
    head, slash, rest = name.partition("/")
    if slash and (gateway := GATEWAYS.get(head.lower())):
        name = re.sub(_ROUTES, "", rest, flags=re.IGNORECASE)
        yield (now := _Spelling(name, gateway, host_id=name))
    for pattern, host in _STEPS:
        if found := re.search(pattern, now.name, re.IGNORECASE):
            vendor = VENDORS[found[1].lower()] if found.re.groups else now.vendor
            name = now.name[: found.start()] + now.name[found.end() :]
            yield (now := now._replace(name=name, host=now.host or host, vendor=vendor))
    if found := re.search(_DATE, now.name, re.IGNORECASE):
        yield now._replace(name=now.name[: found.start()], snapshot=found[0].lower())


def _spellings(asked: str) -> Iterator[_Spelling]:
    now = _Spelling("")
    for now in _plainer(asked):
        yield now
    dashed = now.name.lower().replace(".", "-")
    if dashed.startswith("claude-"):  # claude-sonnet-4.5, claude-4-5-haiku
        yield now._replace(name=dashed)
        if found := re.fullmatch(_CLAUDE, dashed):
            yield now._replace(name=f"claude-{found[2] or found[4]}-{found[1] or found[3]}")


# ---- rows ----

# By section of a row, its fields and the attributes that they become; the first is the row itself.
_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "": _table("provider status retires_on api_id aliases"),
    "limits": _table(
        "window=window_tokens kind=window_kind input=input_tokens output=output_tokens"
    ),
    "features": dict.fromkeys(KNOWN_FEATURES, ""),
    "thinking": _table(
        "kinds levels default=default_level disable prefix_bound=is_prefix_bound back"
        " account_bound=is_account_bound min_budget=min_budget_tokens max_budget=max_budget_tokens"
    ),
    "parameters": _table(
        "temperature fixed_temperature max_temperature stop=accepts_stop"
        " top_p_with_temperature=accepts_top_p_with_temperature"
    ),
    "cache": _table("mode min_tokens ttls"),
    "prices": _table(
        "input output cache_read cache_write cache_write_1h from=from_date above=above_input_tokens"
    ),
    "tokenizer": _table(
        "encoding images=image_rule frame=token_frame tool_prompt=tool_prompt_tokens"
    ),
    "meta": _table("checked sources weak locked remarks"),
}
_PARTS: Final[Mapping[str, type]] = {
    "thinking": ThinkingRule,
    "parameters": ParameterRules,
    "cache": CacheRule,
    "prices": Price,
}
_SCALAR: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s,:\[\]{}"][^,:\[\]{}"]*')
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?|true|false|null")
_FIELD: Final = re.compile(r"^    (\w+):(?: (.+)|((?:\n      .+)+))$", re.MULTILINE)


def _flow(text: str) -> Json:
    """Read `{a: 1, b: [c, "d"]}`: it is JSON, once its words are quoted."""

    def quoted(found: "re.Match[str]") -> str:
        word = found[0].strip()
        return word if word[0] == '"' or _NUMBER.fullmatch(word) else f'"{word}"'

    return json.loads(_SCALAR.sub(quoted, text))


def _parse(text: str) -> Row:
    """Read a row in the layout of the bundled file."""
    row: Row = {}
    for name, flow, block in _FIELD.findall(text):
        lines = [line.strip() for line in block.splitlines()[1:]]
        if flow:
            row[name] = _flow(flow)
        elif lines[0].startswith("- "):
            row[name] = [_flow(line[2:]) for line in lines]
        else:
            row[name] = {key: _flow(value) for key, _, value in (x.partition(":") for x in lines)}
    return row


def _is_row(value: Json) -> TypeGuard[Row]:
    return isinstance(value, dict)


def _is_list(value: Json) -> TypeGuard[list[Json]]:
    return isinstance(value, list)


def _part(row: Row, name: str) -> Row:
    """Return a section of a row; one that is null or not there has no fields."""
    return row.get(name) or {}


def _values(section: str, row: Row) -> dict[str, Json]:
    """Return the attributes that a section's fields become; a field that is null becomes none."""
    made: dict[str, Json] = {}
    fields = _part(row, section) if section else row
    for name, attribute in _FIELDS[section].items():
        held = fields.get(name)
        if _is_list(held):
            held = tuple(held)
        elif attribute in ("retires_on", "checked", "from_date") and isinstance(held, str):
            held = date.fromisoformat(held)
        if held is not None:
            made[attribute] = held
    return made


def _limits_of(row_id: str, row: Row) -> ModelLimits:
    """Return a row, merged and sound, as a value."""
    made: dict[str, Any] = {"provider": "unknown", "api_id": row_id}
    for section in ("", "limits", "tokenizer", "meta"):
        made |= _values(section, row)
    given = _without_nulls(_part(row, "features"))
    # Anthropic's reasoning is the same on every platform, if its row does not say otherwise.
    back = "calls" if given.get("reasoning_back") else None
    usual: Row = {"is_account_bound": made["provider"] != "anthropic", "back": back}
    thinking = ThinkingRule(**usual | _values("thinking", row))
    cache_rule = CacheRule(**_values("cache", row))
    features = {
        "thinking": bool(thinking.kinds),
        "prompt_cache": cache_rule.mode != "none",
        "forced_tools": given.get("tools", True),  # a row names a refusal
        "chat_tools_with_reasoning": True,
        **given,
    }
    return ModelLimits(
        id=row_id,
        asked_id=row_id,
        features=features,
        thinking=thinking,
        cache=cache_rule,
        parameters=ParameterRules(**_values("parameters", row)),
        prices=tuple(Price(**_values("prices", {"prices": p})) for p in row.get("prices") or ()),
        **made,
    )


def _without_nulls(fields: Row) -> Row:
    return {name: held for name, held in fields.items() if held is not None}


def merge(*rows: Row) -> Row:
    """Lay rows over each other, the weakest first: mappings merge, anything else replaces."""
    merged: Row = {}
    for name, value in (field for row in rows for field in row.items()):
        below = merged.get(name)
        merged[name] = merge(below, value) if _is_row(below) and _is_row(value) else value
    return merged


def _leaves(row: Row) -> Iterator[tuple[str, Json]]:
    """Yield every field that is not null: its dotted path and its value."""
    for name, value in row.items():
        if _is_row(value) and value:
            yield from ((f"{name}.{path}", held) for path, held in _leaves(value))
        elif value is not None:
            yield str(name), value


# ---- the schema ----


@cache
def _kinds() -> dict[str, Any]:
    """Return what each field is, by its path: the annotation of the attribute that it becomes."""
    kinds: dict[str, Any] = {"extends": str, "hosts": dict}
    for section, names in _FIELDS.items():
        hints = _PARTS.get(section, ModelLimits).__annotations__
        for name, attribute in names.items():
            kind = hints[attribute] if attribute else bool
            kinds[f"{section}.{name}" if section else name] = kind
        kinds[section] = dict
    kinds["prices"] = tuple[dict[str, Json], ...]
    return kinds | {f"hosts.{host}": dict for host in GATEWAYS.values()}


class _Layer(NamedTuple):
    """What one file says of a model, or of one that the model extends."""

    file: str
    row_id: str
    row: Row

    def error(self, path: str, reason: str, remedy: str = "") -> errors.RegistryError:
        return errors.RegistryError(
            file=self.file, row=self.row_id, field=path, reason=reason, remedy=remedy
        )

    def check(self) -> None:
        """Raise a `RegistryError` for a field that is unknown, or not what it should be."""
        for path, value in _leaves(self.row):
            self._check_field(path, value)
            prices = value if path.endswith("prices") and _is_list(value) else ()
            for name, held in (field for price in prices for field in _leaves(price)):
                self._check_field(f"{path}.{name}", held)

    def _check_field(self, path: str, value: Json) -> None:
        kinds, bounds = _kinds(), errors.Bounds(least=0)
        hosts, others = "|".join(GATEWAYS.values()), "|".join(_NOT_OF_HOSTS)
        place = re.sub(rf"^hosts\.(?:{hosts})\.(?!{others})", "", path)
        section, _, name = place.rpartition(".")
        is_own = section == "features" and name.islower()
        if is_own and not errors.is_misspelt(name, KNOWN_FEATURES):
            kinds = {place: bool}
        if place not in kinds:
            hint = errors.did_you_mean(place, kinds, otherwise="")
            raise self.error(path, "there is no such field", hint)
        if not errors.fits(value, kinds[place], bounds):
            needed = errors.expected(kinds[place], bounds)
            raise self.error(path, f"{needed} is needed, not {value!r}")

    def check_whole(self, row: Row) -> None:
        """Raise a `RegistryError` if a merged row has no window, or more than that."""
        limits = _part(row, "limits")
        if not (window := limits.get("window")):
            remedy = "Give limits.window, or extends: <the id of a known model>."
            reason = "it is missing, and no other file knows this model"
            raise self.error("limits.window", reason, remedy)
        for name in ("input", "output"):
            if limits.get("kind") != "separate" and (limits.get(name) or 0) > window:
                raise self.error(f"limits.{name}", f"{limits[name]:,} is more than the window")


# ---- files ----


class _File(NamedTuple):
    """The rows of one file, or those registered by code; a row that is `None` deletes.

    A row of the bundled file is text until somebody asks for it: parsing all of them takes longer
    than everything else in a first call.
    """

    name: str
    rows: dict[str, Row | str | None]
    head: str = ""

    def row(self, model_id: str) -> Row | None:
        row = self.rows.get(model_id)
        if isinstance(row, str):
            row = self.rows[model_id] = _parse(row)
        return row

    def aliases(self, model_id: str) -> Sequence[str] | None:
        row = self.rows[model_id]
        if isinstance(row, str):
            listed = row.partition("    aliases: [")[2].partition("]")[0]
            return [alias.strip(' "') for alias in listed.split(",")] if listed else None
        return (row or {}).get("aliases")


def bundled_path(name: str) -> str:
    """Return the path of a file or folder that comes with the package, in a wheel or a checkout."""
    folder = os.path.dirname(__file__)
    root = os.path.dirname(folder)
    places = (f"{folder}/bundled/{name}", f"{root}/{name}", f"{root}/tests/{name}")
    return next(filter(os.path.exists, places))


def _read_file(name: str, *, is_bundled: bool = False) -> _File:
    """Read a file of any layout; the bundled one is cut at what begins with two blanks.

    Raises:
        RegistryError: The file is not YAML, or not of the schema's outer shape.
    """
    try:
        text = read_file(name)[0].decode("utf-8-sig").replace("\r\n", "\n")
        if is_bundled:
            head, _, body = text.partition("\nmodels:\n")
            _, *found = re.split(r"\n  ([^\s:#]+):\n", body)
            return _File(name, dict(zip(found[::2], found[1::2], strict=True)), head)
        content = _load_yaml(text)
        rows: dict[Json, Json] = content.pop("models", None) or {}
        content.pop("sources", None)
        others = [*content.items(), *(row for row in rows.items() if not _is_named(*row))]
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise _Layer(name, "(whole file)", {}).error("", " ".join(str(error).split())) from error
    for row_id, held in others:
        reason = f"rows are mappings under 'models:', named by text; this is {held!r}"
        raise _Layer(name, str(row_id), {}).error("models", reason)
    return _File(name, rows, head=text)


def _is_named(row_id: object, row: object) -> bool:
    return isinstance(row_id, str) and isinstance(row, dict | None)


def _load_yaml(text: str) -> Row:
    import yaml

    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"the file is not valid YAML ({error})") from error


def override_paths() -> list[str]:
    """Return the user's own registry files, the strongest first; one that is named must exist."""
    named = os.environ.get("CONTEXT_ASSEMBLER_MODELS")
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    found = ["model_limits.local.yaml", f"{home}/context_assembler/model_limits.yaml"]
    return [*filter(None, [named]), *filter(os.path.isfile, found)]


# ---- the registry ----


class ModelRegistry:
    """What is known about models: the bundled file, with the user's own files laid over it.

    Nothing is read before the first question. Safe to use from several threads.

        ModelRegistry().get("anthropic/claude-sonnet-5.5").window_tokens

    Args:
        overrides: The user's files, the strongest first; by default those of `override_paths`.
    """

    def __init__(self, *, overrides: "Sequence[str | os.PathLike[str]] | None" = None) -> None:
        self._overrides = overrides
        self._files: list[_File] = []
        self._lock = threading.RLock()
        self._set_registered(_File("register_model()", {}))

    def get(self, model_id: str, *, unknown: UnknownModelPolicy = "error") -> ModelLimits:
        """Return the limits of a model, whatever prefix, date or case its id is written with.

        Args:
            unknown: With `conservative` an unknown model gets small safe limits, flagged
                `is_assumed`.

        Raises:
            UnknownModelError: No row answers to the id, and `unknown` is `error`.
            RegistryError: The row breaks the schema.
        """
        if answer := self._answers.get((model_id, unknown)):
            return answer
        with self._lock:
            answer = self._find(model_id)
            if answer is None and unknown == "conservative" and model_id.strip():
                answer = self._assume(model_id)
            if answer is None:
                *_, plainest = _plainer(model_id)
                raise errors.UnknownModelError(model_id, known=self._index(), row_id=plainest.name)
            if len(self._answers) < _MOST_ANSWERS:
                self._answers[model_id, unknown] = answer
            return answer

    def supports_feature(self, model_id: str, feature: str) -> bool:
        """Whether the model is known to have the feature; `FEATURE_SYNONYMS` are understood.

        Raises:
            UnknownModelError: No row answers to the id.
        """
        return self.get(model_id).supports(FEATURE_SYNONYMS.get(feature, feature))

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all rows, in order of the files."""
        return tuple(row_id for row_id, name in self._index().values() if row_id == name)

    def rows(self) -> Iterator[ModelLimits]:
        """Yield every row, in order of the files."""
        for model_id in self.ids():
            yield self._row(model_id)

    def fields(self, model_id: str) -> list[tuple[str, Json, str]]:
        """Return the model's row field by field: dotted path, value, and the file it came from."""
        layers = self._layers_of(self.get(model_id).id)
        files = {path: layer.file for layer in layers for path, _ in _leaves(layer.row)}
        merged = merge(*(layer.row for layer in layers))
        return [(path, held, files[path]) for path, held in _leaves(merged)]

    def sources(self) -> dict[str, str]:
        """Return what the codes in `ModelLimits.sources` stand for."""
        found: dict[str, str] = {}
        for file in self._all_files():
            found |= _part(_load_yaml(file.head), "sources")
        return found

    def problems(self) -> list[errors.RegistryError]:
        """Return what is wrong with the rows, each read for every host that it names."""
        found: dict[str, errors.RegistryError] = {}
        for model_id in self.ids():
            try:
                hosts = (_part(layer.row, "hosts") for layer in self._layers_of(model_id))
                for host in (None, *itertools.chain(*hosts)):
                    self._row(model_id, host)
            except errors.RegistryError as error:
                found[str(error)] = error
        return list(found.values())

    def register(
        self,
        model_id: str,
        *,
        window_tokens: int | None = None,
        output_tokens: int | None = None,
        input_tokens: int | None = None,
        provider: str | None = None,
        extends: str | None = None,
        aliases: Sequence[str] | None = None,
        features: Mapping[str, bool] | None = None,
        row: Row | None = None,
    ) -> ModelLimits:
        """Add a model, or change one, for the life of this registry, and return its limits.

        Args:
            extends: The id of a known model to start from.
            row: Anything else, in the schema of model_limits.yaml.

        Raises:
            RegistryError: The result breaks the schema; nothing is registered then.
        """
        limits = {"window": window_tokens, "output": output_tokens, "input": input_tokens}
        named: Row = {"provider": provider, "extends": extends, "limits": _without_nulls(limits)}
        named |= {"features": features and {**features}, "aliases": aliases and [*aliases]}
        with self._lock:
            before = self._registered
            changed = merge(before.row(model_id) or {}, row or {}, _without_nulls(named))
            self._set_registered(before._replace(rows={**before.rows, model_id: changed}))
            try:
                return self.get(model_id)
            except errors.AssemblyError:
                self._set_registered(before)
                raise

    def _set_registered(self, registered: _File) -> None:
        self._registered = registered
        self._names: dict[str, tuple[str, str]] = {}
        self._answers: dict[tuple[str, str], ModelLimits] = {}

    def _all_files(self) -> list[_File]:
        """Return everything that rows come from, the weakest first."""
        if not self._files:
            paths = override_paths() if self._overrides is None else self._overrides
            bundled = _read_file(bundled_path("model_limits.yaml"), is_bundled=True)
            self._files = [bundled, *(_read_file(str(path)) for path in reversed(paths))]
        return [*self._files, self._registered]

    def _index(self) -> dict[str, tuple[str, str]]:
        """Return, by lower-case name, the row's id and the name as it is written; ids first."""
        if self._names:
            return self._names
        aliases: dict[str, tuple[str, Sequence[str]]] = {}
        for file in self._all_files():
            for model_id, row in file.rows.items():
                listed = file.aliases(model_id)
                if row is None:
                    aliases.pop(model_id, None)
                elif listed is not None or model_id not in aliases:
                    aliases[model_id] = file.name, listed or ()
        names = {model_id.lower(): (model_id, model_id) for model_id in aliases}
        for model_id, (file_name, listed) in aliases.items():
            for alias in listed:
                owner = names.setdefault(alias.lower(), (model_id, alias))[0]
                if owner != model_id:
                    reason = f"{alias!r} already means {owner!r}"
                    raise _Layer(file_name, model_id, {}).error("aliases", reason)
        self._names = names
        return names

    def _find(self, asked: str) -> ModelLimits | None:
        names = self._index()
        for now in _spellings(asked):
            if found := names.get(now.name.lower()):
                row_id, matched = found
                row = self._row(row_id, now.host)
                own_id = row.api_id if matched == row.id and not now.snapshot else matched
                api_id = now.host_id if now.host else own_id + now.snapshot
                return row._replace(asked_id=asked, api_id=api_id, host=now.host)
        return None

    def _row(self, model_id: str, host: str | None = None) -> ModelLimits:
        """Return a model's limits, as a host sees them."""
        layers = self._layers_of(model_id)
        content = merge(*(layer.row for layer in layers))
        over = _part(_part(content, "hosts"), host or "")
        has_dates = "retires_on" in over or "status" in over
        if has_dates:  # then the vendor's retirement does not count
            status = content.get("status")
            content |= {"retires_on": None, "status": None if status == "retired" else status}
        content = merge(content, over)
        if [layer.file for layer in layers] != [self._files[0].name]:
            layers[-1].check_whole(content)  # the bundled rows are sound: a test checks them
        return _limits_of(model_id, content)._replace(has_host_dates=has_dates)

    def _layers_of(self, model_id: str, *, below: tuple[str, ...] = ()) -> list[_Layer]:
        """Return the files' rows of one id, the weakest first, over those that they extend."""
        layers: list[_Layer] = []
        for file in self._all_files():
            if model_id in file.rows:
                row = file.row(model_id)
                layers = [] if row is None else [*layers, _Layer(file.name, model_id, row)]
                if layers and file is not self._files[0]:
                    layers[-1].check()
        base = next((layer for layer in reversed(layers) if "extends" in layer.row), None)
        if base is None or (extended := base.row["extends"]) is None:
            return layers
        base_id, _ = self._index().get(extended.lower(), ("", ""))
        if base_id in ("", model_id, *below):
            reason = f"{extended!r} is {'a circle' if base_id else 'no known model'}"
            raise base.error("extends", reason)
        inherited = self._layers_of(base_id, below=(model_id, *below))
        return [one._replace(row=one.row | _NOT_INHERITED) for one in inherited] + layers

    def _assume(self, asked: str) -> ModelLimits:
        """Return the smallest figures of the id's family, or of any model one would expect.

        The id's first word (`claude`, `gpt`, `gemini` …) names the family; retired models do not
        count. Nothing is claimed about prices, caching or sampling parameters.
        """
        *_, plain = _plainer(asked)
        family = _family(plain.name)
        found = [self._row(i) for i in self.ids() if family and _family(i) == family]
        rows = [row for row in found if row.status != "retired"] or [_UNLIKE_ANY]
        features = {name for row in rows for name in row.features if name != "prompt_cache"}
        is_prefix_bound = any(row.thinking.is_prefix_bound for row in rows)
        return ModelLimits(
            id=plain.name,
            provider=rows[0].provider or plain.vendor or "unknown",
            window_tokens=min(row.window_tokens for row in rows),
            window_kind=rows[0].window_kind,
            input_tokens=min(row.input_tokens or row.window_tokens for row in rows),
            output_tokens=min(row.output_tokens or CONSERVATIVE_OUTPUT_TOKENS for row in rows),
            features={name: all(row.supports(name) for row in rows) for name in sorted(features)},
            thinking=rows[0].thinking._replace(
                is_prefix_bound=is_prefix_bound, is_account_bound=True
            ),
            parameters=ParameterRules("never", accepts_top_p_with_temperature=False),
            encoding=rows[0].encoding,
            image_rule=rows[0].image_rule,
            token_frame=rows[0].token_frame,
            tool_prompt_tokens=rows[0].tool_prompt_tokens,
            asked_id=asked,
            api_id=plain.host_id if plain.host else plain.name + plain.snapshot,
            host=plain.host,
            is_assumed=True,
        )


_UNLIKE_ANY: Final = ModelLimits(
    id="",
    provider="",
    window_tokens=CONSERVATIVE_WINDOW_TOKENS,
    output_tokens=CONSERVATIVE_OUTPUT_TOKENS,
    features={"tools": True, "forced_tools": True, "chat_tools_with_reasoning": True},
)


def _family(model_id: str) -> str:
    return re.split("[^a-z]", model_id.lower(), maxsplit=1)[0]


DEFAULT_REGISTRY: Final = ModelRegistry()
get_model_limits: Final = DEFAULT_REGISTRY.get
supports_feature: Final = DEFAULT_REGISTRY.supports_feature
register_model: Final = DEFAULT_REGISTRY.register


# ---- protocols ----

# The vendors that have a protocol of their own. Every other one speaks Chat Completions.
_PROTOCOLS: Final = {"anthropic": "anthropic", "google": "gemini"}
# The hosts that speak a vendor's own protocol; a gateway speaks Chat Completions for every model.
_VENDOR_HOSTS: Final = (None, "azure", "bedrock", "vertex_ai")
_RESPONSES_HOSTS: Final = (None, "azure")


def protocol_for(limits: ModelLimits) -> str:
    """Return the name of the wire protocol that the model's server speaks.

    OpenAI's models that refuse function tools next to reasoning in Chat Completions speak Responses,
    with tools or without: a session that changed its protocol when its tools change would lose its
    reasoning and its cached prefix.

    Source:
        https://developers.openai.com/api/docs/guides/deployment-checklist
        https://github.com/danny-avila/LibreChat/issues/14231 (read 2026-11-27)
    """
    if limits.protocol is not None:
        return limits.protocol
    if limits.host not in _VENDOR_HOSTS:
        return "openai_chat"
    if _is_openai(limits) and limits.features.get("chat_tools_with_reasoning") is False:
        return "openai_responses"
    return _PROTOCOLS.get(limits.provider, "openai_chat")


def other_protocols(limits: ModelLimits) -> tuple[str, ...]:
    """Return the protocols next to its usual one that take the model's reasoning back.

    Source:
        https://platform.openai.com/docs/guides/reasoning (read 2026-11-27)
    """
    is_both = limits.thinking.kinds and _is_openai(limits)
    return ("openai_responses",) if is_both and protocol_for(limits) == "openai_chat" else ()


def _is_openai(limits: ModelLimits) -> bool:
    return limits.provider == "openai" and limits.host in _RESPONSES_HOSTS


# ---- on a given day ----


def price_at(limits: ModelLimits, *, today: date, input_tokens: int = 0) -> Price | None:
    """Return the price of a request of this size on this day; `None`: not known.

    Args:
        input_tokens: The whole prompt, cached or not: above a step the whole request costs more.
    """
    valid = [
        ((price.from_date or date.min, price.above_input_tokens), price)
        for price in limits.prices
        if (price.from_date or date.min) <= today
        and (not price.above_input_tokens or input_tokens > price.above_input_tokens)
    ]
    return max(valid, key=lambda pair: pair[0])[1] if valid else None


def lifecycle_warnings(limits: ModelLimits, today: date) -> list[str]:
    """Return what a request for this model should be warned of today, one sentence each.

    Retired or deprecated models, a retirement within 60 days, and limits that are assumed.
    """
    warnings: list[str] = []
    if limits.is_assumed:
        reply = f", replies of {limits.output_tokens:,}" if limits.output_tokens else ""
        warnings.append(
            f"{limits.asked_id} is not in model_limits.yaml: assuming a window of "
            f"{limits.window_tokens:,} tokens{reply} and no price."
        )
    day, name, aside = limits.retires_on, limits.id, ""
    if limits.has_host_dates:
        name = f"{limits.id} on {limits.host}"
    elif limits.host is not None:
        aside = f" (the vendor's own date; {limits.host} may keep another)"
    days = 1_000 if day is None else (day - today).days
    if limits.status == "retired" or days <= 0:
        warnings.append(f"{name} is retired{f' since {day}' if days <= 0 else ''}{aside}.")
    elif days <= 60:
        when = "tomorrow" if days == 1 else f"in {days} days"
        warnings.append(f"{name} retires on {day}, {when}{aside}.")
    elif limits.status == "deprecated":
        warnings.append(f"{name} is deprecated{f' and retires on {day}' if day else ''}{aside}.")
    return warnings


def lifecycle_notes(limits: ModelLimits, today: date) -> list[str]:
    """Return the warnings, and a price that changes within 30 days."""
    days = sorted({price.from_date for price in limits.prices if price.from_date is not None})
    soon = [day for day in days if today < day <= today + timedelta(days=30)]
    changes = (f"The price of {limits.id} changes on {day}." for day in soon)
    return [*lifecycle_warnings(limits, today), *changes]
