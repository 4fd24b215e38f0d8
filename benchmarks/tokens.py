"""Token counters beside tiktoken: exactness, speed, cold start, pathologies, and what a memo saves.

    python -m benchmarks.tokens [--fuzz 10000]

Ratios are of medians over interleaved repeats of one run; absolute times depend on the machine.
"""

import argparse
import base64
import random
import statistics
import string
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from context_assembler.limits import get_model_limits
from context_assembler.tokens import CountOnce, counter_for
from context_assembler.tokens.bpe import count_bpe, open_tiktoken
from context_assembler.tokens.estimate import estimate_text
from context_assembler.tokens.fast_bpe import open_fast
from context_assembler.values.message_counts import count_each
from context_assembler.values.messages import Message
from context_assembler.values.parts import Text

ENCODING = "o200k_base"
REPEATS = 7
SCRIPTS = [
    *((0x20, 0x7E), (0xA0, 0x24F), (0x370, 0x3FF), (0x400, 0x52F), (0x590, 0x6FF)),
    *((0x900, 0xDFF), (0xE00, 0xEFF), (0x10A0, 0x10FF), (0x1200, 0x137F), (0x2000, 0x2BFF)),
    *((0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xD800, 0xDFFF)),
    *((0xE000, 0xFFFF), (0x1F000, 0x1FAFF), (0x20000, 0x2A6DF), (0x1D400, 0x1D7FF)),
]
SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|fim_prefix|>",
    "\r\n",
    "'ll",
    "\u200d",
    "\ufe0f",
    " ",
]


def corpus() -> Iterator[str]:
    """Yield texts that are installed here: sources, documents, message catalogues, data."""
    for folder, pattern in (
        (Path(string.__file__).parent, "*.py"),
        (Path(sys.prefix), "**/*.md"),
        (Path(sys.prefix), "**/*.json"),
        (Path(sys.prefix), "**/licenses/*"),
        (Path("/usr/share/doc"), "**/*.txt"),
        (Path("/usr/share/locale"), "*/LC_MESSAGES/*.mo"),
    ):
        for path in sorted(p for p in folder.glob(pattern) if p.is_file())[:120]:
            yield path.read_bytes()[:200_000].decode("utf-8", "replace")


