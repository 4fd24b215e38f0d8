"""One measurement in a process of its own; prints JSON. Times are CPU time in milliseconds.

    python benchmarks/worker.py MEASURE '{"folder": …, "length": …}'

It uses only names that the release before has as well: `--earlier PYTHON` measures that one beside.
"""

import importlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

MODEL, SESSION = "gpt-5.5", "bench"
LARGE_TOKENS = 200_000  # the budget of sessions that no window holds


def cpu() -> float:
    """Return this process's CPU time in milliseconds."""
    return time.process_time() * 1e3


# ---- what is stored before the clock starts ----


def prepare(folder: str, length: int, copies: int = 1, **_: Any) -> Any:
    """Store the session, as it lies after an agent has worked with it."""
    import asyncio

    import context_assembler as ours

    messages = json.loads(Path(folder).parent.joinpath(f"{length}.json").read_text("utf-8"))

    async def store() -> None:
        path = Path(folder) / f"{length}{'' if copies == 1 else f'x{copies}'}.db"
        path.unlink(missing_ok=True)
        assembler: Any = ours.ContextAssembler(sessions=f"sqlite:///{path}")
        events = ours.read_transcript({"messages": messages}, format="openai_chat").events
        for number in range(copies):
            name = SESSION if copies == 1 else f"{SESSION}-{number}"
            await assembler.sessions.create(ours.Session(id=name))
            for start in range(0, len(events), 1_000):
                await assembler.sessions.append(name, events[start : start + 1_000])
            await assembler.assemble(name, model=MODEL, max_context_tokens=LARGE_TOKENS)
        await assembler.close()

    asyncio.run(store())
    return {}


def prepare_index(folder: str, length: int, **_: Any) -> Any:
    """Store the session as `index_trim_load` reads it, and return what it counts."""
    import sqlite3

    import orjson

    from context_assembler import TokenCounter

    messages = json.loads(Path(folder).joinpath(f"{length}.json").read_text("utf-8"))
    text_tokens = TokenCounter(MODEL).count_text

    def count(message: dict[str, Any]) -> int:
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        said = sum(3 + text_tokens(one["name"]) + text_tokens(one["arguments"]) for one in calls)
        return 4 + text_tokens(message.get("content") or "") + said

    rows = [(at, m["role"], count(m), orjson.dumps(_neutral(m))) for at, m in enumerate(messages)]
    path = Path(folder) / f"{length}.index.db"
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(
        "CREATE TABLE messages (session_id TEXT, seq INTEGER, role TEXT, tokens INTEGER,"
        " body BLOB, PRIMARY KEY (session_id, seq)) WITHOUT ROWID"
    )
    db.executemany("INSERT INTO messages VALUES ('s', ?, ?, ?, ?)", rows)
    db.commit()
    db.close()
    return {"tokens": sum(row[2] for row in rows), "messages": len(rows)}


