import base64
import hashlib
import os
import random
import subprocess
import sys
import threading
import time
from importlib import import_module

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.tokens import bpe
from context_assembler.tokens.bpe import (
    MAX_PIECE_CHARS,
    PATTERNS,
    Vocabulary,
    count_bpe,
    load_ranks,
)

# The SHA-256 that tiktoken pins for the canonical files.
# Source: tiktoken 0.14.0, tiktoken_ext/openai_public.py, read 2026-11-27
CANONICAL_SHA256 = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
REFERENCE = {
    name: tiktoken.Encoding(
        name=f"reference {name}",
        pat_str=PATTERNS[name],
        mergeable_ranks=load_ranks(name),
        special_tokens={"<|endoftext|>": 300_000},
    )
    for name in CANONICAL_SHA256
}
every_encoding = pytest.mark.parametrize("encoding", CANONICAL_SHA256)

# Counted with tiktoken's own files.
GOLDEN = {
    "nothing": ("", 0, 0),
    "a greeting": ("Hello, world!", 4, 4),
    "Chinese": ("今天天气很好\uff0c我们去公园散步吧。", 12, 20),
    "a special token as text": ("<|endoftext|>", 7, 7),
    "digits": ("1234567890", 4, 4),
}

PATHOLOGICAL = {
    "blanks": (" " * 1_000_000, 7_813),
    "one letter": ("a" * 1_000_000, 125_000),
    "newlines": ("\n" * 1_000_000, None),
    "dashes": ("-" * 1_000_000, None),
    "base64": (base64.b64encode(random.Random(1).randbytes(300_000)).decode(), None),
    "Han": ("".join(map(chr, random.Random(2).choices(range(0x4E00, 0x9FA5), k=200_000))), None),
}


@every_encoding
def test_the_pack_holds_the_canonical_file_byte_for_byte(encoding: str) -> None:
    lines = (b"%s %d\n" % (base64.b64encode(t), rank) for t, rank in load_ranks(encoding).items())

    assert hashlib.sha256(b"".join(lines)).hexdigest() == CANONICAL_SHA256[encoding]


def no_ranks(url: str, expected_hash: str) -> dict[bytes, int]:
    return {}


