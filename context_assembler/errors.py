"""Everything that is raised on purpose: what happened, and what to do about it."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from json import dumps
from math import inf
from reprlib import Repr
from types import UnionType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin

_MOST_SHOWN_CHARS: Final = 200
_MOST_REPR_CHARS: Final = 300


def nearest(
    word: str, known: Collection[str], *, count: int = 3, likeness: float = 0.55
) -> list[str]:
    """Return the known names most like `word`, best first."""
    from difflib import get_close_matches

    lowered = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), lowered, n=count, cutoff=likeness)
    return [lowered[name] for name in near]


def is_misspelt(word: str, known: Collection[str]) -> bool:
    """Whether the word is none of the known names, and nearly one of them but for capitals."""
    return word not in known and bool(nearest(word, known, likeness=0.8))


def did_you_mean(word: str, known: Collection[str], *, otherwise: str) -> str:
    """Return a question that names the nearest known names, or the other sentence."""
    near = nearest(word, known)
    return f"Did you mean {' or '.join(repr(name) for name in near)}?" if near else otherwise


def with_article(noun: str, *, begins_sentence: bool = False) -> str:
    """Return the noun behind the article that it takes: an int, a str."""
    article = "an" if noun.lstrip("'").lower().startswith(tuple("aeio")) else "a"
    return f"{article.capitalize() if begins_sentence else article} {noun}"


def brief(value: object) -> str:
    """Return what a value looks like, as far as anybody reads."""
    try:
        text = repr(value)
    except Exception:
        return with_article(type(value).__name__)
    return text if len(text) <= _MOST_SHOWN_CHARS else f"{text[:_MOST_SHOWN_CHARS]}…"


def brief_repr(value: Any) -> str:
    """Return a `repr` of fields that hold something, as far as anybody reads."""
    short = Repr()
    short.maxstring = short.maxother = 80
    names = getattr(value, "_fields", None) or value.__dataclass_fields__
    fields = ((name, getattr(value, name)) for name in names)
    shown = [f"{n}={short.repr(held)}" for n, held in fields if held not in (None, "", (), {})]
    text = f"{type(value).__name__}({', '.join(shown)})"
    return text if len(text) < _MOST_REPR_CHARS else f"{text[: _MOST_REPR_CHARS - 3]}…)"


class Bounds(NamedTuple):
    """What a number may be, both ends included; text with a `least` is not blank."""

    least: float = -inf
    most: float = inf


_ANY: Final = Bounds()
_WORDS: Final = {
    "bool": "true or false",
    "date": "a date such as 2026-11-30",
    "dict": "a table",
    "Path": "a path",
    "str": "text",
}


def fits(value: Any, kind: Any, bounds: Bounds = _ANY) -> bool:
    """Whether a value read from JSON, TOML or YAML is what an annotation says."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return value is None or fits(value, inner[0], bounds)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin is tuple:
        entries: list[Any] | None = [*value] if isinstance(value, list | tuple) else None
        return entries is not None and all(fits(one, inner[0], bounds) for one in entries)
    if origin in (int, float):
        is_number = isinstance(value, int | origin) and not isinstance(value, bool)
        return is_number and bounds.least <= value <= bounds.most
    if origin is str:
        return isinstance(value, str) and len(value.strip()) >= bounds.least
    if origin is date and isinstance(value, str):
        return bool(re.fullmatch(r"\d{4}-\d\d-\d\d", value))
    return isinstance(value, origin)


