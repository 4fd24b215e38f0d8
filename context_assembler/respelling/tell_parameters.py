"""Parameters that another provider's payload is the same without."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from context_assembler.errors import UnsupportedRequestError
from context_assembler.providers import PROVIDERS
from context_assembler.values.draft import Draft
from context_assembler.values.messages import Message
from context_assembler.values.parts import Text
from context_assembler.values.report import ReportEntry

# What a model may be asked for that some have no field for, and that no renderer refuses then.
_PARAMETERS: Final = ("thinking_level", "thinking_budget")


def tell_unsent(
    draft: Draft, rows: Iterable[ReportEntry], *, provider: str
) -> Iterator[ReportEntry]:
    """Yield a row for each parameter that is not sent and that no row tells of yet."""
    told = {row.rule for row in rows}
    question = Message(role="user", parts=(Text("?"),))
    probe = replace(draft, messages=(question,), tool_plan=None, cache="off")
    for name in _PARAMETERS:
        rule = f"parameter.{name}"
        if rule in told or not getattr(draft.parameters, name):
            continue
        unset: dict[str, Any] = {name: None}
        without = replace(draft.parameters, **unset)
        try:
            is_sent = PROVIDERS[provider].render(probe) != PROVIDERS[provider].render(
                replace(probe, parameters=without)
            )
        except UnsupportedRequestError:  # the payload cannot be spelled either, and says why
            continue
        if not is_sent:
            yield ReportEntry(
                kind="note",
                id=name,
                decision="dropped",
                reason=f"It is not sent: {provider} has no field for it with this model.",
                rule=rule,
            )
