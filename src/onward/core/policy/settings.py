"""The settings of an application: what the constructor of `Onward` takes, checked once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, TypedDict, get_args

from onward.core.failures.alert import Alert, Sink
from onward.core.inputs.checks import span
from onward.core.inputs.duration import Duration, duration
from onward.core.inputs.plain_text import kind_of
from onward.core.policy.category import Category
from onward.core.policy.retention import Retention
from onward.core.secrets.redaction import REDACTION, Redaction
from onward.core.secrets.secret_policy import SecretPolicy, Secrets
from onward.errors import InvalidSetting

Mode = Literal["off", "optional", "required"]
AuditLevel = Literal["off", "ends", "full"]

AUDIT_LEVELS: tuple[AuditLevel, ...] = ("off", "ends", "full")

_MODES: tuple[Mode, ...] = get_args(Mode)
_LEAST_SECRET = 32


class SettingOptions(TypedDict, total=False):
    """The keyword arguments of `Onward()` besides its database."""

    tenancy: Mode
    contract: Mode
    profile: Literal["strict"] | None
    audit: AuditLevel
    audit_chain: bool
    meter_runs: bool
    dry_run: bool | None
    artifacts: str
    artifact_inline_bytes: int
    artifact_secret: str
    categories: Iterable[Category]
    routes: Mapping[str, str]
    secrets: SecretPolicy
    secrets_reason: str
    redact: Redaction
    alerts: Iterable[Sink | Callable[[Alert], object]]
    alert_throttle: Duration
    unknown_after: Duration
    retention: Retention
    maintenance: bool


def check_secret(secret: Any) -> None:
    """Raise InvalidSetting for a secret that can't sign links to artifacts; an empty text means no secret."""
    if not isinstance(secret, str):
        raise InvalidSetting(f"the secret of artifact links is {kind_of(secret)}; give a str")
    try:
        size = len(secret.encode())
    except UnicodeEncodeError:
        raise InvalidSetting(
            "the secret of artifact links has half a surrogate pair; decode its source as UTF-8"
        ) from None
    if 0 < size < _LEAST_SECRET:
        raise InvalidSetting(f"the secret of artifact links is too short; give {_LEAST_SECRET} bytes or more")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one application; they never change."""

    tenancy: Mode = "optional"
    contract: Mode = "off"
    strict: bool = False
    audit: AuditLevel = "full"
    audit_chain: bool = False
    meter_runs: bool = False
    dry_run: bool = False
    artifacts: str | None = None
    artifact_inline_bytes: int = 16_384
    artifact_secret: str | None = field(default=None, repr=False)
    routes: tuple[tuple[str, str], ...] = ()
    secrets: SecretPolicy = "reject"
    secrets_reason: str | None = None
    redact: Redaction = REDACTION
    alert_throttle: timedelta = timedelta(minutes=5)
    unknown_after: timedelta = timedelta(minutes=10)
    retention: Retention = field(default_factory=Retention)
    maintenance: bool = True

    def __post_init__(self) -> None:
        """Raise InvalidSetting, with the setting's name, for a value that makes no sense."""
        for name, known in (("tenancy", _MODES), ("contract", _MODES), ("audit", AUDIT_LEVELS)):
            value = getattr(self, name)
            if value not in known:
                choices = ", ".join(map(repr, known))
                raise InvalidSetting(f"{name} is {value!r:.80}; give one of {choices}")
        for name in ("dry_run", "maintenance"):
            if not isinstance(value := getattr(self, name), bool):
                raise InvalidSetting(f"{name} is {value!r:.80}; give True or False")
        if not isinstance(self.retention, Retention):
            raise InvalidSetting(f"retention is {self.retention!r:.80}; give Retention(succeeded='7d', …)")
        Secrets.of(self.secrets, self.secrets_reason)
        if self.artifact_secret is not None:
            check_secret(self.artifact_secret)
        if not isinstance(self.redact, Redaction):
            raise InvalidSetting(f"redact is {kind_of(self.redact)}; give Redaction(names=…)")

    @classmethod
    def of(
        cls,
        *,
        profile: str | None = None,
        routes: Mapping[str, str] | None = None,
        alert_throttle: Duration = timedelta(minutes=5),
        unknown_after: Duration = timedelta(minutes=10),
        **fields: Any,
    ) -> Settings:
        """Return the settings for these arguments; the strict profile requires tenancy and contract."""
        if profile not in {None, "strict"}:
            raise InvalidSetting(f"profile is {profile!r:.80}; give 'strict', or leave it out")
        if profile == "strict":
            for name in ("tenancy", "contract"):
                if fields.setdefault(name, "required") != "required":
                    raise InvalidSetting(f"profile='strict' needs {name}='required'; leave {name} out")
        return cls(
            strict=profile == "strict",
            routes=tuple((routes or {}).items()),
            alert_throttle=span("alert_throttle", duration("alert_throttle", alert_throttle)),
            unknown_after=span("unknown_after", duration("unknown_after", unknown_after)),
            **fields,
        )
