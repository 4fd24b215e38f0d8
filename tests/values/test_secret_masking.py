"""Secrets are found and masked, and nothing else is."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.errors import MissingExtraError
from context_assembler.values.texts import secret_masking
from context_assembler.values.texts.secret_masking import find_secrets, mask_secrets
from context_assembler.values.texts.secret_signs import may_hold_secret

# Put together here, so that nobody takes this file for a leak.
SECRETS = {
    "AWS Access Key": "AKIA" + "QWERTYUIOPASDFGH",
    "GitHub Token": "ghp" + "_abcdefghijklmnopqrstuvwxyz0123456789",
    "GitLab Token": "glpat" + "-abcdefghij0123456789",
    "Slack Token": "xoxb" + "-123456789012-123456789012-abcdefghijklmnop",
    "Stripe Access Key": "sk" + "_live_" + "abcdefghijklmnopqrstuvwx",
    "Anthropic API Key": "sk-ant" + "-api03-abcdefghijklmnopqrstuvwxyz0123456789",
    "OpenAI API Key": "sk-proj" + "-abcdefghijklmnopqrstuvwxyz0123456789",
    "Google API Key": "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "Hugging Face Token": "hf" + "_abcdefghijklmnopqrstuvwxyzabcdefgh",
    "NPM Token": "npm" + "_abcdefghijklmnopqrstuvwxyz0123456789",
    "JSON Web Token": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n",
}


@pytest.mark.parametrize(("kind", "secret"), SECRETS.items(), ids=SECRETS)
@pytest.mark.parametrize("around", ["use {} today", "{}", "key:\n{}\nend", "`{}`", "a={};b"])
def test_a_secret_is_masked_whole_wherever_it_stands(kind: str, secret: str, around: str) -> None:
    masked = mask_secrets(around.format(secret))

    assert masked.text == around.format(f"[masked: {kind}]")
    assert masked.kinds == (kind,)
    assert masked.notice == f"a secret was masked ({kind})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgres://app:hunter2@db/x", "postgres://app:[masked: Basic Auth Credentials]@db/x"),
        ("Authorization: Bearer " + "a1" * 12, "Authorization: Bearer [masked: Bearer Token]"),
        ('{"password": "correct-horse"}', '{"password": "[masked: Secret in a setting]"}'),
        (
            "export DB_PASSWORD=correct-horse\n",
            "export DB_PASSWORD=[masked: Secret in a setting]\n",
        ),
        ("client_secret = 'correct-horse'", "client_secret = '[masked: Secret in a setting]'"),
        ("//r.example/:_authToken=" + "a" * 20, "//r.example/:_authToken=[masked: NPM Token]"),
    ],
)
def test_the_secret_goes_and_what_it_belongs_to_stays(text: str, expected: str) -> None:
    assert mask_secrets(text).text == expected


@pytest.mark.parametrize(("kind", "secret"), SECRETS.items(), ids=SECRETS)
def test_what_cleaning_takes_away_hides_no_secret(kind: str, secret: str) -> None:
    hidden = f"use {secret[:8]}\0{secret[8:]} today"
    wide = secret.encode("utf-16-le").decode()

    assert mask_secrets(hidden).text == f"use [masked: {kind}] today"
    assert mask_secrets(wide).text == f"[masked: {kind}]"
    assert may_hold_secret(hidden)
    assert may_hold_secret(wide)


def test_a_text_without_secrets_is_not_cleaned() -> None:
    assert mask_secrets("a\0b\ud800").text == "a\0b\ud800"


def test_a_private_key_is_masked_from_its_first_line_to_its_last() -> None:
    head, tail = "-----BEGIN RSA PRIVATE" + " KEY-----", "-----END RSA PRIVATE" + " KEY-----"

    assert mask_secrets(f"a\n{head}\nMIIE\nabcd\n{tail}\nb").text == "a\n[masked: Private Key]\nb"
    assert mask_secrets(f"a\n{head}\nMIIE\nabcd").text == "a\n[masked: Private Key]"


KEY_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7AAECAwQFBgcI"
KEY_END = "-----END RSA PRIVATE" + " KEY-----"
KEY_ENDS = {
    "its last lines": (f"{KEY_LINE}\n{KEY_LINE}\nAAEC=\n{KEY_END}\n", "[masked: Private Key]\n"),
    "behind words": (
        f"The rest: {KEY_LINE}\n{KEY_END} and so on",
        "The rest: [masked: Private Key] and so on",
    ),
    "numbered lines": (
        f" 8→{KEY_LINE}\n 9→{KEY_LINE}==\n10→{KEY_END}",
        " 8→[masked: Private Key]",
    ),
    "two of them": (
        f"{KEY_LINE}\n{KEY_END}\n{KEY_LINE}\n{KEY_END}",
        "[masked: Private Key]\n[masked: Private Key]",
    ),
    "its last line alone": (f"That is all.\n{KEY_END}", f"That is all.\n{KEY_END}"),
    "of what is public": (
        f"{KEY_LINE}\n-----END CERTIFICATE-----",
        f"{KEY_LINE}\n-----END CERTIFICATE-----",
    ),
}


@pytest.mark.parametrize(("text", "expected"), KEY_ENDS.values(), ids=KEY_ENDS.keys())
def test_the_rest_of_a_private_key_is_masked_without_its_beginning(
    text: str, expected: str
) -> None:
    assert mask_secrets(text).text == expected
    assert may_hold_secret(text) or text == expected


@pytest.mark.parametrize(
    "text",
    [
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "id 123e4567-e89b-12d3-a456-426614174000 at 10.0.0.1 and 8.8.8.8",
        "password = os.environ['DB_PASSWORD']",
        "API_KEY=$OTHER_KEY\nTOKEN=${TOKEN}\nSECRET=<your secret>\nPASSWORD={{ password }}",
        'token = get_token("name")',
        "max_tokens = 12000000000",
        "MAX_TOKENS=12000000000",
        "password = settings.database_password",
        "Never print a token, a password or a secret.",
        "https://example.org/a:b@c",
        "sk-short and AIza and eyJ and hf_",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask_secrets(text).text == text


def test_two_secrets_of_a_kind_are_told_once() -> None:
    key = SECRETS["AWS Access Key"]

    assert mask_secrets(f"{key} {key}").notice == "2 secrets were masked (AWS Access Key)"


def test_matches_that_overlap_are_one_secret() -> None:
    text = f"API_KEY={SECRETS['Stripe Access Key']}"

    [secret] = find_secrets(text)

    assert text[secret.start : secret.end] == SECRETS["Stripe Access Key"]


def test_without_the_library_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "detect_secrets.core.plugins.util", None)
    secret_masking._patterns.cache_clear()

    with pytest.raises(MissingExtraError, match=r"context-assembler\[secrets\]"):
        mask_secrets("x")


_pieces = st.lists(
    st.one_of(
        st.text(max_size=20), st.sampled_from([*SECRETS.values(), "password=", '"token": "'])
    ),
    max_size=6,
)


@given(_pieces)
def test_masking_twice_is_masking_once(pieces: list[str]) -> None:
    once = mask_secrets(" ".join(pieces))

    assert mask_secrets(once.text).text == once.text
