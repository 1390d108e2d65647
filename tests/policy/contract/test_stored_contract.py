"""In the strict profile no job runs unless its stored row meets the whole contract."""

from typing import Any

import pytest

from onward import NewJob
from tests.policy.contract.conftest import ORG, PROJECT

WHOLE: dict[str, Any] = {
    "org_id": ORG, "project_id": PROJECT, "actor_type": "user", "actor_id": "42", "request_id": "r-1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "reason", "said"),
    [
        ({"org_id": None}, "org_missing", "no org"),
        ({"org_id": "acme"}, "contract_broken", "org_id is 'acme'"),
        ({"project_id": "p"}, "contract_broken", "project_id is 'p'"),
        ({"actor_type": None, "actor_id": None}, "contract_broken", "actor_type and actor_id are missing"),
        ({"actor_type": "cron"}, "contract_broken", "actor_type is 'cron'"),
        ({"actor_id": None}, "contract_broken", "actor_type is set and actor_id is not"),
        ({"request_id": None}, "contract_broken", "request_id is missing"),
    ],
    ids=str,
)
def test_a_job_that_another_client_stored_against_the_contract_never_runs(
    make_app, strict, change, reason, said
):  # R33, S4-49, S4-21
    @strict.job
    def work() -> None:
        raise NotImplementedError

    job_id = make_app().client.enqueue(NewJob(job_type="work", **{**WHOLE, **change})).id
    assert strict.tick().dead == 1
    error = strict.client.jobs.get(job_id).error
    assert error.reason == reason
    assert said in error.message


def test_one_that_meets_it_runs(make_app, strict):  # R33
    strict.job(name="work")(lambda: None)
    make_app().client.enqueue(NewJob(job_type="work", **WHOLE))
    assert strict.tick().succeeded == 1
