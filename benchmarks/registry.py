"""What the model registry costs: the first question, a question asked again, every row at once.

    python -m benchmarks.registry

Nothing compiled is kept on disk, so nothing can be stale: the file is read as text, cut into rows,
and a row is parsed when somebody asks for it.
"""

import platform
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import yaml

from context_assembler.limits import ModelRegistry
from context_assembler.resources import bundled_path

ROUNDS = 15
LIMIT_MS = 20.0
OVERRIDE = "models: {my-4o: {extends: gpt-4o, limits: {window: 64000}}}\n"


def milliseconds(work: Callable[[], object]) -> float:
    """Return the median of several rounds, the first of which warms up."""
    times: list[float] = []
    for _ in range(ROUNDS + 1):
        start = perf_counter()
        work()
        times.append((perf_counter() - start) * 1000)
    return median(times[1:])


def main() -> None:
    text = bundled_path("model_limits.yaml").read_text("utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    known = ModelRegistry(overrides=[])
    with TemporaryDirectory() as folder:
        override = Path(folder) / "mine.yaml"
        override.write_text(OVERRIDE)
        figures = {
            "a fresh registry's first answer": milliseconds(
                lambda: ModelRegistry(overrides=[]).get("openrouter/anthropic/claude-opus-5.5")
            ),
            "the same with an override file": milliseconds(
                lambda: ModelRegistry(overrides=[override]).get("azure/my-4o")
            ),
            "an answer asked for again": milliseconds(lambda: known.get("claude-opus-5-5")),
            "every row, checked": milliseconds(lambda: list(ModelRegistry(overrides=[]).rows())),
            "every row for every host": milliseconds(
                lambda: ModelRegistry(overrides=[]).problems()
            ),
            "PyYAML alone, the whole file": milliseconds(lambda: yaml.load(text, loader)),
        }
    print(f"Python {platform.python_version()}, {loader.__name__}, {len(text):,} characters")
    for name, taken in figures.items():
        print(f"{taken:10.3f} ms  {name}")
    first = figures["a fresh registry's first answer"]
    print(f"The first answer takes {first / LIMIT_MS:.0%} of the {LIMIT_MS:g} ms that it may take.")


if __name__ == "__main__":
    main()
