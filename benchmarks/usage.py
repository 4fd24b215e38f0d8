"""Our counts beside the usage that providers reported for recorded, accepted requests.

    python -m benchmarks.usage FOLDER [--json] [--worst N] [--kind KIND]

FOLDER holds `accepted_*.jsonl`. Each request is read by the bundled transcript reader of its
protocol and counted as the ledger of a request does. Rows are told apart by what they hold; what
nobody can count offline (a vendor's own tools, files by id, a schema that no option of ours sends …)
is listed by its reason, never left out silently; so is what can only be guessed by its length.

The halves are split by a stable hash of the recording's source, so that requests of one test never
stand on both sides. The figures in `tokens/frames.py` were read off half A wherever it shows the
case, and calibration is learned from it; both halves are reported. Gemini's frames and what the
estimator counts at the least were read off both: for them half B is no test.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from itertools import takewhile
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.usage_kinds import kinds_of, why_estimated, why_low, why_uncountable
from context_assembler.errors import AssemblyError
from context_assembler.limits import ModelRegistry
from context_assembler.stages.build_system_prompt import SystemPromptBuilder
from context_assembler.stages.split_window import count_draft
from context_assembler.stages.transform_messages import MessageTransformer
from context_assembler.tokens import TokenCounter, counter_for
from context_assembler.transcripts import read_transcript
from context_assembler.values.calibration import (
    LEAST_TOKENS,
    Calibration,
    UsageObservation,
    counter_id,
    learn,
)
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.parts import Part, Text, Thinking, ToolCall
from context_assembler.values.reading import as_array, as_number, as_object, as_text
from context_assembler.values.standing import with_numbers
from context_assembler.values.tools import ToolChoice

REGISTRY: Final = ModelRegistry(overrides=[])
FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "anthropic": ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
    "openai_chat": ("prompt_tokens",),
    "openai_responses": ("input_tokens",),
    "gemini": ("promptTokenCount",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One recorded request, counted.

    `read_tokens` is the count without the reasoning of earlier turns, which most vendors do not read
    again; a history is cut by `counted_tokens`, which does not change when a turn becomes an earlier one.
    """

    provider: str
    id: str
    model: str
    is_first_party: bool
    is_retired: bool
    half: int
    kinds: tuple[str, ...]
    uncountable: str | None
    estimated: str | None
    charged_tokens: int
    counted_tokens: int
    read_tokens: int
    counter: str
    source: str

    @property
    def error(self) -> float:
        """The relative error; negative where we counted too little."""
        return self.read_tokens / self.charged_tokens - 1


def read_rows(folder: Path) -> tuple[list[Row], dict[str, int]]:
    """Return every row that could be counted, and how many could not, by reason."""
    rows: list[Row] = []
    unread: defaultdict[str, int] = defaultdict(int)
    for provider in FIELDS:
        for recorded in _recorded(folder, provider):
            counted = count_row(recorded, provider=provider)
            if isinstance(counted, Row):
                rows.append(counted)
            else:
                unread[f"{provider}: {counted}"] += 1
    return rows, dict(unread)


def charged_tokens(usage: object, *, provider: str) -> int:
    """Return the prompt's tokens; missing and null fields count nothing."""
    values = (as_number(as_object(usage).get(field)) for field in FIELDS[provider])
    return sum(int(value) for value in values if value is not None)


def count_row(recorded: dict[str, Any], *, provider: str) -> Row | str:
    """Return the counted row, or why it cannot be counted."""
    charged = charged_tokens(recorded["response_usage"], provider=provider)
    if charged <= 0:
        return "no usage was reported"
    model = _model_of(recorded)
    try:
        limits = REGISTRY.get(model)
    except AssemblyError:
        return f"unknown model {model}"
    try:
        draft = read_draft(recorded["request"], provider=provider, limits=limits)
    except AssemblyError as error:
        return f"not readable: {error}"
    counter = counter_for(limits, protocol=provider)
    read = _without_old_reasoning(draft)
    apart = _apart_tokens(recorded["request"], counter)
    return Row(
        provider=provider,
        id=recorded["id"],
        model=limits.id,
        is_first_party=recorded["first_party"],
        is_retired=limits.status == "retired",
        half=blake2b(recorded["split_key"].encode(), digest_size=8).digest()[0] % 2,
        kinds=tuple(sorted(kinds_of(recorded["request"], provider=provider))),
        uncountable=why_uncountable(recorded, provider=provider),
        estimated=why_estimated(read, recorded, provider=provider),
        charged_tokens=charged,
        counted_tokens=count_draft(draft, counter=counter) + apart,
        read_tokens=count_draft(read, counter=counter) + apart,
        counter=counter.name,
        source=recorded["path"],
    )


