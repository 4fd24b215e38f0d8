"""Propose changes of model_limits.yaml, from what others say about its models.

    python scripts/refresh_models.py [--from SOURCE ...] [--write FILE]

SOURCE is `anthropic`, `openai` or `google` (their Models API; a key must be set), `litellm` or
`genai-prices` (if installed), or a JSON file of litellm or models.dev. By default every source that is
at hand is read. A field is proposed if no source backs it any more. Nothing is changed: the proposal is
printed, and written to a new file of overrides, in which a comment stands for whatever a person should
look at first.
"""

import argparse
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from math import isclose
from pathlib import Path
from typing import Any, NamedTuple

from context_assembler.models import DEFAULT_REGISTRY, ModelLimits, Price, price_at

Figure = float | str
Figures = dict[str, Figure]
Listings = dict[tuple[str, str], Figures]  # by vendor and id in lower case

# A catalogue with one figure for the prompt means the window or the input limit; nobody can tell.
PROMPT = "limits.prompt"
PRICES = ("input", "output", "cache_read", "cache_write")
FIELDS = (
    *("limits.window", "limits.input", "limits.output"),
    *(f"prices.{name}" for name in PRICES),
    *("status", "retires_on"),
)
PACKAGES = {"litellm": "litellm", "genai-prices": "genai_prices"}
KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "openai": ("OPENAI_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
# As catalogues name the vendor itself, not a cloud that serves its models: clouds keep their own limits
# and dates.
OTHER_NAMES = "gemini=google dashscope=qwen alibaba=qwen moonshotai=moonshot x-ai=xai"
OWN_NAMES = "anthropic deepseek google meta minimax mistral moonshot openai xai zai"
VENDORS = {name: name for name in OWN_NAMES.split()}
VENDORS |= dict(p.split("=") for p in OTHER_NAMES.split())


class Catalogue(NamedTuple):
    """Everything that one source says; `is_vendor` if the vendor of a model says so itself."""

    name: str
    listings: Listings
    about: str = ""
    is_vendor: bool = False


class Change(NamedTuple):
    """A field that no source backs any more, and what most of them say."""

    model: str
    field: str
    previous: Figure | None
    proposed: Figure
    backers: list[str]
    against: list[str]
    reasons: list[str]  # why a person should look at it; none: it may be taken over


def known(figures: Mapping[str, Any]) -> Figures:
    """Return what is really said: a zero, or nothing, is how catalogues say that they do not know."""
    return {
        name: round(value, 6) if isinstance(value, float) else value
        for name, value in figures.items()
        if (isinstance(value, str) and value)
        or (isinstance(value, int | float) and not isinstance(value, bool) and value > 0)
    }


# ---- sources ----


def read_json(path: Path, label: str = "") -> Catalogue:
    """Return the catalogue in a JSON file of litellm or models.dev."""
    content = path.read_bytes()
    entries = {k: v for k, v in json.loads(content).items() if isinstance(v, dict)}
    is_litellm = any("litellm_provider" in entry for entry in entries.values())
    if len(entries) < 50 and is_litellm:
        sys.exit(f"{path} has only {len(entries)} entries: it was cut off.")
    listings = litellm(entries) if is_litellm else models_dev(entries)
    name = label or ("litellm" if is_litellm else "models.dev")
    return Catalogue(name, listings, f"sha256 {sha256(content).hexdigest()}")


def litellm(entries: Mapping[str, Any]) -> Listings:
    found: Listings = {}
    for key, entry in entries.items():
        provider = str(entry.get("litellm_provider"))
        if provider in VENDORS and entry.get("mode") in ("chat", "responses"):
            costs = {
                "prices.input": entry.get("input_cost_per_token"),
                "prices.output": entry.get("output_cost_per_token"),
                "prices.cache_read": entry.get("cache_read_input_token_cost"),
                "prices.cache_write": entry.get("cache_creation_input_token_cost"),
            }
            figures = {
                PROMPT: entry.get("max_input_tokens"),
                "limits.output": entry.get("max_output_tokens"),
                "retires_on": entry.get("deprecation_date"),
                **{name: (cost or 0) * 1_000_000 for name, cost in costs.items()},
            }
            model = key.removeprefix(f"{provider}/").lower()
            found[VENDORS[provider], model] = known(figures)
    return found


def models_dev(entries: Mapping[str, Any]) -> Listings:
    found: Listings = {}
    for provider, entry in entries.items():
        for model, said in entry.get("models", {}).items() if provider in VENDORS else ():
            limit, cost = said.get("limit") or {}, said.get("cost") or {}
            figures = {
                "limits.window": limit.get("context"),
                "limits.input": limit.get("input"),
                "limits.output": limit.get("output"),
                **{f"prices.{name}": cost.get(name) for name in PRICES},
            }
            found[VENDORS[provider], model.lower()] = known(figures)
    return found


def read_package(name: str, today: date) -> Catalogue:
    """Return the catalogue in an installed package, read without running what fetches a newer one."""
    spec = importlib.util.find_spec(PACKAGES[name])
    if spec is None or spec.origin is None:
        raise PackageNotFoundError(name)
    label = f"{name} {version(name)}"
    if name == "litellm":
        file = "model_prices_and_context_window_backup.json"
        return read_json(Path(spec.origin).parent / file, label)
    noon, found = datetime.combine(today, time(12), tzinfo=UTC), Listings()
    for provider in importlib.import_module("genai_prices.data").providers:
        for model in provider.models if provider.id in VENDORS else ():
            prices = model.get_prices(noon) if model.prices else None
            figures: dict[str, Any] = {PROMPT: model.context_window}
            for kind in PRICES:
                price = getattr(prices, f"{kind}_mtok", None)  # longer prompts have tiers
                figures[f"prices.{kind}"] = float(getattr(price, "base", price) or 0)
            found[VENDORS[provider.id], model.id.lower()] = known(figures)
    return Catalogue(label, found)


def ask_anthropic() -> Iterator[tuple[str, dict[str, Any]]]:
    from anthropic import Anthropic

    for model in Anthropic(timeout=30, max_retries=1).models.list(limit=100):
        is_gone = model.lifecycle in ("deprecated", "retired")
        yield (
            model.id,
            {
                PROMPT: model.max_input_tokens,
                "limits.output": model.max_tokens,
                "retires_on": model.retires_at and model.retires_at.date().isoformat(),
                "status": model.lifecycle if is_gone else None,  # rows tell active from legacy
            },
        )


def ask_openai() -> Iterator[tuple[str, dict[str, Any]]]:
    from openai import OpenAI

    for model in OpenAI(timeout=30, max_retries=1).models.list():
        yield model.id, {"retires_on": (getattr(model, "shutdown_date", None) or "")[:10]}


def ask_google() -> Iterator[tuple[str, dict[str, Any]]]:
    from google import genai

    for model in genai.Client(vertexai=False).models.list():  # Vertex AI lists no limits
        figures = {PROMPT: model.input_token_limit, "limits.output": model.output_token_limit}
        yield (model.name or "").removeprefix("models/"), figures


APIS: Mapping[str, Callable[[], Iterator[tuple[str, dict[str, Any]]]]] = {
    "anthropic": ask_anthropic,
    "openai": ask_openai,
    "google": ask_google,
}


def read_source(name: str, today: date) -> Catalogue:
    if name in APIS:
        listings = {(name, model.lower()): known(said) for model, said in APIS[name]()}
        return Catalogue(f"{name} Models API", listings, is_vendor=True)
    return read_package(name, today) if name in PACKAGES else read_json(Path(name))


# ---- the proposal ----


def agree(field: str, theirs: Figure, ours: Figure | None) -> bool:
    if ours is None or isinstance(ours, str) or isinstance(theirs, str):
        return theirs == ours
    is_rounded = field == "limits.window" and theirs % 100_000 == 0
    return isclose(theirs, ours, rel_tol=0.05 if is_rounded else 1e-6)


def propose(row: ModelLimits, catalogues: Sequence[Catalogue], today: date) -> Iterator[Change]:
    """Yield what should change in a row; locked fields stay as they are.

    A row is found by id, API id or alias, and only exactly: an id that is merely like it is another
    model.
    """
    price = price_at(row, today=today) or Price()
    ours: dict[str, Figure | None] = {
        "limits.window": row.window_tokens,
        "limits.input": row.input_tokens,
        "limits.output": row.output_tokens,
        **{f"prices.{name}": getattr(price, name) for name in PRICES},
        "status": row.status,
        "retires_on": row.retires_on.isoformat() if row.retires_on else None,
    }
    claims: dict[str, list[tuple[Catalogue, Figure]]] = {}
    for catalogue in catalogues:
        keys = ((row.provider, name.lower()) for name in (row.id, row.api_id, *row.aliases))
        listed = next((catalogue.listings[key] for key in keys if key in catalogue.listings), {})
        for name, value in listed.items():
            field = name
            if name == PROMPT:
                is_window = row.input_tokens is None or agree(
                    "limits.window", value, row.window_tokens
                )
                field = "limits.window" if is_window else "limits.input"
            claims.setdefault(field, []).append((catalogue, value))
    for field in FIELDS:
        said, previous = claims.get(field, []), ours[field]
        if not said or field in row.locked or any(agree(field, v, previous) for _, v in said):
            continue
        proposed = max((v for _, v in said), key=lambda v: sum(agree("", w, v) for _, w in said))
        backers = [c for c, v in said if agree("", v, proposed)]
        against = [f"{v} says {c.name}" for c, v in said if c not in backers]
        reasons = list(reasons_for_review(field, previous, proposed, backers))
        reasons += ["the sources disagree"] if against else []
        names = [c.name for c in backers]
        yield Change(row.id, field, previous, proposed, names, against, reasons)


def reasons_for_review(
    field: str, previous: Figure | None, proposed: Figure, backers: Sequence[Catalogue]
) -> Iterator[str]:
    if len(backers) < 2 and not backers[0].is_vendor:
        yield "one source only"
    if field in ("status", "retires_on"):
        yield "a lifecycle is never taken over unseen"
    if previous is None:
        yield "the row leaves it open"
    elif not isinstance(previous, str) and not isinstance(proposed, str):
        if field.startswith("limits.") and proposed < previous:
            yield "a limit that shrinks"
        if field.startswith("prices.") and not 0.2 <= proposed / previous <= 5:
            yield "a price that moves more than fivefold"


def override_file(
    changes: Sequence[Change], catalogues: Sequence[Catalogue], today: date
) -> Iterator[str]:
    """Yield the lines of a file in the schema of model_limits.yaml that makes the sure changes.

    Prices are comments always: a list is replaced as a whole, its later rows included.
    """
    yield f"# Proposed on {today}. A field is as it would be taken over; look at the comments first."
    yield "sources:"
    yield from (f"  {json.dumps(c.name)}: {json.dumps(c.about or c.name)}" for c in catalogues)
    yield "models:"
    for model in dict.fromkeys(change.model for change in changes):
        own = [change for change in changes if change.model == model]
        sure = [c for c in own if not c.reasons and c.field.startswith("limits.")]
        yield f"  {'' if sure else '# '}{json.dumps(model)}:"
        yield from (f"    # {describe(change)}" for change in own)
        if sure:
            limits = ", ".join(f"{c.field.removeprefix('limits.')}: {c.proposed}" for c in sure)
            yield f"    limits: {{{limits}}}"
            yield f"    meta: {{checked: {today}}}"


def describe(change: Change) -> str:
    verdict = f"review ({', '.join(change.reasons)})" if change.reasons else "auto"
    against = f"; but {'; '.join(change.against)}" if change.against else ""
    figures = f"{change.previous} → {change.proposed}"
    return f"{change.field}: {figures}, by {', '.join(change.backers)}{against}; {verdict}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--from", dest="sources", action="append", metavar="SOURCE")
    parser.add_argument("--write", type=Path, metavar="FILE")
    given = parser.parse_args()
    today = datetime.now(UTC).date()
    at_hand = [vendor for vendor, keys in KEYS.items() if any(map(os.environ.get, keys))]
    catalogues: list[Catalogue] = []
    for name in given.sources or (*at_hand, *PACKAGES):
        try:
            catalogues.append(read_source(name, today))
        except (OSError, ValueError, ImportError) as error:
            print(f"{name} was left out: {error}", file=sys.stderr)
    if not catalogues:
        sys.exit("There is nothing to compare with: see --help.")
    rows = list(DEFAULT_REGISTRY.rows())
    changes = [change for row in rows for change in propose(row, catalogues, today)]
    for change in changes:
        print(f"{change.model} {describe(change)}")
    names = {name.lower() for row in rows for name in (row.id, row.api_id, *row.aliases)}
    for catalogue in catalogues:
        new = [m for _, m in catalogue.listings if m not in names] if catalogue.is_vendor else []
        if new:
            print(f"{catalogue.name} lists {len(new)} unknown models: {', '.join(new[:12])}")
    if given.write is not None:
        lines = "\n".join(override_file(changes, catalogues, today)) + "\n"
        with given.write.open("x", encoding="utf-8") as file:
            file.write(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
