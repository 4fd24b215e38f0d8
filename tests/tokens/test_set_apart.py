import json
import re
from itertools import pairwise
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.tokens.bpe import count_bpe
from context_assembler.tokens.estimate import LONGEST_CHARS, SAMPLED_ABOVE_CHARS, estimate_text
from context_assembler.tokens.set_apart import RATES_FILE, set_apart
from tests.tokens.far_texts import FAR_TEXTS

FAMILIES = ("o200k", "cl100k", "gemma3", "claude_v3", "claude_v48")
RATES = json.loads(RATES_FILE.read_text("utf-8"))["rates"]

# What the tokenizers make of them: Claude until 4.6 and later (by its reconstruction), Gemma 3.
COUNTED = {
    "panel": (880, 899, 420),
    "table": (459, 499, 360),
    "bar": (739, 739, 980),
    "tree": (500, 519, 400),
    "letters": (335, 1000, 125),
    "few letters": (301, 401, 200),
    "rule": (120, 419, 240),
    "dots": (173, 415, 78),
    "lines": (40, 52, 38),
    "columns": (300, 449, 210),
    "colours": (719, 719, 760),
    "brackets": (200, 400, 102),
    "arrows": (1000, 1000, 1000),
    "stars": (501, 500, 250),
    "spinner": (3001, 3000, 3000),
    "sparks": (540, 579, 360),
    "checks": (420, 479, 300),
    "formulas": (920, 919, 460),
    "gene": (3360, 3851, 2701),
    "gene of capitals": (2112, 3215, 1675),
    "marks": (1339, 1767, 1141),
    "runes": (1202, 1202, 1188),
    "hieroglyphs": (1601, 1600, 1588),
    "struck letters": (901, 901, 551),
    "laughter": (1381, 1381, 150),
    "JSON in JSON": (886, 1168, 794),
    "JSON in JSON in JSON": (1313, 1819, 1120),
}

# Text as people write it: nothing of it is far, so nothing is taken out.
USUAL = {
    "prose": "It is — as he said — “fine”; naïve café, 20 °C… isn't it? So: walk!\n" * 3,
    "code": 'def f(a: int = 0) -> dict[str, int]:\n    return {"a": [x**2 for x in (1, 2)]}\n\n\n',
    "heading": "# Title\n\n---\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
    "deep": "if a:\n" + " " * 32 + "b = 1  # ======\n",
    "numbers": "0000000000 11111111 1,000,000.00\n",
    "languages": "今天天气很好。오늘은 날씨가 좋다. Погода хорошая! أهلا 🎉 👍🏽 ❤️ ⚠️ 1️⃣ é ü ß\n",
    "listing": "    12→\treturn ★ x\n",
    "letters": "www.example.com/Mississippi/zzz LLL internationalization\n",
    "Windows": "C:\\Users\\me and \\n, \\t\n",
}


def size_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


# Prose and everything that is not, in runs of any length.
PIECES = st.one_of(
    st.text(max_size=20),
    st.builds(str.__mul__, st.characters(), st.integers(1, 60)),
    st.builds(
        str.__mul__,
        st.text(st.sampled_from("─│█★→⠋ᚠ한あж\u0338\\\"'=-. \naZ07🎉\U0001d407\udc80"), max_size=4),
        st.integers(1, 30),
    ),
    st.text(st.sampled_from("acgt"), min_size=20, max_size=80),
    st.sampled_from(list(USUAL.values())),
)
TEXTS = st.lists(PIECES, max_size=6).map("".join)


@given(text=TEXTS, family=st.sampled_from(FAMILIES))
@settings(max_examples=400, deadline=None)
def test_no_text_has_more_tokens_than_bytes(text: str, family: str) -> None:
    tokens = estimate_text(text, family=family)

    assert bool(text) <= tokens <= size_bytes(text)


@given(text=TEXTS, family=st.sampled_from(FAMILIES))
@settings(max_examples=400, deadline=None)
def test_what_is_taken_out_has_no_more_tokens_than_bytes(text: str, family: str) -> None:
    rest, tokens = set_apart(text, family=family)

    assert 0 <= tokens <= size_bytes(text) - len(rest)
    assert bool(rest) == bool(text)
    rest.decode("utf-8", "surrogatepass")


@given(text=TEXTS)
@settings(max_examples=200, deadline=None)
def test_what_is_left_is_the_same_for_every_family(text: str) -> None:
    assert len({set_apart(text, family=family)[0] for family in FAMILIES}) == 1


@given(text=TEXTS, family=st.sampled_from(FAMILIES))
@settings(max_examples=200, deadline=None)
def test_no_text_is_estimated_below_its_longest_pieces(text: str, family: str) -> None:
    shortened = re.sub(r"(.)\1{3,}", r"\1", text, flags=re.DOTALL)
    shown = sum(not character.isspace() for character in shortened)

    assert estimate_text(shortened, family=family) >= shown // LONGEST_CHARS - 1


@given(
    character=st.characters(codec="utf-8"),
    number=st.integers(33, 1_000),  # of fewer the weights may have some tokens more
    family=st.sampled_from(FAMILIES),
)
@settings(max_examples=400, deadline=None)
def test_a_longer_run_has_no_fewer_tokens(character: str, number: int, family: str) -> None:
    runs = [character * (number << doubled) for doubled in range(3)]

    found = [estimate_text(run, family=family) for run in runs]

    assert found[0] >= 1
    assert all(shorter <= longer for shorter, longer in pairwise(found))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", FAR_TEXTS)
