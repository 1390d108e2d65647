"""A job of a best-effort category never fails what it is about."""

import logging

import pytest

from onward import InvalidJob, JobNotFound, Onward, StoreError


def broken(**settings) -> Onward:
    """Give an application whose database can't be reached."""
    return Onward("sqlite:////proc/nowhere/onward.db", **settings)


def notify(app: Onward, category: str):
    @app.job(category=category)
    def notify(to: str) -> None:
        raise NotImplementedError

    return notify


def test_a_notification_that_can_not_be_stored_is_forgone_and_logged(caplog, origin):  # S4-10
    app = broken(profile="strict")
    with caplog.at_level(logging.ERROR, "onward.enqueue"), app.context(**origin):
        handle = notify(app, "notification").enqueue("ada")
    assert (handle.state, handle.created) == (None, False)
    [record] = caplog.records
    assert "a job of type notify could not be stored, and is forgone" in record.getMessage()


@pytest.mark.anyio
async def test_the_same_awaited(caplog, origin):  # S4-10
    app = broken(profile="strict")
    with app.context(**origin):
        handle = await notify(app, "notification").aenqueue("ada")
    assert (handle.state, handle.created) == (None, False)
    assert "is forgone" in caplog.text


def test_other_categories_and_profiles_are_told(origin):  # S4-10
    strict = broken(profile="strict")
    with strict.context(**origin), pytest.raises(StoreError):
        notify(strict, "import_export").enqueue("ada")
    with pytest.raises(StoreError):
        notify(broken(), "notification").enqueue("ada")


def test_what_is_wrong_with_the_job_itself_is_still_told(origin):  # S4-10
    app = broken(profile="strict")
    job_type = notify(app, "notification")
    with pytest.raises(InvalidJob, match="org_id is missing"):
        job_type.enqueue("ada")
    with app.context(**origin), pytest.raises(InvalidJob, match="priority is -1001"):
        job_type.using(priority=-1001).enqueue("ada")


def test_nobody_finds_a_job_that_was_forgone(make_app, origin):
    app = broken(profile="strict")
    with app.context(**origin):
        handle = notify(app, "notification").enqueue("ada")
    with pytest.raises(JobNotFound):
        make_app().client.jobs.get(handle.id)
