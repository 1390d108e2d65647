"""What a job must carry, and where and when it may go."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from examples.categories import BOOKING
from onward import Category, NewJob, job_key
from onward.core.policy.category import QUEUES
from onward.core.policy.contract import check_origin, check_queue, check_scheduling, complete
from onward.core.policy.policies import Policies
from onward.errors import ContractBroken

ORG = "0190a8c0-1111-7000-8000-000000000001"
AT = datetime(2030, 1, 1, tzinfo=UTC)
SOON = timedelta(minutes=10)

WHOLE = {"org_id": ORG, "project_id": ORG, "actor_type": "user", "actor_id": "42", "request_id": "r"}
NOBODY = dict.fromkeys(WHOLE)


def broken(policies: Policies, **fields) -> Any:
    """Give what is said about an origin; None if nothing is."""
    try:
        check_origin(policies, **{**NOBODY, **fields})
    except ContractBroken as error:
        return str(error)
    return None


@pytest.mark.parametrize("contract", ["off", "optional", "required"])
def test_a_whole_origin_is_fine_in_every_mode(contract):  # S4-21
    assert broken(Policies.of(contract=contract, tenancy="required"), **WHOLE) is None


def test_without_tenancy_an_org_is_refused():  # R14
    policies = Policies.of(tenancy="off")
    assert broken(policies) is None
    assert "tenancy='off' knows no orgs; leave it out" in broken(policies, org_id="acme")


def test_tenancy_may_leave_the_org_open():  # R14, S2-4
    assert broken(Policies.of(tenancy="optional")) is None
    assert broken(Policies.of(tenancy="optional"), org_id="acme") is None


def test_required_tenancy_needs_an_org_and_says_how_to_give_it():  # R14, S1-4
    text = broken(Policies.of(tenancy="required"))
    assert text == (
        "org_id is missing, and tenancy='required'; "
        "give .using(org_id=…), or enqueue within app.context(org_id=…)"
    )


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        (("org_id",), "org_id is missing, and contract='required'"),
        (("actor_type", "actor_id"), "actor_type and actor_id are missing, and contract='required'"),
        (("request_id",), "request_id is missing, and contract='required'"),
    ],
)
def test_a_required_contract_names_what_is_missing(missing, named):  # S4-21
    fields = {name: value for name, value in WHOLE.items() if name not in missing}
    assert broken(Policies.of(contract="required"), **fields).startswith(named)
    assert broken(Policies.of(contract="optional"), **fields) is None


def test_a_project_stays_optional():  # S4-22
    assert broken(Policies.of(profile="strict"), **{**WHOLE, "project_id": None}) is None


def test_a_required_contract_without_tenancy_needs_no_org():
    assert broken(Policies.of(contract="required", tenancy="off"), **{**WHOLE, "org_id": None}) is None


@pytest.mark.parametrize("contract", ["optional", "required"])
def test_an_actor_is_of_one_of_three_types(contract):  # S4-21
    policies = Policies.of(contract=contract)
    for kind in ("user", "system", "api_key"):
        assert broken(policies, **{**WHOLE, "actor_type": kind}) is None
    assert "knows user, system, api_key" in broken(policies, **{**WHOLE, "actor_type": "cron"})
    assert broken(Policies.of(), actor_type="cron", actor_id="nightly") is None


@pytest.mark.parametrize("given", ["actor_type", "actor_id"])
def test_half_an_actor_is_none(given):  # S4-21
    assert broken(Policies.of(contract="optional"), **{given: "user"}).startswith(f"{given} is set and ")
    assert broken(Policies.of(), **{given: "user"}) is None


@pytest.mark.parametrize("field", ["org_id", "project_id"])
def test_the_strict_profile_takes_uuids_written_in_one_way(field):  # S4-21, S4-22
    policies = Policies.of(profile="strict")
    assert "give a UUID" in broken(policies, **{**WHOLE, field: "acme"})
    assert f"give {ORG}" in broken(policies, **{**WHOLE, field: ORG.upper()})
    assert broken(Policies.of(tenancy="required"), **{**WHOLE, field: "acme"}) is None


def test_a_required_contract_completes_correlation_and_key():  # S4-24, S4-26, S4-27
    new = NewJob(job_type="t", payload={"a": 1}, org_id="o", project_id="p", request_id="r")
    done = complete(new, Policies.of(contract="required"), AT)
    assert (done.correlation_id, done.key) == ("r", job_key("t", "o", "p", {"a": 1}))
    own = NewJob(job_type="t", request_id="r", correlation_id="c", key="k")
    assert complete(own, Policies.of(contract="required"), AT) is own
    assert complete(new, Policies.of(contract="optional"), AT) is new


def test_a_job_that_is_unique_by_its_subject_is_given_no_other_key():  # R22
    new = NewJob(job_type="t", category="booking", subject="booking:42", request_id="r")
    assert complete(new, Policies.of(contract="required", categories=[BOOKING]), AT).key is None


@pytest.mark.parametrize(
    ("name", "later", "at"),
    [
        ("maintenance", True, True),
        ("notification", False, True),
        ("default", False, False),
        ("critical", False, False),
        ("planning", False, False),
        ("import_export", False, False),
        ("audit_enrichment", False, False),
        ("booking", False, False),
    ],
)
def test_the_strict_profile_schedules_maintenance_and_explicit_notifications(
    name, later, at
):  # S4-65, S4-66, R23
    strict = Policies.of(profile="strict", categories=[BOOKING]).category(name)
    usual = Policies.of(categories=[BOOKING]).category(name)
    for allowed, run_at, delay in ((later, None, SOON), (at, AT, None), (True, None, None)):
        check_scheduling(usual, run_at, delay)
        if allowed:
            check_scheduling(strict, run_at, delay)
        else:
            with pytest.raises(ContractBroken, match=f"category {name} "):
                check_scheduling(strict, run_at, delay)


def test_a_category_says_by_itself_whether_it_may_be_scheduled():  # R23
    policies = Policies.of(categories=[Category(name="now", scheduling="deny")])
    with pytest.raises(ContractBroken, match="may not be scheduled"):
        check_scheduling(policies.category("now"), AT, None)
    check_scheduling(policies.category("now"), None, timedelta())
    strict = Policies.of(profile="strict", categories=[Category(name="any", scheduling="allow")])
    check_scheduling(strict.category("any"), None, SOON)


def test_the_critical_queue_is_kept_in_the_strict_profile():  # S4-20
    strict = Policies.of(profile="strict")
    check_queue(strict, "critical", "q:critical")
    check_queue(Policies.of(), "default", "q:critical")
    with pytest.raises(ContractBroken, match="q:critical is kept for the category critical"):
        check_queue(strict, "default", "q:critical")


def test_no_job_waits_in_the_dead_letters():  # S4-18, S4-43
    for queue in set(QUEUES) - {"q:deadletter"}:
        check_queue(Policies.of(), "default", queue)
    with pytest.raises(ContractBroken, match="q:deadletter shows the dead"):
        check_queue(Policies.of(), "default", "q:deadletter")
