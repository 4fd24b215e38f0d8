"""One call from columns to payload: the order of the steps, in one place."""

from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, NamedTuple

from context_assembler.events import SessionHead
from context_assembler.models import ModelLimits
from context_assembler.options import ClockSettings, Parameters, Settled, TruncationSettings
from context_assembler.ports import PromptSection, ToolPlan, ToolSpec
from context_assembler.report import ReportEntry


class Inputs(NamedTuple):
    """What one call is made from, besides the session's events.

    Attributes:
        head: The session's record and how far it has come.
        truncation: Settings with the call's own options laid over.
        masks: Where secrets are masked.
        sections: Of the system prompt, in the order sent; `system` is their text, joined.
        tools: Those declared before the history.
        notes: Sections to be sent as notes after the history.
        factor: What reported usage corrects the counts of messages by that were not sent before.
        account: The caller's tag for the API account.
        provider: Wire protocol; empty: the model's own.
        digest: Identifies whatever decided about prompt and tools.
        details: Kept in the row of the call.
        check: Returns the `CompactionCheck`, run when somebody reads it.
    """

    head: SessionHead
    settled: Settled
    parameters: Parameters
    limits: ModelLimits
    clock: ClockSettings
    truncation: TruncationSettings
    masks: tuple[str, ...] = ()
    sections: tuple[PromptSection, ...] = ()
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    tool_plan: ToolPlan | None = None
    notes: tuple[PromptSection, ...] = ()
    entries: tuple[ReportEntry, ...] = ()
    warnings: tuple[str, ...] = ()
    factor: float = 1.0
    account: str | None = None
    checks_payloads: bool = True
    provider: str = ""
    today: date | None = None
    digest: str = ""
    details: Mapping[str, Any] = {}
    check: Callable[..., Any] | None = None


class Opening(NamedTuple):
    """What a session begins with: its own system prompt's texts, and the time of its first event."""

    system: tuple[str, ...]
    began_at: datetime | None
