"""Errors about what a caller or a settings file asks for."""

from collections.abc import Collection, Sequence
from json import dumps
from typing import Final

from context_assembler.errors.base import (
    AssemblyError,
    ConfigurationError,
    brief,
    did_you_mean,
    nearest,
)
from context_assembler.errors.credentials import without_credentials

# Beside the nearest name, which may not be what was meant.
_MOST_LISTED_BESIDE: Final = 8


class UnknownOptionError(ConfigurationError):
    """An option, or a value of an option with a closed set of values, does not exist."""

    def __init__(self, name: object, *, kind: str, known: Collection[str]) -> None:
        listed = f"Known: {', '.join(sorted(known))}."
        asked = did_you_mean(name if isinstance(name, str) else "", known, otherwise="")
        is_told = not asked or len(known) <= _MOST_LISTED_BESIDE
        remedy = " ".join(filter(None, (asked, listed if is_told else "")))
        super().__init__(f"Unknown {kind} {brief(name)}.", remedy=remedy)
        self.name = name
        self.kind = kind


class InvalidParameterError(ConfigurationError):
    """A value that the model, or the option itself, rejects."""

    def __init__(
        self, name: str, value: object, *, rule: str, remedy: str, model: str | None = None
    ) -> None:
        suffix = f" for {model}" if model else ""
        super().__init__(f"{name} {rule}{suffix}; got {brief(value)}.", remedy=remedy)
        self.name = name
        self.value = value
        self.model = model


class MissingModelError(ConfigurationError):
    """No layer of defaults names a model; `agent_id` is an agent's that is the name of one."""

    def __init__(self, *, layers: Sequence[str], agent_id: str | None = None) -> None:
        remedy = "Pass model='…', or set it in the session's, the agent's or the system defaults."
        if agent_id is not None:
            remedy = f"Did you mean model={agent_id!r}? As it was passed it is the agent's id."
        super().__init__(
            f"Model ID is required: none of the layers {', '.join(layers)} names a model.",
            remedy=remedy,
        )


class UnknownStoreSchemeError(ConfigurationError):
    """A store URL whose scheme no bundled store answers to."""

    def __init__(self, url: str, *, known: Collection[str]) -> None:
        url = without_credentials(url)
        scheme = url.partition(":")[0]
        listed = ", ".join(f"{name}:" for name in sorted(known))
        remedy = mean_file(url, known=known) or did_you_mean(
            scheme, known, otherwise=f"Start the URL with one of {listed}"
        )
        super().__init__(f"No session store opens {url!r}.", remedy=remedy)
        self.url = url


def mean_file(url: str, *, known: Collection[str]) -> str:
    """Return a question that names the SQLite file that is meant; empty where it looks like none.

    Args:
        known: The schemes of stores, of which one may be misspelt.
    """
    is_misspelt = ":" in url and bool(nearest(url.partition(":")[0], known))
    return (
        f"Did you mean {f'sqlite:{url}'!r}?" if _looks_like_a_file(url) and not is_misspelt else ""
    )


def _looks_like_a_file(url: str) -> bool:
    if "://" in url:
        return False
    has_folder = url.startswith((".", "~", "/")) or ("/" in url and ":" not in url)
    return has_folder or url.lower().endswith((".db", ".sqlite", ".sqlite3"))


class RegistryError(ConfigurationError):
    """A row of model_limits.yaml breaks its schema."""

    def __init__(self, *, file: str, row: str, field: str, reason: str, remedy: str = "") -> None:
        super().__init__(
            f"{file}: model {row!r}, field {field!r}: {reason}.",
            remedy=remedy
            or "Correct that field; the schema is described at the top of model_limits.yaml.",
        )
        self.file = file
        self.row = row
        self.field = field


class UnknownModelError(AssemblyError, LookupError):
    """The model has no row in model_limits.yaml.

    `hint` is a question that names the nearest, or nothing; `row_text` a file that would add a row.
    """

    def __init__(self, model: str, *, known: Collection[str], row_id: str | None = None) -> None:
        self.hint = hint = did_you_mean(model, known, otherwise="")
        self.model = model
        self.row_text = _row_text(row_id or model)
        add = (
            f"To add it, put its true figures into model_limits.local.yaml: {self.row_text} – or "
            f"call register_model({model!r}, window_tokens=…, output_tokens=…), "
            "or accept small limits with unknown_model='conservative'."
        )
        super().__init__(
            f"No limits are known for model {model!r}.", remedy=f"{hint} {add}".strip()
        )


def _row_text(row_id: str) -> str:
    """Return a file that adds the model, on one line of YAML."""
    figures = "{limits: {window: 32000, output: 4096}}"
    return f"models: {{{dumps(row_id, ensure_ascii=False)}: {figures}}}"


class ToolConflictError(ConfigurationError):
    """Two tools claim one name with different schemas."""

    def __init__(self, name: str, *, sources: Sequence[str]) -> None:
        super().__init__(
            f"Tool {name!r} is defined differently by {' and '.join(sources)}.",
            remedy="Rename one, or set on_tool_conflict='rename'.",
        )
        self.name = name
        self.sources = tuple(sources)


class InvalidToolError(ConfigurationError):
    """A tool that no model could be told of: its shape, schema or signature is unusable."""

    def __init__(self, name: str, *, reason: str) -> None:
        super().__init__(
            f"Tool {name!r} cannot be offered: {reason}.",
            remedy="Correct its definition; the other tools are not affected.",
        )
        self.name = name
        self.reason = reason


class UnsupportedRequestError(ConfigurationError):
    """A provider's API cannot express this request for this model."""

    def __init__(self, problem: str, *, provider: str, model: str, remedy: str) -> None:
        super().__init__(
            f"{provider} cannot take this request for {model}: {problem}.", remedy=remedy
        )
        self.provider = provider
        self.model = model


class MissingExtraError(AssemblyError, ImportError):
    """A package that is only needed for what was just asked for is not installed.

    Args:
        otherwise: How to do without, as a clause behind "or".
    """

    def __init__(self, what: str, *, extra: str, otherwise: str = "") -> None:
        instead = f" – or {otherwise}." if otherwise else ""
        super().__init__(
            f"{what} needs a package that is not installed.",
            remedy=f"Run: pip install 'context-assembler[{extra}]'{instead}",
        )
        self.extra = extra
