"""Every error this library raises on purpose.

AssemblyError                     what went wrong, then what to do about it
├── ConfigurationError            a setting that cannot work             (ValueError)
│   ├── UnknownOptionError        an option, or a value from a closed set, that does not exist
│   ├── InvalidParameterError     a value that the model or the option rejects
│   ├── MissingModelError         no layer names a model
│   ├── UnknownStoreSchemeError   a store URL of an unknown kind
│   ├── RegistryError             a row of model_limits.yaml that breaks its schema
│   ├── ToolConflictError         two tools claim one name
│   ├── InvalidToolError          a tool that no model could be told of
│   └── UnsupportedRequestError   a provider's API cannot express this request
├── MissingExtraError             an optional package is not installed   (ImportError)
├── UnknownSessionError           no such session                        (LookupError)
├── UnknownModelError             no row in model_limits.yaml            (LookupError)
├── EmptySessionError             nothing to send                        (ValueError)
├── ContextOverflowError          what may not be dropped does not fit   (ValueError)
├── InvalidPayloadError           a payload breaks its provider's rules  (ValueError)
├── UnsafePathError               a name or path that leaves its folder  (ValueError)
├── TemplateError                 a bootstrap template that does not render (ValueError)
├── ReplyError                    a model reply that cannot be read      (ValueError)
├── TranscriptError               a transcript that cannot be read       (ValueError)
└── StoreError                    a session store refused
    ├── ConcurrentAppendError     somebody else appended first
    ├── DuplicateEventError       an event id that the session has already (ValueError)
    ├── StoreUnavailableError     not a database, locked, read-only …    (OSError)
    └── EventFormatError          a stored event that cannot be decoded  (ValueError)
"""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches


def nearest(word: str, known: Collection[str], *, count: int = 3) -> list[str]:
    """Return the known names most like `word`, best first."""
    lowered = {name.lower(): name for name in known}
    return [lowered[hit] for hit in get_close_matches(word.lower(), lowered, n=count, cutoff=0.5)]


def _did_you_mean(word: str, known: Collection[str], *, otherwise: str) -> str:
    near = nearest(word, known)
    return f"Did you mean {' or '.join(repr(name) for name in near)}?" if near else otherwise


class AssemblyError(Exception):
    """What went wrong (`problem`), and what to do about it (`remedy`)."""

    def __init__(self, problem: str, *, remedy: str) -> None:
        super().__init__(f"{problem} {remedy}")
        self.problem = problem
        self.remedy = remedy


class ConfigurationError(AssemblyError, ValueError):
    """A setting that cannot work."""


class UnknownOptionError(ConfigurationError):
    """An option, or a value of an option with a closed set of values, does not exist."""

    def __init__(self, name: str, *, kind: str, known: Collection[str]) -> None:
        listed = ", ".join(sorted(known))
        super().__init__(
            f"Unknown {kind} {name!r}.",
            remedy=_did_you_mean(name, known, otherwise=f"Known: {listed}."),
        )
        self.name = name
        self.kind = kind


class InvalidParameterError(ConfigurationError):
    """A value that the model, or the option itself, rejects."""

    def __init__(
        self, name: str, value: object, *, rule: str, remedy: str, model: str | None = None
    ) -> None:
        suffix = f" for {model}" if model else ""
        super().__init__(f"{name} {rule}{suffix}; got {value!r}.", remedy=remedy)
        self.name = name
        self.value = value
        self.model = model


class MissingModelError(ConfigurationError):
    """No layer of defaults names a model."""

    def __init__(self, *, layers: Sequence[str]) -> None:
        super().__init__(
            f"Model ID is required: none of the layers {', '.join(layers)} names a model.",
            remedy="Pass model='…', or set it in the session's, the agent's or the system defaults.",
        )


class UnknownStoreSchemeError(ConfigurationError):
    """A store URL whose scheme no bundled store answers to."""

    def __init__(self, url: str, *, known: Collection[str]) -> None:
        scheme = url.partition(":")[0]
        listed = ", ".join(f"{name}:" for name in sorted(known))
        super().__init__(
            f"No session store opens {url!r}.",
            remedy=_did_you_mean(scheme, known, otherwise=f"Start the URL with one of {listed}"),
        )
        self.url = url


class RegistryError(ConfigurationError):
    """A row of model_limits.yaml breaks its schema."""

    def __init__(self, *, file: str, row: str, field: str, reason: str) -> None:
        super().__init__(
            f"{file}: model {row!r}, field {field!r}: {reason}.",
            remedy="Correct that field; the schema is described at the top of model_limits.yaml.",
        )
        self.file = file
        self.row = row
        self.field = field


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
    """An optional package is needed here and not installed."""

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed.",
            remedy=f"pip install 'context-assembler[{extra}]'",
        )
        self.package = package
        self.extra = extra


class UnknownSessionError(AssemblyError, LookupError):
    """The store holds no session of that id."""

    def __init__(self, session_id: str, *, known: Collection[str]) -> None:
        otherwise = (
            "Create it with add_user() or import a transcript first."
            if known
            else "The store is empty: create the session with add_user() or import a transcript."
        )
        super().__init__(
            f"There is no session {session_id!r}.",
            remedy=_did_you_mean(session_id, known, otherwise=otherwise),
        )
        self.session_id = session_id