@every_encoding
def test_the_split_patterns_are_those_of_tiktoken(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = import_module("tiktoken_ext.openai_public")
    monkeypatch.setattr(public, "load_tiktoken_bpe", no_ranks)

    theirs = getattr(public, encoding)()

    assert theirs["pat_str"] == PATTERNS[encoding]


@pytest.mark.parametrize(("text", "o200k", "cl100k"), GOLDEN.values(), ids=GOLDEN.keys())
def test_known_counts_are_met(text: str, o200k: int, cl100k: int) -> None:
    assert count_bpe(text, encoding="o200k_base") == o200k
    assert count_bpe(text, encoding="cl100k_base") == cl100k


@every_encoding
@given(text=st.text(st.characters(), max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_text_counts_as_tiktoken_counts_it(encoding: str, text: str) -> None:
    assert count_bpe(text, encoding=encoding) == len(REFERENCE[encoding].encode_ordinary(text))


@every_encoding
@given(text=st.text(st.sampled_from("ab AB1 \n\t'’sé字。<|>/-_=")))
@settings(max_examples=300, deadline=None)
def test_text_of_awkward_borders_counts_as_tiktoken_counts_it(encoding: str, text: str) -> None:
    assert count_bpe(text, encoding=encoding) == len(REFERENCE[encoding].encode_ordinary(text))


@every_encoding
@pytest.mark.parametrize(
    "line",
    [
        "The quick brown fox doesn't jump over 1234 lazy dogs.\n",
        "def f(x): return {'a': [1, 2, 3], \"b\": x}\n\n\n",
        "今天天气很好\uff0c我们去公园散步吧。",
        "Съешь же ещё этих мягких французских булок, да выпей чаю.  \r\n",
        '{"a":1,"b":[true,null],"c":"x y"}',
    ],
)
def test_a_long_text_cut_in_pieces_counts_as_a_whole(encoding: str, line: str) -> None:
    text = line * (2 * MAX_PIECE_CHARS // len(line) + 7)

    assert count_bpe(text, encoding=encoding) == len(REFERENCE[encoding].encode_ordinary(text))


@pytest.mark.parametrize(("text", "tokens"), PATHOLOGICAL.values(), ids=PATHOLOGICAL.keys())
def test_a_text_without_places_to_cut_neither_stalls_nor_panics(
    text: str, tokens: int | None
) -> None:
    started = time.process_time()

    counted = count_bpe(text, encoding="o200k_base")

    assert time.process_time() - started < 20
    if tokens is not None:
        assert tokens <= counted <= tokens * 1.01


def test_lone_surrogates_are_counted() -> None:
    assert count_bpe("a\ud800b", encoding="o200k_base") == count_bpe(
        "a\ufffdb", encoding="o200k_base"
    )


def test_a_vocabulary_is_loaded_once() -> None:
    count_bpe("a", encoding="cl100k_base")

    loaded = bpe._VOCABULARIES.load

    assert loaded("cl100k_base") is loaded("cl100k_base")


def test_many_threads_may_count_at_once() -> None:
    counts: list[int] = []
    text = "Hello, world! " * 100
    threads = [
        threading.Thread(target=lambda: counts.append(count_bpe(text, encoding="cl100k_base")))
        for _ in range(8)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(counts)) == 1
    assert len(counts) == 8


@every_encoding
@given(text=st.text(st.characters(), max_size=200), cut=st.integers(0, 200))
@settings(max_examples=200, deadline=None)
def test_a_cut_at_a_safe_place_changes_no_count(encoding: str, text: str, cut: int) -> None:
    text = bpe.repair_surrogates(text)
    found = bpe._SAFE_CUT.search(text, cut)
    place = found.start() if found else len(text)

    halves = sum(count_bpe(half, encoding=encoding) for half in (text[:place], text[place:]))

    assert halves == len(REFERENCE[encoding].encode_ordinary(text))


def test_a_run_is_left_whole_up_to_the_next_safe_place() -> None:
    text = "a" * (2 * MAX_PIECE_CHARS) + " b" * MAX_PIECE_CHARS

    pieces = list(bpe.cut_pieces(text))

    assert "".join(pieces) == text
    assert len(pieces[0]) == 2 * MAX_PIECE_CHARS


def test_surrogates_in_a_long_text_are_repaired_before_it_is_cut() -> None:
    text = "\ud83d\ude00" * MAX_PIECE_CHARS

    assert count_bpe(text, encoding="o200k_base") == count_bpe(
        "😀" * MAX_PIECE_CHARS, encoding="o200k_base"
    )


def not_installed(encoding: str) -> None:
    return None


TEXTS = ("Hello, world! \ud800", "今天天气很好", "1\U000323b02", "a" * 1_000, "")


def by_tiktoken(text: str) -> int:
    return len(REFERENCE["cl100k_base"].encode_ordinary(text))


def test_without_the_fast_extra_tiktoken_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpe, "open_fast", not_installed)
    vocabulary = Vocabulary("cl100k_base", fast_above_chars=0)

    for _ in range(2):
        assert list(map(vocabulary.count, TEXTS)) == list(map(by_tiktoken, TEXTS))
        assert vocabulary.loading is not None
        vocabulary.loading.join()


def test_the_fast_extra_is_loaded_for_those_who_count_much() -> None:
    vocabulary = Vocabulary("cl100k_base", fast_above_chars=1_000)

    assert vocabulary.count("a" * 1_000) == by_tiktoken("a" * 1_000)
    assert vocabulary.loading is None
    for _ in range(2):
        assert list(map(vocabulary.count, TEXTS)) == list(map(by_tiktoken, TEXTS))
        assert vocabulary.loading is not None
        vocabulary.loading.join()


def test_a_vocabulary_can_be_loaded_before_it_is_needed() -> None:
    bpe.load_early("cl100k_base")

    assert count_bpe("Hello", encoding="cl100k_base") == by_tiktoken("Hello")


def test_what_is_no_vocabulary_is_not_loaded_before_it_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "start", started.append)

    bpe.load_early("a counter of a user's own")

    assert not started


FORKED = """
import os
import threading
from context_assembler.tokens import bpe

bpe.load_early("o200k_base")
begun = threading.Barrier(2)

def hold():
    with bpe._VOCABULARIES._loading:
        begun.wait()
        begun.wait()

threading.Thread(target=hold).start()
begun.wait()
child = os.fork()
if child == 0:
    os._exit(bpe.count_bpe("Hello there", encoding="cl100k_base"))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
begun.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_process_that_is_forked_while_a_vocabulary_is_loaded_counts() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout == "2\n"
