"""Secrets are found and masked, in whichever part they stand, and nothing else is."""

import asyncio
import json
import re
import traceback
from base64 import b64decode, b64encode
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from context_assembler import AssemblyError, Document, Image, Opaque, Text
from context_assembler.events import (
    ASSISTANT,
    COMPACTION,
    TOOL_RESULT,
    UNUSUAL,
    USER,
    Base64Source,
    UrlSource,
    to_json,
)
from context_assembler.history import find_secrets, mask, masked_parts
from context_assembler.memory import open_memory
from tests.history.talk import block, call

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
TOKEN, HIDDEN = SECRETS["GitHub Token"], "[masked: GitHub Token]"
KEY = "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIE\nabcd\n", "-----END RSA PRIVATE" + " KEY-----"


@pytest.mark.parametrize(("kind", "secret"), SECRETS.items(), ids=SECRETS)
@pytest.mark.parametrize("around", ["use {} today", "{}", "key:\n{}\nend", "`{}`", "a={};b"])
def test_a_secret_is_masked_whole_wherever_it_stands(kind: str, secret: str, around: str) -> None:
    masked = around.format(f"[masked: {kind}]"), f"a secret was masked ({kind})"

    assert mask(around.format(secret)) == masked


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgres://app:hunter2@db/x", "postgres://app:[masked: Basic Auth Credentials]@db/x"),
        ("Authorization: Bearer " + "a1" * 12, "Authorization: Bearer [masked: Bearer Token]"),
        ('{"password": "correct-horse"}', '{"password": "[masked: Secret in a setting]"}'),
        ("client_secret = 'correct-horse'", "client_secret = '[masked: Secret in a setting]'"),
        ("//r.example/:_authToken=" + "a" * 20, "//r.example/:_authToken=[masked: NPM Token]"),
        (f"a\n{''.join(KEY)}\nb", "a\n[masked: Private Key]\nb"),
        (f"a\n{KEY[0]}", "a\n[masked: Private Key]"),
    ],
)
def test_the_secret_goes_and_what_it_belongs_to_stays(text: str, expected: str) -> None:
    assert mask(text)[0] == expected


@pytest.mark.parametrize(("kind", "secret"), SECRETS.items(), ids=SECRETS)
@pytest.mark.parametrize(
    "unseen",
    [
        *("\0", "\u200b", "\u00ad", "\u2066", "\u034f", "\ufe0f", "\U000e0041", "x\b"),
        *("\x1b[31m", "\x1b]0;t\x07", "\x1b]8;;http://x\x1b\\", "\x1b(B", "\x9b1m"),
        *("\\u001b[31m", "\\x1b[0m", "\\u200b", "\\u00ad", "\\\n", "\\\r\n", "\\\n    "),
    ],
)
def test_what_shows_nothing_hides_no_secret(kind: str, secret: str, unseen: str) -> None:
    assert mask(f"use {secret[:8]}{unseen}{secret[8:]} today")[0] == f"use [masked: {kind}] today"
    assert mask(secret.encode("utf-16-le").decode())[0] == f"[masked: {kind}]"