def test_a_far_text_amid_prose_costs_what_it_costs_alone(name: str, family: str) -> None:
    prose, far = USUAL["prose"] * 20, FAR_TEXTS[name]
    alone = [estimate_text(text, family=family) for text in (prose, far, prose)]

    tokens = estimate_text(f"{prose}{far}\n{prose}", family=family)

    assert tokens == pytest.approx(sum(alone), rel=0.02, abs=4)


@pytest.mark.parametrize("name", FAR_TEXTS)
def test_a_far_text_is_counted_near_to_what_its_tokenizer_makes_of_it(name: str) -> None:
    families = ("claude_v3", "claude_v48", "gemma3")
    for family, counted in zip(families, COUNTED[name], strict=True):
        tokens = estimate_text(FAR_TEXTS[name], family=family)

        assert 0.74 * counted <= tokens <= 1.5 * counted, family


@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base"])
@pytest.mark.parametrize("name", FAR_TEXTS)
def test_a_far_text_is_counted_near_to_the_public_vocabularies(name: str, encoding: str) -> None:
    counted = count_bpe(FAR_TEXTS[name], encoding=encoding)

    tokens = estimate_text(FAR_TEXTS[name], family=encoding.removesuffix("_base"))

    lines = FAR_TEXTS[name].count("\n")  # of a rule the pieces of many lengths are few
    assert 0.72 * counted <= tokens <= 1.5 * counted + 4 * lines


@pytest.mark.parametrize("name", USUAL)
def test_text_as_people_write_it_is_left_as_it_is(name: str) -> None:
    assert set_apart(USUAL[name], family="claude_v48") == (USUAL[name].encode(), 0.0)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a────b", "a:b"),
        ("aaaa bbbb aa", "a b aa"),
        ("xxx xxxx", "xxx x"),
        ("=" * 7 + "\n" + "=" * 8, "=" * 7 + "\n="),
        (",,,1,,,,2)))", ",1,2)))"),
        ("a,,b ;;; {{{ {{{{", "a,,b ; {{{ {"),
        ("ééé жжжж 的的的的 🎉🎉🎉🎉", "ééé ж 的 🎉"),
        ("abab" * 3, "abab" * 3),
        ("一" * 4 + "丁", "一丁"),
        ("丁" + "一" * 4, "丁一"),
        (" " * 33 + "a" + "\n" * 40, " a\n"),
        ('say \\"hi\\" \\\\\\"', 'say "hi" "'),
        ("\0" * 9, "\0"),
        ("acgt" * 6, "a"),
        ("ACGT" * 6 + "acgt", "Aacgt"),
        ("погода" * 4, "п"),
        ("({[<>]}):;", "("),
        ("a → b →→ c", "a → b : c"),
    ],
)
def test_one_character_of_a_run_is_left(text: str, left: str) -> None:
    rest, tokens = set_apart(text, family="o200k")

    assert rest.decode() == left
    assert (tokens > 0) == (text != left)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_rate_is_above_the_bytes_of_its_character(family: str) -> None:
    rates = RATES[family]

    assert all(
        0 < float(rate) <= size_bytes(one)
        for rate, these in rates["repeated"].items()
        for one in these
    )
    assert 0 < min(rates["unbroken"].values()) <= max(rates["unbroken"].values()) <= 1
    assert 0 < rates["escape"] <= 1


@pytest.mark.parametrize("family", FAMILIES)
def test_slices_of_a_long_mixture_have_no_more_tokens_than_bytes(family: str) -> None:
    text = ("한" * 512 + "a" * 1_024) * 100

    tokens = estimate_text(text, family=family)

    assert len(text) > SAMPLED_ABOVE_CHARS
    assert len(text) / LONGEST_CHARS <= tokens <= size_bytes(text)


# Scripts that no text was fitted to, as people write them.
FEW_READ = {
    "Lao": "ສະບາຍດີ ຂ້ອຍຢາກຮູ້ກ່ຽວກັບການເດີນທາງໄປຫຼວງພະບາງ ",
    "Amharic": "ሰላም እንዴት ነህ ዛሬ አዲስ አበባ ",
    "Dhivehi": "އައްސަލާމު ޢަލައިކުމް ކިހިނެއް ",
    "Syriac": "ܫܠܡܐ ܐܝܟܢ ",
    "N'Ko": "ߒߞߏ ߞߊ߲ ",
    "Korean, decomposed": normalize("NFD", "안녕하세요 오늘 날씨가 좋네요 "),
    "Han that few read": "㐀㐁㐂㐃㐄㐅㐆㐇",
}


@pytest.mark.parametrize(
    ("family", "encoding"), [("o200k", "o200k_base"), ("cl100k", "cl100k_base")]
)
@pytest.mark.parametrize("text", FEW_READ.values(), ids=FEW_READ.keys())
def test_a_script_that_few_read_is_not_taken_for_another(
    text: str, family: str, encoding: str
) -> None:
    truth = count_bpe(text * 40, encoding=encoding)

    assert 0.85 <= estimate_text(text * 40, family=family) / truth <= 1.3
