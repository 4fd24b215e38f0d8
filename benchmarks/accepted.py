"""Recorded requests held against the rules: how many are called refused, as sent and sent again.

    python -m benchmarks.accepted [FOLDER]

FOLDER is the corpus, by default CONTEXT_ASSEMBLER_CORPUS. Each accepted request of the four APIs is
checked as it stands; then it is read as a session, assembled for its own model, and the payload is
checked. Each rejected request is checked as it stands. The exit code is 1 if an accepted request is
called refused, or its session cannot be sent.
"""

import asyncio
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, Final

from benchmarks.data import corpus
from context_assembler import (
    ContextAssembler,
    InMemoryStore,
    ModelLimits,
    ModelRegistry,
    Session,
    UnknownModelError,
    get_model_limits,
    read_transcript,
)
from context_assembler.errors import AssemblyError, EmptySessionError
from context_assembler.providers import PROVIDERS, check_payload

# The recordings were made before the API version that took sampling parameters out.
RECORDED_BEFORE: Final = date(2026, 10, 20)
# What stands in for a model that the registry does not know.
STAND_INS: Final = {
    "anthropic": "claude-opus-5-5",
    "openai_chat": "gpt-4o",
    "openai_responses": "gpt-4o",
    "gemini": "gemini-4-argon",
}
REGISTRY: Final = ModelRegistry()


def recorded(folder: Path, file: str, provider: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file that are the provider's."""
    with (folder / "requests" / file).open(encoding="utf-8") as lines:
        rows = map(json.loads, lines)
        yield from (row for row in rows if row["provider"] == provider.replace("_", "-"))


def own_limits(row: dict[str, Any]) -> ModelLimits | None:
    """Return the limits of the model that was asked; Gemini's URLs name it."""
    in_url = row["url"].partition("/models/")[2].partition(":")[0]
    name = row["request"].get("model") or row.get("response_model") or in_url
    try:
        return REGISTRY.get(f"openrouter/{name}" if "//openrouter.ai/" in row["url"] else name)
    except UnknownModelError:
        return None


def refusals(provider: str, row: dict[str, Any]) -> list[str]:
    """Return the rules for which a recorded request is called refused as it stands."""
    found = check_payload(provider, row["request"], limits=own_limits(row), today=RECORDED_BEFORE)
    return [str(violation) for violation in found if violation.level == "refused"]


async def sent_again(provider: str, row: dict[str, Any]) -> list[str] | None:
    """Return what is wrong with the payload of the request's session; `None`: nothing to send."""
    read = read_transcript(row["request"], format=provider)
    limits = own_limits(row) or get_model_limits(STAND_INS[provider])
    store = InMemoryStore()
    await store.create(Session(id="s"))
    await store.append("s", read.events)
    assembler = ContextAssembler(sessions=store, tools=read.tools)
    try:
        context = await assembler.assemble("s", model=limits.id, on_overflow="shorten")
        payload = context.to_request(provider)
    except EmptySessionError:
        return None
    except AssemblyError as error:
        return [f"{type(error).__name__}: {error}"]
    found = check_payload(provider, payload, limits=limits)
    return [str(violation) for violation in found if violation.level == "refused"]


def main() -> int:
    """Print what became of every recorded request."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else corpus()
    if folder is None:
        print("The corpus is not there: set CONTEXT_ASSEMBLER_CORPUS.")
        return 0
    warnings.simplefilter("ignore")
    failed: list[str] = []
    print("provider | accepted | called refused | sent again | refused then | nothing to send")
    for name in PROVIDERS:
        rows = list(recorded(folder, f"accepted_{name}.jsonl", name))
        flagged = [
            f"{name} {row['id']} as it stands: {r}" for row in rows for r in refusals(name, row)
        ]
        rows = [row for row in rows if "prompt" not in row["request"]]  # kept by the provider
        again = [(row["id"], asyncio.run(sent_again(name, row))) for row in rows]
        wrong = [
            f"{name} {row_id} sent again: {text}" for row_id, found in again for text in found or ()
        ]
        sent = [found for _, found in again if found is not None]
        refused = sum(bool(found) for found in sent)
        print(
            " | ".join(
                map(
                    str, (name, len(rows), len(flagged), len(sent), refused, len(again) - len(sent))
                )
            )
        )
        failed += flagged + wrong
    print("\nprovider | rejected | caught | not caught, by what the recording calls it")
    for name in PROVIDERS:
        rows = list(recorded(folder, "rejected.jsonl", name))
        missed = Counter(row["category"] for row in rows if not refusals(name, row))
        causes = ", ".join(f"{cause} {count}" for cause, count in missed.most_common())
        print(f"{name} | {len(rows)} | {len(rows) - missed.total()} | {causes}")
    print(f"\n{len(failed)} failures", *failed[:40], sep="\n  ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
