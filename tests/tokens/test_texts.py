"""Counts of text: exact over OpenAI's vocabularies, estimated for others."""

import base64
import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest
import tiktoken
from hypothesis import example, given, settings
from hypothesis import strategies as st

from context_assembler.models import get_model_limits
from context_assembler.tokens import TokenCounter, estimate_tokens, truncate_to_tokens
from context_assembler.tokens.bpe import PATTERNS, Vocabulary, count_bpe, read_ranks
from context_assembler.tokens.estimate import estimate_text

# The SHA-256 that tiktoken pins for the canonical files.
# Source: tiktoken 0.14.0, tiktoken_ext/openai_public.py, read 2026-11-27
CANONICAL_SHA256 = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
REFERENCE = {
    name: tiktoken.Encoding(
        f"reference {name}",
        pat_str=PATTERNS[name],
        mergeable_ranks=read_ranks(name),
        special_tokens={"<|endoftext|>": 300_000},
    )
    for name in CANONICAL_SHA256
}
every_encoding = pytest.mark.parametrize("encoding", CANONICAL_SHA256)
CORPUS = Path(os.environ.get("CONTEXT_ASSEMBLER_CORPUS", Path(__file__).parents[3] / "shared/data"))

# A text of each kind, and its estimates by family.
TEXTS = {
    "English": "The weather is fine today, so let us take a walk in the park.\n" * 30,
    "Cyrillic": "Сегодня хорошая погода, давайте прогуляемся по парку вечером.\n" * 30,
    "Chinese": "今天天气很好\uff0c我们去公园散步吧。" * 100,
    "Arabic": "الطقس جميل اليوم، فلنذهب في نزهة في الحديقة. " * 40,
    "JSON": '{"id": 17, "name": "park", "open": true, "tags": ["green", "wide"]}\n' * 30,
    "digits": "1727465 9384756 2837465 9182736 5564738\n" * 40,
    "base64": base64.b64encode(random.Random(5).randbytes(3_000)).decode(),
    "emoji": "Great work 🎉! Ship it 🚀 and thanks 🙏 everyone 👩‍💻👍🏽\n" * 30,
    "frame": ("╭" + "─" * 98 + "╮\n│ Error: file not found" + " " * 76 + "│\n") * 20,
    "letters": "a" * 1_000 + "acgtgcatgcatcgatcgatgcatcgatcgatgcat" * 20,
    "rules": ("=" * 80 + "\n" + "-" * 80 + "\n,,,,,,1,,,2,,,\n") * 20,
    "symbols": "✔ ok → ∀x ∈ \u211d ⠋⠙⠹ ▁▂▃▅ ກຂ ᚠᚢᚦ\n" * 30,
    "long": "The weather is fine today. 今天天气很好。\n" * 4_000,
}
ESTIMATES = """
          o200k cl100k gemma3 claude_v3 claude_v48
English     480    480    539       520        629
Cyrillic    591    892    396       857        900
Chinese    1139   1566   1070      1649       1640
Arabic      604   1255    574      1211       1218
JSON        798    775    876       844        987
digits      825    827   1600       764        843
base64     2750   2875   2760      3347       3812
emoji       741    825    831       985       1196
frame       359    521    456       898        916
letters     509    516    494       744       1468
rules       391    344    403       360        683
symbols    1168   1264   1136      1363       1447
long      49529  58052  42090     59518      65764
"""
FAMILIES, *FITTED = (line.split() for line in ESTIMATES.strip().splitlines())
# What a request of one sentence costs, by the tokenizers of Claude's older and newer models.
SHORT_FOR_CLAUDE = {"What is 4200 + 42?": (10, 10), '{"city":"Paris","days":3}': (9, 13)}
awkward = st.text(
    st.sampled_from("aAbB1\uff12² \n\t\r\x1c\x85'’s\u017fSLl字ªé\u0301.<|>/-_=\\\u00a0🙂")
)


def exact(text: str, encoding: str) -> int:
    return len(REFERENCE[encoding].encode_ordinary(text))


# ---- exact ----


