"""The `fast` extra: used where it counts as tiktoken does, and nowhere else."""

import random
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.tokens.bpe import (
    PATTERNS,
    count_bpe,
    load_ranks,
    open_tiktoken,
    repair_surrogates,
)
from context_assembler.tokens.fast_bpe import (
    DISPUTED,
    PROBE,
    PROBE_TOKENS,
    UNPACKED_SHA256,
    is_disputed,
    open_fast,
)

every_encoding = pytest.mark.parametrize("encoding", sorted(PATTERNS))
BY_TIKTOKEN = {encoding: open_tiktoken(encoding) for encoding in PATTERNS}


@dataclass
class Library:
    """Stands for `toktok`, with a vocabulary and a way to count of its own."""

    version: str = "0.3.0"
    tokens: list[bytes] = field(default_factory=lambda: list(load_ranks("o200k_base")))
    counts: int = PROBE_TOKENS["o200k_base"]

    @property
    def __version__(self) -> str:
        return self.version

    def _encoding(self, _name: str) -> Any:
        def count(_text: str) -> int:
            return self.counts

        return SimpleNamespace(token_byte_values=lambda: self.tokens, count=count)


def swapped() -> list[bytes]:
    tokens = list(load_ranks("o200k_base"))
    tokens[7], tokens[8] = tokens[8], tokens[7]
    return tokens


REFUSED: dict[str, Any] = {
    "another version": Library(version="0.4.0"),
    "another order of its vocabulary": Library(tokens=swapped()),
    "another count of the probe": Library(counts=1),
    "a token longer than any": Library(tokens=[b"x" * 300]),
    "no version": SimpleNamespace(),
    "no such encoding": SimpleNamespace(
        __version__="0.3.0", _encoding=dict[str, Any]().__getitem__
    ),
}


def test_what_holds_our_vocabulary_and_counts_alike_is_used() -> None:
    count = open_fast("o200k_base", library=Library())

    assert count is not None
    assert count("anything") == PROBE_TOKENS["o200k_base"]


@pytest.mark.parametrize("library", REFUSED.values(), ids=REFUSED.keys())
def test_what_may_count_otherwise_is_not_used(library: Any) -> None:
    assert open_fast("o200k_base", library=library) is None


def test_without_the_package_there_is_nothing_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "toktok", None)

    assert open_fast("o200k_base") is None


@every_encoding
def test_the_probe_counts_as_tiktoken_counts_it(encoding: str) -> None:
    assert BY_TIKTOKEN[encoding](PROBE) == PROBE_TOKENS[encoding]
    assert encoding in UNPACKED_SHA256


@every_encoding
@given(text=st.text(st.characters(), max_size=300))
@settings(max_examples=200, deadline=None)
def test_the_installed_package_counts_any_text_as_tiktoken_does(encoding: str, text: str) -> None:
    pytest.importorskip("toktok")
    count = open_fast(encoding)

    assert count is not None
    text = DISPUTED.sub("", repair_surrogates(text))
    assert count(text) == BY_TIKTOKEN[encoding](text)


@every_encoding
@pytest.mark.parametrize("text", ["\u0cdc'l", "A\u0c5cb", "1\U000323b02", "\ud800\u0cdc'l"])
def test_characters_that_it_splits_otherwise_are_left_to_tiktoken(encoding: str, text: str) -> None:
    assert count_bpe(text, encoding=encoding) == BY_TIKTOKEN[encoding](text)


@every_encoding
def test_the_installed_package_counts_long_runs_as_tiktoken_does(encoding: str) -> None:
    pytest.importorskip("toktok")
    count, dice = open_fast(encoding), random.Random(4)
    runs = [character * 30_000 for character in "a \n-^7\u4e00\u0301'/"]
    runs += [
        "".join(dice.choices(letters, k=30_000)) for letters in ("abcxyz", "AbC", " \n\t", "-=/")
    ]

    assert count is not None
    assert [count(run) for run in runs] == [BY_TIKTOKEN[encoding](run) for run in runs]


def test_every_disputed_character_is_noticed() -> None:
    disputed = [c for c in map(chr, range(0x80, 0x34000)) if DISPUTED.match(c)]

    assert len(disputed) > 4_000
    assert all(map(is_disputed, disputed))
    assert not is_disputed("naïve 今天 🎉 Погода")
