"""S0-71, S0-72: a link opens one artifact for 72 hours; whatever else it may be, it opens nothing."""

from __future__ import annotations

import base64
import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest

from onward import Client, InvalidSetting, NotAllowed, Onward
from onward.core.policy.policies import Policies
from onward.core.policy.settings import Settings
from onward.errors import ArtifactNotFound, InvalidLink, MissingExtra
from tests.records.artifacts.files import LARGE

# Long enough for any algorithm that it must not be used with.
SECRET = "an example secret of enough bytes" * 2
OTHER = "another secret that has as many bytes"
HOURS_72 = timedelta(hours=72)


@pytest.fixture
def own(client: Client) -> Client:
    return Client(store=client.store, policies=Policies.of(artifact_secret=SECRET))


def claims_of(token: str) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return claims


def forged(secret: str = SECRET, algorithm: str = "HS256", **claims: Any) -> str:
    return jwt.encode(claims, secret, algorithm=algorithm)


def test_a_link_opens_its_artifact_for_seventy_two_hours(own):  # S0-71
    artifact = own.for_org("a").artifacts.put("invoice.pdf", LARGE)
    begin = artifact.created_at.replace(microsecond=0)
    token = own.at(begin).artifacts.sign(artifact.id)
    assert own.artifacts.check(token) == artifact
    assert own.at(begin + HOURS_72 - timedelta(seconds=1)).artifacts.check(token) == artifact
    with own.artifacts.open_link(token) as file:
        assert file.read() == LARGE
    for moment in (begin + HOURS_72, begin + timedelta(days=365)):
        with pytest.raises(InvalidLink):
            own.at(moment).artifacts.check(token)
        with pytest.raises(InvalidLink):
            own.at(moment).artifacts.open_link(token)


def test_a_link_says_what_it_opens_and_until_when(own):
    artifact = own.for_org("a").artifacts.put("n", b"x")
    begin = datetime(2026, 1, 2, tzinfo=UTC)
    claims = claims_of(own.at(begin).artifacts.sign(artifact.id, expires_in="1h"))
    assert claims == {
        "aud": "onward:artifact", "sub": artifact.id, "org": "a", "sha256": artifact.sha256,
        "exp": int(begin.timestamp()) + 3600,
    }  # fmt: skip


def test_the_application_gives_links_as_urls(tmp_path):  # S0-72
    app = Onward(f"sqlite:///{tmp_path}/onward.db", artifact_secret=SECRET)
    artifact = app.client.artifacts.put("invoice.pdf", b"pdf", roles=["billing"])
    link = app.artifact_link(artifact.ref, "/api/invoices/{id}/pdf", role="billing")
    parts = urlsplit(link)
    assert parts.path == f"/api/invoices/{artifact.id}/pdf"
    [token] = parse_qs(parts.query)["t"]
    with app.client.artifacts.open_link(token) as file:
        assert file.read() == b"pdf"
    assert "&t=" in app.artifact_link(artifact.id, "https://x.example/?a=1", ttl="5m", role="billing")
    app.close()


def invalid_tokens(token: str) -> dict[str, object]:
    claims = claims_of(token)
    header, body, signature = token.split(".")
    other = {**claims, "sub": "01890000-0000-7000-8000-000000000000"}
    unsigned = (
        base64.urlsafe_b64encode(json.dumps({"alg": "none", "typ": "JWT"}).encode()).rstrip(b"=").decode()
    )
    return {
        "empty": "",
        "no token": "abc",
        "no text": None,
        "bytes": token.encode() + b"x",
        "very long": token + "x" * 5000,
        "cut off": token[:-1],
        "without a signature": f"{header}.{body}.",
        "alg none": f"{unsigned}.{body}.",
        "alg none, signed": f"{unsigned}.{body}.{signature}",
        "another secret": forged(OTHER, **claims),
        "another algorithm": forged(algorithm="HS512", **claims),
        "other claims, old signature": f"{header}.{forged(**other).split('.')[1]}.{signature}",
        "no end": forged(**{name: value for name, value in claims.items() if name != "exp"}),
        "an end that is no number": forged(**{**claims, "exp": "tomorrow"}),
        "no audience": forged(**{name: value for name, value in claims.items() if name != "aud"}),
        "another audience": forged(**{**claims, "aud": "onward:api"}),
        "another org": forged(**{**claims, "org": "b"}),
        "no org": forged(**{**claims, "org": None}),
        "another content": forged(**{**claims, "sha256": "0" * 64}),
        "an artifact that is not there": forged(**other),
        "no artifact": forged(**{**claims, "sub": "../../etc/passwd"}),
    }