class UnknownModelError(AssemblyError, LookupError):
    """The model has no row in model_limits.yaml."""

    def __init__(self, model: str, *, known: Collection[str]) -> None:
        hint = _did_you_mean(model, known, otherwise="")
        add = (
            f"To add it: register_model({model!r}, window_tokens=…, output_tokens=…), "
            "a row in model_limits.local.yaml, or unknown_model='conservative'."
        )
        super().__init__(
            f"No limits are known for model {model!r}.", remedy=f"{hint} {add}".strip()
        )
        self.model = model


class EmptySessionError(AssemblyError, ValueError):
    """The session holds nothing that could be sent."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"Session {session_id!r} holds no message to send.",
            remedy="Add one with add_user() before assembling.",
        )
        self.session_id = session_id


class ContextOverflowError(AssemblyError, ValueError):
    """What may not be dropped does not fit, even shortened.

    `sizes_tokens` names each part of the window with its tokens; `culprit` is the largest.
    """

    def __init__(
        self,
        *,
        budget_tokens: int,
        needed_tokens: int,
        culprit: str,
        sizes_tokens: Mapping[str, int],
        remedy: str,
    ) -> None:
        listed = ", ".join(f"{name} {tokens:,}" for name, tokens in sizes_tokens.items())
        super().__init__(
            f"At least {needed_tokens:,} tokens are needed, {budget_tokens:,} are available "
            f"({listed}); the largest part is {culprit}.",
            remedy=remedy,
        )
        self.budget_tokens = budget_tokens
        self.needed_tokens = needed_tokens
        self.culprit = culprit
        self.sizes_tokens = dict(sizes_tokens)


class InvalidPayloadError(AssemblyError, ValueError):
    """A payload breaks rules of the provider it was made for; `violations` lists them."""

    def __init__(self, provider: str, *, violations: Sequence[object]) -> None:
        listed = "; ".join(str(violation) for violation in violations)
        super().__init__(
            f"The payload breaks {len(violations)} rule(s) of {provider}: {listed}.",
            remedy="This is a fault of context-assembler: please report the session's shape.",
        )
        self.provider = provider
        self.violations = tuple(violations)


class UnsafePathError(AssemblyError, ValueError):
    """A name or path that would leave the folder it belongs to."""

    def __init__(self, path: str, *, root: str, what: str) -> None:
        super().__init__(
            f"{what} {path!r} would leave {root!r}.",
            remedy="Use a plain name: letters, digits, '.', '_' and '-', not starting with '.'.",
        )
        self.path = path
        self.root = root


class TemplateError(AssemblyError, ValueError):
    """A bootstrap file's template does not render."""

    def __init__(self, *, file: str, line: int | None, reason: str) -> None:
        where = file if line is None else f"{file}:{line}"
        super().__init__(
            f"{where}: {reason}.",
            remedy="Correct the template, or remove 'template: jinja2' from its front matter.",
        )
        self.file = file
        self.line = line


class ReplyError(AssemblyError, ValueError):
    """A model reply that no bundled provider can read."""

    def __init__(self, reply: object, *, reason: str) -> None:
        super().__init__(
            f"A {type(reply).__name__} cannot be recorded: {reason}.",
            remedy="Pass the final reply object of the anthropic or openai SDK, or its dict.",
        )


class TranscriptError(AssemblyError, ValueError):
    """A transcript that cannot be read."""

    def __init__(self, *, source: str, reason: str, remedy: str, line: int | None = None) -> None:
        where = source if line is None else f"{source}:{line}"
        super().__init__(f"{where}: {reason}.", remedy=remedy)
        self.source = source
        self.line = line


class StoreError(AssemblyError):
    """A session store refused."""


class ConcurrentAppendError(StoreError):
    """Somebody else appended since the caller last looked."""

    def __init__(self, session_id: str, *, expected_seq: int, actual_seq: int) -> None:
        super().__init__(
            f"Session {session_id!r} is at event {actual_seq}, not {expected_seq}.",
            remedy="Load the events after your last one, decide again, and append again.",
        )
        self.session_id = session_id
        self.expected_seq = expected_seq
        self.actual_seq = actual_seq


class DuplicateEventError(StoreError, ValueError):
    """An event was given an id that the session has already."""

    def __init__(self, session_id: str, *, event_id: str) -> None:
        super().__init__(
            f"Session {session_id!r} has an event {event_id!r} already.",
            remedy="Leave the id empty to have one given, or load the session: it may be there.",
        )
        self.session_id = session_id
        self.event_id = event_id


class StoreUnavailableError(StoreError, OSError):
    """The store's file or server cannot be used."""

    def __init__(self, location: str, *, reason: str, remedy: str) -> None:
        super().__init__(f"The session store {location!r} cannot be used: {reason}.", remedy=remedy)
        self.location = location
        self.reason = reason


class EventFormatError(StoreError, ValueError):
    """A stored event that this version cannot decode."""

    def __init__(self, *, where: str, reason: str, remedy: str) -> None:
        super().__init__(f"{where} cannot be decoded: {reason}.", remedy=remedy)
        self.where = where
        self.reason = reason
