"""SDK clients for the vendors that the environment holds a key of."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from context_assembler.errors import ConfigurationError
from context_assembler.limits.refresh import reachable_vendors


def open_clients() -> dict[str, Any]:
    """Return a client of each vendor whose key is set and whose SDK is installed.

    Raises:
        ConfigurationError: There is none.
    """
    found: dict[str, Any] = {}
    for vendor in reachable_vendors():
        with suppress(ImportError):
            found[vendor] = _OPENERS[vendor]()
    if not found:
        raise ConfigurationError(
            "Counting exactly asks the provider, and there is no key for any.",
            remedy="Set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, and install its SDK.",
        )
    return found


def _open_anthropic() -> Any:
    from anthropic import Anthropic  # noqa: PLC0415 - optional

    return Anthropic()


def _open_openai() -> Any:
    from openai import OpenAI  # noqa: PLC0415 - optional

    return OpenAI()


def _open_google() -> Any:
    from google.genai import Client  # noqa: PLC0415 - optional

    return Client()


_OPENERS: Final[Mapping[str, Callable[[], Any]]] = {
    "anthropic": _open_anthropic,
    "openai": _open_openai,
    "google": _open_google,
}