@pytest.mark.parametrize(
    "text",
    [
        "a\0b\ud800 \x1b[31mred",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "id 123e4567-e89b-12d3-a456-426614174000 at 10.0.0.1 and 8.8.8.8",
        "API_KEY=$OTHER_KEY\nTOKEN=${TOKEN}\nSECRET=<your secret>\nPASSWORD={{ password }}",
        'token = get_token("name")',
        "Never print a token, a password or a secret.",
        "https://example.org/a:b@c",
        "sk-short and AIza and eyJ and hf_",
        "scikit: sk-learn, sk-learn-contrib-2024; locale sk-SK; ask-me-anything-1234567890",
        "task-a1b2c3d4e5f6g7h8i9j0k1l2 on disk-0123456789abcdef0123",
        "#sk-container-id-1 div.sk-toggleable__label-arrow, .sk-circle12, sk-estimator-doc-link-12 {}",
        "see sk-report-2024q3-final.pdf and fonts/sk-Modernist-Regular-2020.woff2",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        "http://example.org:8080/a@b, git@github.com:a/b.git, https://user@host:8443/",
        "postgres://$USER:$PASS@h, postgres://{user}:{password}@h, postgres://%s:%s@h",
        "postgres://<user>:<password>@h, https://user:***@h",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == (text, "")


@pytest.mark.parametrize(
    "key",
    [
        "a1b2c3d4e5f6g7h8i9j0",
        "or-v1-" + "0123456789abcdef" * 4,
        "lf-123e4567-e89b-12d3-a456-426614174000",
        "test-" + "a1B2" * 5,
        "None-" + "aB3d" * 10,
        "abcdefghijklmnopqrstuvwx",
        "T3BlbkFJ" * 6,
    ],
)
@pytest.mark.parametrize("prose", ["My key is {}, thanks.", "({})", "»{}«", "key={}"])
def test_a_key_of_any_vendor_is_masked_in_prose(key: str, prose: str) -> None:
    masked, _ = mask(prose.format(f"sk-{key}"))

    assert key not in masked
    assert "[masked: " in masked


@pytest.mark.parametrize(
    "password",
    ["p%ss", "100%", "a%zz9", "%", "p%40s", "gu!e$t&1", "a+b", "p;w=1", "p@ss", "пароль%"],
)
@pytest.mark.parametrize("user", ["app", "", "u%p", "me%40x.org"])
def test_a_password_in_a_url_is_masked_whole(user: str, password: str) -> None:
    text = f"DSN=postgresql+psycopg://{user}:{password}@db.example.org:5432/x?a=b@c"

    assert mask(text)[0] == text.replace(f":{password}@", ":[masked: Basic Auth Credentials]@")


@pytest.mark.parametrize("user", ["app:hunter2%zz", "app:p%", "app:hunter@2%zz", "app:hun/ter2"])
def test_an_error_of_the_database_does_not_quote_the_password(user: str) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")

    with pytest.raises(AssemblyError) as caught:
        asyncio.run(open_memory(f"postgresql://{user}@127.0.0.1:1/x").search("a"))

    told = "".join(traceback.format_exception(caught.value)[-2:])
    assert not any(piece in told for piece in re.findall(r"[\w%]+", user.partition(":")[2]))


def test_two_secrets_of_a_kind_are_named_once() -> None:
    key = SECRETS["AWS Access Key"]

    assert mask(f"{key} {key}")[1] == "2 secrets were masked (AWS Access Key)"


def test_matches_that_overlap_are_one_secret() -> None:
    text = f"API_KEY={SECRETS['Stripe Access Key']}"

    [(start, end, _)] = find_secrets(text)

    assert text[start:end] == SECRETS["Stripe Access Key"]


# ---- settings, command lines, queries ----

# What stands between « and » is masked; none of it was ever in use.
GIVEN = [
    "client_secret: «8f3b2c1d9e7a6b5c4d3e2f1a0b9c8d7e»",
    "API_TOKEN: «abc123def456»",
    "password=«hunter2supersecret»",
    "DB_PASSWORD: «hunter2supersecret»",
    "passwd=«hunter2supersecret»",
    "password=«Tr0ub4dor&3x»",
    "https://shop/?password=«Tr0ub4dor»&user=3",
    "Authorization: Bearer «abcdef123456ghijkl»",
    '{"authorization": "bearer «abcdef1234»"}',
    "aws_secret_access_key = «wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY»",
    "aws_secret_access_key=«wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY»\nregion = eu-west-1",
    "ENV DB_PASSWORD=«correct-horse»",
    "ENV DB_PASSWORD «correct-horse-1»",
    "ARG API_TOKEN=«abcdefgh»\nRUN make",
    "  environment:\n    - DB_PASSWORD=«correct-horse»\n    - MODE=fast",
    '    - "DB_PASSWORD=«correct-horse»"',
    "    DB_PASSWORD: «correct-horse-1»",
    "docker run -e POSTGRES_PASSWORD=«postgres» -d postgres",
    "FOO=1 DB_PASSWORD=«correct-horse» ./run",
    "a; PASSWORD=«correct-horse»",
    "PASSWORD=«correct-horse»; echo done",
    "PASSWORD=«hunter2»",
    "TOKEN=«12345678»",
    "MYSQL_PWD=«correct-horse» mysql",
    "set DB_PASSWORD=«correct-horse»",
    "password=«correct-horse»",
    "password=«correcthorse»\nuser=me",
    "spring.datasource.password=«correct-horse»",
    "clientSecret=«abcdefgh1234»",
    "the password = «correct-horse1»",
    "password = «hunter_22»",
    "log in with password=«correct-horse1», then go on",
    "Config(user=me, password=«hunter22!»)",
    "Server=db;User Id=me;Password=«correcthorse»;Encrypt=true",
    "AccountName=me;AccountKey=«YWJjZGVmZ2hpamts==»;EndpointSuffix=x",
    "--password=«correcthorse» --user=me",
    "mysql --db-password «correct-horse-1»",
    "https://example.org/x?api_key=«abcdefgh»&page=2",
    "https://example.org/x?page=2&access_token=«abcdefgh»",
    "PASSWORD=«Pa$$w0rd!23»",
    "PASSWORD=«ab,cd&ef12»",
    r'{"output": "HOME=/root\nDB_PASSWORD=«correct-horse»\nMODE=fast"}',
    r'{"output": "DB_PASSWORD=«correct-horse»\"}"}',
    r'{"output": "host: db1\ndb_password: «s3cr3t-99x»\nport: 1"}',
    r'{"output": "host: db1\npassword=«swordfish»\n"}',
    "Authorization: Basic «dXNlcjpwYXNz»",
    "curl -H 'authorization: basic «dXNlcjpwYXNzd29yZA==»' https://example.org",
    '{"Authorization": "Token «abcdef0123456789»"}',
    'curl -H "X-Api-Key: «abcdefgh12»" https://example.org',
    "curl -u user:«pass» https://example.org",
    "curl -s \\\n  --user 'user:«pass»' \\\n https://example.org",
    "curl --proxy-user=user:«pass» https://example.org",
]
LEFT_ALONE = [
    "password = token2",
    "connect(password=dbpassword2)",
    "password=secret_key_2024",
    "login(password=first&&second)",
    "secret: the second one of 3",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer authentication",
    "max_tokens=500",
    "max_tokens = 12000000000",
    "token_count = 3",
    "MAX_TOKEN=12000000000",
    "PASSWORD=",
    "PASSWORD=\nNEXT=correct-horse",
    "PASSWORD= ./run-something",
    "DB_PASSWORD= correct-horse",
    "password=${DB_PASSWORD}",
    "PASSWORD=prefix${DB_PASSWORD}",
    "--password=$SECRET",
    "curl -u $USER:$PASSWORD https://example.org",
    "curl -u user: https://example.org",
    "docker run -u 1000:1000 image",
    "curl https://example.org\ndocker run -u user:group image",
    "?api_key={api_key}",
    "?page_token=abcdefgh1234&x=1",
    "nextPageToken=abcdefgh1234",
    "password = settings.database_password",
    "password=settings.database_password",
    "connect(user=user, password=db_password)",
    "connect(user=user, password=hunterhunter)",
    "Client(API_KEY=API_KEY)",
    "Client(a, API_KEY=API_KEY)",
    "api_key = os.environ['API_KEY']",
    "API_KEY=os.getenv('API_KEY')",
    "token = get_token2(name)",
    "token = tokens2[0][1]",
    "secret = sha256_digest",
    "token = nothing",
    "if password == 'x' or password == other_1:",
    "password => value12345",
    "password != value12345",
    "password: string; // at least 8 characters",
    "password: str = field()",
    "Password: must be at least 8 characters",
    "secret: default-token-abc12",
    "token: abcdefgh12",
    "private_key = ./keys/id_rsa1",
    "private_key=/etc/ssl/key1.pem",
    "PRIMARY_KEY=customer_number_1",
    "password=required",
    "PASSWORD=********",
    "PASSWORD=xxxxxxxx",
    "PASSWORD=<your password>",
    "TOKEN=short",
    "--password is read from a file",
    "--token-file /run/token1",
    "Authorization: Basic authentication is used",
    "Authorization: Basic {credentials}",
    "Authorization: Bearer $TOKEN",
]


@pytest.mark.parametrize("marked", GIVEN)
def test_a_secret_that_is_given_without_quotes_is_masked(marked: str) -> None:
    before, _, rest = marked.partition("«")
    secret, _, after = rest.partition("»")

    [(start, end, kind)] = find_secrets(f"{before}{secret}{after}")
    masked = f"{before}[masked: {kind}]{after}"

    assert (start, end) == (len(before), len(before) + len(secret))
    assert mask(f"{before}{secret}{after}")[0] == mask(masked)[0] == masked


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert mask(text)[0] == text


HOSTILE = [
    *("password=", "password=a(", "password=ab.", "secret: 1", "api_key = a(", "curl -u a:", "_"),
    *("curl curl\n -u a:b", "--a_", "-", "authorization: basic ", "token", "sk-", "sk-a1-", "a://"),
    *("a://b:", "a://:%", "\\", "\\\n", "\x1b[", "\x1b]", "\\u001b[", "x\b"),
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_long_text_is_searched_to_its_end(piece: str) -> None:
    text = piece * (100_000 // len(piece)) + " \nDB_PASSWORD=correct-horse"

    assert find_secrets(text)[-1][1] == len(text)


_pieces = st.lists(
    st.one_of(
        st.text(max_size=12),
        st.sampled_from(
            "password DB_PASSWORD token --secret api_key next abcdefgh1 hunter22 correct-horse"
            " Bearer x:y 12345678".split()
        ),
        st.sampled_from(
            ["=", " = ", ": ", " ", "\n", "&", ";", "(", "[", '"', ".", "curl -u ", "ENV "]
        ),
        st.sampled_from([*SECRETS.values(), "Authorization: Basic "]),
    ),
    max_size=12,
)


@given(_pieces)
@example([SECRETS["AWS Access Key"], "curl -u ", "x:y"])  # the key hides where the command begins
@example(
    [SECRETS["AWS Access Key"], *[SECRETS["Google API Key"]] * 3, SECRETS["Anthropic API Key"]]
)
def test_masking_twice_is_masking_once(pieces: list[str]) -> None:
    once, _ = mask("".join(pieces))

    assert mask(once)[0] == once


# ---- parts ----


def encoded(text: str, codec: str = "utf-8") -> str:
    return b64encode(text.encode(codec)).decode()


def file_of(media_type: str, text: str, codec: str = "utf-8", **fields: Any) -> Document:
    source = Base64Source(media_type=media_type, data=encoded(text, codec))
    return Document(source=source, **fields)


SEARCHED = {
    "type": "search_result",
    "source": "notes.md",
    "title": f"uses {TOKEN}",
    "content": [{"type": "text", "text": f"token {TOKEN}"}],
}
WEB = UrlSource(url="https://example.org/a.txt")
TELLING: dict[str, Any] = {
    "a text": Text(f"token {TOKEN}"),
    "a document": file_of("text/plain", f"token {TOKEN}"),
    "a document of UTF-16": file_of("text/csv", f"a;{TOKEN}", "utf-16"),
    "the title of a document": file_of("text/plain", "x", title=TOKEN),
    "the context of a document": Document(source=WEB, extras={"anthropic": {"context": TOKEN}}),
    "a document whose text is given": Document(source=WEB, text=f"token {TOKEN}"),
    "a document of JSON": file_of("application/json", json.dumps({"token": TOKEN})),
    "a document in another encoding": file_of("text/plain", f"Schlüssel {TOKEN}", "latin-1"),
    "a block": Opaque(provider="anthropic", block=SEARCHED, text=f"token {TOKEN}"),
    "bytes of text in a block": block(
        "gemini", inline_data={"mime_type": "text/plain", "data": encoded(TOKEN)}
    ),
    "the fields of a text": Text("x", extras={"openai_chat": {"name": TOKEN}}),
    "what was signed": Text(TOKEN, signature="c2ln"),
}


@pytest.mark.parametrize("part", TELLING.values(), ids=TELLING.keys())
@pytest.mark.parametrize("kind", [USER, TOOL_RESULT])
def test_a_secret_is_masked_in_whichever_field_it_stands(part: Any, kind: int) -> None:
    held = to_json(part)
    parts = [held] if kind == USER else [{"type": "tool_result", "call_id": "c", "content": [held]}]

    made, notice = masked_parts(kind, parts, ["user", "tool_results"])
    written = json.dumps(made)
    carried = [
        b64decode(one).decode() for one in written.split('"') if len(one) > 40 and " " not in one
    ]

    assert TOKEN not in f"{written} {carried}"
    assert notice == "A secret was masked (GitHub Token)."
    assert "c2ln" not in written
    assert masked_parts(kind, made, ["user", "tool_results"]) == (made, "")


LEFT_WHOLE: dict[str, Any] = {
    "an image at an address": Image(source=UrlSource(url="https://u:pw12345@example.org/a.png")),
    "a PDF": file_of("application/pdf", f"%PDF-1.4 {TOKEN}"),
    "bytes in a block": block("gemini", inline_data={"mime_type": "image/png", "data": TOKEN}),
    "what a provider sealed": block("openai_responses", type="x", encrypted_content=TOKEN),
}


@pytest.mark.parametrize("part", LEFT_WHOLE.values(), ids=LEFT_WHOLE.keys())
def test_what_is_worth_nothing_but_whole_stays(part: Any) -> None:
    parts = [to_json(part)]

    assert masked_parts(USER, parts, ["user"]) == (parts, "")


def test_a_result_of_a_providers_own_tool_goes_back_as_it_came() -> None:
    ran = {"type": "bash_code_execution_tool_result", "content": {"stdout": TOKEN}}
    told = Opaque(provider="anthropic", block=ran, text=f"[ran: {TOKEN}]")
    said = Opaque(provider="anthropic", block={"type": "text", "text": TOKEN}, text=TOKEN)
    parts = to_json([told, said, Text(TOKEN), call("c1", arguments={"a": TOKEN})])

    [first, *others], _ = masked_parts(ASSISTANT | UNUSUAL, parts, ["tool_results"])

    assert (first["block"], first["text"]) == (ran, f"[ran: {HIDDEN}]")
    assert others == parts[1:]


def test_a_summary_keeps_the_block_that_a_provider_wrote() -> None:
    written = {"type": "compaction", "content": f"They use {TOKEN}."}
    parts = to_json([Text(TOKEN), Opaque(provider="anthropic", block=written, text=TOKEN)])

    [text, sealed], _ = masked_parts(COMPACTION, parts, ["user"])

    assert (text["text"], sealed["text"], sealed["block"]) == (HIDDEN, HIDDEN, written)


@pytest.mark.parametrize(
    ("kind", "places"),
    [(USER, ["tool_results"]), (TOOL_RESULT, ["user"]), (USER, []), (5, ["user"])],
)
def test_only_the_places_asked_for_are_masked(kind: int, places: list[str]) -> None:
    parts = [to_json(Text(TOKEN))]

    assert masked_parts(kind, parts, places) == (parts, "")
