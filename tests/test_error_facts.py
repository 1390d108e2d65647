"""Every error is made of a message and facts, so that another process can make it again."""

import json
import pickle

import pytest

from onward import errors
from onward.errors import DuplicateJob, OnwardError, SecretInPayload

TREE = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, OnwardError)]


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_an_error_is_made_again_from_its_json(kind):
    error = kind("what was wrong", job_id="0190", path="$.a", many=[1, 2])
    made = OnwardError.from_dict(json.loads(json.dumps(error.as_dict())))
    assert type(made) is kind
    assert (str(made), made.code, made.facts) == (str(error), error.code, error.facts)
    assert (made.exit_code, made.status) == (error.exit_code, error.status)
    assert vars(made)["job_id"] == "0190"
    assert "__init__" not in vars(kind) or kind is OnwardError, "facts are keyword arguments"


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_an_error_is_pickled_with_its_facts(kind):
    made = pickle.loads(pickle.dumps(kind("m", key="k")))
    assert (type(made), str(made), made.facts, made.key) == (kind, "m", {"key": "k"}, "k")


def test_the_facts_of_an_error_are_its_attributes():
    duplicate, secret = DuplicateJob.of("k", "0190"), SecretInPayload.at("$.token", "its name says so")
    assert (duplicate.key, duplicate.job_id) == ("k", "0190")
    assert duplicate.facts == {"key": "k", "job_id": "0190"}
    assert (secret.path, secret.kind) == ("$.token", "its name says so")


@pytest.mark.parametrize(
    "described",
    [
        {},
        {"error": "FromTheFuture"},
        {"error": "JobNotFound", "facts": {"message": "m", "facts": 1, "self": 2}},
        {"error": "JobNotFound", "message": None, "facts": [1]},
    ],
)
def test_an_incomplete_description_is_an_error_all_the_same(described):
    made = OnwardError.from_dict(described)
    assert isinstance(made, OnwardError)
    assert made.facts == ({} if isinstance(described.get("facts", []), list) else described["facts"])


def test_an_error_of_a_class_that_is_not_known_here_keeps_its_code():
    made = OnwardError.from_dict({"error": "FromTheFuture", "code": "ON-NEW-001", "message": "m"})
    assert (type(made), made.code, str(made), made.facts) == (OnwardError, "ON-NEW-001", "m", {})
