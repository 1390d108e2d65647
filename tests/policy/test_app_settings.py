"""What an application asks of its jobs is one value, made of its settings."""

from dataclasses import FrozenInstanceError, replace
from datetime import timedelta

import pytest

from onward import Category, InvalidSetting, RetryPolicy, Slo
from onward.core.policy.category import CATEGORIES, Capability
from onward.core.policy.policies import Policies
from onward.core.policy.settings import Settings

SECOND = timedelta(seconds=1)
RECORD = frozenset[Capability]({"audit", "artifact"})
QUICK = RetryPolicy(kind="fixed", base=SECOND, max_attempts=2)


def test_the_strict_profile_requires_tenancy_and_contract():  # S4-21
    strict, usual = Settings.of(profile="strict"), Settings.of()
    assert (strict.tenancy, strict.contract, strict.strict) == ("required", "required", True)
    assert (usual.tenancy, usual.contract, usual.strict) == ("optional", "off", False)
    assert Settings.of(profile="strict", tenancy="required").strict


def test_settings_never_change():
    settings = Policies.of(audit="ends", routes={"mail.*": "q:mail"}, alert_throttle="30s").settings
    assert settings == Settings(
        audit="ends", routes=(("mail.*", "q:mail"),), alert_throttle=timedelta(seconds=30)
    )
    with pytest.raises(FrozenInstanceError):
        settings.audit = "off"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tenancy": "on"}, "tenancy is 'on'; give one of 'off', 'optional', 'required'"),
        ({"contract": None}, "contract is None; give one of"),
        ({"audit": "some"}, "audit is 'some'; give one of 'off', 'ends', 'full'"),
        ({"profile": "lax"}, "profile is 'lax'; give 'strict'"),
        ({"profile": "strict", "tenancy": "off"}, "profile='strict' needs tenancy='required'"),
        ({"profile": "strict", "contract": "optional"}, "needs contract='required'"),
        ({"categories": ["billing"]}, "'billing' is no category; give Category"),
        ({"routes": {"": "q:x"}}, "a route has an empty pattern"),
        ({"routes": {"mail.*": ""}}, r"route 'mail\.\*': queue is empty"),
        ({"routes": {"mail.*": "q:deadletter"}}, "q:deadletter shows the dead"),
        ({"routes": {"category:planing": "q:x"}}, "did you mean 'planning'"),
        ({"profile": "strict", "routes": {"mail.*": "q:critical"}}, "kept for the category critical"),
        (
            {"profile": "strict", "categories": [Category(name="x", queue="q:critical")]},
            "kept for the category",
        ),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(settings, message):
    with pytest.raises(InvalidSetting, match=message):
        Policies.of(**settings)


def test_the_first_route_that_fits_decides_unless_none_does():  # S4-19
    policies = Policies.of(
        routes={"mail.urgent": "q:fast", "mail.*": "q:mail", "category:planning": "q:plans"},
    )
    assert policies.queue_of("mail.urgent", "default") == "q:fast"
    assert policies.queue_of("mail.news", "planning") == "q:mail"
    assert policies.queue_of("Mail.news", "planning") == "q:plans"
    assert policies.queue_of("plan", "planning") == "q:plans"
    assert policies.queue_of("other", "notification") == "q:notifications"


@pytest.mark.parametrize(
    ("name", "queue"),
    [
        ("notification", "q:notifications"),
        ("audit_enrichment", "q:default"),
        ("planning", "q:planning"),
        ("import_export", "q:exports"),
        ("maintenance", "q:maintenance"),
        ("critical", "q:critical"),
    ],
)
def test_every_category_of_the_contract_has_its_queue(name, queue):  # S4-8, S4-18, S4-19
    assert Policies.of().queue_of("t", name) == queue


def test_an_application_has_categories_of_its_own():  # S4-8
    billing = Category(name="billing", retry=QUICK, queue="q:billing", slo=Slo(SECOND, 0.9))
    quiet = replace(CATEGORIES["default"], retry=QUICK)
    policies = Policies.of(categories=[billing, quiet])
    assert policies.category("billing") is billing
    assert policies.category("billing").slo == Slo(SECOND, 0.9)
    assert policies.category("default") is quiet
    assert policies.category("planning") is CATEGORIES["planning"]
    assert "billing" not in CATEGORIES
    assert "billing" not in Policies.of().registry.categories


def test_what_a_category_leaves_open_is_the_default():  # S4-31, S4-32, S4-33
    assert Category(name="billing").retry == CATEGORIES["default"].retry


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scheduling": "never"}, "scheduling is 'never'; give one of 'allow', 'explicit', 'deny'"),
        ({"on_subject_delete": "drop"}, "on_subject_delete is 'drop'"),
        ({"unique_by": "name"}, "unique_by is 'name'"),
        ({"on_conflict": "fight"}, "on_conflict is 'fight'"),
        ({"capabilities": frozenset({"fly"})}, "no capability is named 'fly'"),
        ({"queue": "q:deadletter"}, "q:deadletter shows the dead"),
        ({"artifact_retention": -SECOND}, "artifact_retention is -1s"),
    ],
)
def test_a_category_that_makes_no_sense_is_refused(fields, message):
    with pytest.raises(InvalidSetting, match=message):
        Category(name="billing", **fields)


@pytest.mark.parametrize(("wait", "target"), [(timedelta(), 0.9), (SECOND, 1), (SECOND, 0), (5, 0.9)])
def test_a_promise_can_be_kept_and_missed(wait, target):
    with pytest.raises(InvalidSetting, match="an SLO's"):
        Slo(wait, target)


def test_the_strict_profile_gives_s4s_categories_their_rules():  # S4-10, S4-11, S4-12, S4-13
    policies, usual = Policies.of(profile="strict"), Policies.of()
    assert policies.category("notification").best_effort
    assert policies.category("audit_enrichment").capabilities == RECORD
    assert policies.category("planning").capabilities == RECORD | {"enqueue"}
    assert policies.category("planning").needs_artifact
    assert policies.category("import_export").capabilities is None
    for name, preset in CATEGORIES.items():
        assert usual.category(name) == preset
        assert policies.category(name).retry == replace(preset.retry, poison_after=3)  # S4-42
        assert policies.category(name).key_lifetime == preset.key_lifetime  # S4-30


def test_an_own_category_can_tighten_s4s_but_not_loosen_them():
    everything = frozenset[Capability]({"domain", "enqueue"})
    own = [
        replace(CATEGORIES["audit_enrichment"], capabilities=everything, scheduling="explicit"),
        replace(CATEGORIES["planning"], capabilities=everything),
        replace(CATEGORIES["notification"], scheduling="deny", best_effort=False),
        replace(CATEGORIES["maintenance"], scheduling="deny"),
    ]
    policies = Policies.of(profile="strict", categories=own)
    assert policies.category("audit_enrichment").capabilities == RECORD  # S4-11
    assert policies.category("audit_enrichment").scheduling == "deny"  # S4-65
    # By the application's own policy a plan may be carried out.
    assert policies.category("planning").capabilities == everything  # S4-12
    assert policies.category("planning").needs_artifact  # S4-13
    assert policies.category("notification").scheduling == "deny"
    assert not policies.category("notification").best_effort  # S4-10
    assert policies.category("maintenance").scheduling == "deny"
