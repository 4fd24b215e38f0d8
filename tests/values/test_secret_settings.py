"""Secrets in settings, command lines and queries are masked; code and references are left alone."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from context_assembler.values.texts.secret_masking import find_secrets, mask_secrets

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
    text = f"{before}{secret}{after}"

    [found] = find_secrets(text)
    masked = mask_secrets(text)

    assert text[found.start : found.end] == secret
    assert masked.text == f"{before}[masked: {found.kind}]{after}"
    assert mask_secrets(masked.text).text == masked.text


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert mask_secrets(text).text == text


HOSTILE = [
    "password=",
    "password=a(",
    "password=ab.",
    "secret: 1",
    "api_key = a(",
    "curl -u a:",
    "curl curl\n -u a:b",
    "--a_",
    "-",
    "authorization: basic ",
    "token",
    "_",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_long_text_is_searched_to_its_end(piece: str) -> None:
    text = piece * (200_000 // len(piece))

    last = find_secrets(f"{text} \nDB_PASSWORD=correct-horse")[-1]

    assert last.end == len(text) + len(" \nDB_PASSWORD=correct-horse")


_pieces = st.lists(
    st.sampled_from(
        [
            *(
                "password",
                "DB_PASSWORD",
                "token",
                "--secret",
                "api_key",
                "next",
                "curl -u ",
                "ENV ",
            ),
            *(
                "=",
                " = ",
                ": ",
                " ",
                "\n",
                "\\n",
                "&",
                ";",
                ",",
                "(",
                ")",
                "[",
                "${",
                '"',
                ".",
                "/",
            ),
            *("abcdefgh1", "hunter22", "correct-horse", "AKIA" + "QWERTYUIOPASDFGH", "12345678"),
            *("Authorization: Basic ", "Bearer ", "x:y", "é"),
        ]
    ),
    max_size=12,
)


@given(_pieces)
@example(["AKIA" + "QWERTYUIOPASDFGH", "curl -u ", "x:y"])  # the key hides where the command begins
def test_masking_settings_twice_is_masking_them_once(pieces: list[str]) -> None:
    once = mask_secrets("".join(pieces))

    assert mask_secrets(once.text).text == once.text
