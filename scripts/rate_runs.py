"""Rate what the estimator counts apart: runs, symbols and far scripts, per tokenizer family.

    PYTHONPATH=. uv run --no-project --python 3.12 --with tiktoken --with ctok==1.3.0 \
        python scripts/rate_runs.py --write [--with tokenizers, and --gemma tokenizer.json]

The counts are OpenAI's own vocabularies', those of `ctok` for Claude (see fit_estimator.py), and
those of Gemma 3 where its tokenizer.json is given; the rates of a family without a tokenizer here
stay as they are. Which characters are of which kind (`symbols`), and which are rated in runs, is
read from set_apart.json and stays.
"""

import argparse
import json
import random
import re
import string
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final

from context_assembler.tokens.bpe import count_bpe
from scripts.fit_estimator import CLAUDE, count_claude

Count = Callable[[str], int]

RATES_FILE: Final = Path(__file__).parent.parent / "context_assembler" / "tokens" / "set_apart.json"

# What rates are rounded up to, so that few rows hold them all; a little above one is that one.
STEPS: Final = (
    *(0.01, 0.015, 0.02, 0.03, 0.05, 0.06, 0.08, 0.1, 0.13, 0.17, 0.2, 0.25, 0.34, 0.5, 0.67),
    *(1, 1.5, 2, 2.5, 3, 4),
)
BLANK_LENGTHS: Final = (40, 60, 80, 200)
MARK_LENGTHS: Final = (10, 20, 30, 40, 60, 72, 80)
LENGTHS: Final = (6, 8, 20, 40, 80)

SPACED: Final = ("wide use", "dingbats", "mathematics and arrows", "far symbols")
# Claude's service seems to leave these out; still, one is sent.
# Of these scripts no text was counted for it: they cost what they cost by o200k. Gemma knows two.
_UNCOUNTED: Final = {
    "Lao": 1.98,
    "Ethiopic": 2.07,
    "Syriac, Thaana, N'Ko": 2.0,
    "conjoining Hangul": 2.98,
    "far Han": 2.97,
}
GIVEN: Final = {
    "claude_v3": {"private use": 1.0, **_UNCOUNTED},
    "claude_v48": {"private use": 1.0, **_UNCOUNTED},
    "gemma3": {**_UNCOUNTED, "Lao": 0.6, "Ethiopic": 0.9},
}
MOST_PER_KIND: Final = 1_500
RUN_CHARS: Final = 3_000
JOINED_WORDS: Final = (
    "съешьещёэтихмягкихфранцузскихбулокдавыпейчаюпогодасегоднясовсемнеплохаядляпрогулкипопарку"
)


def counters(gemma: Path | None) -> dict[str, Count]:
    """Return, by family, what counts exactly."""
    found: dict[str, Count] = {
        "o200k": partial(count_bpe, encoding="o200k_base"),
        "cl100k": partial(count_bpe, encoding="cl100k_base"),
    }
    for family, (version, frame) in CLAUDE.items():
        found[family] = partial(count_claude, version=version, frame=frame)
    if gemma is not None:
        tokenizer = import_module("tokenizers").Tokenizer.from_file(str(gemma))
        found["gemma3"] = lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
    return found


def rate_repeats(count: Count, character: str) -> float:
    """Return the tokens of each further one in a run, rounded up to a step."""
    alone = count(f"x{character}y")
    if character in string.punctuation:
        rates = [_more(count, character, n, alone) / (n - 1) for n in MARK_LENGTHS]
        rate = sum(rates) / len(rates)
    else:
        lengths = BLANK_LENGTHS if character in " \n\t\r" else LENGTHS
        more = sum(_more(count, character, n, alone) for n in lengths)
        rate = more / sum(n - 1 for n in lengths)
    step = next((step for step in STEPS if rate <= step * 1.04 + 0.002), STEPS[-1])
    return min(step, len(character.encode()))


def _more(count: Count, character: str, number: int, alone: int) -> int:
    return count(f"x{character * number}y") - alone


def rate_symbols(count: Count, kinds: Mapping[str, str]) -> dict[str, float]:
    """Return the mean tokens of a symbol of each kind."""
    rates: dict[str, float] = {}
    for name, characters in _members(kinds):
        each = [_rate_symbol(count, one, is_spaced=name in SPACED) for one in characters]
        rates[name] = round(sum(each) / len(each), 2)
    return rates


def _members(kinds: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    seen: set[str] = set()
    for name, characters in kinds.items():
        pattern = re.compile(f"[{characters}]")
        mine = [
            one
            for one in map(chr, range(0x250, 0x20000))
            if pattern.match(one) and unicodedata.category(one) not in ("Cn", "Cs")
        ]
        yield name, [one for one in mine if one not in seen][:MOST_PER_KIND]
        seen |= set(mine)


def _rate_symbol(count: Count, symbol: str, *, is_spaced: bool) -> float:
    rate: float = count(f"x{symbol}y") - count("x") - count("y")
    if is_spaced:  # a blank before it is a token then, as often as not
        rate = (rate + count(f"x {symbol} y") - count("x y")) / 2
    return min(len(symbol.encode()), max(0.0, rate))


def rate_unbroken(count: Count) -> dict[str, float]:
    dice = random.Random(1)
    genes = "".join(dice.choices("acgt", k=RUN_CHARS))
    letters = "".join(dice.choices([chr(code) for code in range(0x430, 0x450)], k=RUN_CHARS))
    marks = "".join(dice.choices(string.punctuation, k=RUN_CHARS))
    joined = JOINED_WORDS * 5
    return {
        "lower": round(count(genes) / RUN_CHARS, 2),
        "upper": round(count(genes.upper()) / RUN_CHARS, 2),
        "Cyrillic": round((count(letters) / RUN_CHARS + count(joined) / len(joined)) / 2, 2),
        "marks": round(count(marks) / RUN_CHARS, 2),
    }


def rate_escape(count: Count) -> float:
    """Return the tokens of a backslash in JSON that is a string of JSON, twice over."""
    rows = [
        {
            "id": number,
            "name": f"park {number}",
            "tags": ["green", "wide"],
            "meta": {"ok": True, "path": f"/usr/lib/x{number}.py", "msg": 'He said "hi"\n'},
        }
        for number in range(20)
    ]
    plain = json.dumps(rows)
    told = json.dumps({"content": json.dumps({"content": plain})})
    return round(min(1.0, (count(told) - count(plain)) / (len(told) - len(plain))), 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gemma", type=Path, help="Gemma 3's tokenizer.json")
    parser.add_argument("--write", action="store_true", help="write set_apart.json")
    arguments = parser.parse_args()
    content = json.loads(RATES_FILE.read_text("utf-8"))
    known = content["rates"]["o200k"]["repeated"]
    characters = sorted({one for these in known.values() for one in these})
    for family, count in counters(arguments.gemma).items():
        repeated: defaultdict[float, str] = defaultdict(str)
        for one in characters:
            repeated[rate_repeats(count, one)] += one
        content["rates"][family] = {
            "escape": rate_escape(count),
            "repeated": {str(rate): these for rate, these in sorted(repeated.items())},
            "symbols": rate_symbols(count, content["symbols"]) | GIVEN.get(family, {}),
            "unbroken": rate_unbroken(count),
        }
        print(family, {k: v for k, v in content["rates"][family].items() if k != "repeated"})
    if arguments.write:
        RATES_FILE.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
