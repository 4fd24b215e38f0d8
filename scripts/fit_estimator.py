"""Fit the weights of the token estimator to tokenizers that count exactly.

    PYTHONPATH=. uv run --no-project --python 3.12 --with numpy --with tiktoken --with ctok==1.3.0 \
        python scripts/fit_estimator.py --write

The texts are what lies on a machine: message catalogues of a hundred languages, manual pages,
sources, documents; and what is made here from a fixed seed: logs, digits, base64. None of them is
kept. OpenAI's counts are exact; Claude's are those of `ctok`, a reconstruction that agrees with
recorded counts of the provider. It is needed here only and is no dependency. Weights of a family
that has no tokenizer here stay as they are.

A quarter of the sources, chosen by a hash of their names, takes no part in the fit; the figures
printed are of that quarter. The same files give the same weights. Which characters are of one kind
(`pair_kinds`) and which scripts there are is read from weights.json and stays.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from context_assembler.tokens.bpe import count_bpe
from context_assembler.tokens.estimate import PAIR_KINDS, PAIR_STEP, pair_codes, weights_of
from scripts.fit_texts import Sample, gather_samples

WEIGHTS_FILE: Final = Path(__file__).parent.parent / "context_assembler" / "tokens" / "weights.json"
ALWAYS_GROUPS: Final = ("pairs", "script_patterns", "scripts")
MOST_PATTERNS: Final = 8  # over all text, beside these: each costs about 1 ns per byte
MOST_PER_PAIR: Final = 255 * PAIR_STEP
# How strongly weights are drawn to zero: those of pairs more, for there are many.
RIDGES: Final = {"pairs": 1e-3}
OTHER_RIDGE: Final = 1e-4
LEAST_WEIGHT: Final = 0.0005  # what is less is left out
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


def truths(samples: list[Sample]) -> dict[str, list[float]]:
    """Return, by family, the true tokens of each text, without those of what is counted apart."""
    counters: dict[str, Callable[[str], int]] = {
        "o200k": partial(count_bpe, encoding="o200k_base"),
        "cl100k": partial(count_bpe, encoding="cl100k_base"),
    }
    for family, (version, frame) in CLAUDE.items():
        counters[family] = partial(count_claude, version=version, frame=frame)
    return {
        family: [
            max(1, count(sample.text) - weights_of(family).set_apart(sample.text)[1])
            for sample in samples
        ]
        for family, count in counters.items()
    }


def count_claude(text: str, *, version: str, frame: int) -> int:
    """Return what `ctok` counts, without the frame of a message."""
    counted: int = import_module("ctok").token_count(text, version)
    return counted - frame


def tabulate(samples: list[Sample], content: dict[str, Any]) -> Table:
    """Count the pairs and patterns as the estimator does."""
    np: Any = import_module("numpy")

    features = [("pairs", str(code)) for code in range(PAIR_KINDS**2)]
    features += [("class_patterns", p) for p in (*CLASS_POOL, *CLASS_POOL_BLANK)]
    features += [("byte_patterns", p) for p in BYTE_POOL]
    features += [("script_patterns", p) for p in content["script_patterns"]]
    features += [("scripts", script["name"]) for script in content["scripts"]]
    counts = np.array([_count(sample.text, features, content) for sample in samples], dtype=float)
    return Table(features, counts)


def _count(text: str, features: list[tuple[str, str]], content: dict[str, Any]) -> list[int]:
    """Return how often each feature is in the text."""
    prefixes = {script["name"]: script["prefixes"] for script in content["scripts"]}
    raw, _ = weights_of("o200k").set_apart(text)  # what is left is the same for all
    first_bytes = raw.translate(None, bytes(range(0x80, 0xC0)))
    classes = first_bytes.translate(content["classes"].encode("latin-1"))
    kinds = bytes(int(kind, PAIR_KINDS) for kind in content["pair_kinds"])
    pairs = Counter(pair_codes(first_bytes, kinds))
    row: list[int] = []
    for group, pattern in features:
        if group == "pairs":
            row.append(pairs[int(pattern)])
        elif group == "scripts":
            row.append(sum(raw.count(bytes.fromhex(prefix)) for prefix in prefixes[pattern]))
        else:
            where = raw if group == "byte_patterns" else classes
            row.append(where.count(pattern.encode("latin-1")))
    return row


def _gram(features: list[tuple[str, str]], scaled: Any) -> tuple[Any, Any]:
    """Return the columns' products, and what is added to them against large weights."""
    np: Any = import_module("numpy")

    gram = scaled.T @ scaled
    ridges = np.array([RIDGES.get(group, OTHER_RIDGE) for group, _ in features])
    return gram, ridges * np.diag(gram) + 1e-9


