import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.limits import learn_from_error

OPENAI = (
    "Error code: 400 - {'message': \"This model's maximum context length is 16384 tokens. "
    'However, you requested 19591 tokens (9591 in the messages, 10000 in the completion)."}'
)
REFUSALS = {
    "a server of OpenAI's shape": (OPENAI, 16_384),
    "Anthropic": ("prompt is too long: 215431 tokens > 200000 maximum", 200_000),
    "Gemini": (
        "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
        1_048_576,
    ),
    "with separators": ("maximum context length is 8,192 tokens", 8_192),
    "no figure": ("prompt is too long", None),
    "a figure that means nothing": ("maximum context length is 0 tokens", None),
    "another error": ("Rate limit reached: 200000 tokens per minute", None),
}


@pytest.mark.parametrize(("text", "tokens"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal_tells_the_size_of_the_model(text: str, tokens: int | None) -> None:
    assert learn_from_error(text) == tokens


@given(st.text() | st.text("0123456789, tokensmaximum>()", max_size=200))
def test_any_text_may_be_read(text: str) -> None:
    tokens = learn_from_error(text)

    assert tokens is None or tokens > 0
