"""Assemble every recorded session under every strategy, budget and provider, and check the result.

    python benchmarks/sweep.py FOLDER [--sample N] [--requests]

FOLDER is searched for transcripts that a bundled reader can read. Each session is assembled with
{simple, smart, sliding} × {10, 25, 50, 90, 100 %} of its own size × {Anthropic, Chat}. For every
payload it is checked that

* the provider's rules hold,
* an independent count of the payload stays within the budget,
* the last user message is there, and with `smart` the first one (the task),
* a refusal (`ContextOverflowError`) is true: even the shortened anchors exceed the budget.

The exit code is 1 when anything fails.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from context_assembler import (
    AssembledContext,
    ContextAssembler,
    ContextOverflowError,
    InMemoryStore,
)
from context_assembler.errors import TranscriptError
from context_assembler.limits import get_model_limits
from context_assembler.ports import ReadTranscript, TokenCounter
from context_assembler.tokens import counter_for
from context_assembler.transcripts import read_sessions
from context_assembler.truncation import TRUNCATIONS
from context_assembler.values.events import Session, UserBody
from context_assembler.values.messages import Message
from context_assembler.values.parts import Text

SHARES: Final = (0.10, 0.25, 0.50, 0.90, 1.00)
MODELS: Final = {"anthropic": "claude-opus-5-5", "openai_chat": "gpt-5.5"}
_STUB_TOKENS: Final = 260  # a stub with its marker, as the truncator leaves it at least


@dataclass(slots=True)
class Tally:
    """What one worker saw."""

    sessions: int = 0
    payloads: int = 0
    refused: int = 0
    unreadable: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    tries: Counter[tuple[str, float]] = field(default_factory=Counter[tuple[str, float]])
    refusals: Counter[tuple[str, float]] = field(default_factory=Counter[tuple[str, float]])

    def add(self, other: "Tally") -> None:
        """Take over what another worker saw."""
        self.sessions += other.sessions
        self.payloads += other.payloads
        self.refused += other.refused
        self.unreadable += other.unreadable
        self.seconds += other.seconds
        self.failures += other.failures
        self.counts += other.counts
        self.tries += other.tries
        self.refusals += other.refusals


def find_sessions(path: Path) -> Iterator[tuple[str, ReadTranscript]]:
    """Yield every session in a file, or nothing where no reader knows the format."""
    try:
        yield from read_sessions(path.read_text("utf-8", errors="replace"))
    except TranscriptError:
        return


def find_requests(path: Path) -> Iterator[tuple[str, ReadTranscript]]:
    """Yield every recorded request body of a JSON Lines file as a session."""
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        try:
            sessions = read_sessions(row["request"])
        except TranscriptError:
            continue
        yield from ((row["id"], session) for _, session in sessions)


def recount(payload: Mapping[str, Any], *, model: str) -> int:
    """Count a payload's texts from scratch, with the usual framing of Chat Completions.

    4 tokens a message, 3 a call, 3 for the request; every string inside a message counts. Only the
    text counter is shared with the library. Tool definitions are left to the ledger: no formula for
    them is published.
    """
    count = counter_for(get_model_limits(model)).count_text
    total = 3
    system = payload.get("system")
    if system:
        total += 4 + count("".join(block["text"] for block in system))
    for message in payload["messages"]:
        total += 4 + _recount_content(message.get("content"), count)
        for call in message.get("tool_calls", ()):
            total += 3 + count(call["function"]["name"]) + count(call["function"]["arguments"])
    return total


def _recount_content(content: Any, count: Any) -> int:
    if content is None:
        return 0
    if isinstance(content, str):
        return int(count(content))
    total = 0
    for block in content:
        match block.get("type"):
            case "text":
                total += count(block["text"])
            case "tool_use":
                arguments = json.dumps(block["input"], ensure_ascii=False, separators=(",", ":"))
                total += 3 + count(block["name"]) + count(arguments)
            case "tool_result":
                total += _recount_content(block.get("content"), count)
            case _:
                pass  # images, documents and signed blocks are no text
    return total


def _user_texts(transcript: ReadTranscript) -> list[str]:
    bodies = [event.body for event in transcript.events]
    texts = [
        "".join(p.text for p in b.parts if isinstance(p, Text))
        for b in bodies
        if isinstance(b, UserBody)
    ]
    return [text for text in texts if text.strip()]


def _said(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if message.is_from_user]


def check_context(
    context: AssembledContext, whole: AssembledContext, *, provider: str, strategy: str, budget: int
) -> list[str]:
    """Return what is wrong with one assembled context."""
    wrong = [
        f"rule {violation}" for violation in context.check(provider) if violation.level == "refused"
    ]
    ledger = context.metadata.ledger
    tools = ledger.tokens_of("tools", "overhead") - 3
    recounted = recount(context.to_request(provider), model=MODELS[provider]) + tools
    if recounted > budget:
        wrong.append(f"over budget: {recounted} > {budget}")
    if ledger.used_tokens > budget:
        wrong.append(f"ledger over budget: {ledger.used_tokens} > {budget}")
    users, kept = _said(whole.messages), _said(context.messages)
    if users and (not kept or kept[-1].id != users[-1].id):
        wrong.append("the last user message is gone")
    if users and strategy == "smart" and kept and kept[0].id != users[0].id:
        wrong.append("the task is gone")
    return wrong


def _shortest(message: Message, counter: TokenCounter) -> int:
    """Return about what is left of a message of the user when its texts are shortened."""
    others = tuple(part for part in message.parts if not isinstance(part, Text))
    bare = counter.count_message(replace(message, parts=others)) if others else 0
    return bare + min(counter.count_text(message.text) + 8, 2 * _STUB_TOKENS)


def anchors_fit(whole: AssembledContext, *, strategy: str, budget: int) -> bool:
    """Whether the anchors, their results shortened, would clearly have fitted the budget."""
    counter = counter_for(whole.draft.limits)
    users = _said(whole.messages)
    needed = whole.metadata.ledger.fixed_tokens
    anchors = {users[-1].id: users[-1]} if users else {}
    if users and strategy == "smart":
        anchors[users[0].id] = users[0]
    needed += sum(_shortest(message, counter) for message in anchors.values())
    in_flight = [m for m in whole.messages if m.role == "assistant"][-1:]
    for message in in_flight:
        needed += counter.count_message(message) + _STUB_TOKENS * len(message.tool_calls)
    summaries = [m for m in whole.messages if m.kind == "summary"]
    needed += sum(map(counter.count_message, summaries))
    return needed + _STUB_TOKENS <= budget


async def sweep_session(name: str, transcript: ReadTranscript, *, kind: str) -> Tally:
    """Assemble one session in every way."""
    tally = Tally(sessions=1)
    store = InMemoryStore()
    await store.create(Session(id="s"))
    await store.append("s", transcript.events)
    assembler = ContextAssembler(sessions=store, tools=list(transcript.tools))
    for provider, model in MODELS.items():
        try:
            whole = await assembler.assemble("s", model=model)
        except Exception as error:
            tally.failures.append(f"{name} {provider} whole: {type(error).__name__}: {error}")
            continue
        size = whole.metadata.ledger.used_tokens
        for strategy in TRUNCATIONS:
            for share in SHARES:
                where = f"{name} {provider} {strategy} {share:.0%}"
                budget = max(1, int(size * share))
                try:
                    context = await assembler.assemble(
                        "s",
                        model=model,
                        max_context_tokens=budget,
                        truncation_strategy=strategy,
                        on_overflow="shorten",
                    )
                    wrong = check_context(
                        context, whole, provider=provider, strategy=strategy, budget=budget
                    )
                    if (
                        share == 1.0
                        and strategy != "sliding"
                        and context.messages != whole.messages
                    ):
                        wrong.append("changed although it fits")
                except ContextOverflowError as error:
                    tally.refused += 1
                    tally.refusals[kind, share] += 1
                    fits = anchors_fit(whole, strategy=strategy, budget=budget)
                    wrong = [f"refused without need: {error}"] if fits else []
                except Exception as error:
                    wrong = [f"{type(error).__name__}: {error}"]
                tally.payloads += 1
                tally.tries[kind, share] += 1
                tally.counts.update(problem.split(":")[0] for problem in wrong)
                tally.failures += [f"{where}: {problem}" for problem in wrong]
    return tally


def sweep_file(path: Path, *, sample: int | None = None) -> Tally:
    """Sweep all sessions of one file."""
    started = time.perf_counter()
    tally = Tally()
    is_requests = path.parent.name == "requests"
    find = find_requests if is_requests else find_sessions
    kind = "requests" if is_requests else "transcripts"
    for number, (name, transcript) in enumerate(find(path)):
        if sample is not None and number >= sample:
            break
        if not _user_texts(transcript):
            tally.unreadable += 1
            continue
        tally.add(asyncio.run(sweep_session(f"{path.name}:{name}", transcript, kind=kind)))
    tally.seconds = time.perf_counter() - started
    return tally


def list_files(folder: Path) -> list[Path]:
    """Return the files to sweep, largest first so that two workers finish together."""
    trajectories = [
        p for p in (folder / "trajectories").rglob("*") if p.suffix in {".json", ".jsonl", ".traj"}
    ]
    requests = [
        folder / "requests" / f"accepted_{name}.jsonl" for name in ("anthropic", "openai_chat")
    ]
    found = [path for path in (*trajectories, *requests) if path.is_file()]
    return sorted(found, key=lambda path: -path.stat().st_size)


def main() -> int:
    """Run the sweep and print what it saw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sample", type=int, help="at most this many sessions of each file")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    files = list_files(arguments.folder)
    total = Tally()
    with ProcessPoolExecutor(arguments.workers) as pool:
        jobs = [pool.submit(sweep_file, path, sample=arguments.sample) for path in files]
        for job in jobs:
            total.add(job.result())
    print(f"{total.sessions} sessions of {len(files)} files, {total.payloads} payloads")
    print(f"{total.refused} true refusals (the shortened anchors alone exceed the budget):")
    for kind in ("transcripts", "requests"):
        shares = " · ".join(
            f"{share:.0%} {total.refusals[kind, share]}/{total.tries[kind, share]}"
            for share in SHARES
        )
        print(f"  {kind}: {shares}")
    print(f"{total.unreadable} sessions without a user message")
    print(f"{len(total.failures)} failures {dict(total.counts) or ''}")
    for failure in total.failures[:50]:
        print(" ", failure[:300])
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
