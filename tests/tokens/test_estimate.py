import base64
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.tokens import estimate
from context_assembler.tokens.bpe import count_bpe
from context_assembler.tokens.estimate import (
    SAMPLED_ABOVE_CHARS,
    bound_estimate,
    bound_text,
    estimate_text,
    families,
    pair_codes,
)

SHELL = """\
set -euo pipefail
export PATH="$HOME/.local/bin:/usr/local/bin:$PATH"
for file in "${files[@]}"; do
    tar --create --gzip --file="$OUT/$(basename "$file").tar.gz" -- "$file" && rm -rf -- "$file"
done
ls -la /var/log/nginx | grep -v '^d' | awk '{ print $9 }' >> "$OUT/list.txt" 2>/dev/null || exit 1
if [[ -z "${CI:-}" ]]; then git log --oneline -n 20 --format='%h %s' | head -5; fi
"""

SCRIPTS = {
    "Chinese": "今天天气很好\uff0c我们去公园散步吧。" * 100,
    "Japanese": "今日は天気がいいので、公園を散歩しましょう。" * 50,
    "Hangul": "오늘은 날씨가 좋으니 공원에서 산책합시다. " * 50,
    "emoji": "🎉 🚀 😀 👍🏽 ❤️ 🇫🇷 " * 50,
    "emoji in text": "Great work 🎉! Ship it 🚀 and thanks 🙏 everyone 😀\n" * 30,
    "rare emoji": "🫠🫨🪿🩷🛜🫎" * 30,
    "joined emoji": "👩‍💻👨‍👩‍👧‍👦🏳️‍🌈" * 30,
    "mixed": "Das Wetter ist schön. 今天天气很好。 Погода хорошая. 좋은 날씨. 🎉 \n" * 30,
    "English": "The weather is fine today, so let us take a walk in the park.\n" * 30,
    "Cyrillic": "Сегодня хорошая погода, давайте прогуляемся по парку вечером.\n" * 30,
    "JSON": '{"id": 17, "name": "park", "open": true, "tags": ["green", "wide"]}\n' * 30,
    "Python": Path(estimate.__file__).read_text("utf-8"),
    "shell": SHELL,
    "digits": "1727465 9384756 2837465 9182736 5564738\n" * 40,
    "base64": base64.b64encode(random.Random(5).randbytes(3_000)).decode(),
    "Arabic": "الطقس جميل اليوم، فلنذهب في نزهة في الحديقة. " * 40,
    "Hindi": "आज मौसम अच्छा है, चलो पार्क में टहलने चलते हैं। " * 40,
    "Thai": "วันนี้อากาศดี ไปเดินเล่นในสวนกันเถอะ " * 40,
    "Vietnamese": "Hôm nay thời tiết đẹp, chúng ta hãy đi dạo trong công viên. " * 40,
}

# The figures of the fit, per family: English, Chinese.
PINNED = {
    "o200k": (16, 1_139),
    "cl100k": (16, 1_566),
    "gemma3": (18, 1_070),
    "claude_v3": (17, 1_649),
    "claude_v48": (20, 1_640),
}

