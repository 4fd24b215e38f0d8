"""The window divided: what is fixed, what is reserved, and what is left for the history."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from context_assembler.ports import TokenCounter
from context_assembler.stages.split_window.anchoring import anchor
from context_assembler.stages.split_window.fit_system import (
    FittedSections,
    fit_system,
    is_in_system,
)
from context_assembler.stages.split_window.input_budget import input_budget
from context_assembler.stages.split_window.overflow import overflow_error
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.hidden_prompts import forced_tool_tokens, thinking_prompt_tokens
from context_assembler.values.ledger import Ledger, LedgerKind, LedgerRow, divide_tokens
from context_assembler.values.limits import ModelLimits
from context_assembler.values.message_counts import count_each
from context_assembler.values.messages import Message
from context_assembler.values.prompt import SystemPrompt
from context_assembler.values.tools import ToolChoice, ToolSpec

__all__ = [
    "FittedSections",
    "add_messages",
    "anchor",
    "check_feasible",
    "count_draft",
    "fit_system",
    "input_budget",
    "measure_window",
]


def check_feasible(ledger: Ledger, tools: Sequence[ToolSpec]) -> None:
    """Make sure that the fixed part leaves room for a history.

    Raises:
        ContextOverflowError: System prompt and tools leave nothing for the history.
    """
    if ledger.room_tokens <= 0:
        raise overflow_error(ledger, tools)


def measure_window(
    limits: ModelLimits,
    *,
    system: SystemPrompt,
    tools: Sequence[ToolSpec],
    counter: TokenCounter,
    max_tokens: int,
    max_context_tokens: int | None = None,
    reserve_tokens: int | None = None,
    parameters: Parameters | None = None,
) -> Ledger:
    """Return the ledger of the fixed part, even where it leaves no room for the history.

    The system prompt is counted once, as a whole; its sections share that count by their own sizes.

    Args:
        max_tokens: Longest reply; set aside from the model's window unless `reserve_tokens` is given.
        max_context_tokens: Upper bound for the whole input.
        reserve_tokens: Set aside for the reply instead; taken from `max_context_tokens` where both
            are given, as from the window.
        parameters: The call's own, for the text that a provider adds because of them.

    Raises:
        InvalidParameterError: A negative number.
    """
    hidden = () if parameters is None else _hidden_rows(limits, tools, parameters)
    choice = None if parameters is None else parameters.tool_choice
    return Ledger(
        window_tokens=limits.window_tokens,
        reserve_tokens=max_tokens if reserve_tokens is None else reserve_tokens,
        budget_tokens=input_budget(
            limits,
            max_tokens=max_tokens,
            max_context_tokens=max_context_tokens,
            reserve_tokens=reserve_tokens,
        ),
        rows=(*_rows(system, tools, counter=counter, choice=choice), *hidden),
        counter=counter.name,
        is_exact=counter.is_exact,
    )


def count_draft(draft: Draft, *, counter: TokenCounter) -> int:
    """Return the tokens of a whole request, as its ledger has them."""
    fixed = measure_window(
        draft.limits,
        system=draft.system,
        tools=draft.tools,
        counter=counter,
        max_tokens=0,
        parameters=draft.parameters,
    )
    return add_messages(fixed, draft.messages, counter=counter).used_tokens


def add_messages(ledger: Ledger, messages: Iterable[Message], *, counter: TokenCounter) -> Ledger:
    """Return the ledger with what the messages use: the history, and this call's notes apart."""
    tokens: dict[LedgerKind, int] = {"history": 0, "notes": 0}
    counted = tuple(messages)
    for message, size in zip(counted, count_each(counted, counter), strict=True):
        tokens["notes" if message.is_fresh_note else "history"] += size
    rows = (LedgerRow(kind=kind, name=kind, tokens=used) for kind, used in tokens.items())
    return replace(ledger, rows=(*ledger.rows, *rows))


def _rows(
    system: SystemPrompt,
    tools: Sequence[ToolSpec],
    *,
    counter: TokenCounter,
    choice: ToolChoice | None,
) -> tuple[LedgerRow, ...]:
    of_tools = (LedgerRow(kind="tools", name=t.name, tokens=counter.count_tool(t)) for t in tools)
    tools_tokens = counter.count_tools_overhead(tools, has_system=bool(system.text), choice=choice)
    overhead = _overhead_rows(tools_tokens, counter=counter)
    return (*_system_rows(system, counter=counter), *of_tools, *overhead)


def _hidden_rows(
    limits: ModelLimits, tools: Sequence[ToolSpec], parameters: Parameters
) -> tuple[LedgerRow, ...]:
    forced = forced_tool_tokens(limits, parameters.tool_choice) if tools else 0
    rows = (
        LedgerRow(kind="overhead", name="tool choice", tokens=forced),
        LedgerRow(
            kind="overhead", name="thinking", tokens=thinking_prompt_tokens(limits, parameters)
        ),
    )
    return tuple(row for row in rows if row.tokens)


def _system_rows(system: SystemPrompt, *, counter: TokenCounter) -> list[LedgerRow]:
    whole_tokens = counter.count_system(system.text)
    sections = [section for section in system.sections if is_in_system(section)]
    if not sections:
        row = LedgerRow(kind="system", name="system", tokens=whole_tokens)
        return [row] if whole_tokens else []
    weights = [counter.count_text(section.content) for section in sections]
    return [
        LedgerRow(kind="system", name=section.name, tokens=tokens)
        for section, tokens in zip(sections, divide_tokens(whole_tokens, weights), strict=True)
    ]


def _overhead_rows(tools_tokens: int, *, counter: TokenCounter) -> list[LedgerRow]:
    rows = (
        LedgerRow(kind="overhead", name="tools", tokens=tools_tokens),
        LedgerRow(kind="overhead", name="request", tokens=counter.request_overhead_tokens),
    )
    return [row for row in rows if row.tokens]
