"""Catalogues that lie in installed packages, read without running what fetches newer ones."""

import importlib
import importlib.util
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from context_assembler.errors import ConfigurationError
from context_assembler.limits.refresh.catalogues import (
    PRICE_FIELDS,
    PROMPT_FIELD,
    Catalogue,
    Listing,
    Source,
    known_figures,
)
from context_assembler.limits.refresh.json_catalogues import read_catalogue

PACKAGES: Final[Mapping[str, str]] = {"litellm": "litellm", "genai-prices": "genai_prices"}
_LITELLM_FILE: Final = "model_prices_and_context_window_backup.json"
_GENAI_VENDORS: Final[Mapping[str, str]] = {
    "anthropic": "anthropic",
    "deepseek": "deepseek",
    "google": "google",
    "meta": "meta",
    "minimax": "minimax",
    "mistral": "mistral",
    "moonshotai": "moonshot",
    "openai": "openai",
    "x-ai": "xai",
    "zai": "zai",
}


def installed_packages() -> list[str]:
    """Return the names of the packages with a catalogue that are installed."""
    return [name for name in PACKAGES if _folder(name) is not None]


def read_package(name: str, *, today: date) -> Catalogue:
    """Return the catalogue in an installed package.

    Args:
        today: Prices of this day are read, where they change.

    Raises:
        ConfigurationError: The package is not installed, or holds no catalogue.
    """
    folder = _folder(name)
    if folder is None:
        raise ConfigurationError(
            f"{name} is not installed.", remedy=f"Install it: pip install {name}."
        )
    if name == "genai-prices":
        return _genai_prices(today, folder=folder)
    # The file is read beside the package: importing litellm would fetch a newer one.
    return read_file(folder / _LITELLM_FILE, version=version(name))


def _folder(name: str) -> Path | None:
    spec = importlib.util.find_spec(PACKAGES[name])
    try:
        version(name)
    except PackageNotFoundError:
        return None
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None


def read_file(path: Path, *, version: str = "") -> Catalogue:
    """Return the catalogue in a JSON file of litellm or models.dev.

    Raises:
        ConfigurationError: The file cannot be read, is not JSON, or of neither layout.
    """
    try:
        content = path.read_bytes()
        parsed = json.loads(content)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"{path} cannot be read as JSON: {error}.",
            remedy="Name litellm's map of models, or the api.json of models.dev.",
        ) from error
    return read_catalogue(
        parsed, name=str(path), version=version, sha256=sha256(content).hexdigest()
    )


def _genai_prices(today: date, *, folder: Path) -> Catalogue:
    module = importlib.import_module("genai_prices.data")
    digest = sha256((folder / "data.py").read_bytes()).hexdigest()
    source = Source(name="genai-prices", version=version("genai-prices"), sha256=digest)
    return Catalogue(source=source, listings=tuple(_genai_listings(module.providers, today)))


def _genai_listings(providers: Any, today: date) -> Iterator[Listing]:
    noon = datetime.combine(today, time(12), tzinfo=UTC)
    for provider in providers:
        vendor = _GENAI_VENDORS.get(provider.id)
        for model in provider.models if vendor else ():
            prices = model.get_prices(noon) if model.prices else None
            named = (
                (f"prices.{name}", _base(getattr(prices, f"{name}_mtok", None)))
                for name in PRICE_FIELDS
            )
            figures = known_figures(((PROMPT_FIELD, model.context_window), *named))
            yield Listing(vendor=str(vendor), model=model.id, figures=figures)


def _base(price: Any) -> float | None:
    """Return the price of a short prompt; longer ones have tiers."""
    amount = getattr(price, "base", price)
    return None if amount is None else float(amount)
