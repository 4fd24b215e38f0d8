"""Play recorded sessions again on models whose reasoning is bound to what stood before it.

    python -m benchmarks.replay FOLDER [--sample N] [--workers 2]

Every step of a session is assembled, sent over HTTP with the vendor's SDK to the local provider of
`context_assembler.testing`, and recorded. The provider signs its thinking over the prompt that it
saw, as it split it up itself, and holds every signature that comes back against the prompt it comes
back in. Between the steps the budget shrinks, the model changes, tools come and go. Checked:

* no request is refused, and no signed block is sent that the provider does not use,
* where a request begins as the one before did (same model, system prompt and tools), every signed
  block that was sent or made then is in it: within an epoch none is dropped.

The sessions are the Claude Code transcripts and accepted requests that hold thinking. The exit code
is 1 when anything fails.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anthropic
import openai

from context_assembler import AssembledContext, ContextAssembler, ContextOverflowError
from context_assembler.errors import TranscriptError
from context_assembler.testing import ProviderServer, ScriptedReply, serve_providers
from context_assembler.transcripts import TRANSCRIPTS, read_sessions
from context_assembler.values.events import (
    AssistantBody,
    SessionEvent,
    ToolResultBody,
    UserBody,
)
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Part, Text, Thinking, ToolCall
from context_assembler.values.reading import as_array

EXTRA_TOOL: Final[Mapping[str, Any]] = {
    "name": "zz_extra",
    "description": "Comes and goes.",
    "input_schema": {"type": "object", "properties": {}},
}
SESSION: Final = "replayed"
_LEAST_BUDGET: Final = 3_000
_SEALS: Final = ("signature", "encrypted_content")
_MARKS: Final = ("cache_control", "prompt_cache_breakpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What the session gains before a call, and what the model answers to it."""

    added: tuple[SessionEvent, ...]
    reply: ScriptedReply


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """What changes between the calls: each is taken in turn, one entry for one step.

    Attributes:
        models: The models asked.
        shares: The most tokens allowed, as a share of the session's rough size; `None` is the
            model's window.
        tools: `all`, `more` (one that was not there before), or `fewer` (one is gone).
    """

    models: Sequence[str]
    shares: Sequence[float | None] = (None,)
    tools: Sequence[str] = ("all",)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What was seen of one session."""

    steps: int = 0
    sent: int = 0  # signed blocks, over all requests
    grown: int = 0  # requests that begin as the one before did
    cut: int = 0
    overflows: int = 0
    failures: list[str] = field(default_factory=list[str])

    def add(self, other: "Outcome") -> None:
        """Take over what another session showed."""
        self.steps += other.steps
        self.sent += other.sent
        self.grown += other.grown
        self.cut += other.cut
        self.overflows += other.overflows
        self.failures += other.failures


def turns_of(events: Iterable[SessionEvent]) -> list[Turn]:
    """Return a session as turns: what was told, then all that the model said to it."""
    turns: list[Turn] = []
    told: list[SessionEvent] = []
    said: list[Part] = []
    for event in events:
        if isinstance(event.body, AssistantBody):
            said.extend(event.parts)
        elif isinstance(event.body, UserBody | ToolResultBody):
            turns += _turn(told, said)
            told = [*([] if said and turns and not told else told), event]
            said = []
    return [*turns, *_turn(told, said)]


def _turn(told: list[SessionEvent], said: list[Part]) -> Iterator[Turn]:
    """Yield the turn, if the model said anything; what was told is used up then."""
    reply = _scripted(said)
    if told and reply is not None:
        yield Turn(added=tuple(told), reply=reply)
        told.clear()


def _scripted(said: Iterable[Part]) -> ScriptedReply | None:
    parts = list(said)
    texts = [part.text for part in parts if isinstance(part, Text) and part.text.strip()]
    calls = tuple(
        ToolCall(call_id=part.call_id, name=part.name, arguments=part.arguments)
        for part in parts
        if isinstance(part, ToolCall)
    )
    thoughts = [part.text for part in parts if isinstance(part, Thinking)]
    if not texts and not calls:
        return None
    thinking = "\n".join(thoughts) if thoughts else None
    return ScriptedReply(text="\n".join(texts).strip(), tool_calls=calls, thinking=thinking)


async def replay(turns: Sequence[Turn], weather: Weather) -> Outcome:
    """Play the turns against the local provider."""
    outcome = Outcome()
    names = sorted({call.name for turn in turns for call in turn.reply.tool_calls})
    tools = [
        {"name": name, "description": "As recorded.", "input_schema": {"type": "object"}}
        for name in names
    ]
    try:
        with serve_providers([turn.reply for turn in turns]) as server:
            async with ContextAssembler(sessions="memory:", tools=tools) as assembler:
                loop = _Loop(server=server, assembler=assembler, outcome=outcome, names=names)
                await loop.run(turns, weather)
            _note_objections(server, outcome)
    except AssertionError as unfinished:  # the server's: a refusal ended the session early
        outcome.failures.append(f"not played to the end: {str(unfinished)[:100]}")
    return outcome


def _note_objections(server: ProviderServer, outcome: Outcome) -> None:
    for number, seen in enumerate(server.requests):
        if seen.refusal is not None:
            outcome.failures.append(f"step {number} refused: {seen.refusal[:200]}")
        outcome.failures += [f"step {number} not used: {row}" for row in seen.left_out]


@dataclass(slots=True, kw_only=True)
class _Loop:
    server: ProviderServer
    assembler: ContextAssembler
    outcome: Outcome
    names: Sequence[str]

    async def run(self, turns: Sequence[Turn], weather: Weather) -> None:
        claude = anthropic.AsyncAnthropic(
            base_url=self.server.anthropic_url, api_key="x", max_retries=0
        )
        gpt = openai.AsyncOpenAI(base_url=self.server.openai_url, api_key="x", max_retries=0)
        before: tuple[str, dict[str, Any], list[str]] | None = None
        async with claude, gpt:
            for step, turn in enumerate(turns):
                await self.assembler.sessions.append(SESSION, turn.added)
                model = weather.models[step % len(weather.models)]
                context = await self._assemble(
                    model,
                    budget=_budget(turns, weather.shares[step % len(weather.shares)]),
                    tools=weather.tools[step % len(weather.tools)],
                )
                payload = context.to_request()
                if before is not None and before[0] == model:
                    self._compare(before[1], payload, before[2], step)
                send: Any = (
                    claude.messages.create if "messages" in payload else gpt.responses.create
                )
                try:
                    reply = await send(**payload)
                except (anthropic.APIStatusError, openai.APIStatusError):
                    return  # the server remembers the refusal; what follows would be another session
                await self.assembler.record(SESSION, reply, context)
                made = seals_in(reply.model_dump(mode="json"))
                before = (model, payload, [*seals_in(payload), *made])
                self.outcome.steps += 1
                self.outcome.sent += len(seals_in(payload))
                self.outcome.cut += context.metadata.truncated

    async def _assemble(self, model: str, *, budget: int | None, tools: str) -> AssembledContext:
        options: dict[str, Any] = {"model": model, "max_tokens": 1000, "on_overflow": "shorten"}
        if tools == "more":
            options["additional_tools"] = [EXTRA_TOOL]
        if tools == "fewer" and self.names:
            options["disabled_tools"] = [self.names[0]]
        try:
            return await self.assembler.assemble(SESSION, max_context_tokens=budget, **options)
        except ContextOverflowError:
            self.outcome.overflows += 1
            return await self.assembler.assemble(SESSION, **options)

    def _compare(
        self, earlier: Mapping[str, Any], later: Mapping[str, Any], seals: Sequence[str], step: int
    ) -> None:
        """Note a signed block that is gone although everything before it stayed."""
        pieces, more = pieces_of(earlier), pieces_of(later)
        if more[: len(pieces)] != pieces:
            return
        self.outcome.grown += 1
        found = seals_in(later)
        if found[: len(seals)] != list(seals):
            lost = len([seal for seal in seals if seal not in found])
            self.outcome.failures.append(
                f"step {step} dropped {lost} of {len(seals)} signed blocks"
            )


def _budget(turns: Sequence[Turn], share: float | None) -> int | None:
    """Return a share of what the turns take, at 3 characters a token and as JSON."""
    if share is None:
        return None
    told = sum(len(repr(event.body)) for turn in turns for event in turn.added)
    said = sum(len(repr(turn.reply)) for turn in turns)
    return max(_LEAST_BUDGET, int((told + said) / 3 * share))


def pieces_of(payload: Mapping[str, Any]) -> list[str]:
    """Return what a payload says, piece by piece, without signed blocks and cache marks."""
    head = {key: payload.get(key) for key in ("system", "tools", "reasoning", "text")}
    said = payload.get("messages", payload.get("input", ()))
    pieces = [_plain(head)]
    for message in said:
        blocks = as_array(message.get("content")) or [message]
        pieces += [
            f"{message.get('role')} {_plain(block)}" for block in blocks if not seals_in(block)
        ]
    return pieces


def _plain(value: Any) -> str:
    return json.dumps(_unmarked(value))


def _unmarked(value: Any) -> Any:
    if is_object(value):
        return {key: _unmarked(inner) for key, inner in value.items() if key not in _MARKS}
    return [_unmarked(inner) for inner in value] if is_array(value) else value


def seals_in(value: Any) -> list[str]:
    """Return the signatures in a value, in order."""
    if is_object(value):
        own = [value[key] for key in _SEALS if isinstance(value.get(key), str)]
        return [*own, *(seal for inner in value.values() for seal in seals_in(inner))]
    return [seal for inner in value for seal in seals_in(inner)] if is_array(value) else []


# What each session is played through: alone, and with all that can change in between.
WEATHERS: Final[Mapping[str, Weather]] = {
    "Opus 5.5, nothing changes": Weather(models=["claude-opus-5-5"]),
    "gpt-6.2-sol, nothing changes": Weather(models=["gpt-6.2-sol"]),
    "Opus 5.5, cuts": Weather(models=["claude-opus-5-5"], shares=[0.4]),
    "Haiku 5.5, cuts and tools": Weather(
        models=["claude-haiku-5-5"],
        shares=[0.4],
        tools=["all"] * 4 + ["more"] * 4 + ["fewer"] * 4,
    ),
    "gpt-6.2-sol, cuts and tools": Weather(
        models=["gpt-6.2-sol"], shares=[0.4], tools=["all"] * 4 + ["more"] * 4 + ["fewer"] * 4
    ),
    "Opus and Haiku 5.5 by turns, cuts": Weather(
        models=["claude-opus-5-5"] * 3 + ["claude-haiku-5-5"] * 3, shares=[0.6]
    ),
    "gpt-6.2-sol and astra by turns, cuts": Weather(
        models=["gpt-6.2-sol"] * 3 + ["gpt-6.2-astra"] * 3, shares=[0.6]
    ),
    "Opus 5.5 and gpt-6.2-sol by turns": Weather(
        models=["claude-opus-5-5"] * 3 + ["gpt-6.2-sol"] * 3, shares=[None] * 5 + [0.5]
    ),
}


def find_sessions(folder: Path) -> Iterator[tuple[str, tuple[SessionEvent, ...]]]:
    """Yield the sessions of the corpus that hold thinking."""
    for path in sorted((folder / "trajectories" / "claude_code").rglob("*.jsonl")):
        try:
            sessions = read_sessions(path.read_text("utf-8", errors="replace"))
        except TranscriptError:
            continue
        yield from ((f"{path.stem[:20]}:{name}", read.events) for name, read in sessions)
    for name in ("anthropic", "openai_responses"):
        for line in (folder / "requests" / f"accepted_{name}.jsonl").open(encoding="utf-8"):
            row = json.loads(line)
            if "prompt" not in row["request"]:
                yield f"{name}:{row['id']}", TRANSCRIPTS[name].read(row["request"]).events


def has_thinking(events: Iterable[SessionEvent]) -> bool:
    """Whether a session holds thinking that was signed."""
    parts = (part for event in events for part in event.parts)
    return any(isinstance(part, Thinking) and part.is_signed for part in parts)


def replay_all(events: Sequence[SessionEvent], weather: str) -> Outcome:
    """Play one session through one weather."""
    return asyncio.run(replay(turns_of(events), WEATHERS[weather]))


def main() -> int:
    """Play every session and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    found = [(name, events) for name, events in find_sessions(arguments.folder)]
    sessions = [(name, events) for name, events in found if has_thinking(events)]
    sessions = [(n, e) for n, e in sessions if turns_of(e)][: arguments.sample]
    failures: list[str] = []
    print(f"{len(sessions)} sessions with thinking")
    print("weather | steps | signed blocks sent | requests that only grew | cut | failures")
    with ProcessPoolExecutor(arguments.workers) as pool:
        for weather in WEATHERS:
            jobs = [(name, pool.submit(replay_all, events, weather)) for name, events in sessions]
            total = Outcome()
            for name, job in jobs:
                outcome = job.result()
                total.add(outcome)
                failures += [f"{name} {weather}: {text}" for text in outcome.failures]
            print(
                f"{weather} | {total.steps} | {total.sent} | {total.grown} | {total.cut} | "
                f"{len(total.failures)}",
                flush=True,
            )
    print(*failures[:40], sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