# What a request of one sentence costs, by the tokenizers of the older and the newer models.
SHORT_FOR_CLAUDE = {
    "What is 4200 + 42?": (10, 10),
    "What is 2+2?": (7, 7),
    "What is the weather in Paris?": (7, 10),
    '{"city":"Paris","days":3}': (9, 13),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_estimate_is_within_a_quarter_of_the_exact_count(script: str) -> None:
    text = SCRIPTS[script]
    exact = count_bpe(text, encoding="o200k_base")

    assert estimate_text(text, family="o200k") == pytest.approx(exact, rel=0.25)


@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base"])
@pytest.mark.parametrize("length", range(1, 21))
def test_numbers_of_any_length_are_within_a_tenth(length: int, encoding: str) -> None:
    dice = random.Random(length)
    text = " ".join("".join(dice.choices("123456789", k=length)) for _ in range(60))

    found = estimate_text(text, family=encoding.removesuffix("_base"))

    assert found == pytest.approx(count_bpe(text, encoding=encoding), rel=0.1)


@pytest.mark.parametrize(("text", "exact"), SHORT_FOR_CLAUDE.items())
def test_a_short_request_to_claude_is_counted_to_a_token(text: str, exact: tuple[int, int]) -> None:
    older, newer = (estimate_text(text, family=f"claude_{v}") for v in ("v3", "v48"))

    assert older == pytest.approx(exact[0], abs=1)
    assert newer == pytest.approx(exact[1], abs=1)


def test_each_character_is_paired_with_the_one_before_it() -> None:
    kinds = bytes(kind % 16 for kind in range(256))

    codes = pair_codes(b"abc", kinds)

    assert codes == bytes([0x10, 0x21, 0x32])
    assert pair_codes(b"", kinds) == b""


@pytest.mark.parametrize(
    ("digits", "groups"), [("7", 1), ("77", 1), ("777", 1), ("7777", 2), ("77777777", 3)]
)
def test_up_to_three_digits_are_one_character(digits: str, groups: int) -> None:
    kinds = bytes(3 if chr(byte).isdigit() else 5 for byte in range(256))

    codes = pair_codes(f"a{digits}b".encode(), kinds)

    assert codes == bytes([0x50, 0x35, *[0x33] * (groups - 1), 0x53])


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_claude_counts_more_than_openai(text: str) -> None:
    older, newer = (estimate_text(text, family=f"claude_{v}") for v in ("v3", "v48"))

    assert estimate_text(text, family="o200k") < older * 1.1  # of digits all have the same
    assert older <= newer * 1.05


@pytest.mark.parametrize(("family", "expected"), PINNED.items())
def test_the_weights_are_the_fitted_ones(family: str, expected: tuple[int, int]) -> None:
    english = "The weather is fine today, so let us take a walk in the park.\n"

    found = estimate_text(english, family=family), estimate_text(SCRIPTS["Chinese"], family=family)

    assert found == expected


# What no tokenizer joins: words, groups of digits with the blank before them, marks behind a word.
PIECES = {
    "so that it is worth it": 6,
    "a-1.50": 5,
    "Count from 1 to 5, then write STOP, then continue.": 15,
    "to be, or not (to be)": 8,
    "1234567 a": 4,
    "is 2+2=4?": 8,
    "don't": 1,
}


@pytest.mark.parametrize(("text", "least"), PIECES.items())
@pytest.mark.parametrize("family", ["o200k", "cl100k", "claude_v3", "claude_v48"])
def test_no_text_has_fewer_tokens_than_pieces(text: str, least: int, family: str) -> None:
    assert estimate_text(text, family=family) >= least
    assert estimate_text(f"{text} " * 40, family=family) >= 40 * least


@given(text=st.text(st.sampled_from("ab C1,.(-\n'é字"), min_size=1, max_size=60))
@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base"])
def test_the_least_is_never_more_than_the_exact_count(text: str, encoding: str) -> None:
    family = estimate._family(encoding.removesuffix("_base"))
    first_bytes = text.encode().translate(None, estimate.CONTINUATION_BYTES)
    codes = pair_codes(first_bytes, family.pair_kinds)

    least = estimate._least_tokens(first_bytes, codes, family.pair_kinds)

    assert least <= count_bpe(text, encoding=encoding)


def test_every_family_is_pinned() -> None:
    assert set(families()) == set(PINNED)


def test_nothing_has_no_tokens_and_anything_has_one() -> None:
    assert estimate_text("", family="o200k") == 0
    assert estimate_text(" ", family="o200k") == 1


@given(text=st.text(st.characters(), max_size=400), family=st.sampled_from(sorted(PINNED)))
@settings(max_examples=200, deadline=None)
def test_any_text_has_an_estimate(text: str, family: str) -> None:
    tokens = estimate_text(text, family=family)

    assert bool(tokens) == bool(text)
    assert tokens <= 4 * len(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("name", ["English", "Chinese", "JSON", "mixed"])
def test_slices_of_a_long_text_stand_for_the_whole(name: str) -> None:
    text = SCRIPTS[name] * (200_000 // len(SCRIPTS[name]))
    pieces = range(0, len(text), SAMPLED_ABOVE_CHARS)

    whole = sum(
        estimate_text(text[start : start + SAMPLED_ABOVE_CHARS], family="o200k") for start in pieces
    )

    assert estimate_text(text, family="o200k") == pytest.approx(whole, rel=0.05)


def test_base64_in_text_is_counted_honestly() -> None:
    run = base64.b64encode(random.Random(9).randbytes(75_000)).decode()

    assert 50_000 < estimate_text(run, family="claude_v48") < 110_000
    assert 50_000 < estimate_text(run, family="o200k") < 110_000


def test_oriya_has_an_alphabet_of_its_own() -> None:
    text = "ଆଜି ପାଗ ଭଲ ଅଛି, ଚାଲ ପାର୍କରେ ବୁଲିବା। " * 40

    assert estimate_text(text, family="o200k") == pytest.approx(
        count_bpe(text, encoding="o200k_base"), rel=0.1
    )


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_the_truth_lies_between_the_bounds_of_a_text(text: str) -> None:
    found = bound_text(text, family="o200k")

    assert found.low <= count_bpe(text, encoding="o200k_base") <= found.high
    assert found.low <= found.tokens <= found.high
    assert found.method == "fitted"


def test_twenty_messages_of_installed_sources_are_within_their_bounds() -> None:
    folder, dice = Path(random.__file__).parent, random.Random(8)
    sources = [path.read_text("utf-8")[:20_000] for path in sorted(folder.glob("*.py"))[:60]]
    pieces = [
        source[start : start + 2_000] for source in sources for start in range(0, 20_000, 4_000)
    ]
    pieces = [piece for piece in pieces if piece]
    talks = [dice.sample(pieces, 20) for _ in range(100)]

    held = 0
    for talk in talks:
        guessed = sum(estimate_text(text, family="o200k") for text in talk)
        truth = sum(count_bpe(text, encoding="o200k_base") for text in talk)
        held += truth <= bound_estimate(guessed, texts=20).high

    assert held >= 99


def test_a_sum_of_many_texts_is_known_better_than_one() -> None:
    spans = [bound_estimate(1_000, texts=texts).high for texts in (1, 5, 20)]

    assert spans == sorted(spans, reverse=True)
    assert bound_estimate(0, texts=0).high == 0
    assert bound_text("a " * 50_000, family="o200k").method == "sampled"
