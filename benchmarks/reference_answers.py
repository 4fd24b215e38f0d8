"""Answers of an earlier build, computed by that build: what `benchmarks/parity.py` compares with.

    /path/to/earlier/python benchmarks/reference_answers.py CORPUS OUT [--only TEXT] [--part K --parts N]

Runs with the packages of the earlier build (commit 6864c4e), not with the working tree. For every
recorded session and accepted request it writes one JSON file into OUT: the events in the JSON form
that stores keep today, and for each provider × strategy × share of the session's own size the
payload's hash, the report's decisions, the ledger and the counts. Files that exist are kept, so
that the run can be resumed.
"""

import argparse
import asyncio
import dataclasses
import gzip
import hashlib
import json
import sys
import warnings
from datetime import datetime
from pathlib import Path

SHARES = (0.10, 0.25, 0.50, 0.90, 1.00)
STRATEGIES = ("smart", "simple", "sliding")
MODELS = {
    "anthropic": "claude-opus-5-5",
    "openai_chat": "gpt-4.1",
    "openai_responses": "gpt-6.2-sol",
    "gemini": "gemini-4-argon",
}
NAMES = {
    "Text": "text",
    "Image": "image",
    "Document": "document",
    "Thinking": "thinking",
    "ToolCall": "tool_call",
    "ToolResult": "tool_result",
    "Opaque": "opaque",
    "Base64Source": "base64",
    "UrlSource": "url",
    "FileIdSource": "file",
}
ORIGINS = {
    "user": "user",
    "assistant": "model",
    "tool_call": "model",
    "tool_result": "tool",
    "compaction": "assembler",
    "system": "developer",
}


def plain(value):
    """Return a value of the earlier build as JSON in today's form."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if dataclasses.is_dataclass(value):
        made = {"type": NAMES[type(value).__name__]} if type(value).__name__ in NAMES else {}
        for field in dataclasses.fields(value):
            held = getattr(value, field.name)
            default = field.default
            if field.default_factory is not dataclasses.MISSING:
                default = field.default_factory()
            if default is dataclasses.MISSING or held != default:
                made[field.name] = plain(held)
        return made
    if isinstance(value, dict) or hasattr(value, "items"):
        return {str(key): plain(held) for key, held in value.items()}
    return [plain(held) for held in value]


def event_json(event):
    """Return an event as {type, id, created_at, is_pinned, body}."""
    body, parts = event.body, event.parts
    made = {"parts": [plain(part) for part in parts]}
    if event.origin != ORIGINS[event.type]:
        made["origin"] = event.origin
    if getattr(body, "note", None):
        made["note"] = body.note
    if (by := getattr(body, "made_by", None)) is not None:
        made_by = plain(by)
        made_by.pop("token_factor", None)
        if (prefix := made_by.pop("prefix_fingerprint", None)) is not None:
            made_by["prefix"] = prefix
        made["made_by"] = made_by
    if event.type == "compaction":
        made["covers"] = {"first_seq": body.first_seq, "last_seq": body.last_seq}
        if body.excluded_ids:
            made["covers"]["excluded_ids"] = list(body.excluded_ids)
    if event.answers_seq:
        made["answers_seq"] = event.answers_seq
    if event.metadata:
        made["metadata"] = plain(event.metadata)
    return {
        "type": event.type,
        "id": event.id,
        "created_at": plain(event.created_at),
        "is_pinned": event.is_pinned,
        "body": made,
    }


def digest(payload):
    """Return a hash of a payload, its key order included."""
    return hashlib.sha256(
        json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
    ).hexdigest()


async def answer(assembler, counts, **options):
    """Return what one assembly gives, or which error."""
    try:
        context = await assembler.assemble("s", **options)
        payload = context.to_request()
    except Exception as error:
        return {
            "error": type(error).__name__,
            "culprit": str(getattr(error, "culprit", "")),
            "text": str(error)[:300],
        }
    ledger = context.metadata.ledger
    report = context.report
    messages = [e for e in report.entries if e.kind == "message"]
    return {
        "payload": digest(payload),
        "used_tokens": ledger.used_tokens,
        "fixed_tokens": ledger.fixed_tokens,
        "messages": [[m.id, m.kind, m.role] for m in context.messages],
        "decisions": [[e.id, e.decision, e.tokens_before, e.tokens_after, e.rule] for e in messages]
        if counts
        else [
            [e.id, e.decision, e.tokens_before, e.tokens_after, e.rule]
            for e in messages
            if e.decision != "kept"
        ],
    }


async def answers_for(transcript):
    """Return all answers of one session."""
    from context_assembler import ContextAssembler, InMemoryStore, Session

    store = InMemoryStore()
    await store.create(Session(id="s"))
    stored = await store.append("s", transcript.events)
    assembler = ContextAssembler(sessions=store, tools=list(transcript.tools))
    found = {
        "events": [event_json(e) for e in stored],
        "tools": [plain(t) for t in transcript.tools],
    }
    found["answers"] = {}
    for provider, model in MODELS.items():
        whole = await answer(assembler, True, model=model)
        of_provider = found["answers"][provider] = {"whole": whole}
        if "error" in whole:
            continue
        for strategy in STRATEGIES:
            for share in SHARES:
                budget = max(1, int(whole["used_tokens"] * share))
                of_provider[f"{strategy} {share:g}"] = await answer(
                    assembler,
                    False,
                    model=model,
                    max_context_tokens=budget,
                    truncation_strategy=strategy,
                    on_overflow="shorten",
                )
    return found


def sessions_of(folder):
    """Yield (name, transcript) of every recorded session and accepted request, in a fixed order."""
    from context_assembler.errors import TranscriptError
    from context_assembler.transcripts import read_sessions

    files = sorted(
        p
        for p in (folder / "trajectories").rglob("*")
        if p.suffix in {".json", ".jsonl", ".traj"} and p.is_file()
    )
    for path in files:
        try:
            for name, transcript in read_sessions(path.read_text("utf-8", errors="replace")):
                yield f"{path.relative_to(folder)}#{name}", transcript
        except TranscriptError:
            continue
    for provider in MODELS:
        path = folder / "requests" / f"accepted_{provider}.jsonl"
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            try:
                for _, transcript in read_sessions(row["request"]):
                    yield f"{path.name}#{row['id']}", transcript
            except TranscriptError:
                continue


def main():
    """Write the answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=500)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    arguments.out.mkdir(parents=True, exist_ok=True)
    import time

    end = time.monotonic() + arguments.seconds
    made = 0
    for number, (name, transcript) in enumerate(sessions_of(arguments.corpus)):
        if number % arguments.parts != arguments.part or arguments.only not in name:
            continue
        path = arguments.out / f"{hashlib.sha1(name.encode()).hexdigest()[:16]}.json.gz"
        if path.exists():
            continue
        if time.monotonic() > end:
            print("more to do: run again")
            return 2
        found = {"name": name, **asyncio.run(answers_for(transcript))}
        new = path.with_suffix(".new")
        with gzip.open(new, "wt", encoding="utf-8", errors="surrogatepass") as file:
            json.dump(found, file)
        new.rename(path)
        made += 1
    print(f"all done, {made} made in this run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
