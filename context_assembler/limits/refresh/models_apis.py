"""What the vendors' own Models APIs say, asked through their official SDKs."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from os import environ
from typing import Any, Final

from context_assembler.errors import ConfigurationError
from context_assembler.limits.refresh.catalogues import (
    PROMPT_FIELD,
    Catalogue,
    Listing,
    Source,
    known_figures,
)

_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "openai": ("OPENAI_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
_TIMEOUT_SECONDS: Final = 30.0
_GONE: Final = frozenset({"deprecated", "retired"})


def reachable_vendors() -> list[str]:
    """Return the vendors for whose API a key is set."""
    return [vendor for vendor, keys in _KEYS.items() if any(environ.get(key) for key in keys)]


def ask_vendor(vendor: str) -> Catalogue:
    """Return what a vendor's Models API lists for the caller's account.

    Source:
        docstrings of the packages anthropic 2.14, openai 3.57 and google-genai 3.6
        (`models.list`; read 2026-11-27)

    Raises:
        ConfigurationError: The SDK is missing, no key is set, or the API did not answer.
    """
    try:
        listings = tuple(MODELS_APIS[vendor]())
    except ImportError as error:
        package = "google-genai" if vendor == "google" else vendor
        raise ConfigurationError(
            f"The Models API of {vendor} is asked through its SDK, which is not installed.",
            remedy=f"Install it: pip install {package}.",
        ) from error
    except Exception as error:
        # Each SDK has a hierarchy of its own, and raises httpx's errors besides.
        raise ConfigurationError(
            f"The Models API of {vendor} did not answer: {type(error).__name__}: "
            f"{str(error).rstrip('.')}.",
            remedy=f"Set {_KEYS[vendor][0]}, or correct it, and check the connection.",
        ) from error
    source = Source(name=f"{vendor} Models API", is_vendor=True)
    return Catalogue(source=source, listings=listings)


def _ask_anthropic() -> Iterator[Listing]:
    from anthropic import Anthropic  # noqa: PLC0415 - optional

    with Anthropic(timeout=_TIMEOUT_SECONDS, max_retries=1) as client:
        for model in client.models.list(limit=100):
            figures = known_figures(
                (
                    (PROMPT_FIELD, model.max_input_tokens),
                    ("limits.output", model.max_tokens),
                    ("retires_on", _day(model.retires_at)),
                    # An active model is no news: rows tell active from legacy.
                    ("status", model.lifecycle if model.lifecycle in _GONE else None),
                )
            )
            yield Listing(vendor="anthropic", model=model.id, figures=figures)


def _ask_openai() -> Iterator[Listing]:
    from openai import OpenAI  # noqa: PLC0415 - optional

    with OpenAI(timeout=_TIMEOUT_SECONDS, max_retries=1) as client:
        for model in client.models.list():
            day = (model.shutdown_date or "")[:10]
            figures = known_figures((("retires_on", day),))
            yield Listing(vendor="openai", model=model.id, figures=figures)


def _ask_google() -> Iterator[Listing]:
    from google import genai  # noqa: PLC0415 - optional

    options: Any = {"timeout": int(_TIMEOUT_SECONDS * 1000)}
    # Vertex AI, which the environment may prefer, lists models without their limits.
    with genai.Client(vertexai=False, http_options=options) as client:
        for model in client.models.list():
            name = (model.name or "").removeprefix("models/")
            figures = known_figures(
                (
                    (PROMPT_FIELD, model.input_token_limit),
                    ("limits.output", model.output_token_limit),
                )
            )
            yield Listing(vendor="google", model=name, figures=figures)


def _day(moment: datetime | None) -> str | None:
    return None if moment is None else moment.date().isoformat()


MODELS_APIS: Final[Mapping[str, Callable[[], Iterator[Listing]]]] = {
    "anthropic": _ask_anthropic,
    "openai": _ask_openai,
    "google": _ask_google,
}
