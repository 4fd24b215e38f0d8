"""Texts that are far from prose and code, and what the tokenizers make of them."""

import json
import random

_ROWS = [
    {"id": number, "name": f"park {number}", "tags": ["green", "wide"], "at": f"/srv/{number}.md"}
    for number in range(20)
]
_DICE = random.Random(11)

FAR_TEXTS = {
    "panel": ("╭" + "─" * 98 + "╮\n│ Error: file not found" + " " * 76 + "│\n") * 20,
    "table": ("│ alpha    │ 12      │\n└" + "─" * 10 + "┴" + "─" * 9 + "┘\n") * 20,
    "bar": (" 50%|" + "█" * 25 + " " * 25 + "| 50/100 [00:30<00:30, 1.7it/s]\n") * 20,
    "tree": "├── src\n│   ├── main.py\n│   └── tests\n└── README.md\n" * 20,
    "letters": "a" * 1_000,
    "few letters": "aaaa " * 100,
    "rule": ("=" * 80 + "\n" + "-" * 80 + "\n") * 20,
    "dots": "." * 200 + "\n" + "," * 200 + "\n" + "!" * 200,
    "lines": "one\n" + "\n" * 500 + "two" + " " * 500 + "three\n",
    "columns": ",,,,,,1,,,2,,,\n" * 30,
    "colours": "\x1b[32mok\x1b[0m \x1b[1;31mfail\x1b[0m\n" * 40,
    "brackets": "[" * 200 + "]" * 200,
    "arrows": "→" * 1_000,
    "stars": "★" * 500,
    "spinner": "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" * 100,
    "sparks": "▁▂▃▅▂▇ cpu 12% ▁▂▂▃\n" * 20,
    "checks": "✔ ok 1\n✖ bad 2\n" * 30,
    "formulas": "∀x ∈ \u211d, ∃y ≥ x: f(x) ≤ ∑ aᵢ · bᵢ\n" * 20,
    "gene": "".join(_DICE.choices("acgt", k=6_000)),
    "gene of capitals": "\n".join("".join(_DICE.choices("ACGT", k=60)) for _ in range(60)),
    "marks": "".join(_DICE.choices("+-<>[].,", k=2_000)),
    "runes": "".join(chr(_DICE.randrange(0x16A0, 0x16EB)) for _ in range(400)),
    "hieroglyphs": "".join(chr(_DICE.randrange(0x13000, 0x13400)) for _ in range(400)),
    "struck letters": "h\u0337\u0322e\u0338l\u0336l\u0335o\u0334 " * 50,
    "laughter": "ㅋㅋㅋㅋㅋㅋㅋㅋ ㅎㅎㅎㅎㅎㅎ " * 30,
    "JSON in JSON": json.dumps({"content": json.dumps(_ROWS)}),
    "JSON in JSON in JSON": json.dumps({"content": json.dumps({"content": json.dumps(_ROWS)})}),
}