def expected(kind: Any, bounds: Bounds = _ANY) -> str:
    """Return in words what an annotation says of a value."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return expected(inner[0], bounds)
    if origin is Literal:
        return f"one of {', '.join(inner)}"
    if origin in (int, float):
        noun = "a whole number" if origin is int else "a number"
        if bounds.most < inf:
            return f"between {bounds.least:g} and {bounds.most:g}"
        return f"{noun} of at least {bounds.least:g}" if bounds.least > -inf else noun
    if origin is str and bounds.least > 0:
        return "text that is not blank"
    if origin.__name__ in _WORDS:
        return _WORDS[origin.__name__]
    return f"a list, each {expected(inner[0], bounds)},"


class AssemblyError(Exception):
    """What went wrong (`problem`), and what to do about it (`remedy`)."""

    def __init__(self, problem: str, *, remedy: str) -> None:
        super().__init__(f"{problem} {remedy}")
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        # By itself an exception is made anew from its message alone, which no subclass here can be:
        # a pool of processes would break, or wait for ever, where one of its tasks fails.
        return _made_anew, (type(self), self.problem, self.remedy), self.__dict__


def _made_anew(kind: type[AssemblyError], problem: str, remedy: str) -> AssemblyError:
    error = kind.__new__(kind)
    AssemblyError.__init__(error, problem, remedy=remedy)
    return error


class ConfigurationError(AssemblyError, ValueError):
    """A setting that cannot work."""


_HIDDEN: Final = "***"
_USER: Final = (
    r"(//)(?:[^\s/@:]{0,200}:\S{0,2000}|[^\s/@]{1,2000})@|(?<![^\s/@])([^\s/@:]*:)[^\s/@]+@"
)
_PARAMETER: Final = (
    r"(?i)([?&;][\w.-]*(?:key|token|secret|passw|pwd|signature|credential)[\w.-]*=)[^&#;\s'\"]+"
)


def without_credentials(text: str) -> str:
    """Return the text with no user, password, key or token in the URLs that stand in it."""
    return re.sub(_PARAMETER, rf"\1{_HIDDEN}", re.sub(_USER, rf"\1\2{_HIDDEN}@", text))


def without_parts(text: str, url: str) -> str:
    """Return the text with nothing in quotes that stands in the URL where its credentials are."""
    shown = without_credentials(url)

    def hidden(found: re.Match[str]) -> str:
        is_secret = found[1] in url and found[1] not in shown
        return f'"{_HIDDEN}"' if is_secret else found[0]

    return re.sub(r'(?<!user )(?<!role )"([^"]+)"', hidden, text)


CHECK_FILE: Final = "Check the path, its permissions, and the room on its disk."


# Beside the nearest name, which may not be what was meant.
_MOST_LISTED_BESIDE: Final = 15


class UnknownOptionError(ConfigurationError):
    """An option, or a value of an option with a closed set of values, does not exist."""

    def __init__(self, name: object, *, kind: str, known: Collection[str]) -> None:
        listed = f"Known: {', '.join(sorted(known))}."
        asked = did_you_mean(name if isinstance(name, str) else "", known, otherwise="")
        is_told = not asked or len(known) <= _MOST_LISTED_BESIDE
        remedy = " ".join(filter(None, (asked, listed if is_told else "")))
        super().__init__(f"Unknown {kind} {brief(name)}.", remedy=remedy)


class InvalidParameterError(ConfigurationError):
    """A value that the model, or the option itself, rejects."""

    def __init__(
        self, name: str, value: object, *, rule: str, remedy: str, model: str | None = None
    ) -> None:
        suffix = f" for {model}" if model else ""
        super().__init__(f"{name} {rule}{suffix}; got {brief(value)}.", remedy=remedy)
        self.name = name


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
        url = without_credentials(url)
        listed = ", ".join(f"{name}:" for name in sorted(known))
        otherwise = mean_file(url) or f"Start the URL with one of {listed}"
        remedy = did_you_mean(url.partition(":")[0], known, otherwise=otherwise)
        super().__init__(f"No session store opens {url!r}.", remedy=remedy)


def mean_file(url: str) -> str:
    """Return a question that names the SQLite file that is meant; empty where it looks like none."""
    is_file = ":" not in url and url.lower().endswith((".db", ".sqlite", ".sqlite3"))
    return f"Did you mean {f'sqlite:{url}'!r}?" if is_file else ""


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
        self.model = model
        self.hint = hint = did_you_mean(model, known, otherwise="")
        figures = "{limits: {window: 32000, output: 4096}}"
        self.row_text = f"models: {{{dumps(row_id or model, ensure_ascii=False)}: {figures}}}"
        add = (
            f"To add it, put its true figures into model_limits.local.yaml: {self.row_text} – or "
            f"call register_model({model!r}, window_tokens=…, output_tokens=…), "
            "or accept small limits with unknown_model='conservative'."
        )
        super().__init__(
            f"No limits are known for model {model!r}.", remedy=f"{hint} {add}".strip()
        )


class ToolConflictError(ConfigurationError):
    """Two tools claim one name with different schemas."""

    def __init__(self, name: str, *, sources: Sequence[str]) -> None:
        super().__init__(
            f"Tool {name!r} is defined differently by {' and '.join(sources)}.",
            remedy="Rename one, or set on_tool_conflict='rename'.",
        )


class InvalidToolError(ConfigurationError):
    """A tool that cannot be offered to a model: its shape, schema or signature is unusable."""

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


class MissingExtraError(AssemblyError, ImportError):
    """An optional package that this call needs is not installed.

    Args:
        otherwise: How to do without it, as a clause after "or".
    """

    def __init__(self, what: str, *, extra: str, otherwise: str = "") -> None:
        instead = f" – or {otherwise}." if otherwise else ""
        super().__init__(
            f"{what} needs a package that is not installed.",
            remedy=f"Run: pip install 'context-assembler[{extra}]'{instead}",
        )


class UnknownSessionError(AssemblyError, LookupError):
    """The store holds no session of that id."""

    def __init__(self, session_id: str, *, known: Collection[str]) -> None:
        make = "Create it with add_user(), or import a transcript, first."
        otherwise = make if known else f"The store is empty. {make}"
        remedy = did_you_mean(session_id, known, otherwise=otherwise)
        super().__init__(f"There is no session {session_id!r}.", remedy=remedy)
        self.session_id = session_id


class StoreError(AssemblyError):
    """A store of sessions or memories refused."""


class ConcurrentAppendError(StoreError):
    """Somebody else appended since the caller last looked."""

    def __init__(self, session_id: str, *, expected_seq: int, actual_seq: int) -> None:
        super().__init__(
            f"Session {session_id!r} is at event {actual_seq}, not {expected_seq}.",
            remedy="Load the events after your last one, decide again, and append again.",
        )
        self.expected_seq = expected_seq
        self.actual_seq = actual_seq


class DuplicateEventError(StoreError, ValueError):
    """An event was given an id that the session has already."""

    def __init__(self, session_id: str, *, event_id: str) -> None:
        super().__init__(
            f"Session {session_id!r} has an event {event_id!r} already.",
            remedy="Leave the id empty to have one given, or load the session: it may be there.",
        )


class StoreUnavailableError(StoreError, OSError):
    """The store's file or server cannot be used.

    Neither `location` nor `reason` holds the secrets of a URL.
    """

    store = "session"

    def __init__(self, location: str, *, reason: str, remedy: str) -> None:
        location, reason = without_credentials(location), without_credentials(reason)
        problem = f"The {self.store} store {location!r} cannot be used: {reason}."
        super().__init__(problem, remedy=remedy)
        self.location = location


class StoreLockedError(StoreError):
    """What a store keeps is encrypted, and the key is missing, or is another one."""

    def __init__(self, key_id: str, reason: str, *, remedy: str) -> None:
        super().__init__(
            f"The session store is encrypted with the key {key_id!r}, {reason}.", remedy=remedy
        )
        self.key_id = key_id


class EventFormatError(StoreError, ValueError):
    """A stored event that this version cannot decode, or an event that cannot be stored."""

    def __init__(self, *, where: str, reason: str, remedy: str, act: str = "decoded") -> None:
        super().__init__(f"{where} cannot be {act}: {reason}.", remedy=remedy)


class EmptySessionError(AssemblyError, ValueError):
    """The session holds nothing that could be sent."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"Session {session_id!r} holds no message to send.",
            remedy="Add one with add_user() before assembling.",
        )


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
        available = f"{max(budget_tokens, 0):,} are available"
        super().__init__(
            f"At least {needed_tokens:,} tokens are needed, {available} ({listed}); "
            f"the largest part is {culprit}.",
            remedy=remedy,
        )
        self.budget_tokens = budget_tokens
        self.needed_tokens = needed_tokens
        self.culprit = culprit
        self.sizes_tokens = dict(sizes_tokens)


