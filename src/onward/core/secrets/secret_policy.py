"""The policy for secrets in payloads: reject the job, redact the secret, or allow it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

from onward.errors import InvalidSetting

SecretPolicy = Literal["reject", "redact", "allow"]


class Secrets(NamedTuple):
    """A policy; the reason documents why secrets are allowed."""

    policy: SecretPolicy
    reason: str | None = None

    @classmethod
    def of(cls, policy: Any, reason: Any, *, where: str = "") -> Secrets:
        """Return a checked policy; raise InvalidSetting unless 'allow', and only 'allow', has a reason."""
        if policy not in get_args(SecretPolicy):
            raise InvalidSetting(f"{where}secrets is {policy!r:.80}; give 'reject', 'redact' or 'allow'")
        has_reason = isinstance(reason, str) and bool(reason.strip())
        if policy == "allow" and not has_reason:
            raise InvalidSetting(f"{where}secrets='allow' needs a reason; give it as secrets_reason='…'")
        if policy != "allow" and reason is not None:
            raise InvalidSetting(
                f"{where}secrets_reason is for secrets='allow', not for {policy!r}; leave it out"
            )
        return cls(policy, reason)