def choose(table: Table, targets: dict[str, Any], balance: Any) -> list[int]:
    """Return the columns to keep: all pairs and scripts, and what helps most beside, one by one."""
    np: Any = import_module("numpy")

    kept = [i for i, (group, _) in enumerate(table.features) if group in ALWAYS_GROUPS]
    grams: list[tuple[Any, Any, float]] = []
    for truth in targets.values():
        scaled = table.counts * (balance / truth)[:, None]
        gram, ridge = _gram(table.features, scaled)
        grams.append((gram + np.diag(ridge), scaled.T @ balance, float(balance @ balance)))
    for _ in range(MOST_PATTERNS):
        rest = [i for i in range(len(table.features)) if i not in kept]
        kept.append(min(rest, key=lambda i: _loss([*kept, i], grams)))
    return kept


def _loss(columns: list[int], grams: list[tuple[Any, Any, float]]) -> float:
    """Return the squared relative error that these columns leave, over the families."""
    np: Any = import_module("numpy")

    total = 0.0
    for gram, moment, energy in grams:
        found = np.linalg.solve(gram[np.ix_(columns, columns)], moment[columns])
        total += (energy - found @ moment[columns]) / energy
    return total


def fit(table: Table, truth: Any, balance: Any) -> Any:
    """Return weights of small absolute relative error, by reweighted least squares.

    Those of pairs are what a byte can say: whole steps, none negative. The others are fitted once
    more to what these leave.
    """
    np: Any = import_module("numpy")

    is_pair = np.array([group == "pairs" for group, _ in table.features])
    emphasis, weights = np.ones(len(truth)), np.zeros(len(is_pair))
    for _ in range(ROUNDS):
        weights = _solve_bounded(table, truth, balance * emphasis / truth, is_pair)
        error = np.abs(table.counts @ weights / truth - 1)
        emphasis = 1 / np.sqrt(np.maximum(error, 0.03))
    weights[is_pair] = np.round(weights[is_pair] / PAIR_STEP) * PAIR_STEP
    return _solve(table, truth, balance * emphasis / truth, weights, is_fixed=is_pair)


def _solve_bounded(table: Table, truth: Any, emphasis: Any, is_pair: Any) -> Any:
    """Solve with the pairs in their bounds: what would leave them is held there, the rest again."""
    np: Any = import_module("numpy")

    weights, is_fixed = np.zeros(len(is_pair)), np.zeros(len(is_pair), dtype=bool)
    while True:
        weights = _solve(table, truth, emphasis, weights, is_fixed=is_fixed)
        bounded = np.where(is_pair, np.clip(weights, 0, MOST_PER_PAIR), weights)
        if (bounded == weights).all():
            return weights
        is_fixed |= bounded != weights
        weights = bounded


def _solve(table: Table, truth: Any, emphasis: Any, weights: Any, *, is_fixed: Any) -> Any:
    """Return the weights of least squared error where those that are fixed stay as they are."""
    np: Any = import_module("numpy")

    free = np.flatnonzero(~is_fixed)
    left = truth - table.counts[:, is_fixed] @ weights[is_fixed]
    scaled = table.counts[:, free] * emphasis[:, None]
    gram, ridge = _gram([table.features[i] for i in free], scaled)
    solved = weights.copy()
    solved[free] = np.linalg.solve(gram + np.diag(ridge), scaled.T @ (left * emphasis))
    return solved


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


def spelled(features: list[tuple[str, str]], weights: Any) -> dict[str, Any]:
    """Return a family's weights as weights.json has them: 16 rows of pairs, then the patterns."""
    found: dict[str, Any] = {"pairs": []}
    steps = [
        str(round(float(weight) / PAIR_STEP))
        for (group, _), weight in zip(features, weights, strict=True)
        if group == "pairs"
    ]
    for start in range(0, len(steps), PAIR_KINDS):
        found["pairs"].append(" ".join(steps[start : start + PAIR_KINDS]))
    for (group, pattern), weight in zip(features, weights, strict=True):
        if group != "pairs" and abs(weight) >= LEAST_WEIGHT:
            found.setdefault(group, {})[pattern] = round(float(weight), 4)
    return found


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
    features = [table.features[column] for column in columns]
    counts = table.counts[:, columns]
    held_kinds = [kind for kind, is_held in zip(kinds, held, strict=True) if is_held]
    for family, truth in targets.items():
        weights = fit(Table(features, counts[train]), truth[train], balance[train])
        report(family, held_kinds, counts[held] @ weights, truth[held])
        report_margins(counts[held] @ weights, truth[held], held_kinds)
        content["weights"][family] = spelled(features, weights)
    if arguments.write:
        WEIGHTS_FILE.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