def test_any_other_token_is_refused_and_all_with_one_message(own):  # S0-71
    token = own.artifacts.sign(own.for_org("a").artifacts.put("n", b"x").id)
    told = set()
    for wrong in invalid_tokens(token).values():
        with pytest.raises(InvalidLink) as refused:
            own.artifacts.check(wrong)
        told.add(str(refused.value))
    assert told == {"the link is not valid, or no longer; ask for a new one"}


def test_a_link_ends_with_its_artifact(own):
    artifact = own.artifacts.put("n", b"x", expires="1h")
    token = own.artifacts.sign(artifact.id)
    with pytest.raises(InvalidLink):
        own.at(artifact.created_at + timedelta(hours=2)).artifacts.check(token)
    own.artifacts.delete(artifact.id, reason="why")
    with pytest.raises(InvalidLink):
        own.artifacts.check(token)


def test_only_who_may_read_an_artifact_can_sign_a_link(own):  # S4-15
    artifact = own.for_org("a").artifacts.put("n", b"x", roles=["finance"])
    with pytest.raises(NotAllowed):
        own.artifacts.sign(artifact.id)
    with pytest.raises(ArtifactNotFound):
        own.for_org("b").artifacts.sign(artifact.id, role="finance")
    token = own.artifacts.sign(artifact.id, role="finance")
    assert own.artifacts.check(token).id == artifact.id
    with pytest.raises(InvalidLink):
        own.for_org("b").artifacts.check(token)


def test_the_secret_may_come_from_the_environment_or_a_file(client, monkeypatch, tmp_path):
    artifact = client.artifacts.put("n", b"x")
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    monkeypatch.setenv("ONWARD_ARTIFACT_SECRET_FILE", str(file))
    token = client.artifacts.sign(artifact.id)
    monkeypatch.setenv("ONWARD_ARTIFACT_SECRET", SECRET)
    monkeypatch.delenv("ONWARD_ARTIFACT_SECRET_FILE")
    assert client.artifacts.check(token).id == artifact.id


def test_without_a_secret_that_is_long_enough_there_are_no_links(client):
    for secret in (None, ""):
        own = Client(store=client.store, policies=Policies(Settings(artifact_secret=secret)))
        for ask in (own.artifacts.sign, own.artifacts.check):
            with pytest.raises(InvalidSetting, match="secret"):
                ask("any")
    assert SECRET not in repr(Policies.of(artifact_secret=SECRET))


@pytest.mark.parametrize("secret", [5, b"x" * 32, "brief", "x" * 31, "\ud800" * 32])
def test_a_secret_that_can_sign_nothing_is_refused_at_once(secret, tmp_path):
    with pytest.raises(InvalidSetting, match="the secret of artifact links") as told:
        Onward(f"sqlite:///{tmp_path}/onward.db", artifact_secret=secret)
    assert str(secret) not in str(told.value)


def test_a_short_secret_of_the_environment_is_refused_when_it_is_needed(client, monkeypatch):
    monkeypatch.setenv("ONWARD_ARTIFACT_SECRET", "brief")
    with pytest.raises(InvalidSetting, match="too short") as told:
        client.artifacts.check("any")
    assert "brief" not in str(told.value)


@pytest.mark.parametrize("token", ["\ud800", "ä.ö.ü", "a\0b", 5, None])
def test_what_can_be_no_token_is_refused_like_any_other(own, token):
    with pytest.raises(InvalidLink):
        own.artifacts.check(token)


def test_a_link_needs_a_time_to_come(own):
    artifact = own.artifacts.put("n", b"x")
    for span in (0, -1, "soon", timedelta(days=-1)):
        with pytest.raises(InvalidSetting, match="expires_in"):
            own.artifacts.sign(artifact.id, expires_in=span)


def test_without_pyjwt_the_message_names_its_extra(own, monkeypatch):
    artifact = own.artifacts.put("n", b"x")
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(MissingExtra, match=r'pip install "onward\[links\]"'):
        own.artifacts.sign(artifact.id)