class UnsafePathError(AssemblyError, ValueError):
    """A name or path that would leave the folder it belongs to."""

    def __init__(self, path: str, *, root: str, what: str) -> None:
        super().__init__(
            f"{what} {path!r} would leave {root!r}.",
            remedy="Use a plain name: letters, digits, '.', '_' and '-', not starting with '.'.",
        )


class CompactionError(AssemblyError):
    """A session was not compacted; it is as it was."""

    def __init__(self, session_id: str, *, reason: str, remedy: str = "") -> None:
        super().__init__(
            f"Session {session_id!r} was not compacted: {reason}",
            remedy=remedy or "Nothing was changed; use another summarizer, or try again later.",
        )


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
            f"{with_article(type(reply).__name__, begins_sentence=True)} cannot be recorded: {reason}.",
            remedy="Pass the final reply object of the anthropic, openai or google-genai SDK with its "
            "model and usage, its dict, or the list of all that its stream yielded.",
        )


class TranscriptError(AssemblyError, ValueError):
    """A transcript that cannot be read."""

    def __init__(self, *, source: str, reason: str, remedy: str, line: int | None = None) -> None:
        where = source if line is None else f"{source}:{line}"
        super().__init__(f"{where}: {reason}.", remedy=remedy)


class ContentError(AssemblyError, TypeError):
    """Content that is neither text nor parts, or a tool's result that JSON cannot express.

    Args:
        content: What was given, or the value in it that JSON cannot express.
        place: Where that value stands in a result.
    """

    def __init__(self, content: object, *, place: str | None = None) -> None:
        got = with_article(type(content).__name__)
        if isinstance(content, Mapping) and "type" in content:
            got += f" of type {content['type']!r:.60}"
        if place is None:
            problem = f"Content must be text or parts; got {got}."
            remedy = "Pass a string, or Text(…), Image(…), Document(…), or a list of these."
        else:
            problem = f"A tool's result must be text, parts or what JSON can say; {place} is {got}."
            remedy = (
                "Make it text, a number, a list or an object; files are Image(…) or Document(…)."
            )
        super().__init__(problem, remedy=remedy)


