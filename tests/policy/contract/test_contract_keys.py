"""A job type makes the keys of its jobs: by a template, of a notification, or of all arguments."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from examples.categories import HARMONYK
from onward import InvalidJob, InvalidSetting, JobState, NotificationKey, Onward, job_key, notification_key
from onward.core.jobs.keys import bucket_start, template_fields

NINE = datetime(2030, 1, 1, 9, 0, tzinfo=UTC)
GREETING = {"to": "ada", "template": "hello", "body": ""}


@pytest.fixture
def unopened() -> Onward:
    """An application whose database is never asked."""
    return Onward("sqlite:///:memory:")


def test_a_template_makes_the_key_of_the_arguments(app):  # S3-44
    @app.job(key="tier_sync_{email}_{old}_to_{new}")
    def sync(email: str, old: str, new: str = "gold") -> None:
        raise NotImplementedError

    first = sync.enqueue("ada@example.com", "silver plus")
    assert first.refresh().key == "tier_sync_ada@example.com_silver_plus_to_gold"
    assert not sync.enqueue("ada@example.com", old="silver plus", new="gold").created
    assert sync.enqueue("ada@example.com", "silver plus", "bronze").created
    assert sync.using(key="own").build("a", "b").key == "own"


def test_a_template_that_no_argument_fits_is_refused_at_definition(unopened):  # S3-44
    def sync(email: str) -> None:
        raise NotImplementedError

    for key, message in (
        ("sync_{emial}", 'key needs "emial", which is no argument. Did you mean "email"'),
        ("sync_{x}", r'needs "x", which is no argument. It is sync\(email: str\)'),
        ("sync_{email", "a brace that does not stand around"),
        ("sync_{0}", "is not the plain name of a field"),
        ("", "key is ''; give a text"),
    ):
        with pytest.raises(InvalidSetting, match=message):
            unopened.job(key=key)(sync)
    assert unopened.handlers == {}


def test_an_open_signature_takes_any_field_and_refuses_its_absence(unopened):
    @unopened.job(key="sync_{x}")
    def sync(**fields: int) -> None:
        raise NotImplementedError

    assert sync.build(x=3).key == "sync_3"
    with pytest.raises(InvalidJob, match="field 'x', which is missing"):
        sync.build(y=3)


def test_a_type_that_is_unique_has_a_key_of_its_arguments(app):
    @app.job(unique="active", on_conflict="return")
    def sync(n: int) -> None:
        raise NotImplementedError

    with app.context(org_id="o", project_id="p"):
        first = sync.enqueue(1)
        assert not sync.enqueue(1).created
        assert sync.enqueue(2).created
    assert sync.enqueue(1).created
    job = first.refresh()
    assert (job.key, sync.build(1).unique) == (job_key("sync", "o", "p", {"n": 1}), "active")


@pytest.fixture
def notify(app: Onward):
    @app.job(category="notification", notification_key=NotificationKey("to", "template", "1h"))
    def notify(to: str, template: str = "hello", body: str = "") -> None:
        raise NotImplementedError

    return notify


def test_a_notification_is_one_for_org_recipient_template_content_and_bucket(app, notify):  # S4-9
    at = {"run_at": NINE}
    first = notify.using(org_id="o", **at).enqueue("ada")
    again = notify.using(org_id="o", run_at=NINE + timedelta(minutes=59)).enqueue("ada")
    assert (again.created, again.id) == (False, first.id)
    key = notification_key("o", "ada", "hello", GREETING, NINE)
    assert first.refresh().key == key
    assert key.startswith("notification:o:ada:hello:")
    others = [
        notify.using(org_id="p", **at).enqueue("ada"),
        notify.using(org_id="o", **at).enqueue("bob"),
        notify.using(org_id="o", **at).enqueue("ada", template="bye"),
        notify.using(org_id="o", **at).enqueue("ada", body="x"),
        notify.using(org_id="o", run_at=NINE + timedelta(hours=1)).enqueue("ada"),
        notify.using(org_id="o", run_at=NINE - timedelta(seconds=1)).enqueue("ada"),
    ]
    assert all(other.created for other in others)


def test_a_notification_for_now_falls_into_the_bucket_of_its_enqueue(notify):  # S4-9
    with time_machine.travel(NINE + timedelta(minutes=50), tick=False):
        now, soon, later = notify.build("ada"), notify.using(delay="9m"), notify.using(delay="11m")
        assert now.key == notification_key(None, "ada", "hello", GREETING, NINE)
        assert soon.build("ada").key == now.key
        assert later.build("ada").key != now.key


def test_a_notification_key_has_the_org_that_is_inherited(app, notify):  # S4-9
    with app.context(org_id="o"):
        assert notify.build("ada").key.startswith("notification:o:ada:")


def test_a_notification_that_was_sent_is_not_sent_again_in_its_bucket(app):  # S4-9
    # Its category holds a key no longer than its job lives; a bucket lasts.
    @app.job(category=app.category(HARMONYK).name, notification_key=NotificationKey("to", bucket="1d"))
    def remind(to: str) -> None:
        """Do nothing."""

    first = remind.enqueue("ada")
    app.tick()
    again = remind.enqueue("ada")
    assert (again.id, again.created, again.state) == (first.id, False, JobState.SUCCEEDED)
    soon = remind.using(run_at=datetime.now(UTC) + timedelta(days=30)).build("ada")
    assert soon.key != first.refresh().key
    assert timedelta(days=30) <= soon.unique <= timedelta(days=31)
    assert remind.using(unique="1h").build("ada").unique == timedelta(hours=1)


def test_without_a_template_the_job_type_is_one(unopened):
    @unopened.job(notification_key=NotificationKey("user"))
    def welcome(user: int) -> None:
        raise NotImplementedError

    assert welcome.build(7).key.startswith("notification::7:welcome:")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"notification_key": NotificationKey("too")}, 'notification_key needs "too".*Did you mean "to"'),
        ({"notification_key": NotificationKey("to", "kind")}, 'needs "kind", which is no argument'),
        ({"notification_key": NotificationKey("to", bucket="10ms")}, "bucket is '10ms'"),
        ({"notification_key": "to"}, r"give NotificationKey\(recipient=…\)"),
        ({"notification_key": NotificationKey("to"), "key": "k"}, "key and notification_key are both set"),
    ],
)
def test_a_notification_key_that_could_never_be_made_is_refused(unopened, options, message):
    def notify(to: str) -> None:
        raise NotImplementedError

    with pytest.raises(InvalidSetting, match=message):
        unopened.job(**options)(notify)


@pytest.mark.parametrize(
    "options",
    [
        {"key": "login_{password}"},
        {"notification_key": NotificationKey("password")},
        {"notification_key": NotificationKey("to", "password")},
    ],
)
def test_a_key_made_of_a_secret_is_refused_unless_secrets_are_allowed(unopened, options):
    def login(to: str, password: str) -> None: ...

    with pytest.raises(InvalidSetting, match='made of "password", which is the name of a secret'):
        unopened.job(**options)(login)
    unopened.job(**options, secrets="allow", secrets_reason="it is a test")(login)


def test_a_notification_without_a_recipient_is_refused(notify):
    with pytest.raises(InvalidJob, match="needs the argument 'to', which is ''"):
        notify.build("")


def test_the_parts_of_a_notification_key_never_run_together():
    assert notification_key("a:b", "c", "d", 1, NINE) != notification_key("a", "b:c", "d", 1, NINE)


def test_a_bucket_begins_in_utc():
    tokyo = NINE.astimezone(tz=None)
    assert bucket_start(tokyo + timedelta(minutes=59), timedelta(hours=1)) == NINE
    assert bucket_start(NINE, timedelta(days=1)) == datetime(2030, 1, 1, tzinfo=UTC)


def test_a_template_tells_its_fields():
    assert template_fields("a_{b}_{c}{b}") == ["b", "c", "b"]


def test_defaults_of_a_type_reach_its_jobs_and_an_enqueue_replaces_them(unopened):  # R9
    def merge(old: dict, new: dict) -> dict:
        return {**old, **new}

    @unopened.job(key="k_{n}", unique="7d", on_conflict="reset", reset_from={"dead"})
    def reset(n: int) -> None:
        raise NotImplementedError

    @unopened.job(key="k_{n}", coalesce=merge)
    def gather(n: int) -> None:
        raise NotImplementedError

    new = reset.build(1)
    assert (new.unique, new.on_conflict, new.reset_from) == (timedelta(days=7), "reset", {"dead"})
    own = reset.using(on_conflict="return", unique="active", reset_from=["dead", "cancelled"]).build(1)
    assert (own.unique, own.on_conflict, own.reset_from) == ("active", "return", {"dead", "cancelled"})
    assert (gather.build(1).on_conflict, gather.build(1).merge) == ("coalesce", merge)
    for wrong in ("dead", ["deaf"], 3):
        with pytest.raises(InvalidJob, match="reset_from is "):
            reset.using(reset_from=wrong)
