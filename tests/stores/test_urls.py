"""The URL chooses the store, and no message repeats a password."""

from pathlib import Path

import pytest

from onward import Onward
from onward.errors import InvalidSetting
from onward.stores import open_async_store, open_store, open_wakeups
from onward.stores.postgres.postgres_store import AsyncPostgresStore
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import AsyncSqliteStore, SqliteStore


def sqlite_path(url: str | None = None) -> Path:
    store = open_store(url)
    assert isinstance(store, SqliteStore)
    return store.file.path


@pytest.fixture(autouse=True)
def _no_setting_from_outside(monkeypatch, tmp_path):
    monkeypatch.delenv("ONWARD_URL", raising=False)
    monkeypatch.chdir(tmp_path)


def test_without_a_url_the_file_lies_in_the_folder_of_the_process(tmp_path):
    assert sqlite_path() == tmp_path / "onward.db"


def test_the_environment_names_the_url_and_an_argument_overrides_it(tmp_path, monkeypatch):
    monkeypatch.setenv("ONWARD_URL", "sqlite:///env.db")
    assert sqlite_path() == tmp_path / "env.db"
    assert sqlite_path("sqlite:///given.db") == tmp_path / "given.db"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///a/b.db", "a/b.db"),
        ("sqlite:////var/lib/b.db", "/var/lib/b.db"),
        ("sqlite:///a%20b.db", "a b.db"),
        ("sqlite:///a b.db", "a b.db"),
    ],
)
def test_three_slashes_are_relative_and_four_are_absolute(tmp_path, url, path):
    assert sqlite_path(url) == tmp_path / path


@pytest.mark.parametrize("url", ["postgresql://u:s3cret@h/db", "postgres://h/db"])
def test_a_postgresql_url_opens_that_store_without_connecting(url):
    assert isinstance(open_store(url), PostgresStore)


@pytest.mark.anyio
async def test_the_async_stores_are_chosen_in_the_same_way():
    assert isinstance(open_async_store(), AsyncSqliteStore)
    assert isinstance(open_async_store("postgresql://h/db"), AsyncPostgresStore)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:"])
def test_a_database_in_memory_is_refused(url):
    with pytest.raises(InvalidSetting, match="names no file; jobs must outlive the process"):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://user:s3cret@host/db",
        "postgresql+psycopg://user:s3cret@host/db",
        "redis://:s3cret@host",
        "sqlite://user:s3cret@host/file.db",
        "mysql://user:a/s3cret@host/db",
        "mysql://user:a@s3cret@host/db",
        "mysql://user:a?s3cret@host/db",
        "mysql://host/db?password=s3cret",
        "sqlite:///file.db?key=s3cret",
        "mysql://user:s3cret@[host/db",
        "postgresql://user:s3cret@[host/db",
    ],
)
def test_a_url_that_can_not_be_used_is_refused_without_its_password(url):
    for opening in (open_store, open_async_store):
        with pytest.raises(InvalidSetting, match=r"^url ") as refused:
            opening(url)
        assert "s3cret" not in str(refused.value)
        assert refused.value.__cause__ is None


def test_a_wrong_url_of_the_environment_is_named_as_such(monkeypatch):
    monkeypatch.setenv("ONWARD_URL", "mysql://user:s3cret@host/db")
    with pytest.raises(
        InvalidSetting, match=r"^ONWARD_URL 'mysql://\*\*\*@host/db': give sqlite:///file\.db"
    ):
        open_store()


@pytest.mark.parametrize(
    ("outside", "overruled"),
    [
        ("sqlite:///other.db", True),
        ("sqlite:///own.db", False),
        ("sqlite:////{here}/own.db", False),
        ("postgresql://host/own", True),
        ("mysql://host/own", True),
        ("", False),
    ],
)
def test_an_app_says_once_which_database_it_uses_if_the_environment_names_another(
    monkeypatch, tmp_path, caplog, outside, overruled
):
    monkeypatch.setenv("ONWARD_URL", outside.format(here=str(tmp_path).lstrip("/")))
    app = Onward("sqlite:///own.db")
    for _ in range(2):
        app.clients.open().close()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == overruled
    assert all(
        text.startswith("the database is sqlite:///own.db, as the code says, and not ") for text in said
    )


@pytest.mark.parametrize("url", ["onward.db", "sqlite://file.db", "C:\\onward.db", "file:a.db"])
def test_a_url_of_another_form_is_told_the_forms_that_there_are(url):
    with pytest.raises(
        InvalidSetting, match=r"give sqlite:///file\.db, sqlite:////absolute/file\.db or postgresql://"
    ):
        open_store(url)


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("sqlite:///a.db#b", "remove"),
        ("sqlite:///a.db?mode=ro", "remove"),
        ("postgresql+psycopg://db/app", r"remove \+"),
        ("", "leave it out"),
        (5, "leave it out"),
    ],
)
def test_a_url_with_too_much_or_nothing_in_it_is_told_what_to_remove(url, advice):
    with pytest.raises(InvalidSetting, match=advice):
        open_store(url)


def test_only_a_store_of_onwards_can_be_listened_to():
    with pytest.raises(InvalidSetting, match=r"object is not an Onward store"):
        open_wakeups(object())  # type: ignore[arg-type]
