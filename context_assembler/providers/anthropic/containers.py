"""The container that code of earlier replies ran in, kept from a reply to the next request."""

from collections.abc import Sequence

from context_assembler.providers.anthropic.blocks import PROVIDER
from context_assembler.values.draft import Draft
from context_assembler.values.events import Container
from context_assembler.values.messages import Message
from context_assembler.values.native.anthropic_containers import in_utc_unless_told
from context_assembler.values.parts import Json


def render_container(draft: Draft, *, tools: Sequence[dict[str, Json]]) -> dict[str, Json]:
    """Return the newest reply's container, beside tools that the server runs and while it lasts.

    The newest message tells what time it is.

    Source:
        anthropic package 2.14, `ThreadState._adopt_container` (read 2026-11-27): tools that are bound
        to a container refuse a request that leaves out the one of the turn before.
    """
    if not any(tool.get("type", "custom") != "custom" for tool in tools):
        return {}
    container = _newest(draft.messages)
    if container is None or _is_over(container, draft.messages):
        return {}
    return {"container": container.id}


def _newest(messages: Sequence[Message]) -> Container | None:
    for message in reversed(messages):
        made_by = message.made_by
        if made_by is not None and made_by.provider == PROVIDER and made_by.container is not None:
            return made_by.container
    return None


def _is_over(container: Container, messages: Sequence[Message]) -> bool:
    if container.expires_at is None:
        return False
    moments = [
        in_utc_unless_told(message.created_at)
        for message in messages
        if message.created_at is not None
    ]
    return bool(moments) and max(moments) >= in_utc_unless_told(container.expires_at)
