"""Fit the weights of the token estimator to tokenizers that count exactly.

    PYTHONPATH=. uv run --no-project --python 3.12 --with numpy --with tiktoken --with ctok==1.3.0 \
        python scripts/fit_estimator.py --write

The texts are what lies on a machine: message catalogues of a hundred languages, manual pages,
sources, documents; and what is made here from a fixed seed: logs, digits, base64. None of them is
kept. OpenAI's counts are exact; Claude's are those of `ctok`, a reconstruction that agrees with
recorded counts of the provider. It is needed here only and is no dependency. Weights of a family
that has no tokenizer here stay as they are.

A quarter of the sources, chosen by a hash of their names, takes no part in the fit; the figures
printed are of that quarter. The same files give the same weights.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from importlib import import_module
from typing import Any, Final, NamedTuple

from context_assembler.tokens.bpe import count_bpe
from context_assembler.tokens.estimate import WEIGHTS_FILE
from scripts.fit_texts import Sample, gather_samples

MOST_PATTERNS: Final = 36  # over all text: each costs about 1 ns per byte
ROUNDS: Final = 12  # of reweighting toward the least absolute error
CLASS_POOL: Final = (
    *("a", "A", "0", "u", "p", "aaa", "aaaaa", "aaaaaaaaa", "aA", "Aa", "AA", "AAA", "AAp", "Aaa"),
    *("na", "pa", "ua", "A0", "p0", "0p", "a0", "0a", "00", "000", "0000", "pp", "ppp", "pppp"),
    *("np", "ap", "ppn", "up"),
)
CLASS_POOL_BLANK: Final = (
    " a",
    " p",
    "n ",
    " 0",
    " A",
    "  ",
    "    ",
    " a ",
    " aa ",
    "p ",
    "nn",
    "n",
)
BYTE_POOL: Final = (
    *(" the ", " of ", " to ", "ing ", "tion", "en ", "er ", "a ", "i ", "o ", "u ", "e ", "s "),
    *("r ", "g ", "d ", "t ", "n ", "y ", " d", " c", " s", " p", " m", " k", " n", "\n ", "qu"),
    *("aa", "ch", "sz", "th", "the", "ou", "ij", "ti", "re", "st", "an", "in", "on", "at", "es"),
    *("or", "it", "is", "al", "ar", "un", "la", "as", "us", "ra", "ri", "ro", "ne", "li", "ge"),
    *("ui", "ie", "ei", "ua", "uj", "ak", "ek", "ik", "ok", "uk", "self", "0x", "0.", '="', '":'),
    *("</", "//", "--", "__", "==", "', '", '", "', ". ", ", ", "e'", "'", "\\", '"', "/", "."),
    *("(", ",", "*", "=", *"abcdefghijklmnoprstuvwxyz"),
)
CLAUDE: Final = {"claude_v3": ("3.0", 7), "claude_v48": ("4.8", 6)}  # ctok's version; its frame


class Table(NamedTuple):
    """Counts of every pattern in every text: one column per feature, named (group, pattern)."""

    features: list[tuple[str, str]]
    counts: Any


def truths(samples: list[Sample]) -> dict[str, list[int]]:
    """Return, by family, the true tokens of each text."""
    counters: dict[str, Callable[[str], int]] = {
        "o200k": partial(count_bpe, encoding="o200k_base"),
        "cl100k": partial(count_bpe, encoding="cl100k_base"),
    }
    for family, (version, frame) in CLAUDE.items():
        counters[family] = partial(_count_claude, version=version, frame=frame)
    return {
        family: [count(sample.text) for sample in samples] for family, count in counters.items()
    }


def _count_claude(text: str, *, version: str, frame: int) -> int:
    counted: int = import_module("ctok").token_count(text, version)
    return counted - frame


def tabulate(samples: list[Sample], content: dict[str, Any]) -> Table:
    """Count the patterns as the estimator does."""
    np: Any = import_module("numpy")

    table = content["classes"].encode("latin-1")
    features = [("class_patterns", p) for p in (*CLASS_POOL, *CLASS_POOL_BLANK)]
    features += [("byte_patterns", p) for p in BYTE_POOL]
    features += [("script_patterns", p) for p in content["script_patterns"]]
    features += [("scripts", script["name"]) for script in content["scripts"]]
    scripts = {script["name"]: script for script in content["scripts"]}
    rows: list[list[int]] = []
    for sample in samples:
        raw = sample.text.encode("utf-8", "surrogatepass")
        is_ascii = sample.text.isascii()
        classes = raw.translate(table, b"" if is_ascii else bytes(range(0x80, 0xC0)))
        row: list[int] = []
        for group, pattern in features:
            where = classes if group in ("class_patterns", "script_patterns") else raw
            if group == "scripts":
                row.append(sum(raw.count(bytes.fromhex(p)) for p in scripts[pattern]["prefixes"]))
            else:
                row.append(where.count(pattern.encode("latin-1")))
        rows.append(row)
    return Table(features, np.array(rows, dtype=float))


def _solve(counts: Any, truth: Any, weight: Any) -> Any:
    """Return the weights of least squared error; a little ridge keeps rare patterns small."""
    np: Any = import_module("numpy")

    scaled = counts * weight[:, None]
    gram = scaled.T @ scaled
    ridge = np.diag(1e-4 * np.diag(gram) + 1e-9)
    return np.linalg.solve(gram + ridge, scaled.T @ (truth * weight))


def choose(table: Table, targets: dict[str, Any], balance: Any) -> list[int]:
    """Return the columns to keep: all of scripts, and of the others what helps most, one by one."""
    kept = [
        i for i, (group, _) in enumerate(table.features) if group.startswith(("script", "every"))
    ]
    pool = [i for i in range(len(table.features)) if i not in kept]
    grams: dict[str, Any] = {}
    for family, truth in targets.items():
        scaled = table.counts * (balance / truth)[:, None]
        grams[family] = (scaled.T @ scaled, scaled.T @ balance, float(balance @ balance))
    kept += [i for i in pool if table.features[i][1] in ("a", "A", "0", "p")]
    while len([i for i in kept if i in pool]) < MOST_PATTERNS:
        rest = [i for i in pool if i not in kept]
        kept.append(min(rest, key=lambda i: _loss([*kept, i], grams)))
    return kept


def _loss(columns: list[int], grams: dict[str, Any]) -> float:
    """Return the squared relative error that these columns leave, over the families."""
    np: Any = import_module("numpy")

    total = 0.0
    for gram, moment, energy in grams.values():
        inner = gram[np.ix_(columns, columns)]
        ridge = np.diag(1e-4 * np.diag(inner) + 1e-9)
        weights = np.linalg.solve(inner + ridge, moment[columns])
        total += (energy - 2 * weights @ moment[columns] + weights @ inner @ weights) / energy
    return total


def fit(counts: Any, truth: Any, balance: Any) -> Any:
    """Return weights of small absolute relative error, by reweighted least squares."""
    np: Any = import_module("numpy")

    emphasis = np.ones(len(truth))
    weights = _solve(counts, truth, balance / truth)
    for _ in range(ROUNDS):
        weights = _solve(counts, truth, balance * emphasis / truth)
        error = np.abs(counts @ weights / truth - 1)
        emphasis = 1 / np.sqrt(np.maximum(error, 0.03))
    return weights


def is_held_out(source: str) -> bool:
    """Whether a source takes no part in the fit."""
    return blake2b(source.encode(), digest_size=1).digest()[0] % 4 == 0


def report(family: str, kinds: list[str], estimates: Any, truth: Any) -> None:
    """Print the error per document and the bias per kind of text."""
    np: Any = import_module("numpy")

    errors = np.abs(estimates / truth - 1)
    print(f"{family}: {len(truth)} texts, mean error {errors.mean():.1%}")
    for kind in sorted(set(kinds)):
        mine = np.array([k == kind for k in kinds])
        bias = estimates[mine].sum() / truth[mine].sum() - 1
        mark = " <--" if abs(bias) > 0.12 else ""
        print(f"  {kind:18} {mine.sum():4} {errors[mine].mean():6.1%} {bias:+7.1%}{mark}")


def report_margins(estimates: Any, truth: Any, kinds: list[str]) -> None:
    """Print by how much 1 in 100 sums of texts is above its estimate, for `estimate.py`."""
    np: Any = import_module("numpy")

    dice = np.random.default_rng(7)
    of_kind = [np.flatnonzero([k == kind for k in kinds]) for kind in sorted(set(kinds))]
    for number in (1, 5, 20, 100):
        mixed = dice.integers(0, len(truth), (4_000, number))
        alike = np.concatenate([dice.choice(rows, (200, number)) for rows in of_kind])
        told = [
            f"{name} {np.quantile(truth[p].sum(1) / estimates[p].sum(1), 0.99) - 1:+.1%}"
            for name, p in (("mixed", mixed), ("of one kind", alike))
        ]
        print(f"  99 of 100 sums of {number:3} texts are at most {', '.join(told)} above")


def main() -> int:
    np: Any = import_module("numpy")

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write weights.json")
    arguments = parser.parse_args()
    content = json.loads(WEIGHTS_FILE.read_text("utf-8"))
    samples = gather_samples()
    table = tabulate(samples, content)
    targets = {name: np.array(rows, dtype=float) for name, rows in truths(samples).items()}
    held = np.array([is_held_out(sample.source) for sample in samples])
    kinds = [sample.kind for sample in samples]
    sizes = {kind: kinds.count(kind) for kind in kinds}
    balance = np.array([sizes[kind] ** -0.25 for kind in kinds])
    train = ~held
    columns = choose(
        Table(table.features, table.counts[train]),
        {name: truth[train] for name, truth in targets.items() if name != "cl100k"},
        balance[train],
    )
    counts = table.counts[:, columns]
    held_kinds = [kind for kind, is_held in zip(kinds, held, strict=True) if is_held]
    for family, truth in targets.items():
        weights = fit(counts[train], truth[train], balance[train])
        estimates, true = counts[held] @ weights, truth[held]
        report(family, held_kinds, estimates, true)
        report_margins(estimates, true, held_kinds)
        found: dict[str, dict[str, float]] = {}
        for column, weight in zip(columns, weights, strict=True):
            group, pattern = table.features[column]
            if abs(weight) >= 0.0005:
                found.setdefault(group, {})[pattern] = round(float(weight), 4)
        content["weights"][family] = found
    if arguments.write:
        WEIGHTS_FILE.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
