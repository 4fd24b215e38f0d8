from context_assembler.tokens.memo import BoundedMemo, MessageMemo
from context_assembler.values.messages import Message
from context_assembler.values.parts import Image, Part, Text, ToolResult, UrlSource

PICTURE = Image(source=UrlSource(url="https://example.org/a.png"))


def message(*parts: Part) -> Message:
    return Message(role="user", parts=parts)


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


def test_a_message_is_remembered_itself_not_what_it_says() -> None:
    memo, said = MessageMemo(max_weight=1_000), message(Text("a"))

    memo.put(said, 7)
    memo.put(said, 8)

    assert (memo.get(said), memo.get(message(Text("a")))) == (7, None)


def test_the_oldest_messages_go_when_there_are_too_many() -> None:
    memo, said = MessageMemo(max_weight=200), [message(Text(text)) for text in "abc"]

    for one in said:
        memo.put(one, 1)

    assert [memo.get(one) for one in said] == [1, 1, 1]
    memo.put(big := message(Text("d")), 60)
    assert (memo.get(said[0]), memo.get(big)) == (None, 60)


def test_a_message_that_carries_bytes_or_is_too_big_is_not_kept() -> None:
    memo = MessageMemo(max_weight=200)
    shown = message(ToolResult(call_id="c", content=(PICTURE,)))

    for one, tokens in ((message(PICTURE), 5), (shown, 5), (large := message(Text("a")), 999)):
        memo.put(one, tokens)

    assert memo.get(shown) is None
    assert memo.get(large) is None
