"""The inspector's pages: sessions and their windows, memory, instructions; and one page in one file."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from context_assembler.assembler import ContextAssembler
from context_assembler.context import Ledger
from context_assembler.errors import AssemblyError
from context_assembler.events import TOOL_RESULT, USER, Json, is_list
from context_assembler.forecast import Simulation
from context_assembler.history.secrets import mask
from context_assembler.providers import PROVIDERS
from context_assembler.server.steps import (
    POLICIES,
    Made,
    SessionSteps,
    Step,
    without_secrets,
)

FOLDER: Final = Path(__file__).parent / "pages"
_MOST_COLUMNS: Final = 120
_MOST_ROWS_IN_A_FILE: Final = 50_000
_KINDS: Final = ("system", "tools", "overhead", "history", "notes")
_POLICY: Final = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'self'"
HEADERS: Final = {
    "Content-Security-Policy": f"{_POLICY}; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


_FILTERS: Final[Mapping[str, Callable[[Any], str]]] = {
    "n": "{:,}".format,
    "usd": lambda price: "unknown" if price is None else f"${price:,.4f}",
    "safe_text": lambda text: mask(str(text))[0],
}
_SHARES: Final[Mapping[str, Callable[[Any, Any], str]]] = {
    "share": lambda part, whole: f"{part / (whole or 1):.1%}",
    "at": lambda part, whole: f"{100 * part / (whole or 1):.3f}%",
}


@cache
def _templates() -> Environment:
    form: Any = {"trim_blocks": True, "lstrip_blocks": True, "undefined": StrictUndefined}
    made = Environment(loader=FileSystemLoader(FOLDER), autoescape=True, **form)
    known: Any = made.filters  # whose own have types that ours do not
    known |= {**_FILTERS, **_SHARES}
    return made


def page(name: str, **given: Any) -> str:
    """Return a page, or a part of one, as HTML; whatever is given is escaped."""
    return (
        _templates().get_template(f"{name}.html").render({"file": None, "numbers": None, **given})
    )


# ---- one step ----


def step_page(steps: SessionSteps, step: Step, made: Made | AssemblyError) -> dict[str, Json]:
    """Return a step's window as HTML, and the rows of its report; or why it cannot be made.

    A row is `[kind, event or name, decision, tokens before, tokens after, why]`; `why` is an index
    into `whys`.
    """
    if not isinstance(made, Made):
        problem = mask(f"This step cannot be made. {made}")[0]
        html = str(Markup('<section><p class="problem">{}</p></section>').format(problem))
        return {"html": html, "number": step.number, "problem": problem, "rows": [], "whys": []}
    context, report, ledger = made.context, made.context.report, made.context.metadata.ledger
    whys: dict[tuple[str, str], int] = {}
    rows: list[list[Json]] = []
    for one in report.entries:
        name = steps.ids.get(one.id, one.id) if one.kind == "message" else mask(one.id)[0]
        why = whys.setdefault((one.rule, one.reason), len(whys))
        rows.append([one.kind, name, one.decision, one.tokens_before, one.tokens_after, why])
    columns, sent = _exchanges(rows, steps.kinds), context.sent().row
    html = page("step", made=made, ledger=ledger, window=_window(ledger), columns=columns)
    return {
        "html": html,
        "number": step.number,
        "rows": rows,
        "whys": [[rule, mask(reason)[0]] for rule, reason in whys],
        "head": [sent.provider, sent.model, sent.system_hash, sent.tools_hash],
        "fixed": ledger.fixed_tokens,
        "used": ledger.used_tokens,
        "budget": ledger.budget_tokens,
        "usd": report.forecast and report.forecast.price.usd,
        "provider": context.provider,
    }


def _window(ledger: Ledger) -> list[tuple[str, int, int]]:
    """Return the parts of the whole window as `(kind, start, tokens)`."""
    sizes = {kind: ledger.tokens_of(kind) for kind in _KINDS}
    sizes["free"] = max(0, ledger.free_tokens)
    used = sum(sizes.values())
    reserve = min(ledger.reserve_tokens, max(0, ledger.window_tokens - used))
    sizes["beyond"] = max(0, ledger.window_tokens - used - reserve)
    sizes["reserve"] = reserve
    starts = accumulate(sizes.values(), initial=0)
    return [
        (kind, at, size) for (kind, size), at in zip(sizes.items(), starts, strict=False) if size
    ]


def _exchanges(rows: Iterable[Sequence[Any]], kinds: Sequence[int]) -> list[dict[str, Any]]:
    """Return the history in columns: one for each exchange, or for several if there are too many."""
    messages: list[Any] = [row for row in rows if row[0] == "message" and isinstance(row[1], int)]
    numbers = [*accumulate(int(kinds[int(row[1]) - 1] != TOOL_RESULT) for row in messages)]
    several = -(-numbers[-1] // _MOST_COLUMNS) if messages else 1
    columns: dict[int, dict[str, Any]] = {}
    for number, (_, seq, decision, before, after, _) in zip(numbers, messages, strict=True):
        empty = {"first": seq, "before": 0, "after": 0, "turn": False, "short": False}
        one = columns.setdefault((number - 1) // several, empty)
        one["last"], one["name"] = seq, f"events {one['first']:,}–{seq:,}"
        one["before"] += before
        one["after"] += after
        one["turn"] |= kinds[seq - 1] == USER
        one["short"] |= decision == "shortened"
    return [*columns.values()]


# ---- costs ----


def costs_part(simulation: Simulation) -> str:
    """Return what the steps would have cost under each policy, as a chart and a table."""
    runs = {"everything, never cut": simulation.everything}
    runs |= dict(zip(POLICIES, simulation.runs, strict=True))
    is_priced = all(run.usd is not None for run in simulation.runs)
    sums: dict[str, list[float]] = {}
    for name, run in runs.items():
        prices = (step.forecast.price.usd if step.forecast else 0 for step in run.steps)
        each = prices if is_priced else (step.tokens for step in run.steps)
        sums[name] = [*accumulate(one or 0 for one in each)]
    most = max((one[-1] for one in sums.values() if one), default=0) or 1
    lines = {name: _points(one, most) for name, one in sums.items()}
    given: Any = {"runs": runs, "is_priced": is_priced, "most": most, "lines": lines}
    return page("costs", simulation=simulation, **given)


def _points(sums: Sequence[float], most: float) -> str:
    """Return the points of a line, no more of them than the eye can tell apart."""
    width = max(1, len(sums) - 1)
    kept = [*range(0, width, -(-width // _MOST_COLUMNS)), width]
    points = [(at, sums[min(at, len(sums) - 1)]) for at in kept] if sums else []
    return " ".join(f"{1000 * at / width:.1f},{300 - 300 * y / most:.1f}" for at, y in points)


# ---- one page in one file ----


def session_page(
    assembler: ContextAssembler, steps: SessionSteps, shown: Mapping[str, Json], **given: Any
) -> str:
    """Return the page of a session, with one step shown."""
    return page(
        "session",
        head=steps.head,
        step=shown,
        count=len(steps.all),
        labels=steps.labels,
        providers=list(PROVIDERS),
        models=sorted(assembler.registry.ids()),
        **given,
    )


async def session_file(assembler: ContextAssembler, session_id: str, **options: Any) -> str:
    """Return the page of a session that needs nothing else: neither a server nor a network.

    It holds every step of a short session; of a long one as many, evenly spread, as a browser
    opens with ease. The payloads of all providers are in it.
    """
    steps = SessionSteps(assembler, session_id)
    count = len(steps.all)
    most = max(8, _MOST_ROWS_IN_A_FILE // max(1, steps.head.last_seq))
    stride = -(-count // most)
    pool: dict[str, int] = {}
    held, payloads = list[dict[str, Json]](), dict[int, dict[str, Json]]()
    for step in steps.all:
        if (count - step.number) % stride == 0:
            made, number = steps.make(step, **options), step.number
            held.append(step_page(steps, step, made))
            payloads[number] = {name: _pooled(payload_of(made, name), pool) for name in PROVIDERS}
    costs = costs_part(await steps.costs(**options))
    styles, script = ((FOLDER / f"inspector.{end}").read_text() for end in ("css", "js"))
    hashes = (b64encode(sha256(text.encode()).digest()).decode() for text in (script, styles))
    policy = "{}; script-src 'sha256-{}'; style-src 'sha256-{}'".format(_POLICY, *hashes)
    file = {
        "policy": policy,
        "styles": styles,
        "script": script,
        "steps": held,
        "payloads": payloads,
        "pool": [without_secrets(json.loads(text)) for text in pool],
    }
    numbers = [one["number"] for one in held]
    return session_page(assembler, steps, held[-1], file=file, costs=costs, numbers=numbers)


def json_text(value: Json) -> str:
    """Return JSON; bytes of pictures are written as base64."""
    return json.dumps(value, ensure_ascii=False, default=lambda held: b64encode(held).decode())


def payload_of(made: Made | AssemblyError, provider: str) -> dict[str, Json]:
    """Return the payload of a step for a provider; `error`: there is none."""
    try:
        if isinstance(made, AssemblyError):
            raise made
        return made.context.to_request(provider)
    except AssemblyError as error:
        return {"error": str(error)}


def _pooled(payload: Mapping[str, Json], pool: dict[str, int]) -> dict[str, Json]:
    """Return a payload whose values, and whose messages, are numbers of texts in a pool."""

    def number(value: Json) -> int:
        return pool.setdefault(json_text(value), len(pool))

    return {
        key: [number(one) for one in held] if is_list(held) else number(held)
        for key, held in payload.items()
    }
