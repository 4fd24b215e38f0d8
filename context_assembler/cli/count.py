"""`count`: how many tokens something has."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from context_assembler.cli.opening import load_events, read_text
from context_assembler.cli.request_options import JsonFlag, SessionsUrl
from context_assembler.cli.screen import people, print_json
from context_assembler.errors import ConfigurationError, TranscriptError
from context_assembler.limits import get_model_limits
from context_assembler.ports import ReadTranscript, TokenCounter
from context_assembler.stages.build_system_prompt import SystemPromptBuilder
from context_assembler.stages.split_window import add_messages, measure_window
from context_assembler.stages.transform_messages import MessageTransformer
from context_assembler.tokens import counter_for
from context_assembler.transcripts import read_transcript
from context_assembler.values.codec import to_json
from context_assembler.values.limits import ModelLimits
from context_assembler.values.standing import with_numbers

app: Final = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many tokens something has, and how that was found.

    `messages` is `None` for a text that is no conversation.
    """

    tokens: int
    messages: int | None
    model: str
    window_tokens: int
    counter: str
    is_exact: bool


File = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="A text or a transcript; '-' reads stdin.")
]
Model = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="ID", help="Whose tokens; the settings' own model."),
]
SessionId = Annotated[
    str | None, typer.Option("--session", metavar="ID", help="Count a stored session instead.")
]
TextFlag = Annotated[
    bool, typer.Option("--text", help="Count a transcript as the text that it is.")
]


@app.command()
def count(
    *,
    file: File = None,
    model: Model = None,
    session: SessionId = None,
    sessions: SessionsUrl = None,
    is_text: TextFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Count the tokens of a text or a conversation.

    A transcript is counted as the conversation it holds, tools included.
    """
    if (file is None) == (session is None):
        raise ConfigurationError(
            "It is not clear what to count.", remedy="Name one FILE ('-' for stdin) or a --session."
        )
    limits = get_model_limits(model or _default_model())
    counter = counter_for(limits)
    if session is not None:
        events = asyncio.run(load_events(sessions, session))
        counted: tuple[int, int | None] = _count_conversation(
            ReadTranscript(events=events), limits, counter
        )
    else:
        assert file is not None
        counted = _count_text(read_text(file), limits, counter, is_text=is_text)
    tokens, messages = counted
    found = Count(
        tokens=tokens,
        messages=messages,
        model=limits.id,
        window_tokens=limits.window_tokens,
        counter=counter.name,
        is_exact=counter.is_exact,
    )
    if as_json:
        print_json(to_json(found))
    else:
        _print_count(found)


def _default_model() -> str:
    from context_assembler.config import AssemblerConfig  # noqa: PLC0415 - pydantic is slow to load

    model = AssemblerConfig().defaults.model
    if model is None:
        raise ConfigurationError(
            "It is not clear whose tokens to count.",
            remedy="Pass --model, or set a model under [defaults] in context-assembler.toml.",
        )
    return model


def _count_text(
    text: str, limits: ModelLimits, counter: TokenCounter, *, is_text: bool
) -> tuple[int, int | None]:
    if not is_text:
        try:
            return _count_conversation(read_transcript(text), limits, counter)
        except TranscriptError:
            pass  # it is no conversation, so it is a text
    return counter.count_text(text), None


def _count_conversation(
    read: ReadTranscript, limits: ModelLimits, counter: TokenCounter
) -> tuple[int, int]:
    """Count as the ledger of a request does: what is no longer sent has no tokens."""
    transformed = MessageTransformer().transform(with_numbers(read.events))
    prompt = SystemPromptBuilder().build([], session_system=transformed.leading_system)
    fixed = measure_window(
        limits, system=prompt.system, tools=read.tools, counter=counter, max_tokens=0
    )
    ledger = add_messages(fixed, transformed.messages, counter=counter)
    return ledger.used_tokens, len(transformed.messages)


def _print_count(found: Count) -> None:
    what = "a text" if found.messages is None else f"{found.messages} messages"
    how = "counted exactly" if found.is_exact else "estimated"
    share = 100 * found.tokens / found.window_tokens
    people().print(
        f"{found.tokens:,} tokens: {what}, {how} with {found.counter}; "
        f"{share:.1f} % of the window of {found.model}.",
        soft_wrap=True,
    )
