"""What counts as a secret, by name and by looks, and what is left of it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.secrets.names import is_secret_name
from onward.core.secrets.patterns import MASK
from onward.core.secrets.redaction import REDACTION, Redaction, redact, redact_text
from onward.errors import InvalidSetting, SecretInPayload

# Put together here, so that no scanner of repositories takes them for real ones.
STRIPE = "sk_" + "live_" + "4eC39HqLyjWDarjtT1zdp7dc"
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
GITHUB = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
SLACK = "xoxb-" + "123456789012-abcdefABCDEF"
GOOGLE = "AIza" + "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY"
JWT = "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N"
PEM = "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEpAIBAAKCAQEA75\nabc+/=\n-----END RSA PRIVATE KEY-----"
LOOKS = [
    STRIPE, AWS, GITHUB, SLACK, GOOGLE, JWT, PEM, "github_pat_" + "1A" * 20, "sk-" + "proj-" + "a1_B-" * 8,
    "sk-" + "ant-" + "api03-" + "Ab1_" * 10, "sk-" + "aB3d" * 8, "glpat-" + "x1Y_-" * 4, "npm_" + "a1B2" * 9,
    "SG." + "a1-B_" * 4 + "." + "c2D3" * 8, "sk_" + "test_" + "4eC39HqLyjWDarjt", "whsec_" + "a1B2" * 8,
]  # fmt: skip

NAMES = [
    "password", "Password", "PASSWORD", "passwd", "pwd", "passphrase", "secret", "client_secret",
    "clientSecret", "api_key", "apikey", "apiKey", "APIKey", "x-api-key", "token", "access_token",
    "refreshToken", "id_token", "ssh_key", "sshKey", "passcode", "X-Auth-Token", "OAuthToken",
    "authorization", "Proxy-Authorization", "credential", "credentials", "cookie", "Set-Cookie",
    "cookies", "private_key", "privateKey", "PRIVATE KEY", "db-password", "DB_PASSWORD", "dbpassword",
    "aws.secret.access.key",
    "smtp_pass", "new_password", "newPassword2", "password_confirmation", "passwordConfirm",
    "password_old", "password_1", "token_v2", "accessTokenV2", "secret_value", "jwt", "bearer",
    "passwords", "api_keys", "access_tokens", "encryption-key", "signingKey", "webhook_secret",
    "password_hash", "пароль_password", "a" * 500 + "_password",
]  # fmt: skip
NO_NAMES = [
    "", "_", "1", "value", "key", "keys", "idempotency_key", "public_key", "primaryKey", "foreign_key",
    "sort_key", "key_id", "access_key_id", "token_count", "max_tokens", "tokens", "tokenizer",
    "token_type", "tokenId", "csrf_token", "csrfToken", "page_token", "nextPageToken", "sync_token",
    "eos_token", "secretary",
    "secret_id", "secrets_manager_arn", "password_reset_id", "password_policy", "passwordless",
    "cookie_consent", "cookies_accepted", "authorization_id", "author", "authorized", "auth_method",
    "credential_id", "passenger", "passport", "compass", "day_pass", "boarding_pass", "keyboard", "monkey",
    "privateer", "private", "api", "client", "bearer_of_news", "jwt_issuer", "password" + "x" * 500,
]  # fmt: skip


def find_path(payload: object) -> str | None:
    found = REDACTION.find(payload)
    return None if found is None else found.path


@pytest.mark.parametrize("name", NAMES)
def test_a_name_whose_last_words_say_secret_is_one(name):  # S4-51, R25
    assert is_secret_name(name)
    assert find_path({"deep": [{name: "hunter2"}]}) is not None


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_name_that_only_speaks_of_secrets_is_none(name):
    assert not is_secret_name(name)
    assert find_path({"deep": [{name: "hunter2"}]}) is None


@pytest.mark.parametrize(
    "value", [0, 12345678, 1.5, True, False, None, "", "  ", MASK, "${DB_PASSWORD}", "***", {}]
)
def test_numbers_nothing_and_what_stands_for_a_secret_are_none(value):
    assert find_path({"password": value}) is None


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({"auth": {"password": "x"}}, "$.auth.password"),
        ({"a": 1, "users": [{"name": "ada"}, {"api_key": "z"}]}, "$.users[1].api_key"),
        ({"tokens of mine": {"token": "z"}}, '$["tokens of mine"].token'),
        ({"passwords": ["", "b"]}, "$.passwords[1]"),
        ({"token": ["a"]}, "$.token[0]"),
        ({"credentials": {"user": "ada"}}, "$.credentials.user"),
        ({"secrets": {"db": {"master": "x"}}}, "$.secrets.db.master"),
        ({"note": f"use {STRIPE} please"}, "$.note"),
        ({f"{AWS}": 1}, f'$["{MASK}"]'),
        ({"x": [["a", JWT]]}, "$.x[0][1]"),
        ([{"password": "b"}], "$[0].password"),
        ("password=hunter2", "$"),
    ],
)
def test_a_secret_is_told_by_its_path(payload, path):
    assert find_path(payload) == path
    assert find_path(redact(payload)) is None


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({"password": {"value": "hunter2"}}, "$.password.value"),
        ({"token": {"at": 3, "raw": "x"}}, "$.token.raw"),
        ({"api_key": {"plain": ["x"]}}, "$.api_key.plain[0]"),
        ({"secret": {"data": {"deep": "santa"}}}, "$.secret.data.deep"),
        ({"cookie": [{"sid": "x"}]}, "$.cookie[0].sid"),
    ],
)
def test_every_text_in_an_object_or_a_list_below_a_secret_name_is_secret(payload, path):
    assert find_path(payload) == path
    assert find_path(redact(payload)) is None


def test_numbers_in_an_object_below_a_secret_name_are_none():
    payload = {"token": {"count": 3, "used": True, "list": [1.5, None]}}
    assert find_path(payload) is None
    assert redact(payload) == payload


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("{'password': {'value': 's3cr3tNested'}}", f"{{'password': {MASK}}}"),
        ("{'password': ['s3', {'a': 'b]'}], 'n': 1}", f"{{'password': {MASK}, 'n': 1}}"),
        ('{"token": {"a": "}"}, "n": 1}', f'{{"token": {MASK}, "n": 1}}'),
        ("password=(a b) c", f"password={MASK} c"),
        ("password={a}b c", f"password={MASK} c"),
        ("password={'a': 'b c", f"password={MASK}"),
        (r"{\"token\": {\"a\": \"b c\"}, \"n\": 1}", rf"{{\"token\": {MASK}, \"n\": 1}}"),
    ],
)
def test_a_value_in_brackets_is_hidden_to_its_end(text, hidden):
    assert redact_text(text) == hidden
    assert redact_text(hidden) == hidden


@pytest.mark.parametrize(
    "payload",
    [
        {"pwd": "/srv/ada"}, {"PWD": "~/x"}, {"authorization": "pending"}, {"credentials": "include"},
        {"secret": "santa"}, {"x": "PWD=/srv/ada"}, {"x": "secret=santa"},
    ],
)  # fmt: skip
def test_a_directory_and_an_ordinary_word_are_no_secrets(payload):
    assert find_path(payload) is None


@pytest.mark.parametrize(
    "payload",
    [
        {"pwd": "hunter"}, {"db_pwd": "/x"}, {"authorization": "Pending"}, {"client_secret": "santa"},
        {"secrets": ["santa"]}, {"secret": "hunter2"}, {"password": "pending"},
    ],
)  # fmt: skip
def test_what_is_near_to_an_ordinary_word_is_a_secret(payload):
    assert find_path(payload) is not None


def test_the_refusal_of_a_secret_is_shown_as_it_is():
    for path in ("$.auth.password", '$["api key"][0]', "key"):
        message = str(SecretInPayload.at(path, "its name says so"))
        assert redact_text(message) == message
        assert "'allow'" in message
        assert "secrets_reason" in message


@pytest.mark.parametrize(
    "value",
    [
        {"://:page@token": "x"},  # the name is a secret one only when it was redacted
        {"page --token token": "x"},
    ],
)
def test_a_name_that_is_redacted_to_a_secret_one_hides_its_value(value):
    assert find_path(redact(value)) is None


@pytest.mark.parametrize("secret", LOOKS)
@pytest.mark.parametrize("around", ["{}", "before {} after", "x={};", '"{}"', "({})", "{}."])
def test_what_looks_like_a_secret_is_found_and_hidden_in_any_text(secret, around):  # R25, A20
    text = around.format(secret)
    assert REDACTION.find_in_text(text) is not None
    assert redact_text(text) == around.format(MASK)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("postgresql://ada:hunter2@db/app", f"postgresql://ada:{MASK}@db/app"),
        ("amqp://:hunter2@host", f"amqp://:{MASK}@host"),
        ("ftp://ada:p@ss@host/", f"ftp://ada:{MASK}@host/"),
        ("Bearer abcdef0123456789", f"Bearer {MASK}"),
        ("password=hunter2", f"password={MASK}"),
        ("host=db password=hunter2 port=5", f"host=db password={MASK} port=5"),
        ("a=password=hunter2", f"a=password={MASK}"),
        ("https://x.org/?next=/&token=abc&x=1", f"https://x.org/?next=/&token={MASK}&x=1"),
        ('{"token": "abc def", "n": 1}', f'{{"token": "{MASK}", "n": 1}}'),
        ("{'db_password': \"it's\"}", f"{{'db_password': \"{MASK}\"}}"),
        (r"{\"password\": \"hunter2\"}", rf"{{\"password\": \"{MASK}\"}}"),
        ('{"apiKey":"x\\"y"}', f'{{"apiKey":"{MASK}"}}'),
    ],
)
def test_a_name_and_its_value_in_a_text_are_found_and_the_value_is_hidden(text, hidden):
    assert REDACTION.find_in_text(text) is not None
    assert redact_text(text) == hidden
    assert redact_text(hidden) == hidden


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("Authorization: Basic YWRhOmh1bnRlcjI=", f"Authorization: {MASK}"),
        ("Authorization: Bearer abc", f"Authorization: {MASK}"),
        ("['curl', '--password', 'hunter2', 'x']", f"['curl', '--password', '{MASK}', 'x']"),
        ("login --api-key hunter2 now", f"login --api-key {MASK} now"),
        ('os.environ["PASSWORD"] = "hunter2"', f'os.environ["PASSWORD"] = "{MASK}"'),
        ("the password: hunter2", f"the password: {MASK}"),
        ('password="hunter2', f'password="{MASK}'),
    ],
)
def test_what_only_may_be_a_secret_is_hidden_and_no_reason_to_refuse(text, hidden):
    assert redact_text(text) == hidden
    assert REDACTION.find_in_text(text) is None or "=" in text


@pytest.mark.parametrize(
    "text",
    [
        "", "plain", "12:30", "key=value", "x-y=z", "user: ada", "https://x.org:8080/a@b",
        "mail to ada@x.org", "token: expired", "password: required", "password must be given",
        "the bearer of this certificate", "def login(password: str, token: str | None = None)",
        "token=None", "tokens=5", "AKIA", "ASIA", "sk_live_", "eyJ", "ghp_", "xox", "AIza", "task-1", "sk-1",
        "-----BEGIN CERTIFICATE-----", "token=${TOKEN}", "?token={token}",
    ],
)  # fmt: skip
def test_an_ordinary_text_stays_as_it_is(text):
    assert REDACTION.find_in_text(text) is None
    assert redact_text(text) == text


def test_the_values_of_a_payload_are_hidden_wherever_and_however_they_are_written():
    value = 'it\'s a "pass"\nword/ä'
    also = REDACTION.secrets_of({"auth": {"password": value}, "pin": "1", "secret": "abc"})
    for written in (value, repr(value), ascii(value), quote(value)):
        told = redact_text(f"wrong: {written}", also)
        assert "pass" not in told
        assert MASK in told
    assert redact_text("abc", also) == "abc", "too short to be told from other text"


def test_each_line_of_a_hidden_value_is_hidden_by_itself():
    also = REDACTION.secrets_of({"private_key": PEM})
    assert "MIIEpAIBAAKCAQEA75" not in redact_text("near MIIEpAIBAAKCAQEA75 it failed", also)


def test_the_secret_part_of_an_address_is_hidden_also_by_itself():
    also = REDACTION.secrets_of({"url": "postgresql://ada:hunter2@db/app"})
    assert redact_text("hunter2 was refused", also) == f"{MASK} was refused"


def test_a_copy_is_redacted_and_the_original_is_not():
    original = {"a": {"password": "x", "n": 1}, "list": [1, "token=abc", None], "t": ("x",)}
    copy = redact(original)
    assert copy == {"a": {"password": MASK, "n": 1}, "list": [1, f"token={MASK}", None], "t": ["x"]}
    assert original["a"] == {"password": "x", "n": 1}


def test_what_contains_itself_and_what_is_very_deep_comes_to_an_end():
    loop: dict[str, Any] = {"password": "x"}
    loop["again"] = loop
    assert find_path(loop) == "$.password"
    assert redact(loop)["password"] == MASK
    deep: Any = "hunter2"
    for _ in range(5_000):
        deep = [deep]
    assert find_path({"token": deep}) is not None
    assert find_path(redact({"token": deep})) is None


def test_an_application_adds_names_and_patterns():
    own = Redaction(
        names=["pinCode", "page_token"], patterns=[r"cust-(?P<secret>\d{4,8})", re.compile("XX+")]
    )
    assert own.find({"pin_code": "0000"}) == ("$.pin_code", "its name says so")
    assert own.find({"page-token": "p"}) is not None
    assert own.find({"x": "see cust-12345"}) is not None
    assert own.redact_text("cust-12345 XXX pin_code=1") == f"cust-{MASK} {MASK} pin_code={MASK}"
    assert own.find(own.redact({"x": "see cust-12345", "password": "x"})) is None
    assert REDACTION.find({"pin_code": "0000", "x": "cust-12345"}) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"names": "pin"}, {"names": [""]}, {"names": [5]}, {"patterns": "x"}, {"patterns": ["("]},
        {"patterns": [".*"]}, {"patterns": ["[a-z]+"]}, {"patterns": [re.compile(b"x")]}, {"patterns": [5]},
    ],
)  # fmt: skip
def test_a_list_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(InvalidSetting):
        Redaction(**wrong)


FRAGMENTS = st.sampled_from(
    [
        STRIPE, AWS, JWT, PEM, SLACK, MASK, "password", "token", "api_key", "=", ":", ": ", '"', "'", "\\",
        "--", "-----", "Bearer ", "://", "@", " ", "\n", "a", "1", "[", "]", "{", "}", "-----BEGIN ",
        "PRIVATE KEY-----", "none", "x_",
    ]
)  # fmt: skip
TEXTS = st.lists(FRAGMENTS, max_size=12).map("".join) | st.text(max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_nothing_is_found_in_what_was_redacted(value):
    redacted = redact(value)
    assert find_path(redacted) is None
    assert redact(redacted) == redacted


@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_no_value_is_left_in_a_text_from_which_it_was_to_be_hidden(text, values):
    hidden = redact_text(text, values)
    for value in values:
        if len(value) >= 4 and value not in MASK:
            assert value not in hidden.replace(MASK, "\0")


BIG = 200_000
HOSTILE = [
    "a", "=", ":", "-", "\\", "\n", "A", "password=", 'password="', "password='\\", "password = ", "eyJ",
    "eyJaaaaa.", "://", "://a:", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "--token ", "bearer ",
    "xoxa-", "ghp_", "AKIA", "a.b-", "token: ", "'\":", "--a", "passwordA", "@:", 'token:\\"', "sk_live_",
    "password=[", "password=[]", "password={'", 'password=(\\"', 'password=["\\', "sk-ant-", "sk-", "SG.",
    "whsec_",
]  # fmt: skip


@pytest.mark.parametrize("part", HOSTILE)
def test_a_text_made_to_be_slow_is_not(part):
    # Were one of the patterns quadratic, this would not come to an end while anyone waits.
    text = part * (BIG // len(part))
    redact_text(text, ["hunter2"])
    REDACTION.find({"note": text, text: 1})


def test_a_megabyte_of_all_that_is_slow_is_not():
    text = "".join(part * (1_000_000 // len(HOSTILE) // len(part)) for part in HOSTILE)
    redact_text(text, ["hunter2"])
    REDACTION.find(text)
