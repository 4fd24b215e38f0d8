"""Errors about what a session, a file or a reply holds."""

from collections.abc import Mapping

from context_assembler.errors.base import AssemblyError, with_article


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
        available, taker = f"{budget_tokens:,} are available", "the largest part is"
        if budget_tokens <= 0:
            available, taker = "and nothing is left for them", "what takes it all is"
        super().__init__(
            f"At least {needed_tokens:,} tokens are needed, {available} ({listed}); "
            f"{taker} {culprit}.",
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
            f"{with_article(type(reply).__name__, begins_sentence=True)} cannot be recorded: {reason}.",
            remedy="Pass the final reply object of the anthropic, openai or google-genai SDK, its dict, or the list of all that its stream yielded.",
        )


class TranscriptError(AssemblyError, ValueError):
    """A transcript that cannot be read."""

    def __init__(self, *, source: str, reason: str, remedy: str, line: int | None = None) -> None:
        where = source if line is None else f"{source}:{line}"
        super().__init__(f"{where}: {reason}.", remedy=remedy)
        self.source = source
        self.line = line


class ContentError(AssemblyError, TypeError):
    """Content that is neither text nor parts, or a tool's result that JSON cannot say.

    Args:
        content: What was given, or the value in it that cannot be said.
        place: Where that stands in a result.
    """

    def __init__(self, content: object, *, place: str | None = None) -> None:
        got = with_article(type(content).__name__)
        if place is None:
            problem = f"Content must be text or parts; got {got}."
            remedy = "Pass a string, or Text(…), Image(…), Document(…), or a list of these."
        else:
            problem = f"A tool's result must be text, parts or what JSON can say; {place} is {got}."
            remedy = (
                "Make it text, a number, a list or an object; files are Image(…) or Document(…)."
            )
        super().__init__(problem, remedy=remedy)


class NotJsonError(AssemblyError, ValueError):
    """A number that JSON does not have, where a payload would carry it."""

    def __init__(self, number: float) -> None:
        super().__init__(
            f"{number!r} stands in a call, a block, a tool or a setting, and JSON has no such number.",
            remedy="Give a finite number, or say it in text.",
        )
        self.number = number


class PayloadWarning(UserWarning):
    """A payload that its provider will refuse, although the assembler made it: a fault of ours.

    Payloads are checked when they are spelled out, and this is a warning rather than an error, since
    a provider may have become more lenient than the rules know. To be stopped instead, as in tests:
    `warnings.simplefilter("error", PayloadWarning)`.
    """