def _neutral(message: dict[str, Any]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if message.get("content") is not None:
        is_result = message["role"] == "tool"
        part = {"type": "tool_result" if is_result else "text", "text": message["content"]}
        parts.append(part | ({"call_id": message["tool_call_id"]} if is_result else {}))
    for call in message.get("tool_calls") or ():
        parts.append({"type": "tool_call", "id": call["id"], **call["function"]})
    return {"role": message["role"], "parts": parts}


# ---- the floor: decide from an index, read what is kept ----


def index_trim_load(path: Path, budget: int) -> Callable[[], list[dict[str, Any]]]:
    """Return the harness's trim of the same name over one open connection."""
    import sqlite3

    import orjson

    db, loads = sqlite3.connect(path), orjson.loads
    index = "SELECT seq, role, tokens FROM messages WHERE session_id='s' ORDER BY seq"
    bodies = "SELECT body FROM messages WHERE session_id='s' AND (seq=0 OR seq>=?) ORDER BY seq"

    def trim() -> list[dict[str, Any]]:
        rows = db.execute(index).fetchall()
        room, cut = budget - rows[0][2] - 3, None
        for seq, role, tokens in reversed(rows):
            room -= tokens
            if room < 0:
                break
            if role == "user":
                cut = seq
        cut = rows[-1][0] if cut is None else cut
        return _to_openai([loads(body) for (body,) in db.execute(bodies, (cut,)).fetchall()])

    return trim


def _to_openai(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for row in rows:
        role, text, calls = row["role"], None, []
        for part in row["parts"]:
            if part["type"] == "text":
                text = part["text"]
            elif part["type"] == "tool_call":
                function = {"name": part["name"], "arguments": part["arguments"]}
                calls.append({"id": part["id"], "type": "function", "function": function})
            else:
                result = {"role": "tool", "tool_call_id": part["call_id"], "content": part["text"]}
                out.append(result)
        if role != "tool":
            out.append({"role": role, "content": text, **({"tool_calls": calls} if calls else {})})
    return out


def floor_ms(base: str, length: int, tokens: int, rounds: int = 7) -> float:
    """Return what `index_trim_load` takes here and now: the unit of all times."""
    trim = index_trim_load(Path(base) / f"{length}.index.db", tokens // 4)
    times = []
    for _ in range(rounds):
        started = cpu()
        trim()
        times.append(cpu() - started)
    return sorted(times)[rounds // 2]


# ---- the measures ----


def first(folder: str, length: int, budget: int, **_: Any) -> Any:
    """Time the first three calls of this process; asyncio is there already, as in a service."""
    import asyncio

    path = _copied(folder, f"{length}.db")

    async def run() -> list[float]:
        times, context = list[float](), None
        assembler = ours.ContextAssembler(sessions=f"sqlite:///{path}")
        for number in range(3):
            if number:
                await _record(assembler, context, _reply(context, number))
            started = cpu() if number else begun
            context = await assembler.assemble(SESSION, model=MODEL, max_context_tokens=budget)
            context.to_request()
            times.append(cpu() - started)
            if not number:
                modules.extend(name for name in sys.modules if name.startswith("context_assembler"))
        return times

    modules: list[str] = []
    begun = cpu()
    import context_assembler as ours

    times = asyncio.run(run())
    return {"first": times[0], "three": sum(times), "modules": len(modules)}


def cold(
    *, folder: str, length: int, budget: int, index: str, quarter: int, rounds: int, **_: Any
) -> Any:
    """Time assemblers that do not know the session, and `index_trim_load`, in turns."""
    import gc

    ours = _ours()
    path = Path(folder) / f"{length}.db"
    floors = {"quarter": quarter, "same": budget}
    trims = {name: index_trim_load(Path(index), tokens) for name, tokens in floors.items()}
    times: dict[str, list[float]] = {name: [] for name in ("ours", *trims)}
    kept = 0
    for _round in range(rounds):
        gc.collect()
        started = cpu()
        assembler = ours.ContextAssembler(sessions=f"sqlite:///{path}")
        context = assembler.assemble_sync(SESSION, model=MODEL, max_context_tokens=budget)
        payload = context.to_request()
        times["ours"].append(cpu() - started)
        kept = len(payload.get("input") or payload.get("messages") or ())
        _closed(assembler)
        for name, trim in trims.items():
            gc.collect()
            started = cpu()
            trim()
            times[name].append(cpu() - started)
    return {**times, "kept": kept, "sent_floor": len(trims["same"]())}


def turns(
    folder: str, length: int, budget: int | None, floor: dict[str, Any], count: int = 200, **_: Any
) -> Any:
    """Play whole turns: assemble, payload, record, one result; time the step in front apart."""
    import asyncio

    ours, path = _ours(), _copied(folder, f"{length}.db")

    async def run() -> Any:
        assembler = ours.ContextAssembler(sessions=f"sqlite:///{path}")
        options = {"model": MODEL} | ({"max_context_tokens": budget} if budget else {})
        steps: list[float] = []
        whole: list[float] = []
        kept: list[int] = []
        for number in range(count + 1):
            started = cpu()
            context = await assembler.assemble(SESSION, **options)
            payload = context.to_request()
            step = cpu() - started
            kept.append(len(payload["input"]))
            reply = _reply(context, number)
            started = cpu()
            await _record(assembler, context, reply)
            steps.append(step)
            whole.append(step + cpu() - started)
        await assembler.close()
        cuts = sum(after < before for before, after in pairwise(kept))
        return {"steps": steps[1:], "turns": whole[1:], "kept": kept[0], "cuts": cuts}

    before = floor_ms(**floor)
    found = asyncio.run(run())
    return {**found, "floor": (before + floor_ms(**floor)) / 2}


def small(folder: str, length: int, floor: dict[str, Any], rounds: int = 25, **_: Any) -> Any:
    """Time new assemblers with ten tools on a small session."""
    ours, times = _ours(), list[float]()
    text = {"type": "string", "description": "An argument."}
    schema = {
        "type": "object",
        "properties": {f"arg_{n}": text for n in range(4)},
        "required": ["arg_0"],
    }
    tools = [
        {"name": f"tool_{n}", "description": "A tool. " * 8, "input_schema": schema}
        for n in range(10)
    ]
    before = floor_ms(**floor)
    for _round in range(rounds):
        started = cpu()
        assembler = ours.ContextAssembler(
            sessions=f"sqlite:///{Path(folder) / f'{length}.db'}", tools=tools
        )
        assembler.assemble_sync(SESSION, model=MODEL).to_request()
        times.append(cpu() - started)
        _closed(assembler)
    return {"times": times[1:], "floor": (before + floor_ms(**floor)) / 2}


def calls(folder: str, length: int, budget: int, **_: Any) -> Any:
    """Count the Python calls of a cold call, all threads and all modules, for each message."""
    import threading

    ours, found = _ours(), 0
    _closed(ours.ContextAssembler(sessions="memory:"))

    def profile(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal found
        found += event == "call"

    threading.setprofile(profile)
    sys.setprofile(profile)
    assembler = ours.ContextAssembler(sessions=f"sqlite:///{Path(folder) / f'{length}.db'}")
    context = assembler.assemble_sync(SESSION, model=MODEL, max_context_tokens=budget)
    context.to_request()
    sys.setprofile(None)
    return {"calls": found, "per_message": found / length}


def memory(folder: str, length: int, budget: int, **_: Any) -> Any:
    """Return resident megabytes above bare Python: after import, and after one call."""
    bare = _resident()
    import context_assembler as ours

    assert callable(ours.ContextAssembler)
    imported = _resident()
    assembler: Any = ours.ContextAssembler(sessions=f"sqlite:///{Path(folder) / f'{length}.db'}")
    context = assembler.assemble_sync(SESSION, model=MODEL, max_context_tokens=budget)
    payload = context.to_request()
    return {"import": imported - bare, "after": _resident() - bare, "sent": len(payload["input"])}


def hundred(folder: str, length: int, floor: dict[str, Any], count: int = 20, **_: Any) -> Any:
    """Play 100 sessions in one loop, each in a task of its own."""
    import asyncio

    ours, path = _ours(), _copied(folder, f"{length}x100.db")
    waits: list[float] = []
    own: list[float] = []

    async def play(assembler: Any, name: str, numbers: range) -> None:
        for number in numbers:
            waited, started = time.perf_counter(), time.thread_time()
            context = await assembler.assemble(name, model=MODEL)
            waits.append((time.perf_counter() - waited) * 1e3)
            context.to_request()
            own.append((time.thread_time() - started) * 1e3)
            await _record(assembler, context, _reply(context, number, name), name)

    async def run() -> float:
        assembler = ours.ContextAssembler(sessions=f"sqlite:///{path}")
        names = [f"{SESSION}-{number}" for number in range(100)]
        for name in names:  # each is known before the clock starts
            await play(assembler, name, range(1))
        waits.clear()
        own.clear()
        started = cpu()
        await asyncio.gather(*(play(assembler, name, range(1, count + 1)) for name in names))
        return cpu() - started

    before = floor_ms(**floor)
    total = asyncio.run(run())
    waits.sort()
    return {
        "turn": total / len(waits),
        "steps": own,
        "p99": waits[int(0.99 * len(waits))],
        "floor": (before + floor_ms(**floor)) / 2,
    }


def fit(folder: str, length: int, budget: int, rounds: int = 7, **_: Any) -> Any:
    """Time `fit_messages` by counter: lists that it has not seen, and the same with an exchange more."""
    from context_assembler import fit_messages

    found: dict[str, list[float]] = {}
    for counter in ("auto", "simple"):
        asked: Any = {"model": MODEL, "max_tokens": budget, "counter": counter}
        for number in range(rounds + 1):
            messages = _changed(folder, length, f"{counter} {number}")
            started = cpu()
            fitted = fit_messages(messages, **asked)
            first = cpu() - started
            messages += _exchange(number)
            started = cpu()
            fit_messages(messages, after=fitted, **asked)
            if number:  # what a first call loads is not measured here
                found.setdefault(counter, []).append(first)
                found.setdefault(f"{counter} after", []).append(cpu() - started)
    return found


def replay(folder: str, length: int, by: str, seeds: int | None = None, **_: Any) -> Any:
    """Return the figures of a contestant over the replayed sessions."""
    assert folder
    sys.path.insert(0, str(Path(__file__).parent.parent))
    return importlib.import_module("benchmarks.replay").pooled(by, seeds, length=length)


# ---- peers: run by a Python that has them ----


def langchain_trim(folder: str, length: int, budget: int, rounds: int = 7, **_: Any) -> Any:
    """Time trimming with `langchain_core`, without the model's tokenizer."""
    trim = importlib.import_module("langchain_core.messages").trim_messages
    asked = {"max_tokens": budget, "token_counter": "approximate", "include_system": True}
    times: list[float] = []
    for number in range(rounds + 1):
        messages = _changed(folder, length, str(number))
        started = cpu()
        trim(messages, strategy="last", start_on="human", end_on=("human", "tool"), **asked)
        times.append(cpu() - started)
    return {"trim": times[1:]}


def langchain_first(folder: str, length: int, budget: int, **_: Any) -> Any:
    """Time importing `langchain_core` and trimming, without the model's tokenizer."""
    import asyncio

    messages = json.loads(Path(folder).joinpath(f"{length}.json").read_text("utf-8"))
    started = cpu()
    langchain = importlib.import_module("langchain_core.messages")

    assert asyncio
    langchain.trim_messages(
        langchain.convert_to_messages(messages),
        max_tokens=budget,
        token_counter="approximate",
        strategy="last",
        start_on="human",
        end_on=("human", "tool"),
        include_system=True,
    )
    return {"first": cpu() - started}


def llmbuffer(folder: str, length: int, budget: int, count: int = 20, **_: Any) -> Any:
    """Time llmbuffer: a manager filled and compacted at once, and then its turns."""
    messages = json.loads(Path(folder).joinpath(f"{length}.json").read_text("utf-8"))
    started = cpu()
    manager = importlib.import_module("llmbuffer").PromptManager(
        static_system_prompt=messages[0]["content"], transition_mode="none", max_tokens=10**9
    )
    for message in messages[1:]:
        manager.append(dict(message))
    manager.compact_for_request(request_budget=budget)
    manager.build_messages()
    whole = [cpu() - started]
    steps: list[float] = []
    for number in range(count):
        started = cpu()
        for message in _exchange(number):
            manager.append(message)
        manager.compact_for_request(request_budget=budget)
        manager.build_messages()
        steps.append(cpu() - started)
    return {"cold": whole[0], "steps": steps}


# ---- helpers ----


def _ours() -> Any:
    import context_assembler as ours

    # What a first call loads is measured by `first`; here it is loaded before the clock starts.
    assembler: Any = ours.ContextAssembler(sessions="memory:")
    _run(assembler.sessions.create(ours.Session(id="other")))
    _run(assembler.sessions.append("other", [ours.user_event("Hello")]))
    assembler.assemble_sync("other", model=MODEL).to_request()
    _closed(assembler)
    return ours


def _changed(folder: str, length: int, said: str) -> list[dict[str, Any]]:
    """Return messages of which every text is another one."""
    messages: list[dict[str, Any]] = json.loads(
        Path(folder).joinpath(f"{length}.json").read_text("utf-8")
    )
    return [
        {**one, "content": f"{one['content']} {said}" if one["content"] else None}
        for one in messages
    ]


def _run(doing: Any) -> Any:
    import asyncio

    return asyncio.run(doing)


def _closed(assembler: Any) -> None:
    _run(assembler.close())


def _copied(folder: str, name: str) -> Path:
    """Return a copy of a stored session that may be written to."""
    copy = Path(tempfile.mkdtemp(prefix="bench-")) / name
    for source in Path(folder).glob(f"{name}*"):
        shutil.copy(source, copy.parent / source.name)
    return copy


def _resident() -> float:
    import gc

    gc.collect()
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    [line] = [one for one in status.read_text().splitlines() if one.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def _exchange(number: int) -> list[dict[str, Any]]:
    function = {"name": "read", "arguments": f'{{"path": "src/{number}.py"}}'}
    call = {"id": f"call_step_{number}", "type": "function", "function": function}
    text = f"def step_{number}() -> None: ...\n" * 40
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": text},
    ]


def _reply(context: Any, number: int, name: str = SESSION) -> dict[str, Any]:
    """Return a reply with one call, whose usage is what was counted."""
    call = _exchange(number)[0]["tool_calls"][0]
    item = {"type": "function_call", "id": f"fc_{name}_{number}", "call_id": call["id"]}
    tokens = context.metadata.ledger.used_tokens
    return {
        "id": f"resp_{name}_{number}",
        "object": "response",
        "status": "completed",
        "model": MODEL,
        "output": [{**item, **call["function"], "status": "completed"}],
        "usage": {"input_tokens": tokens, "output_tokens": 20, "total_tokens": tokens + 20},
    }


async def _record(assembler: Any, context: Any, reply: Any, name: str = SESSION) -> None:
    """Record a reply, and store the result of its call."""
    await assembler.record(name, reply, context)
    call_id = reply["output"][0]["call_id"]
    await assembler.add_tool_result(name, call_id, _exchange(0)[1]["content"])


def main() -> None:
    """Run one measure and print what it found."""
    measure, given = sys.argv[1:]
    print(json.dumps(globals()[measure](**json.loads(given))))


if __name__ == "__main__":
    main()
