"""`ModelRegistry` over model_limits.yaml: what each model takes, refuses and costs.

A first call looks one model up, so that neither yaml nor dataclasses are loaded for it: the bundled
file is cut into rows as text, and only the row that is asked for is read.
"""

import json
import math
import os
import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args, get_origin

from context_assembler import errors

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
    """

    kinds: tuple[ThinkingKind, ...] = ()
    levels: tuple[str, ...] = ()
    default_level: str | None = None
    disable: ThinkingSwitch = "yes"
    is_prefix_bound: bool = False
    is_account_bound: bool = True
    min_budget_tokens: int | None = None
    max_budget_tokens: int | None = None


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
        "kinds levels default=default_level disable prefix_bound=is_prefix_bound"
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
    "hosts": dict.fromkeys(sorted(set(GATEWAYS.values())), ""),
    "meta": _table("checked sources weak locked remarks"),
}
_DAYS: Final = ("retires_on", "checked", "from_date")
# What a host may see otherwise than the vendor.
_HOST_FIELDS: Final = (
    *("status", "retires_on", "limits", "features", "thinking", "parameters", "cache", "prices"),
    "tokenizer",
)
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


def _values(section: str, row: Row) -> dict[str, Json]:
    """Return the attributes that a section's fields become; a field that is null becomes none."""
    made: dict[str, Json] = {}
    fields = (row.get(section) or {}) if section else row
    for name, attribute in _FIELDS[section].items():
        held = fields.get(name)
        if held is None or held == "":
            continue
        if isinstance(held, list):
            held = tuple(held)
        elif attribute in _DAYS and isinstance(held, str):
            held = date.fromisoformat(held)
        elif type(held) is int and section in {"prices", "parameters"} and name != "above":
            held = float(held)
        made[attribute] = held
    return made


def _limits_of(row_id: str, row: Row) -> ModelLimits:
    """Return a row, merged and sound, as a value."""
    made: dict[str, Any] = {"provider": "unknown", "api_id": row_id}
    for section in ("", "limits", "tokenizer", "meta"):
        made |= _values(section, row)
    # Anthropic's reasoning is the same on every platform, if its row does not say otherwise.
    thinking = ThinkingRule(
        **{"is_account_bound": made["provider"] != "anthropic", **_values("thinking", row)}
    )
    cache = CacheRule(**_values("cache", row))
    features = {
        "thinking": bool(thinking.kinds),
        "prompt_cache": cache.mode != "none",
        "forced_tools": (row.get("features") or {}).get("tools", True),  # a row names a refusal
        "chat_tools_with_reasoning": True,
        **(row.get("features") or {}),
    }
    return ModelLimits(
        id=row_id,
        asked_id=row_id,
        features=features,
        thinking=thinking,
        cache=cache,
        parameters=ParameterRules(**_values("parameters", row)),
        prices=tuple(Price(**_values("prices", {"prices": p})) for p in row.get("prices") or ()),
        **made,
    )


def _merge(base: Mapping[str, Json], over: Mapping[str, Json], *, keeps_none: bool = False) -> Row:
    """Lay one row over another: mappings merge, anything else replaces, `None` deletes.

    Args:
        keeps_none: Keep what deletes, so that the result deletes it elsewhere in turn; so do `hosts`,
            which are laid over the row later.
    """
    merged = dict(base)
    for name, value in over.items():
        below = merged.get(name)
        if isinstance(value, Mapping) and (below is None or isinstance(below, Mapping)):
            keeps = keeps_none or name == "hosts"
            merged[name] = _merge(below or {}, value, keeps_none=keeps)
        elif value is None and not keeps_none:
            merged.pop(name, None)
        else:
            merged[name] = value
    return merged


