"""OpenAI Agents SDK: the input of a model call in, what fits of it out; and sessions in our stores.

    config = RunConfig(call_model_input_filter=FitInput(max_tokens=100_000))
    await Runner.run(agent, "…", session=StoredSession("trip", "sqlite:agent.db"), run_config=config)

The run and its session keep all items; a request holds those that fit, next to the instructions and
the tools. Items that stay are the SDK's own objects, with reasoning, ids and `provider_data`. An item
that is shortened or repaired keeps its other fields. If an item cannot be read, a `TranscriptError`
names it.

A `StoredSession` returns every item as it was added, and holds it as an event as well, so that
`ContextAssembler` and the command line can continue the session.
"""

import json
import warnings
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from agents import Handoff, RunContextWrapper, SessionSettings, handoff
from agents.models.openai_responses import Converter
from agents.run import CallModelData, ModelInputData

from context_assembler.errors import ConfigurationError, UnknownSessionError
from context_assembler.events import SessionEvent, active_events
from context_assembler.integrations.fitting import Fitter
from context_assembler.sessions import open_store
from context_assembler.transcripts import read_transcript, write_transcript

_KEY: Final = "openai_agents"  # of an event's metadata: the item as it was added
_ID_OF_NONE: Final = "__fake_id__"  # of items that no Responses API made


class FitInput(Fitter):
    """A `call_model_input_filter`, for one run or for several at once.

    Pass `model=` if the agent has none of its own, or `RunConfig` chooses another. MCP servers are
    asked for their tools, to count them; with `cache_tools_list` they are asked once.
    """

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the items that fit, and the instructions as they are."""
        agent, given = data.agent, data.model_data
        kinds = {str(item.get("type")).rpartition("_")[2] for item in given.input}
        if "output" in kinds and "call" not in kinds:
            told = "OpenAI keeps the calls of this conversation, so its items are sent as they are."
            warnings.warn(f"{told} Run without its id to fit them.", stacklevel=2)
            return given
        tools = await agent.get_all_tools(RunContextWrapper(data.context))
        handoffs = [one if isinstance(one, Handoff) else handoff(one) for one in agent.handoffs]
        plain = [_plain(item) for item in given.input]
        fitted = self.fit(
            plain,
            model=getattr(agent.model, "model", agent.model),
            system=given.instructions,
            tools=Converter.convert_tools(tools, handoffs).tools,
        )
        made: list[Any] = [
            one if at is None else _with_own(one, plain[at], given.input[at])
            for at, one in zip(fitted.indices, fitted.messages, strict=True)
        ]
        return ModelInputData(input=made, instructions=given.instructions)


def _plain(item: Any) -> Any:
    """Return an item as OpenAI takes it: without what the SDK notes for itself."""
    if "provider_data" not in item and item.get("id") != _ID_OF_NONE:
        return item
    held = item.items()
    return {k: v for k, v in held if k != "provider_data" and (k, v) != ("id", _ID_OF_NONE)}


def _with_own(sent: Any, plain: Any, own: Any) -> Any:
    """Return the SDK's item for one that stays; a changed one with what `_plain` left out."""
    if sent is plain:
        return own
    return {**{k: held for k, held in own.items() if k not in plain}, **sent}


class StoredSession:
    """A `Session` of the SDK over a session store; `ContextAssembler` can continue it.

    Args:
        store: A URL, or an opened store, which is yours to close.
    """

    def __init__(self, session_id: str, store: Any) -> None:
        self.session_id, self.store = session_id, open_store(store)
        self.session_settings: SessionSettings | None = SessionSettings()

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the newest items, oldest first.

        They come back as they were added. If others wrote into the session, all items are rendered
        from its events: a summary replaces what its compaction covers, and ids may be missing.
        """
        events, kept = await self._load()
        if all(_KEY in event.metadata for event in kept):
            items = [event.metadata[_KEY] for event in kept]
        else:
            items = json.loads(write_transcript(events, format="openai_responses"))
        return items if limit is None else items[max(0, len(items) - limit) :]

    async def add_items(self, items: list[Any]) -> None:
        """Append an event for each item, all or none.

        Raises:
            TranscriptError: An item cannot be read.
        """
        await self.store.append(self.session_id, [_event(item) for item in items])

    async def pop_item(self) -> Any:
        """Take back the newest item; an event notes that, and no event is deleted.

        Raises:
            ConfigurationError: Others wrote the newest event.
        """
        events, kept = await self._load()
        if not kept:
            return None
        if _KEY not in kept[-1].metadata:
            raise ConfigurationError(
                f"The newest event of session {self.session_id!r} was not added by the SDK.",
                remedy="Rewind the session, or fork it before that event.",
            )
        taken = SessionEvent(
            type="rewind", answers_seq=kept[-1].seq - 1, created_at=datetime.now(UTC)
        )
        await self.store.append(self.session_id, [taken], expected_seq=events[-1].seq)
        return kept[-1].metadata[_KEY]

    async def clear_session(self) -> None:
        """Delete the session with all its events."""
        try:
            await self.store.delete(self.session_id)
        except UnknownSessionError:
            return

    async def _load(self) -> tuple[list[SessionEvent], list[SessionEvent]]:
        """Return all events, and the active ones."""
        try:
            events = [event async for event in self.store.load(self.session_id)]
        except UnknownSessionError:
            return [], []
        return events, active_events(events)


def _event(item: Any) -> SessionEvent:
    read = read_transcript([item], format="openai_agents").events
    event = read[0] if read else SessionEvent(type="system")
    return replace(event, created_at=datetime.now(UTC), metadata={**event.metadata, _KEY: item})