def fuzz(number: int) -> Iterator[str]:
    dice = random.Random(20261128)
    for _ in range(number):
        size = dice.choice((3, 30, 300, 1_500))
        low, high = dice.choice(SCRIPTS)
        kind = dice.randrange(5)
        if kind == 0:
            yield "".join(chr(dice.randint(low, high)) for _ in range(size))
        elif kind == 1:
            yield "".join(
                dice.choice(SPECIAL) + chr(dice.randint(low, high)) for _ in range(size // 3)
            )
        elif kind == 2:
            yield base64.b64encode(dice.randbytes(size)).decode()
        elif kind == 3:
            yield chr(dice.randint(low, high)) * (size * 20)
        else:
            yield "".join(chr(dice.randint(*dice.choice(SCRIPTS))) for _ in range(size))


def differences(texts: Iterator[str]) -> tuple[int, int, int]:
    """Return how many texts there are, their characters, and how often we count otherwise."""
    theirs = open_tiktoken(ENCODING)
    number = chars = wrong = 0
    for text in texts:
        number, chars = number + 1, chars + len(text)
        wrong += theirs(text) != count_bpe(text, encoding=ENCODING)
    return number, chars, wrong


def medians(calls: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, float]:
    """Return seconds per call: medians over repeats that take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(REPEATS):
        for name, call in calls.items():
            started = time.perf_counter()
            for _ in range(rounds):
                call()
            times[name].append((time.perf_counter() - started) / rounds)
    return {name: statistics.median(spent) for name, spent in times.items()}


def print_exactness(fuzzed: int) -> None:
    print("Exactness against tiktoken's own count")
    for name, texts in (("installed texts", corpus()), ("fuzzed strings", fuzz(fuzzed))):
        number, chars, wrong = differences(texts)
        print(f"  {name:16} {number:6,} texts {chars:12,} chars   {wrong} differences")


def print_speed() -> None:
    print(f"Speed, medians of {REPEATS} repeats in turn; ratios to tiktoken")
    source = Path(statistics.__file__).read_text("utf-8") * 8
    theirs, fast = open_tiktoken(ENCODING), open_fast(ENCODING)
    for size, rounds in ((50, 2_000), (2_000, 100), (200_000, 1)):
        text = source[1_000 : 1_000 + size]
        calls: dict[str, Callable[[], object]] = {
            "tiktoken": partial(theirs, text),
            "ours": partial(count_bpe, text, encoding=ENCODING),
            "estimate": partial(estimate_text, text, family="o200k"),
            "estimate Claude": partial(estimate_text, text, family="claude_v48"),
            "adding its bytes": partial(sum, text.encode()),  # says how busy the machine is
        }
        if fast is not None:
            calls["fast extra"] = partial(fast, text)
        spent = medians(calls, rounds=rounds)
        for name, seconds in spent.items():
            ratio = spent["tiktoken"] / seconds
            print(
                f"  {size:7,} B {name:16} {seconds * 1e6:10.1f} us {size / seconds / 1e6:8.1f} MB/s {ratio:7.1f}x"
            )


def print_cold_start() -> None:
    code = (
        "import time; t = time.perf_counter();"
        "from context_assembler.tokens import bpe; i = time.perf_counter();"
        "{call}; print(i - t, time.perf_counter() - i)"
    )
    print("Cold start: import, then the first count (medians of 5 processes)")
    for name, call in (
        ("as installed", "bpe.count_bpe('a', encoding='o200k_base')"),
        ("tiktoken", "bpe.open_tiktoken('o200k_base')('a')"),
    ):
        rows = [_run(code.replace("{call}", call)) for _ in range(5)]
        first, second = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"  {name:16} import {first:5.2f} s, first count {second:5.2f} s")


def _run(code: str) -> tuple[float, ...]:
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    return tuple(map(float, told.split()))


def print_pathologies() -> None:
    print("Pathologies: 1M and 2M characters, CPU seconds, growth (2 is linear)")
    dice = random.Random(1)
    makers: dict[str, Callable[[int], str]] = {
        "a": lambda n: "a" * n,
        "blanks": lambda n: " " * n,
        "newlines": lambda n: "\n" * n,
        "-": lambda n: "-" * n,
        "^": lambda n: "^" * n,
        "random letters": lambda n: "".join(dice.choices(string.ascii_lowercase, k=n)),
        "Han": lambda n: "".join(map(chr, dice.choices(range(0x4E00, 0x9FA5), k=n))),
        "emoji": lambda n: "".join(map(chr, dice.choices(range(0x1F300, 0x1F650), k=n))),
        "base64": lambda n: base64.b64encode(dice.randbytes(n * 3 // 4)).decode(),
    }
    counters: dict[str, Callable[[str], int]] = {
        "as installed": lambda text: count_bpe(text, encoding=ENCODING),
        "estimate": lambda text: estimate_text(text, family="o200k"),
    }
    for kind, make in makers.items():
        once, twice = make(1_000_000), make(2_000_000)
        for name, count in counters.items():
            spent = [_cpu(count, text) for text in (once, twice)]
            growth = spent[1] / max(spent[0], 1e-4)
            print(f"  {kind:15} {name:13} {spent[0]:6.3f} {spent[1]:6.3f} {growth:5.1f}x")


def _cpu(count: Callable[[str], int], text: str) -> float:
    spent: list[float] = []
    for _ in range(3):
        started = time.process_time()
        count(text)
        spent.append(time.process_time() - started)
    return statistics.median(spent)


def print_memo() -> None:
    print("Counting 1,000 messages of 1.8 KB again")
    counter = counter_for(get_model_limits("gpt-4o"))
    text = Path(statistics.__file__).read_text("utf-8")
    talk = [
        Message(role="user", parts=(Text(f"{number} {text[number : number + 1_800]}"),))
        for number in range(1_000)
    ]
    once = CountOnce(counter)
    new = Message(role="user", parts=(Text("what is new"),))
    first = time.perf_counter()
    count_each(talk, counter)
    first = time.perf_counter() - first
    spent = medians(
        {
            "unchanged": lambda: sum(count_each(talk, once)),
            "unchanged, one by one": lambda: sum(map(once.count_message, talk)),
            "with a new message": lambda: sum(count_each([*talk, replace(new)], once)),
            "reading an attribute": lambda: sum(len(message.role) for message in talk),
        },
        rounds=5,
    )
    print(f"  {'the first time':22} {first * 1e3:9.3f} ms")
    for name, seconds in spent.items():
        print(f"  {name:22} {seconds * 1e3:9.3f} ms, {seconds * 1e6 / len(talk):.3f} us a message")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fuzz", type=int, default=10_000, help="how many strings to make up")
    arguments = parser.parse_args()
    print_exactness(arguments.fuzz)
    print_speed()
    print_cold_start()
    print_pathologies()
    print_memo()
    return 0


if __name__ == "__main__":
    sys.exit(main())
