"""Our adapters for the harness in CONTEXT_ASSEMBLER_BENCH, laid beside those of the peers.

The harness gives OpenAI chat messages and takes OpenAI chat messages. An assembler of ours keeps
them as a session, as an application would, and assembles it with its settings as they come:
strategy `smart`, checkpoints, exact counts. The budget is `max_context_tokens`. What the harness
says the user asked to keep is pinned.
"""

import asyncio
import copy
import importlib
import itertools
import tempfile
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

MODEL: Final = "gpt-5.5"
TIMED_SHARE: Final = 0.5  # of the session: the budget of the calls that are timed
_numbers: Final = itertools.count()


class Loop:
    """A session that grows, as the harness's `open` promises it: extend, then assemble."""

    def __init__(self, peer: "Ours", budget: int) -> None:
        self._peer = peer
        self._budget_tokens = budget
        self._session_id = f"session-{next(_numbers)}"
        self._length = 0

    def extend(self, messages: Sequence[dict[str, Any]]) -> None:
        """Store what was said and done since the last call."""
        self._peer.store(self._session_id, messages, place=self._length)
        self._length += len(messages)

    def assemble(self) -> Any:
        """Return the context of the next call."""
        return self._peer.trim_native(self._session_id, self._budget_tokens)


class Ours:
    """A whole session at each call: stored before the clock starts, never seen by the assembler."""

    package = "context-assembler"
    venv = ".venv-ours"
    unit = "tokens"
    external_system = False

    def __init__(
        self, name: str, note: str, *, sessions: str = "memory:", **truncation: Any
    ) -> None:
        self.name = name
        self.note = note
        self._sessions = sessions
        self._truncation = truncation
        self._stats: Mapping[str, Any] = {}
        self._assembler: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def configure(self, stats: Mapping[str, Any]) -> None:
        """Take the indices of the messages that the user asked to keep."""
        self._stats = stats

    def prepare(self, messages: Sequence[dict[str, Any]]) -> str:
        """Store the messages as a new session: what an application has before it assembles."""
        session_id = f"session-{next(_numbers)}"
        self.store(session_id, messages, place=0)
        return session_id

    def trim_native(self, native: str, budget: int) -> Any:
        """Assemble the session: read, repair, count, cut, report."""
        return self._run(self._opened().assemble(native, model=MODEL, max_context_tokens=budget))

    def export(self, native: Any) -> list[dict[str, Any]]:
        """Return the payload's messages, in the one of two equal spellings that the harness knows."""
        messages: list[dict[str, Any]] = copy.deepcopy(native.to_openai_chat()["messages"])
        for message in messages:
            if message["role"] == "developer":
                message["role"] = "system"
            if message["role"] == "assistant":
                message.setdefault("content", None)
        return messages

    def trim(self, messages: Sequence[dict[str, Any]], budget: int) -> list[dict[str, Any]]:
        """Fit messages into a budget."""
        return self.export(self.trim_native(self.prepare(messages), budget))

    def open(self, budget: int) -> Loop:
        """Begin an agent loop."""
        return Loop(self, budget)

    def store(self, session_id: str, messages: Sequence[dict[str, Any]], *, place: int) -> None:
        """Append messages to a session; `place` is the index of the first of them."""
        read_transcript = importlib.import_module("context_assembler").read_transcript
        pins = self._stats.get("pins", ())
        events: list[Any] = []
        for number, message in enumerate(messages, start=place):
            read = read_transcript([message], format="openai_chat").events
            events += [replace(event, is_pinned=True) for event in read] if number in pins else read
        self._run(self._opened().sessions.append(session_id, events))

    def close(self) -> None:
        """Let go of the store and the event loop."""
        if self._assembler is not None and self._loop is not None:
            self._run(self._assembler.close())
            self._loop.close()
        self._assembler = self._loop = None

    def _opened(self) -> Any:
        if self._assembler is None:
            # The first call pays for the import, as it does for each of the peers.
            ours = importlib.import_module("context_assembler")
            config = ours.AssemblerConfig(truncation=self._truncation) if self._truncation else None
            self._assembler = ours.ContextAssembler(sessions=self._sessions, config=config)
        return self._assembler

    def _run(self, doing: Coroutine[Any, Any, Any]) -> Any:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(doing)


class Steps(Ours):
    """A session in SQLite that one exchange is appended to before each call: the step of a loop.

    Each call appends a call and its result, and assembles what the assembler knows but for these:
    before the first one, and before the clock starts, the session is stored and assembled once for
    the budget that is timed.
    """

    def __init__(self, name: str, note: str) -> None:
        super().__init__(name, note)
        self._stored: dict[tuple[int, int], int] = {}

    def prepare(self, messages: Sequence[dict[str, Any]]) -> str:
        """Append one exchange to the session that begins with these messages."""
        self._sessions = self._sessions.replace("memory:", f"sqlite:///{_new_file()}")
        key = len(messages), hash(str(messages[-1]["content"]))
        session_id = f"steps-{key[0]}-{key[1]}"
        if key not in self._stored:
            self.store(session_id, messages, place=0)
            count = importlib.import_module("tokens").count  # the harness's own
            self.trim_native(session_id, int(count(messages) * TIMED_SHARE))
        self.store(session_id, exchange(self._stored.get(key, 0)), place=1_000_000)
        self._stored[key] = self._stored.get(key, 0) + 1
        return session_id


def exchange(number: int) -> list[dict[str, Any]]:
    """Return a call and what it answered, of the usual size."""
    call_id = f"step_{number}"
    function = {"name": "read", "arguments": f'{{"path": "src/{number}.py"}}'}
    text = f"def step_{number}() -> None: ...\n" * 40
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call_id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call_id, "content": text},
    ]


def _new_file() -> Path:
    return Path(tempfile.mkdtemp(prefix="bench-steps-")) / "sessions.db"


PEERS = [
    Ours("context-assembler", "settings as they come: smart, checkpoints, exact counts"),
    *(
        Ours(
            f"context-assembler-step-{percent}",
            f"a cut frees {percent}% of the room for history",
            step_share=percent / 100,
        )
        for percent in (15, 25, 50, 70)
    ),
    Steps(
        "context-assembler-warm",
        "the same behind one new exchange, in SQLite: what a step of an agent loop costs",
    ),
]
