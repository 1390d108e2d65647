"""Keep secrets out of the database: payloads, keys, subjects and tags are scanned before any SQL."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, cast

from onward.core.jobs.job import NewJob
from onward.core.jobs.payload import encode
from onward.core.policy.policies import Policies
from onward.core.secrets.redaction import Redaction
from onward.errors import SecretInPayload


def scan(new: NewJob, text: str, limit: int, policies: Policies) -> str:
    """Refuse or redact the secrets of a job whose encoded payload is `text`; return the text to store."""
    own = policies.registry.secrets.get(new.job_type)
    policy = policies.settings.secrets if own is None else own.policy
    if policy == "allow":
        return text
    redaction = policies.settings.redact
    if new.key is not None or new.subject is not None or new.tags:
        _check_labels(new, redaction)
    if not redaction.may_hold(new.payload, text):
        return text
    found = redaction.find(new.payload)
    if found is None:
        return text
    if policy == "reject":
        raise SecretInPayload.at(*found)
    return encode(redaction.redact(new.payload), limit=limit)


def scan_many(
    jobs: Sequence[NewJob],
    texts: list[str],
    limits: Iterable[int],
    policies: Policies,
    *,
    types: Iterable[str],
    labels: Collection[str | None],
) -> list[str]:
    """Refuse or redact the secrets of many jobs with flat payloads; a quick check covers all at once.

    `types` are their job types, each once or more; `labels` are their keys and subjects.
    """
    if all(policies.secrets_of(job_type).policy == "allow" for job_type in types):
        return texts
    redaction = policies.settings.redact
    payloads = cast("list[dict[str, Any]]", [new.payload for new in jobs])
    if (
        not any(new.tags for new in jobs)
        and not redaction.texts_may_hold([label for label in labels if label is not None])
        and not redaction.any_may_hold(payloads, "\n".join(texts))
    ):
        return texts
    return [scan(new, text, limit, policies) for new, text, limit in zip(jobs, texts, limits, strict=True)]


def _check_labels(new: NewJob, redaction: Redaction) -> None:
    """Refuse a secret in a key, a subject or a tag: redacted, it would identify another job."""
    labels: dict[str, object] = {"key": new.key, "subject": new.subject}
    if isinstance(new.tags, list | tuple):
        labels |= {f"tags[{at}]": tag for at, tag in enumerate(new.tags)}
    for name, text in labels.items():
        kind = redaction.find_in_text(text) if isinstance(text, str) else None
        if kind is not None:
            raise SecretInPayload.at(name, kind)
