import json

from hypothesis import given
from hypothesis import strategies as st

from context_assembler.cli.payload_view import payload_outline, shared_prefix
from context_assembler.values.parts import Json

blocks = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=4)}))
messages = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": blocks}),
    max_size=4,
)


def text(words: str, **more: object) -> dict[str, object]:
    return {"type": "text", "text": words, **more}


def test_the_outline_has_a_line_for_each_of_the_first_entries_and_the_last() -> None:
    said = [{"role": "user", "content": f"number {number} " + "word " * 100} for number in range(9)]

    outline = payload_outline({"model": "m", "messages": said}, width_chars=80).splitlines()

    assert outline[:3] == ["{", '  "model": "m",', '  "messages": [']
    assert [line.partition("number")[2][:2] for line in outline[3:8]] == [
        " 0",
        " 1",
        " 2",
        "",
        " 8",
    ]
    assert outline[6] == "    … 5 more,"
    assert max(map(len, outline)) <= 82


def test_the_outline_says_how_long_a_list_is() -> None:
    outline = payload_outline({"tools": [{"name": "read"}, {"name": "write"}]}, width_chars=40)

    assert outline.splitlines()[1] == '  "tools": [{"name": "read"}… (2 in all)'


def test_the_outline_of_something_small_is_all_of_it() -> None:
    payload = {"model": "m", "stop": ["a"], "messages": [], "thinking": {"type": "adaptive"}}

    assert json.loads(payload_outline(payload, width_chars=80)) == payload


@given(messages, messages)
def test_a_payload_that_only_grew_shares_everything(
    first: list[dict[str, object]], more: list[dict[str, object]]
) -> None:
    shared = shared_prefix({"messages": first}, {"messages": [*first, *more]})

    assert shared.is_whole_first
    assert shared.second_chars >= shared.first_chars


def test_cache_markers_do_not_count() -> None:
    marker = {"cache_control": {"type": "ephemeral"}}
    first = {"system": [text("s", **marker)], "messages": []}
    second = {"system": [text("s")], "messages": [{"role": "user", "content": [text("a")]}]}

    shared = shared_prefix(first, second)

    assert shared.is_whole_first
    assert 0 < shared.share_of_second < 1


def test_a_change_at_the_front_shares_nothing_behind_it() -> None:
    history = [{"role": "user", "content": "the same"}]

    shared = shared_prefix(
        {"tools": [{"name": "a"}], "messages": history},
        {"tools": [{"name": "b"}], "messages": history},
    )

    assert shared.shared_chars == 0
    assert not shared.is_whole_first


def test_empty_payloads_share_nothing() -> None:
    assert shared_prefix({}, {}).share_of_second == 0


def test_a_system_prompt_may_be_plain_text() -> None:
    shared = shared_prefix({"system": "Be brief."}, {"system": "Be brief.", "messages": ["odd"]})

    assert shared.is_whole_first
    assert shared.share_of_second < 1


def test_the_outline_knows_what_each_provider_calls_its_messages() -> None:
    said = [{"role": "user", "content": f"number {number}"} for number in range(9)]

    for name in ("messages", "input", "contents"):
        assert "    … 5 more," in payload_outline({name: said}, width_chars=80).splitlines()


def test_what_is_shared_is_compared_in_each_providers_payload() -> None:
    payloads: dict[str, list[Json]] = {
        "contents": [{"role": "user", "parts": [{"text": "a"}]}],
        "input": [{"type": "message", "role": "user", "content": "a"}],
    }

    for name, said in payloads.items():
        first = {"model": "m", name: said}
        second = {"model": "m", name: [*said, *said]}

        assert shared_prefix(first, second).is_whole_first
        assert shared_prefix(first, second).share_of_second == 0.5