class PayloadWarning(UserWarning):
    """A payload that its provider will refuse, although the assembler made it: a fault of ours.

    Payloads are checked when they are rendered. This is a warning, not an error, because the
    provider may accept more than the rules know. To get an error instead, as in tests:
    `warnings.simplefilter("error", PayloadWarning)`.
    """


class RemoteCountError(AssemblyError, OSError):
    """A provider's endpoint did not say how many tokens a payload has."""

    def __init__(self, *, provider: str, reason: str) -> None:
        super().__init__(
            f"{provider} did not count the payload: {reason}.",
            remedy="Check the client's key and network, or count without exact=True.",
        )


class InvalidContextTypeError(UnknownOptionError):
    """A kind of memory that does not exist."""

    def __init__(self, name: object, *, known: Collection[str]) -> None:
        super().__init__(name, kind="context type", known=known)


class UnknownMemoryError(AssemblyError, LookupError):
    """The store holds no record of that id."""

    def __init__(self, memory_id: str) -> None:
        super().__init__(
            f"There is no memory {memory_id!r}.",
            remedy="It may have been forgotten: search for it by its words.",
        )


class MemoryUnavailableError(StoreUnavailableError):
    """The memory store's file or server cannot be used."""

    store = "memory"


class MemoryFormatError(EventFormatError):
    """A memory record that cannot be stored, or that this version cannot decode.

    If the record comes from a file, `line` counts from 1.
    """

    def __init__(
        self, *, where: str, reason: str, remedy: str, line: int | None = None, act: str = "read"
    ) -> None:
        place = where if line is None else f"{where}, line {line},"
        super().__init__(where=place, reason=reason, remedy=remedy, act=act)


class DamagedMemoryWarning(UserWarning):
    """A memory that a search left out because it cannot be read.

    `get` with its id raises the `MemoryFormatError`. To get an error in searches as well:
    `warnings.simplefilter("error", DamagedMemoryWarning)`.
    """


class VectorModelError(StoreError, ValueError):
    """A vector of another model than the store keeps: the two cannot be compared."""

    def __init__(self, given: str, *, kept: str) -> None:
        super().__init__(
            f"The store keeps vectors of {kept}, but was given one of {given}.",
            remedy="Use the same model, or call drop_vectors() and embed everything again.",
        )


class EmbeddingError(AssemblyError, OSError):
    """An embedding model that cannot be used, or that answers wrongly."""

    def __init__(self, model: str, *, reason: str, remedy: str) -> None:
        super().__init__(f"The embedding model {model!r} cannot be used: {reason}.", remedy=remedy)


class McpServerError(AssemblyError, ConnectionError):
    """An MCP server that cannot be reached, ended, or does not answer as MCP says.

    `stderr` is the end of what it wrote to its standard error; empty over HTTP.
    """

    def __init__(self, server: str, *, reason: str, remedy: str, stderr: str = "") -> None:
        quoted = f" The end of its stderr: {stderr!r}." if stderr else ""
        super().__init__(f"MCP server {server!r} {reason}.{quoted}", remedy=remedy)
        self.server = server
        self.reason = reason
        self.stderr = stderr
