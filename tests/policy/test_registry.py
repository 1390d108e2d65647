"""The registry holds what an application defines, by name, and each name once."""

from datetime import timedelta

import pytest

from onward import Category, InvalidSetting, Onward, RetryPolicy
from onward.core.failures.breaker import BreakerSettings
from onward.core.limits.queue_policy import QueuePolicy
from onward.core.policy.category import CATEGORIES
from onward.core.policy.policies import Policies
from onward.core.policy.registry import Registry

QUICK = RetryPolicy(kind="fixed", base=timedelta(seconds=1), max_attempts=2)


def test_a_breaker_and_a_queue_are_declared_once():
    registry = Registry()
    registry.add_breaker("mail", BreakerSettings.of(failures=3))
    policy = QueuePolicy.of(concurrency=2)
    assert registry.add_queue("q:mail", policy) is policy
    with pytest.raises(InvalidSetting, match=r"breaker\(\) has been called for 'mail' before"):
        registry.add_breaker("mail", BreakerSettings.of())
    with pytest.raises(InvalidSetting, match=r"queue\(\) has been called for 'q:mail' before"):
        registry.add_queue("q:mail", QueuePolicy.of())
    assert registry.breakers["mail"].failures == 3
    assert registry.queues == {"q:mail": policy}


def test_every_application_has_a_registry_of_its_own_with_the_preset_categories():
    first, second = Policies(), Policies()
    assert first.registry.categories == dict(CATEGORIES)
    first.add_category(Category(name="billing"))
    first.add_retry("t", QUICK)
    assert "billing" not in second.registry.categories
    assert second.registry.retries == {}


def test_a_job_type_registers_what_its_definition_says(tmp_path):
    app = Onward(f"sqlite:///{tmp_path}/onward.db")
    before = app.policies.settings

    @app.job(max_attempts=2, limit=1, secrets="allow", secrets_reason="a test")
    def mail(booking_id: int) -> None:
        raise NotImplementedError

    registry = app.policies.registry
    assert list(registry.job_types) == ["mail"]
    assert list(registry.limits) == ["mail"]
    assert registry.secrets["mail"].policy == "allow"
    assert app.policies.settings is before
