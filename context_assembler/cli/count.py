"""`count`: how many tokens something has."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table

from context_assembler.cli.clients import open_clients
from context_assembler.cli.counting import (
    Counted,
    count_conversation,
    count_file,
    ledger_of,
)
from context_assembler.cli.ledger_view import ledger_table
from context_assembler.cli.opening import load_events, opened_store, read_content
from context_assembler.cli.request_options import JsonFlag, SessionsUrl
from context_assembler.cli.screen import people, print_json
from context_assembler.errors import ConfigurationError
from context_assembler.limits import get_model_limits
from context_assembler.ports import CalibrationStore, ReadTranscript
from context_assembler.providers import PROVIDERS, provider_for
from context_assembler.tokens import RemoteCounter, counter_for
from context_assembler.values.calibration import Calibration
from context_assembler.values.codec import to_json
from context_assembler.values.ledger import LedgerRow

app: Final = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many tokens something has, what of it has them, and how that was found.

    `messages` is `None` for what is no conversation, `reported_tokens` where the provider was not
    asked.
    """

    tokens: int
    messages: int | None
    model: str
    window_tokens: int
    counter: str
    is_exact: bool
    reported_tokens: int | None
    rows: tuple[LedgerRow, ...]


File = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE", help="A text, a transcript, an image or a PDF; '-' reads stdin."
    ),
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
ExactFlag = Annotated[
    bool,
    typer.Option("--exact", help="Ask the provider's own endpoint as well; needs its key and SDK."),
]
CalibrationFlag = Annotated[
    bool,
    typer.Option("--calibration", help="Show what reported usage taught about counts instead."),
]


@app.command()
def count(
    *,
    file: File = None,
    model: Model = None,
    session: SessionId = None,
    sessions: SessionsUrl = None,
    is_text: TextFlag = False,
    asks_provider: ExactFlag = False,
    shows_calibration: CalibrationFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Count the tokens of a text, a conversation, an image or a PDF.

    A transcript is counted as the conversation it holds, tools included.
    """
    if shows_calibration:
        _show_calibrations(asyncio.run(_load_calibrations(sessions)), as_json=as_json)
        return
    if (file is None) == (session is None):
        raise ConfigurationError(
            "It is not clear what to count.", remedy="Name one FILE ('-' for stdin) or a --session."
        )
    limits = get_model_limits(model or _default_model())
    counter = counter_for(limits, protocol=provider_for(limits))
    if session is not None:
        events = asyncio.run(load_events(sessions, session))
        counted = count_conversation(ReadTranscript(events=events), limits, counter)
    else:
        assert file is not None
        counted = count_file(file, read_content(file), limits, counter, is_text=is_text)
    found = Count(
        tokens=sum(row.tokens for row in counted.rows),
        messages=counted.messages,
        model=limits.id,
        window_tokens=limits.window_tokens,
        counter=counter.name,
        is_exact=counter.is_exact,
        reported_tokens=asyncio.run(_ask_provider(counted)) if asks_provider else None,
        rows=counted.rows,
    )
    if as_json:
        print_json(to_json(found))
        return
    _print_count(found, counted)
    if len(counted.rows) > 1:
        people().print(ledger_table(ledger_of(counted, limits, counter)))


async def _ask_provider(counted: Counted) -> int:
    """Return what the provider itself counts for a request with what was counted."""
    remote = RemoteCounter(open_clients())
    provider = provider_for(counted.draft.limits)
    payload = PROVIDERS[remote.protocol_for(provider)].render(counted.draft)
    return (await remote.count(payload, provider=provider)).tokens


def _default_model() -> str:
    from context_assembler.config import AssemblerConfig  # noqa: PLC0415 - pydantic is slow to load

    model = AssemblerConfig().defaults.model
    if model is None:
        raise ConfigurationError(
            "It is not clear whose tokens to count.",
            remedy="Pass --model, or set a model under [defaults] in context-assembler.toml.",
        )
    return model


def _print_count(found: Count, counted: Counted) -> None:
    how = "counted exactly" if found.is_exact else "estimated"
    share = 100 * found.tokens / found.window_tokens
    people().print(
        f"{found.tokens:,} tokens: {counted.what}, {how} with {found.counter}; "
        f"{share:.1f} % of the window of {found.model}.",
        soft_wrap=True,
    )
    if found.reported_tokens is not None:
        people().print(f"{found.reported_tokens:,} tokens as a request, by the provider's count.")


async def _load_calibrations(url: str | None) -> Sequence[Calibration]:
    async with opened_store(url) as store:
        return await store.calibrations() if isinstance(store, CalibrationStore) else ()


def _show_calibrations(known: Sequence[Calibration], *, as_json: bool) -> None:
    if as_json:
        print_json(to_json(tuple(known)))
        return
    if not known:
        people().print("Nothing was learned yet: no reply with usage was recorded in this store.")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("provider", "model", "shape", "counter", "factor", "calls", "refused"):
        table.add_column(column)
    for row in known:
        figures = (f"{row.factor:.3f}", str(row.observations), str(row.refused))
        table.add_row(row.provider, row.model, row.shape, row.counter, *figures)
    people().print(table)
