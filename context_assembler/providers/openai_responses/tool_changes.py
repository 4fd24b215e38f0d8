"""Tools that came or went, as Responses is told of them behind the history."""

from collections.abc import Iterator, Mapping
from typing import Final

from context_assembler.providers.openai_responses.settings import function_tool
from context_assembler.values.draft import Draft
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.native.response_items import PROVIDER
from context_assembler.values.offered_tools import leave_strict, plan_for
from context_assembler.values.openai.own_models import is_own_api
from context_assembler.values.openai.parameters import MAX_TOOLS
from context_assembler.values.parts import Json
from context_assembler.values.schemas.strict_schemas import object_to_strict
from context_assembler.values.tool_changes import NO_CHANGES, ChangeForms, changes_in

# One place is left to the tool that searches for deferred ones.
_FORMS: Final = ChangeForms(
    adds=True, adds_strict=True, withdraws="choice", max_tools=MAX_TOOLS - 1
)


def change_forms(limits: ModelLimits) -> ChangeForms:
    """Return what the model can be told of tools behind the history.

    Whether clouds that offer the API know the item is not known.

    Source:
        https://developers.openai.com/api/docs/guides/keep-prefix-unchanged
        types of the openai package 3.57, AdditionalTools, ToolChoiceAllowedParam (read 2026-11-27)
    """
    return _FORMS if is_own_api(limits) and limits.host is None else NO_CHANGES


def added_tools(
    message: Message, draft: Draft, names: Mapping[str, str]
) -> Iterator[dict[str, Json]]:
    """Yield the item of a note that tells of added tools; none where they are declared anew."""
    plan = plan_for(draft, provider=PROVIDER)
    if plan is None or not plan.forms.adds:
        return
    added = [tool for change in changes_in(message) for tool in change.added]
    if added:
        settled, _ = leave_strict(added, object_to=object_to_strict)
        tools = [function_tool(tool, names[tool.name]) for tool in settled]
        yield {"type": "additional_tools", "role": "developer", "tools": tools}