def read_draft(request: dict[str, Any], *, provider: str, limits: ModelLimits) -> Draft:
    """Return a recorded request as the assembler would have made it."""
    read = read_transcript(request, format=provider)
    transformed = MessageTransformer().transform(with_numbers(read.events))
    prompt = SystemPromptBuilder().build([], session_system=transformed.leading_system)
    return Draft(
        limits=limits,
        parameters=_parameters(request),
        system=prompt.system,
        messages=tuple(map(_as_sent, transformed.messages))
        if provider == "gemini"
        else transformed.messages,
        tools=read.tools,
    )


def _apart_tokens(request: Mapping[str, Any], counter: TokenCounter) -> int:
    """Return the frames of system messages that were sent one by one: we send them as one."""
    sent = (as_object(one) for key in ("messages", "input") for one in as_array(request.get(key)))
    led = sum(1 for _ in takewhile(lambda one: one.get("role") in ("system", "developer"), sent))
    led += bool(request.get("instructions"))
    return max(0, led - 1) * (counter.count_system("a") - counter.count_text("a"))


def _as_sent(message: Message) -> Message:
    """Return the message with readable thoughts as text: these clients sent them, and Gemini read."""
    parts = (
        Text(text=part.text) if isinstance(part, Thinking) and not part.is_signed else part
        for part in message.parts
    )
    return replace(message, parts=tuple(parts))


def _parameters(request: Mapping[str, Any]) -> Parameters:
    given = request.get("tool_choice")
    choice = as_object(given)
    mode = as_text(given) or as_text(choice.get("type"))
    name = as_text(choice.get("name")) or as_text(as_object(choice.get("function")).get("name"))
    forced: ToolChoice | None = None
    if name and mode in ("tool", "function"):
        forced = ToolChoice(mode="tool", name=name)
    elif mode in ("any", "required"):
        forced = ToolChoice(mode="any")
    if request.get("parallel_tool_calls") is False:
        forced = replace(forced or ToolChoice(), allows_parallel=False)
    thinking = as_object(request.get("thinking"))
    budget = as_number(thinking.get("budget_tokens"))
    return Parameters(
        max_tokens=1,
        tool_choice=forced,
        thinking_budget=None if budget is None else int(budget),
        thinking_level="high" if thinking.get("type") == "adaptive" else None,
    )


def _without_old_reasoning(draft: Draft) -> Draft:
    """Leave out what the vendor does not read again: the reasoning of turns before the one at hand.

    To Gemini a text right behind results belongs to their turn. Vertex AI reads all there is while a
    call of the turn at hand is being answered.
    """
    messages, limits = draft.messages, draft.limits
    asked = [n for n, message in enumerate(messages) if message.role == "user"]
    if limits.provider == "google":
        asked = [n for n in asked if not (n and _continues(messages[n - 1], messages[n]))]
    last = asked[-1] if asked else 0
    if limits.host == "vertex_ai" and messages and messages[-1].role == "tool":
        last = 0
    old = (replace(m, parts=tuple(_read_later(m.parts))) for m in draft.messages[:last])
    return replace(draft, messages=(*old, *draft.messages[last:]))


def _continues(before: Message, after: Message) -> bool:
    return before.role == "tool" and all(isinstance(part, Text) for part in after.parts)


def _read_later(parts: Iterable[Part]) -> Iterator[Part]:
    for part in parts:
        if isinstance(part, Text | ToolCall):
            yield replace(part, signature=None)
        elif not (isinstance(part, Thinking) and part.is_signed):
            yield part


def _model_of(recorded: Mapping[str, Any]) -> str:
    model = recorded["request"].get("model") or recorded.get("response_model") or ""
    url = recorded["url"]
    if "/models/" in url and not recorded["request"].get("model"):
        model = url.split("/models/")[1].split(":")[0]
    return f"vertex_ai/{model}" if "aiplatform" in recorded["host"] else str(model)


def _recorded(folder: Path, provider: str) -> Iterator[dict[str, Any]]:
    path = folder / f"accepted_{provider}.jsonl"
    for line in path.read_text("utf-8").splitlines():
        yield json.loads(line)


# --- calibration ----------------------------------------------------------------------------------


def calibrate(rows: Sequence[Row]) -> dict[tuple[str, str, str, str], Calibration]:
    """Return what the first half of the rows teaches."""
    known: dict[tuple[str, str, str, str], Calibration] = {}
    for row in rows:
        if row.half == 0 and _teaches(row):
            seen = _observation(row)
            key = (seen.provider, seen.model, seen.shape, seen.counter)
            known[key] = learn(known.get(key), seen)
    return known


def corrected_error(row: Row, known: Mapping[tuple[str, str, str, str], Calibration]) -> float:
    """Return the error after correction by what the first half taught."""
    seen = _observation(row)
    calibration = known.get((seen.provider, seen.model, seen.shape, seen.counter))
    factor = calibration.factor if calibration else 1.0
    return row.read_tokens * factor / row.charged_tokens - 1


