"""Rows of model_limits.yaml as checked values."""

from typing import Final, cast, get_args

from context_assembler.limits.fields import Fields
from context_assembler.limits.schema import (
    HOST_FIELDS,
    KNOWN_FEATURES,
    KNOWN_HOSTS,
    ROW_FIELDS,
    Row,
)
from context_assembler.values.json_shapes import is_array
from context_assembler.values.limits import (
    CacheRule,
    ModelLimits,
    ModelStatus,
    ParameterRules,
    Price,
    TemperatureRule,
    ThinkingKind,
    ThinkingRule,
    WindowKind,
)
from context_assembler.values.parts import Json

_PRICE_FIELDS: Final = (
    "input",
    "output",
    "cache_read",
    "cache_write",
    "cache_write_1h",
    "from",
    "above",
)


def read_row(row: Row) -> ModelLimits:
    """Check a merged row and return it as a value; `asked_id` and `api_id` are its own id.

    Raises:
        RegistryError: A field is missing, unknown, or not what it should be.
    """
    fields = Fields(row=row.id, path="", content=row.content, file_of=row.file_of)
    fields.allow(ROW_FIELDS)
    _check_hosts(fields)
    limits = fields.section("limits", known=ROW_FIELDS["limits"])
    window_tokens = limits.count("window", least=1)
    if window_tokens is None:
        raise limits.error("window", "it is missing")
    tokenizer = fields.section("tokenizer", known=ROW_FIELDS["tokenizer"])
    meta = fields.section("meta", known=ROW_FIELDS["meta"])
    thinking = _thinking(fields)
    cache = _cache(fields)
    model = ModelLimits(
        id=row.id,
        provider=fields.text("provider", "unknown"),
        status=fields.choice("status", get_args(ModelStatus), "active"),
        retires_on=fields.day("retires_on"),
        aliases=fields.texts("aliases"),
        window_tokens=window_tokens,
        window_kind=limits.choice("kind", get_args(WindowKind), "shared"),
        input_tokens=limits.count("input", least=1),
        output_tokens=limits.count("output", least=1),
        features=_features(fields, thinking, cache),
        thinking=thinking,
        parameters=_parameters(fields),
        encoding=tokenizer.text("encoding", "o200k_base"),
        image_rule=tokenizer.text("images"),
        token_frame=tokenizer.text("frame"),
        tool_prompt_tokens=tokenizer.count("tool_prompt"),
        cache=cache,
        prices=_prices(fields),
        checked=meta.day("checked"),
        sources=meta.texts("sources"),
        weak=meta.texts("weak"),
        locked=meta.texts("locked"),
        remarks=meta.text("remarks"),
        asked_id=row.id,
        api_id=fields.text("api_id", row.id),
    )
    _check_whole(model, fields, limits)
    return model


def _check_whole(model: ModelLimits, fields: Fields, limits: Fields) -> None:
    for name, tokens in (("input", model.input_tokens), ("output", model.output_tokens)):
        if tokens is not None and model.window_kind == "shared" and tokens > model.window_tokens:
            raise limits.error(name, f"{tokens:,} is more than the window")
    if model.status == "retired" and model.retires_on is None:
        raise fields.error("retires_on", "a retired model needs its date")


def _check_hosts(fields: Fields) -> None:
    hosts = fields.section("hosts", known=KNOWN_HOSTS)
    for name in hosts.content:
        hosts.section(name, known=HOST_FIELDS)


def _features(fields: Fields, thinking: ThinkingRule, cache: CacheRule) -> dict[str, bool]:
    section = fields.section("features")
    section.refuse_misspelt(KNOWN_FEATURES)
    features = {name: section.flag(name, default=False) for name in section.content}
    features.setdefault("thinking", bool(thinking.kinds))
    features.setdefault("prompt_cache", cache.mode != "none")
    # Only models known to refuse these say so in their rows.
    features.setdefault("forced_tools", features.get("tools", True))
    features.setdefault("chat_tools_with_reasoning", True)
    return features


def _thinking(fields: Fields) -> ThinkingRule:
    section = fields.section("thinking", known=ROW_FIELDS["thinking"])
    kinds = section.texts("kinds")
    for kind in kinds:
        if kind not in get_args(ThinkingKind):
            listed = ", ".join(get_args(ThinkingKind))
            raise section.error("kinds", f"{kind!r} is not one of {listed}")
    levels = section.texts("levels")
    default_level = section.text("default") or None
    if default_level is not None and levels and default_level not in levels:
        raise section.error("default", f"{default_level!r} is not one of the levels")
    return ThinkingRule(
        kinds=cast("tuple[ThinkingKind, ...]", kinds),
        levels=levels,
        default_level=default_level,
        disable=section.choice(
            "disable", ("yes", "no", "between_tools", "effort_up_to_high"), "yes"
        ),
        is_prefix_bound=section.flag("prefix_bound", default=False),
        # Anthropic's reasoning is the same on every platform, but for rows that say otherwise.
        is_account_bound=section.flag(
            "account_bound", default=fields.text("provider") != "anthropic"
        ),
        min_budget_tokens=section.count("min_budget"),
        max_budget_tokens=section.count("max_budget"),
    )


def _parameters(fields: Fields) -> ParameterRules:
    section = fields.section("parameters", known=ROW_FIELDS["parameters"])
    max_temperature = section.amount("max_temperature")
    return ParameterRules(
        temperature=section.choice("temperature", get_args(TemperatureRule), "always"),
        fixed_temperature=section.amount("fixed_temperature"),
        max_temperature=2.0 if max_temperature is None else max_temperature,
        accepts_top_p_with_temperature=section.flag("top_p_with_temperature", default=True),
        accepts_stop=section.flag("stop", default=True),
    )


def _cache(fields: Fields) -> CacheRule:
    section = fields.section("cache", known=ROW_FIELDS["cache"])
    return CacheRule(
        mode=section.choice("mode", ("explicit", "implicit", "none"), "none"),
        min_tokens=section.count("min_tokens"),
        ttls=section.texts("ttls"),
    )


def _prices(fields: Fields) -> tuple[Price, ...]:
    rows = fields.content.get("prices")
    if rows is None:
        return ()
    if not is_array(rows):
        raise fields.error("prices", f"a list is needed, not {rows!r}")
    return tuple(_price(fields, row) for row in rows)


def _price(fields: Fields, row: Json) -> Price:
    holder = Fields(
        row=fields.row, path=fields.path, content={"prices": row}, file_of=fields.file_of
    )
    section = holder.section("prices", known=_PRICE_FIELDS)
    return Price(
        input=section.amount("input"),
        output=section.amount("output"),
        cache_read=section.amount("cache_read"),
        cache_write=section.amount("cache_write"),
        cache_write_1h=section.amount("cache_write_1h"),
        from_date=section.day("from"),
        above_input_tokens=section.count("above") or 0,
    )
