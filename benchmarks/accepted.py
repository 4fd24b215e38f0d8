"""Send every request that a provider accepted once more, as the library would spell it today.

    python -m benchmarks.accepted FOLDER

FOLDER is the corpus with `requests/`. Each accepted request of the four APIs is read as a session,
repaired, and rendered for its own provider and model; the payload is held against the rules and,
strictly, against the types of the SDK. Writing the session and reading it again has to give the
same. Each rejected request is held against the rules as it stands. Prints one row per provider,
and what failed; the exit code is 1 when anything did.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from context_assembler.errors import AssemblyError, UnknownModelError
from context_assembler.limits import ModelRegistry, get_model_limits
from context_assembler.ports import ReadTranscript
from context_assembler.providers import PROVIDERS
from context_assembler.stages.repair_history import repair_history
from context_assembler.stages.transform_messages import MessageTransformer
from context_assembler.testing.sdk_types import find_type_errors
from context_assembler.transcripts import TRANSCRIPTS
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.limits import ModelLimits
from context_assembler.values.prompt import SystemPrompt
from context_assembler.values.reading import as_object

# The recordings were made before the API version that took sampling parameters out.
RECORDED_BEFORE: Final = date(2026, 10, 20)

# What stands in for a model that the registry does not know, such as one of another vendor.
STAND_INS: Final = {
    "anthropic": "claude-opus-5-5",
    "openai_chat": "gpt-4o",
    "openai_responses": "gpt-4o",
    "gemini": "gemini-4-argon",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one accepted request.

    Attributes:
        kind: `sent`, `beta` (it asks for beta features, whose types describe it), `vendor` (it holds what only
            another vendor's server knows), or why there is nothing to send: `template`, `nothing`.
        problems: What is wrong; empty is the promise.
    """

    id: str
    kind: str
    problems: tuple[str, ...] = ()


def recorded_rows(folder: Path, file: str, provider: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file that are the provider's."""
    with (folder / "requests" / file).open(encoding="utf-8") as lines:
        rows = map(json.loads, lines)
        yield from (row for row in rows if row["provider"] == provider.replace("_", "-"))


def own_limits(row: dict[str, Any], registry: ModelRegistry) -> ModelLimits | None:
    """Return the limits of the model that was asked; Gemini's URLs name it."""
    in_url = row["url"].partition("/models/")[2].partition(":")[0]
    try:
        name = row["request"].get("model") or row.get("response_model") or in_url
        return registry.get(f"openrouter/{name}" if "//openrouter.ai/" in row["url"] else name)
    except UnknownModelError:
        return None


def carry_on(read: ReadTranscript, limits: ModelLimits) -> Draft:
    """Return what the next request of a session is rendered from."""
    shaped = MessageTransformer().transform(read.events)
    repaired = repair_history(shaped.messages, accepts_prefill=limits.supports("prefill"))
    return Draft(
        limits=limits,
        parameters=Parameters(max_tokens=1000),
        system=SystemPrompt(text="\n\n".join(shaped.leading_system)),
        messages=repaired.messages,
        tools=read.tools,
        session_id="recorded",
    )


def judge(provider: str, row: dict[str, Any], registry: ModelRegistry) -> Verdict:
    """Read an accepted request, and return what becomes of it."""
    if "prompt" in row["request"]:
        return Verdict(id=row["id"], kind="template")  # its messages lie at the provider
    limits = own_limits(row, registry) or get_model_limits(STAND_INS[provider])
    transcript = TRANSCRIPTS[provider]
    read = transcript.read(row["request"])
    written = transcript.write(read.events)
    problems: list[str] = []
    if transcript.write(transcript.read(written).events) != written:
        problems.append("identity: written again it differs")
    draft = carry_on(read, limits)
    if not draft.messages:
        return Verdict(id=row["id"], kind="nothing", problems=tuple(problems))
    try:
        payload = PROVIDERS[provider].render(draft)
    except AssemblyError as error:
        problems.append(f"render: {error}")
        return Verdict(id=row["id"], kind="sent", problems=tuple(problems))
    found = PROVIDERS[provider].check_payload(payload, limits=limits)
    problems += [f"rule: {violation}" for violation in found if violation.level == "refused"]
    kind, errors = _type_errors(
        provider,
        payload,
        is_first_party=row["first_party"],
    )
    problems += [f"type: {error}" for error in errors]
    return Verdict(id=row["id"], kind=kind, problems=tuple(problems))


def _type_errors(
    provider: str, payload: dict[str, Any], *, is_first_party: bool
) -> tuple[str, list[str]]:
    """Return which types describe the payload, and where none of them does."""
    errors = find_type_errors(provider, payload)
    if not errors:
        headers = as_object(payload.get("extra_headers"))
        return ("beta" if "anthropic-beta" in headers else "sent"), []
    if provider == "openai_chat" and not is_first_party:
        return "vendor", find_type_errors(provider, payload, allows_vendors=True)
    return "sent", errors


def refusals(provider: str, row: dict[str, Any], registry: ModelRegistry) -> list[str]:
    """Return the rules for which a recorded request is called refused as it stands."""
    found = PROVIDERS[provider].check_payload(
        row["request"], limits=own_limits(row, registry), today=RECORDED_BEFORE
    )
    return [str(violation) for violation in found if violation.level == "refused"]


def main() -> int:
    """Print what became of every recorded request."""
    folder, registry = Path(sys.argv[1]), ModelRegistry()
    failed: list[str] = []
    print("provider | accepted | sent | beta types | other vendors' | templates | nothing to send")
    for name in PROVIDERS:
        rows = list(recorded_rows(folder, f"accepted_{name}.jsonl", name))
        verdicts = [judge(name, row, registry) for row in rows]
        kinds = Counter(verdict.kind for verdict in verdicts)
        told = [str(kinds[k]) for k in ("sent", "beta", "vendor", "template", "nothing")]
        print(" | ".join([name, str(len(rows)), *told]))
        failed += [f"{name} {v.id}: {text}" for v in verdicts for text in v.problems]
        failed += [
            f"{name} {row['id']}: called refused as it stands: {text}"
            for row in rows
            for text in refusals(name, row, registry)
        ]
    print("\nprovider | rejected | flagged by a rule | not flagged, by what the recording calls it")
    for name in PROVIDERS:
        rows = list(recorded_rows(folder, "rejected.jsonl", name))
        missed = [row["category"] for row in rows if not refusals(name, row, registry)]
        causes = ", ".join(f"{cause} {n}" for cause, n in Counter(missed).most_common())
        print(f"{name} | {len(rows)} | {len(rows) - len(missed)} | {causes}")
    print(f"\n{len(failed)} failures", *failed[:40], sep="\n  ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