@every_encoding
def test_the_vocabulary_is_the_canonical_file(encoding: str) -> None:
    ranks = read_ranks(encoding)
    lines = (b"%b %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items())

    assert list(ranks.values()) == list(range(len(ranks)))
    assert hashlib.sha256(b"".join(lines)).hexdigest() == CANONICAL_SHA256[encoding]


@every_encoding
@given(text=st.text(st.characters(), max_size=200) | awkward)
@example(text="<|endoftext|> '\u017f 'S 'LL don'\u017f \u212a")
@example(text="a\ud800b \ud83d\ude42")
@example(text="\u0378 is assigned to no character")
@settings(max_examples=250, deadline=None)
def test_any_text_counts_as_tiktoken_counts_it(encoding: str, text: str) -> None:
    assert count_bpe(text, encoding=encoding) == exact(text, encoding)


@every_encoding
def test_characters_of_every_script_split_as_tiktoken_splits_them(encoding: str) -> None:
    known = [c for c in map(chr, range(0, 0x30000, 131)) if category(c) not in ("Cn", "Cs")]
    texts = [f"a{c}b {c}{c} A{c}\n'{c} 1{c}2  {c} x{c}'s{c}" for c in known]
    vocabulary = Vocabulary(encoding)

    assert [vocabulary.count(t) for t in texts] == [exact(t, encoding) for t in texts]


PATHOLOGICAL = {
    "blanks": (" " * 1_000_000, 7_813),
    "one letter": ("a" * 1_000_000, 125_000),
    "Han": ("中" * 100_000, 100_000),
}


@pytest.mark.parametrize(("text", "tokens"), PATHOLOGICAL.values(), ids=PATHOLOGICAL.keys())
def test_a_text_without_places_to_cut_neither_stalls_nor_panics(text: str, tokens: int) -> None:
    assert tokens <= count_bpe(text, encoding="o200k_base") <= tokens * 1.001


@every_encoding
def test_who_counts_much_gets_the_same_counts(encoding: str) -> None:
    bulk = Vocabulary(encoding, bulk_above_chars=0)

    for text in ["\u0378 is assigned to no character", *TEXTS.values()]:
        assert bulk.count(text) == count_bpe(text, encoding=encoding)


def test_a_first_count_loads_no_tokenizer_library() -> None:
    heavy = {"tiktoken", "regex", "asyncio", "yaml", "pydantic"}
    code = (
        "import sys; from context_assembler.tokens import TokenCounter;"
        "print(TokenCounter('gpt-6-sol').count_text('Hello, naïve world'),"
        "TokenCounter('claude-opus-5-5').count_text('Hello, naïve world'),"
        f"{heavy!r} & set(sys.modules))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split(" ", 2)[2].strip() == "set()"


@pytest.mark.recorded
def test_recorded_texts_count_as_tiktoken_counts_them() -> None:
    files = sorted((CORPUS / "instructions").glob("*/*.md"))[:40]
    if not files:
        pytest.skip(f"the recorded corpus is not at {CORPUS} (CONTEXT_ASSEMBLER_CORPUS)")

    for text in (file.read_text("utf-8", "replace") for file in files):
        assert count_bpe(text, encoding="o200k_base") == exact(text, "o200k_base")


# ---- estimated ----


@pytest.mark.parametrize("row", FITTED, ids=lambda row: row[0])
def test_the_estimate_is_the_fitted_one(row: list[str]) -> None:
    name, *expected = row

    assert [estimate_text(TEXTS[name], family=f) for f in FAMILIES] == list(map(int, expected))


@pytest.mark.parametrize("name", sorted(TEXTS.keys() - {"emoji", "rules", "symbols"}))
def test_the_estimate_is_within_a_quarter_of_the_exact_count(name: str) -> None:
    text = TEXTS[name]
    exactly = count_bpe(text, encoding="o200k_base")

    assert estimate_text(text, family="o200k") == pytest.approx(exactly, rel=0.25)


@pytest.mark.parametrize(("text", "tokens"), SHORT_FOR_CLAUDE.items())
def test_a_short_request_to_claude_is_counted_to_a_token(
    text: str, tokens: tuple[int, int]
) -> None:
    found = [estimate_text(text, family=family) for family in ("claude_v3", "claude_v48")]

    assert found == pytest.approx(tokens, abs=1)


@given(text=st.text(st.characters(), max_size=300) | awkward, family=st.sampled_from(FAMILIES))
@settings(max_examples=150, deadline=None)
def test_any_text_has_an_estimate_of_no_more_than_its_bytes(text: str, family: str) -> None:
    found = estimate_text(text, family=family)

    assert bool(text) <= found <= len(text.encode("utf-8", "surrogatepass"))


@given(
    character=st.characters(exclude_categories=["Cs", "Nd", "Zs", "Cc"]),
    number=st.integers(1, 60),
    family=st.sampled_from(FAMILIES),
)
@settings(max_examples=100, deadline=None)
def test_a_longer_run_has_no_fewer_tokens(character: str, number: int, family: str) -> None:
    shorter, longer = (f"see {character * n} there" for n in (8 + number, 9 + number))

    assert estimate_text(shorter, family=family) <= estimate_text(longer, family=family) + 1


# ---- which one ----

CHOSEN: dict[tuple[str, str], tuple[str, bool]] = {
    ("gpt-4o", "auto"): ("o200k_base", True),
    ("gpt-4o", "estimate"): ("~o200k", False),
    ("gpt-4", "exact"): ("cl100k_base", True),
    ("gpt-oss-20b", "auto"): ("o200k_base", True),
    ("claude-opus-5-5", "auto"): ("~claude_v48", False),
    ("claude-opus-4-6", "estimate"): ("~claude_v3", False),
    ("gemini-2.5-pro", "auto"): ("~gemma3", False),
    ("grok-4.7", "auto"): ("~o200k", False),
    ("gpt-4o", "simple"): ("simple", False),
}


@pytest.mark.parametrize(("asked", "chosen"), CHOSEN.items())
def test_the_counter_says_how_it_counts(asked: tuple[str, Any], chosen: tuple[str, bool]) -> None:
    counter = TokenCounter(asked[0], counter=asked[1])

    assert (counter.name, counter.is_exact, counter.count_text("")) == (*chosen, 0)


def test_simple_counting_takes_four_characters_for_a_token() -> None:
    counter = TokenCounter(get_model_limits("claude-opus-5-5"), counter="simple")

    assert [counter.count_text(text) for text in ("a", "abcd", "abcde", "字" * 400)] == [
        1,
        1,
        2,
        100,
    ]


@given(text=st.text(max_size=200), most=st.integers(0, 60))
@pytest.mark.parametrize("model", ["gpt-5.5", "claude-opus-5-5"])
def test_the_beginning_that_fits_is_as_long_as_can_be(model: str, text: str, most: int) -> None:
    cut = truncate_to_tokens(text, most, model=model)

    assert text.startswith(cut)
    assert estimate_tokens(cut, model=model) <= most
    assert cut == text or estimate_tokens(text, model=model) > most
    assert truncate_to_tokens("a b c d e f", 3, model="gpt-5.5") == "a b c"