def _leaves(row: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """Yield every field: its dotted path and its value."""
    for name, value in row.items():
        if isinstance(value, Mapping) and value:
            yield from ((f"{name}.{path}", held) for path, held in _leaves(value))
        elif value is not None:
            yield name, value


class _MergedRow(NamedTuple):
    """A row from all files (`layers`: their names and rows, the weakest first)."""

    id: str
    content: Row
    layers: Sequence[tuple[str, Mapping[str, Json]]]

    def file_of(self, path: str) -> str:
        """Return the strongest file that has the field, or the section that it belongs to."""
        for place in (path, path.partition(".")[0]):
            for name, row in reversed(self.layers):
                if any(f"{field}.".startswith(f"{place}.") for field, _ in _leaves(row)):
                    return name
        return self.layers[-1][0]

    def error(self, path: str, reason: str, remedy: str = "") -> errors.RegistryError:
        file = self.file_of(path)
        return errors.RegistryError(
            file=file, row=self.id, field=path, reason=reason, remedy=remedy
        )

    def seen_by(self, host: str | None) -> tuple["_MergedRow", bool]:
        """Return the row with what a host sees otherwise, and whether it has dates of its own.

        If it has, the vendor's retirement does not count.
        """
        hosts = self.content.get("hosts")
        over = (hosts.get(host) if isinstance(hosts, Mapping) else None) or {}
        content, has_dates = dict(self.content), "retires_on" in over or "status" in over
        if has_dates:
            content.pop("retires_on", None)
            if content.get("status") == "retired":
                del content["status"]
        return self._replace(content=_merge(content, over)), has_dates

    def check(self) -> None:
        """Raise a `RegistryError` if a field is missing, unknown or not what it should be."""
        row = self.content
        for section, names in _FIELDS.items():
            held = row.get(section) if section else row
            hints = _PARTS.get(section, ModelLimits).__annotations__
            known = names if section else [*names, *filter(None, _FIELDS)]
            for fields in held if section == "prices" and isinstance(held, list) else [held or {}]:
                self._check_names(section, fields, known)
                for name, value in fields.items():
                    hint = bool if section == "features" else hints.get(names.get(name, ""))
                    if hint and value is not None and (needed := _misfit(value, hint)):
                        path = f"{section}.{name}".strip(".")
                        raise self.error(path, f"{needed} is needed, not {value!r}")
        for host, fields in (row.get("hosts") or {}).items():
            self._check_names(f"hosts.{host}", fields or {}, _HOST_FIELDS)
        limits, thinking = row.get("limits") or {}, row.get("thinking") or {}
        window, levels = limits.get("window"), thinking.get("levels")
        if not window:
            remedy = "Give limits.window, or extends: <the id of a known model>."
            reason = "it is missing, and no other file knows this model"
            raise self.error("limits.window", reason, remedy)
        for name in ("input", "output"):
            if limits.get("kind") != "separate" and (limits.get(name) or 0) > window:
                raise self.error(f"limits.{name}", f"{limits[name]:,} is more than the window")
        if row.get("status") == "retired" and not row.get("retires_on"):
            raise self.error("retires_on", "a retired model needs its date")
        if levels and (level := thinking.get("default")) not in {None, *levels}:
            raise self.error("thinking.default", f"{level!r} is not one of the levels")

    def _check_names(self, section: str, fields: Json, known: Collection[str]) -> None:
        if not isinstance(fields, Mapping):
            raise self.error(section, f"a mapping is needed, not {fields!r}")
        for name in fields:
            is_own = section == "features" and isinstance(name, str)
            if name not in known and not (is_own and not errors.is_misspelt(name, known)):
                hint = errors.did_you_mean(
                    str(name), known, otherwise=f"Known: {', '.join(known)}."
                )
                raise self.error(f"{section}.{name}".strip("."), "there is no such field", hint)


_PARTS: Final[Mapping[str, type]] = {
    "thinking": ThinkingRule,
    "parameters": ParameterRules,
    "cache": CacheRule,
    "prices": Price,
}
_WORDS: Final[Mapping[Any, str]] = {
    bool: "true or false",
    date: "a date such as 2026-11-30",
    float: "a number of at least 0",
    int: "a whole number of at least 0",
    str: "text",
}


def _misfit(value: Json, hint: Any) -> str:
    """Return in words what a value should be that is not what its attribute's annotation says."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        fits = type(value) is str and value in inner
        return "" if fits else f"one of {', '.join(inner)}"
    if origin is tuple:
        fits = isinstance(value, list | tuple) and not any(_misfit(v, inner[0]) for v in value)
        return "" if fits else f"a list, each {_misfit(None, inner[0])},"
    if inner:  # X | None
        return _misfit(value, inner[0])
    if hint is date:
        fits = type(value) is date or bool(re.fullmatch(r"\d{4}-\d\d-\d\d", str(value)))
    elif hint in (int, float):
        fits = type(value) in (int, hint) and 0 <= value < math.inf
    else:
        fits = isinstance(value, hint)
    return "" if fits else _WORDS[hint]


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
        with open(name, encoding="utf-8-sig") as file:
            text = file.read()
        if is_bundled:
            head, _, body = text.partition("\nmodels:\n")
            _, *found = re.split(r"\n  ([^\s:#]+):\n", body)
            return _File(name, dict(zip(found[::2], found[1::2], strict=True)), head)
        content = _load_yaml(text) or {}
        rows = content.pop("models", None) or {}
        content.pop("sources", None)
        for model_id, row in rows.items():
            if not isinstance(model_id, str) or not isinstance(row, dict | None):
                content[model_id] = row
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise errors.RegistryError(
            file=name, row="(whole file)", field="", reason=reason
        ) from error
    for field, held in content.items():
        reason = f"rows are mappings under 'models:', named by text; this is {held!r}"
        raise errors.RegistryError(file=name, row=str(field), field="models", reason=reason)
    return _File(name, rows, head=text)


def _load_yaml(text: str) -> Json:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"the file is not valid YAML ({error})") from error


def override_paths() -> list[str]:
    """Return the user's own registry files that exist, the strongest first.

    Raises:
        ConfigurationError: `CONTEXT_ASSEMBLER_MODELS` names a file that is not there.
    """
    named = os.environ.get("CONTEXT_ASSEMBLER_MODELS")
    if named and not os.path.isfile(named):
        raise errors.ConfigurationError(
            f"CONTEXT_ASSEMBLER_MODELS names {named!r}, which is not a file.",
            remedy="Correct the path, or unset the variable.",
        )
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
        """Return the model's row field by field: dotted path, value, and the file it came from.

        If the id names a host that sees a field otherwise, that is the field.
        """
        limits = self.get(model_id)
        row, _ = self._merged(limits.id).seen_by(limits.host)
        return [(path, value, row.file_of(path)) for path, value in _leaves(row.content)]

    def sources(self) -> dict[str, str]:
        """Return what the codes in `ModelLimits.sources` stand for."""
        found: dict[str, str] = {}
        for file in self._layers():
            found |= (_load_yaml(file.head) or {}).get("sources") or {}
        return found

    def problems(self) -> list[errors.RegistryError]:
        """Return what is wrong with the rows, each read for every host that it names."""
        found: list[errors.RegistryError] = []
        for model_id in self.ids():
            try:
                row = self._merged(model_id)
                for host in (None, *(row.content.get("hosts") or {})):
                    row.seen_by(host)[0].check()
            except errors.RegistryError as error:
                found.append(error)
        return found

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
        row: Mapping[str, Json] | None = None,
    ) -> ModelLimits:
        """Add a model, or change one, for the life of this registry, and return its limits.

        Args:
            extends: The id of a known model to start from.
            row: Anything else, in the schema of model_limits.yaml.

        Raises:
            RegistryError: The result breaks the schema; nothing is registered then.
        """
        limits = {"window": window_tokens, "output": output_tokens, "input": input_tokens}
        named = {"limits": limits, "provider": provider, "extends": extends, "features": features}
        given = _merge({}, {**named, "aliases": aliases and [*aliases]})
        with self._lock:
            before = self._registered
            change = _merge(row or {}, given, keeps_none=True)
            changed = _merge(before.row(model_id) or {}, change, keeps_none=True)
            self._set_registered(before._replace(rows={**before.rows, model_id: changed}))
            try:
                self._row(model_id)
                return self.get(model_id)
            except errors.AssemblyError:
                self._set_registered(before)
                raise

    def _set_registered(self, registered: _File) -> None:
        self._registered = registered
        self._names: dict[str, tuple[str, str]] = {}
        self._answers: dict[tuple[str, str], ModelLimits] = {}

    def _layers(self) -> list[_File]:
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
        ids: dict[str, bool] = {}
        aliases: dict[str, tuple[str, Sequence[str]]] = {}
        for file in self._layers():
            for model_id, row in file.rows.items():
                ids[model_id] = bool(row)
                if isinstance(listed := file.aliases(model_id), list | tuple):
                    aliases[model_id] = file.name, listed
        names = {name.lower(): (name, name) for name, is_there in ids.items() if is_there}
        for model_id, (file_name, listed) in aliases.items():
            for alias in listed if ids[model_id] else ():
                owner = names.setdefault(str(alias).lower(), (model_id, alias))[0]
                if owner != model_id:
                    reason = f"{alias!r} already means {owner!r}"
                    raise errors.RegistryError(
                        file=file_name, row=model_id, field="aliases", reason=reason
                    )
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
        row, has_dates = self._merged(model_id).seen_by(host)
        if [name for name, _ in row.layers] != [self._files[0].name]:
            row.check()  # the bundled rows are sound: a test checks them
        return _limits_of(row.id, row.content)._replace(has_host_dates=has_dates)

    def _merged(self, model_id: str, *, below: tuple[str, ...] = ()) -> _MergedRow:
        """Lay the files' rows of one id over each other, over the row that they extend."""
        layers: list[tuple[str, Mapping[str, Json]]] = []
        for source in self._layers():
            if model_id in source.rows:
                row = source.row(model_id)
                layers = [] if row is None else [*layers, (source.name, row)]
        base_id = next((row["extends"] for _, row in reversed(layers) if "extends" in row), None)
        if base_id is not None:
            base_name, _ = self._index().get(str(base_id).lower(), (None, ""))
            if base_name is None or base_name in (model_id, *below):
                reason = f"{base_id!r} is {'a circle' if base_name else 'no known model'}"
                raise _MergedRow(model_id, {}, layers).error("extends", reason)
            base = self._merged(base_name, below=(model_id, *below)).layers
            layers = [(name, {**row, **_NOT_INHERITED}) for name, row in base] + layers
        content: Row = {}
        for _, layer in layers:
            content = _merge(content, layer)
        content.pop("extends", None)
        return _MergedRow(model_id, content, layers)

    def _assume(self, asked: str) -> ModelLimits:
        """Return the smallest figures of the id's family, or of any model one would expect.

        The id's first word (`claude`, `gpt`, `gemini` …) names the family; retired models do not
        count. Nothing is claimed about prices, caching or sampling parameters.
        """
        *_, plain = _plainer(asked)
        family = _family(plain.name)
        others = [self._row(i) for i in self.ids() if family and _family(i) == family]
        unlike = ModelLimits(
            id="",
            provider=plain.vendor or "unknown",
            window_tokens=CONSERVATIVE_WINDOW_TOKENS,
            features={"tools": True, "forced_tools": True, "chat_tools_with_reasoning": True},
        )
        rows = [row for row in others if row.status != "retired"] or [unlike]
        window_tokens = min(row.window_tokens for row in rows)
        inputs = [row.input_tokens for row in rows if row.input_tokens]
        outputs = [row.output_tokens for row in rows if row.output_tokens]
        names = sorted({name for row in rows for name in row.features} - {"prompt_cache"})
        features = {name: all(row.supports(name) for row in rows) for name in names}
        return ModelLimits(
            id=plain.name,
            provider=rows[0].provider,
            window_tokens=window_tokens,
            window_kind=rows[0].window_kind,
            input_tokens=min(window_tokens, *inputs) if inputs else None,
            output_tokens=min(outputs, default=CONSERVATIVE_OUTPUT_TOKENS),
            features={**features, "prompt_cache": False} if others else unlike.features,
            thinking=rows[0].thinking._replace(
                is_prefix_bound=any(row.thinking.is_prefix_bound for row in rows),
                is_account_bound=any(row.thinking.is_account_bound for row in rows),
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


# The figure of each is the limit, not what was sent.
_REFUSAL: Final = (
    r"maximum context length (?:is|of) ([\d,]+) tokens"
    r"|prompt is too long: [\d,]+ tokens > ([\d,]+) maximum"
    r"|input token count (?:\([\d,]+\) )?exceeds the maximum number of tokens allowed \(?([\d,]+)"
)


def learn_from_error(text: str) -> int | None:
    """Return the largest prompt, in tokens, that a provider's error names; `None` if it names none.

    For a model that is not in the registry: pass the figure on to `register_model`.

    Source:
        https://github.com/vllm-project/vllm/issues/20409 (servers of OpenAI's shape),
        litellm 1.110.2, exception_mapping_utils.py (Anthropic, Gemini; read 2026-11-27)
    """
    found = re.search(_REFUSAL, text[:100_000], re.IGNORECASE)
    if found is None:
        return None
    return int(next(filter(None, found.groups())).replace(",", "")) or None