def _teaches(row: Row) -> bool:
    is_text = set(row.kinds) <= {"text", "tools"} and row.uncountable is row.estimated is None
    return is_text and row.counted_tokens >= LEAST_TOKENS


def _observation(row: Row) -> UsageObservation:
    return UsageObservation(
        provider=row.provider,
        model=row.model,
        shape="tools" if "tools" in row.kinds else "text",
        counter=counter_id(row.counter),
        counted_tokens=row.counted_tokens,
        reported_tokens=row.charged_tokens,
    )


# --- output ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How near a group of rows is counted."""

    rows: int
    median: float
    p95: float
    bias: float
    under_10_percent: int


def summarize(errors: Sequence[float]) -> Summary | None:
    """Return median and 95th percentile of the absolute errors, and the median error."""
    if not errors:
        return None
    sizes = sorted(map(abs, errors))
    return Summary(
        rows=len(errors),
        median=median(sizes),
        p95=sizes[min(len(sizes) - 1, int(0.95 * len(sizes)))],
        bias=median(errors),
        under_10_percent=sum(error < -0.10 for error in errors),
    )


def groups_of(rows: Sequence[Row]) -> dict[str, Summary]:
    """Return the figures by provider, party, half and kind of request; countable rows only."""
    known = calibrate(rows)
    found: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        party = "" if row.is_first_party else " (third party)"
        name = f"{row.provider}{party}"
        if row.uncountable is not None:
            found[f"{name} | not countable offline: {row.uncountable}"].append(row.error)
            continue
        found[f"{name} | all countable or estimated"].append(row.error)
        if row.estimated is not None:
            found[f"{name} | estimated: {row.estimated}"].append(row.error)
            continue
        kind = "+".join(row.kinds)
        found[f"{name} | all countable"].append(row.error)
        found[f"{name} | half {'AB'[row.half]}"].append(row.error)
        found[f"{name} | kind {kind}"].append(row.error)
        if row.half:
            found[f"{name} | half B, calibrated on A"].append(corrected_error(row, known))
        service = "retired models" if row.is_retired else "models in service"
        found[f"{name} | {service}"].append(row.error)
        if row.charged_tokens >= LEAST_TOKENS:
            found[f"{name} | {service}, of {LEAST_TOKENS} tokens or more"].append(row.error)
            if row.half:
                large = f"{name} | half B, of {LEAST_TOKENS} tokens or more"
                found[large].append(row.error)
                found[f"{large}, calibrated on A"].append(corrected_error(row, known))
    summaries = {name: summarize(errors) for name, errors in sorted(found.items())}
    return {name: summary for name, summary in summaries.items() if summary is not None}


def print_groups(groups: Mapping[str, Summary]) -> None:
    print(f"{'group':78} {'rows':>5} {'median':>8} {'p95':>8} {'bias':>8} {'under':>6}")
    for name, s in groups.items():
        print(
            f"{name[:78]:78} {s.rows:5} {s.median:8.1%} {s.p95:8.1%} {s.bias:+8.1%} "
            f"{s.under_10_percent:6}"
        )


def print_worst(rows: Iterable[Row], *, count: int) -> None:
    print(f"\nThe {count} worst countable rows of each provider:")
    for provider in FIELDS:
        own = [r for r in rows if r.provider == provider and r.is_first_party]
        countable = [row for row in own if row.uncountable is None]
        for row in sorted(countable, key=lambda r: -abs(r.error))[:count]:
            print(
                f"  {provider} {row.id} {row.model} {'+'.join(row.kinds)}: counted "
                f"{row.read_tokens}, charged {row.charged_tokens} ({row.error:+.0%}) {row.source[-60:]}"
            )


def print_low_texts(rows: Iterable[Row]) -> None:
    print("\nText-only requests that are counted more than 10 % too low:")
    for row in rows:
        is_low = row.kinds == ("text",) and row.uncountable is row.estimated is None
        if is_low and row.error < -0.10 and row.is_first_party:
            print(
                f"  {row.provider} {row.id} {row.model}: counted {row.read_tokens}, charged "
                f"{row.charged_tokens} ({row.error:+.0%}): {why_low(row.counter)}"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare counts with reported usage.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--worst", type=int, default=8)
    options = parser.parse_args(arguments)
    rows, unread = read_rows(options.folder)
    groups = groups_of(rows)
    if options.as_json:
        calibrations = [asdict(known) for known in calibrate(rows).values()]
        shown = {name: asdict(summary) for name, summary in groups.items()}
        print(json.dumps({"groups": shown, "unread": unread, "calibrations": calibrations}))
        return 0
    print_groups(groups)
    print_worst(rows, count=options.worst)
    print_low_texts(rows)
    print("\nNot read:")
    for reason, number in sorted(unread.items(), key=lambda pair: -pair[1]):
        print(f"  {number:4} {reason[:110]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
