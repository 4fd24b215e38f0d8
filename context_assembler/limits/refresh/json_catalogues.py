"""The JSON files of litellm and of models.dev, read as catalogues."""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Final

from context_assembler.errors import ConfigurationError
from context_assembler.limits.refresh.catalogues import (
    PRICE_FIELDS,
    PROMPT_FIELD,
    Catalogue,
    Figure,
    Listing,
    Source,
    dollars,
    known_figures,
)
from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json, JsonObject

_PER_MILLION: Final = 1_000_000
# A map that was cut off on its way is worse than none.
_LEAST_ENTRIES: Final = 50

# The vendor itself, not a cloud that serves its models: those keep their own limits and dates.
_LITELLM_VENDORS: Final[Mapping[str, str]] = {
    "anthropic": "anthropic",
    "dashscope": "qwen",
    "deepseek": "deepseek",
    "gemini": "google",
    "meta": "meta",
    "minimax": "minimax",
    "mistral": "mistral",
    "moonshot": "moonshot",
    "openai": "openai",
    "xai": "xai",
    "zai": "zai",
}
_MODELS_DEV_VENDORS: Final[Mapping[str, str]] = {
    "alibaba": "qwen",
    "anthropic": "anthropic",
    "deepseek": "deepseek",
    "google": "google",
    "meta": "meta",
    "minimax": "minimax",
    "mistral": "mistral",
    "moonshotai": "moonshot",
    "openai": "openai",
    "xai": "xai",
    "zai": "zai",
}
_LITELLM_PRICES: Final[Mapping[str, str]] = {
    "prices.input": "input_cost_per_token",
    "prices.output": "output_cost_per_token",
    "prices.cache_read": "cache_read_input_token_cost",
    "prices.cache_write": "cache_creation_input_token_cost",
}
_CHAT_MODES: Final = frozenset({"chat", "responses"})


def read_catalogue(content: Json, *, name: str, version: str, sha256: str) -> Catalogue:
    """Read parsed JSON of either layout.

    Args:
        name: What to call a file whose content names no source.

    Raises:
        ConfigurationError: It is of neither layout, or was cut off.
    """
    if is_object(content):
        entries = {key: value for key, value in content.items() if is_object(value)}
        if any("litellm_provider" in entry for entry in entries.values()):
            source = Source(name="litellm", version=version, sha256=sha256)
            return _litellm(entries, source)
        if any(is_object(entry.get("models")) for entry in entries.values()):
            source = Source(name="models.dev", version=version, sha256=sha256)
            return Catalogue(source=source, listings=tuple(_models_dev(entries)))
    raise ConfigurationError(
        f"{name} is neither litellm's map of models nor the api.json of models.dev.",
        remedy="Name one of these files, or 'litellm' or 'genai-prices' for an installed package.",
    )


def _litellm(entries: Mapping[str, JsonObject], source: Source) -> Catalogue:
    if len(entries) < _LEAST_ENTRIES:
        raise ConfigurationError(
            f"litellm's map has only {len(entries)} entries: it was cut off.",
            remedy="Get the file again, or reinstall litellm.",
        )
    listings: list[Listing] = []
    for key, entry in entries.items():
        provider = entry.get("litellm_provider")
        vendor = _LITELLM_VENDORS.get(provider) if isinstance(provider, str) else None
        if vendor is None or entry.get("mode") not in _CHAT_MODES:
            continue
        model = key.removeprefix(f"{provider}/")
        listings.append(Listing(vendor=vendor, model=model, figures=_litellm_figures(entry)))
    return Catalogue(source=source, listings=tuple(listings))


def _litellm_figures(entry: JsonObject) -> dict[str, Figure]:
    prices = (
        (name, dollars(value * _PER_MILLION))
        for name, key in _LITELLM_PRICES.items()
        if isinstance(value := entry.get(key), int | float)
    )
    return known_figures(
        (
            (PROMPT_FIELD, _number(entry, "max_input_tokens")),
            ("limits.output", _number(entry, "max_output_tokens")),
            ("retires_on", _day(entry.get("deprecation_date"))),
            *prices,
        )
    )


def _models_dev(entries: Mapping[str, JsonObject]) -> Iterator[Listing]:
    for provider, entry in entries.items():
        models = entry.get("models")
        vendor = _MODELS_DEV_VENDORS.get(provider)
        if vendor is None or not is_object(models):
            continue
        for model, content in models.items():
            if is_object(content):
                figures = _models_dev_figures(content)
                yield Listing(vendor=vendor, model=model, figures=figures)


def _models_dev_figures(content: JsonObject) -> dict[str, Figure]:
    limit, cost = content.get("limit"), content.get("cost")
    limits: JsonObject = limit if is_object(limit) else {}
    costs: JsonObject = cost if is_object(cost) else {}
    return known_figures(
        (
            ("limits.window", _number(limits, "context")),
            ("limits.input", _number(limits, "input")),
            ("limits.output", _number(limits, "output")),
            *((f"prices.{name}", _number(costs, name)) for name in PRICE_FIELDS),
        )
    )


def _number(entry: JsonObject, key: str) -> float | None:
    value = entry.get(key)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else None


def _day(value: Json) -> str | None:
    try:
        return date.fromisoformat(value).isoformat()
    except (TypeError, ValueError):
        return None
