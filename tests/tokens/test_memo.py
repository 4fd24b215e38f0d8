from context_assembler.tokens.memo import BoundedMemo


def test_what_was_put_is_found() -> None:
    memo = BoundedMemo[str](max_weight=10)

    memo.put("a", 1, weight=4)

    assert memo.get("a") == 1
    assert memo.get("b") is None


def test_the_oldest_go_when_there_is_too_much() -> None:
    memo = BoundedMemo[str](max_weight=10)

    for key in "abc":
        memo.put(key, 1, weight=4)

    assert [memo.get(key) for key in "abc"] == [None, 1, 1]


def test_what_is_too_big_is_not_kept() -> None:
    memo = BoundedMemo[str](max_weight=10)
    memo.put("a", 1, weight=4)

    memo.put("b", 2, weight=11)

    assert (memo.get("a"), memo.get("b")) == (1, None)


def test_what_is_known_is_not_weighed_twice() -> None:
    memo = BoundedMemo[str](max_weight=10)

    for _ in range(5):
        memo.put("a", 1, weight=4)
    memo.put("b", 2, weight=4)

    assert (memo.get("a"), memo.get("b")) == (1, 2)
