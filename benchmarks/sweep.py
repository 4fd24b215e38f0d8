"""Assemble every recorded session under every strategy, budget and provider, and check the result.

    python benchmarks/sweep.py FOLDER [--providers all|a,b] [--cross] [--sample N] [--workers 2]

FOLDER holds `trajectories/` and `requests/`: every transcript that a bundled reader can read, and
every accepted request of the four APIs. Each session is assembled with {simple, smart, sliding} ×
{10, 25, 50, 90, 100 %} of its own size × a model of each provider. For every payload it is checked
that

* the provider's rules hold, and the types of the provider's SDK describe it, strictly,
* an independent count of the payload stays within the budget,
* the last user message is there, and with `smart` the first one (the task),
* a refusal (`ContextOverflowError`) is true: even the shortened anchors exceed the budget.

`--cross` spells each context for the three other protocols as well: their rules and types hold,
and what of the context is not in the payload has a row that says so. There is no budget for it.
Without `--cross` only the models' own protocols are spelled, of all providers: the run that
`python -m benchmarks` makes of a sample.

The exit code is 1 when anything fails.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, get_args

from benchmarks.losses import find_losses
from benchmarks.recount import REQUEST_TOKENS, recount
from context_assembler import (
    AssembledContext,
    ContextAssembler,
    ContextOverflowError,
    InMemoryStore,
)
from context_assembler.errors import TranscriptError, UnsupportedRequestError
from context_assembler.ports import ReadTranscript, TokenCounter
from context_assembler.providers import PROVIDERS
from context_assembler.testing.sdk_types import find_type_errors
from context_assembler.tokens import counter_for
from context_assembler.transcripts import read_sessions
from context_assembler.values.events import Session, UserBody
from context_assembler.values.messages import Message
from context_assembler.values.options import TruncationStrategy
from context_assembler.values.parts import Text

SHARES: Final = (0.10, 0.25, 0.50, 0.90, 1.00)
# A model of each provider whose own protocol it is.
MODELS: Final = {
    "anthropic": "claude-opus-5-5",
    "openai_chat": "gpt-4.1",
    "openai_responses": "gpt-6.2-sol",
    "gemini": "gemini-4-argon",
}
_STUB_TOKENS: Final = 260  # a stub with its marker, as the truncator leaves it at least
_REQUEST_JOBS: Final = 6  # a file of requests is shared out among so many


@dataclass(slots=True)
class Tally:
    """What one worker saw; `tries` and `refusals` by kind of session and share of its size."""

    sessions: int = 0
    unreadable: int = 0
    seconds: float = 0.0
    payloads: Counter[str] = field(default_factory=Counter[str])
    crossed: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    changed: Counter[str] = field(default_factory=Counter[str])
    inexpressible: Counter[str] = field(default_factory=Counter[str])
    failures: list[str] = field(default_factory=list[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    tries: Counter[tuple[str, float]] = field(default_factory=Counter[tuple[str, float]])
    refusals: Counter[tuple[str, float]] = field(default_factory=Counter[tuple[str, float]])

    def add(self, other: "Tally") -> None:
        """Take over what another worker saw."""
        for part in fields(self):
            setattr(self, part.name, getattr(self, part.name) + getattr(other, part.name))

    def note(self, where: str, wrong: Sequence[str]) -> None:
        """Take down what was wrong, counted by its kind."""
        found = [f"{where}: {problem}" for problem in wrong]
        self.counts.update(map(_kind_of, found))
        self.failures += found


def _kind_of(failure: str) -> str:
    """Return the protocols of a failure with what was wrong, without where and how much."""
    where, problem, *_ = failure.split(": ")
    return f"{where.split()[1]} {problem.partition(' at ')[0]}"


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


def _has_user(transcript: ReadTranscript) -> bool:
    bodies = [event.body for event in transcript.events if isinstance(event.body, UserBody)]
    return any(p.text.strip() for body in bodies for p in body.parts if isinstance(p, Text))


def _said(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if message.is_from_user]


def check_payload(context: AssembledContext, payload: dict[str, Any], provider: str) -> list[str]:
    """Return the rules of the protocol, and the types of its SDK, that a payload breaks."""
    found = PROVIDERS[provider].check_payload(payload, limits=context.draft.limits)
    wrong = [f"rule {violation}" for violation in found if violation.level == "refused"]
    allows_vendors = context.draft.limits.provider != "openai"
    errors = find_type_errors(provider, payload, allows_vendors=allows_vendors)
    wrong += [f"type: {error}" for error in errors[:3]]
    try:
        json.dumps(payload, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        wrong.append(f"no JSON: {error}")
    return wrong


def check_fit(
    context: AssembledContext,
    whole: AssembledContext,
    payload: dict[str, Any],
    *,
    strategy: str,
    budget: int,
) -> list[str]:
    """Return what is wrong with what was kept."""
    wrong: list[str] = []
    ledger = context.metadata.ledger
    tools = ledger.tokens_of("tools", "overhead") - REQUEST_TOKENS
    recounted = recount(context.provider, payload, model=context.metadata.model_id) + tools
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


def check_crossing(context: AssembledContext, provider: str, tally: Tally) -> list[str]:
    """Return what is wrong with the context as another protocol spells it."""
    try:
        payload = context.to_request(provider)
    except UnsupportedRequestError:
        tally.inexpressible[provider] += 1  # an error with a remedy: this API has no words for it
        return []
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    draft = context.for_provider(provider).draft
    rows = PROVIDERS[provider].adapt(draft)[1]
    tally.crossed[provider] += 1
    tally.changed[provider] += bool(rows)
    wrong = check_payload(context, payload, provider)
    return wrong + find_losses(draft, payload, rows, provider=provider)


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


@dataclass(slots=True, kw_only=True)
class Sweep:
    """One session assembled for one model in every way; the same payload is checked once."""

    assembler: ContextAssembler
    provider: str
    name: str
    kind: str
    crosses: bool
    tally: Tally
    _checked: set[bytes] = field(default_factory=set[bytes])

    async def run(self) -> None:
        """Assemble it whole, then within every budget."""
        model = MODELS[self.provider]
        where = f"{self.name} {self.provider}"
        try:
            whole = await self.assembler.assemble("s", model=model)
            assert whole.provider == self.provider
            self._check_spelling(whole, whole.to_request(), where)
        except Exception as error:
            self.tally.note(where, [f"whole: {type(error).__name__}: {error}"])
            return
        for strategy in get_args(TruncationStrategy):
            for share in SHARES:
                wrong = await self._assemble(whole, strategy=strategy, share=share)
                self.tally.tries[self.kind, share] += 1
                self.tally.note(f"{where} {strategy} {share:.0%}", wrong)

    async def _assemble(
        self, whole: AssembledContext, *, strategy: TruncationStrategy, share: float
    ) -> Sequence[str]:
        budget = max(1, int(whole.metadata.ledger.used_tokens * share))
        try:
            context = await self.assembler.assemble(
                "s",
                model=whole.metadata.model_id,
                max_context_tokens=budget,
                truncation_strategy=strategy,
                on_overflow="shorten",
            )
            payload = context.to_request()
            self._check_spelling(context, payload, f"{self.name} {self.provider} {strategy}")
            wrong = check_fit(context, whole, payload, strategy=strategy, budget=budget)
            if share == 1.0 and strategy != "sliding" and context.messages != whole.messages:
                wrong.append("changed although it fits")
        except ContextOverflowError as error:
            self.tally.refused[self.provider] += 1
            self.tally.refusals[self.kind, share] += 1
            fits = anchors_fit(whole, strategy=strategy, budget=budget)
            return [f"refused without need: {error}"] if fits else []
        except Exception as error:
            return [f"{type(error).__name__}: {error}"]
        self.tally.payloads[self.provider] += 1
        return wrong

    def _check_spelling(
        self, context: AssembledContext, payload: dict[str, Any], where: str
    ) -> None:
        key = blake2b(json.dumps(payload).encode(), digest_size=16).digest()
        if key in self._checked:
            return
        self._checked.add(key)
        wrong = check_payload(context, payload, self.provider)
        wrong += find_losses(context.draft, payload, (), provider=self.provider)
        self.tally.note(where, wrong)
        for other in PROVIDERS.keys() - {self.provider} if self.crosses else ():
            wrong = check_crossing(context, other, self.tally)
            self.tally.note(f"{self.name} {self.provider}→{other}", wrong)


async def sweep_session(
    name: str, transcript: ReadTranscript, *, kind: str, providers: Sequence[str], crosses: bool
) -> Tally:
    """Assemble one session in every way."""
    tally = Tally(sessions=1)
    store = InMemoryStore()
    await store.create(Session(id="s"))
    await store.append("s", transcript.events)
    assembler = ContextAssembler(sessions=store, tools=list(transcript.tools))
    for provider in providers:
        sweep = Sweep(
            assembler=assembler,
            provider=provider,
            name=name,
            kind=kind,
            crosses=crosses,
            tally=tally,
        )
        await sweep.run()
    return tally


def sweep_file(
    path: Path,
    *,
    providers: Sequence[str] = tuple(MODELS),
    crosses: bool = False,
    sample: int | None = None,
    part: int = 0,
    parts: int = 1,
) -> Tally:
    """Sweep all sessions of one file, or one part of them in so many."""
    started = time.perf_counter()
    tally = Tally()
    is_requests = path.parent.name == "requests"
    find = find_requests if is_requests else find_sessions
    kind = "requests" if is_requests else "transcripts"
    for number, (name, transcript) in enumerate(find(path)):
        if sample is not None and number >= sample:
            break
        if number % parts != part:
            continue
        if not _has_user(transcript):
            tally.unreadable += 1
            continue
        label = f"{path.stem[:24]}:{name}".replace(" ", "_")
        swept = sweep_session(label, transcript, kind=kind, providers=providers, crosses=crosses)
        tally.add(asyncio.run(swept))
    tally.seconds = time.perf_counter() - started
    return tally


def list_files(folder: Path) -> list[Path]:
    """Return the files to sweep, largest first so that two workers finish together."""
    trajectories = [
        p for p in (folder / "trajectories").rglob("*") if p.suffix in {".json", ".jsonl", ".traj"}
    ]
    requests = [folder / "requests" / f"accepted_{name}.jsonl" for name in MODELS]
    found = [path for path in (*trajectories, *requests) if path.is_file()]
    return sorted(found, key=lambda path: -path.stat().st_size)


def print_tally(total: Tally) -> None:
    """Print what was seen."""
    print(f"{total.sessions} sessions, {total.unreadable} more without a user message")
    for name in MODELS:
        print(
            f"  {name}: {total.payloads[name]} payloads, {total.refused[name]} refusals; "
            f"{total.crossed[name]} spelled from other providers' contexts, {total.changed[name]} "
            f"with rows, {total.inexpressible[name]} refused with a remedy"
        )
    print(f"{total.refused.total()} true refusals (the shortened anchors alone are too much):")
    for kind in ("transcripts", "requests"):
        shares = " · ".join(
            f"{share:.0%} {total.refusals[kind, share]}/{total.tries[kind, share]}"
            for share in SHARES
        )
        print(f"  {kind}: {shares}")
    print(f"{len(total.failures)} failures")
    for problem, number in total.counts.most_common():
        print(f"  {number} × {problem}")
        examples = [text for text in total.failures if problem in _kind_of(text)]
        for failure in examples[:2]:
            print("      ", failure[:400])


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--providers", default="all", help="all, or names with commas between")
    parser.add_argument("--cross", action="store_true", help="spell each for the others as well")
    parser.add_argument("--sample", type=int, help="at most this many sessions of each file")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    named = arguments.providers.split(",")
    arguments.providers = list(MODELS) if named == ["all"] else named
    if strange := sorted(set(arguments.providers) - MODELS.keys()):
        parser.error(f"no such provider: {', '.join(strange)}; there are {', '.join(MODELS)}")
    return arguments


def main() -> int:
    """Run the sweep and print what it saw."""
    arguments = _read_arguments()
    started = time.perf_counter()
    total = Tally()
    with ProcessPoolExecutor(arguments.workers) as pool:
        jobs = [
            pool.submit(
                sweep_file,
                path,
                providers=arguments.providers,
                crosses=arguments.cross,
                sample=arguments.sample,
                part=part,
                parts=parts,
            )
            for path in list_files(arguments.folder)
            for parts in [_REQUEST_JOBS if path.parent.name == "requests" else 1]
            for part in range(parts)
        ]
        for job in jobs:
            total.add(job.result())
    print_tally(total)
    print(f"{time.perf_counter() - started:.0f} seconds, {total.seconds:.0f} of work")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
