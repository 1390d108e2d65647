"""Which app a command is about, and what is said when there is none."""

import pytest

from onward import Onward
from onward.cli.find_app import find_app, load_app
from onward.errors import InvalidSetting
from onward.stores.sqlite.sqlite_store import SqliteStore
from tests.cli.program import Program

APP = "from onward import Onward\napp = Onward('sqlite:///own.db')\n"


def test_an_app_is_named_by_module_and_attribute(folder):
    (folder / "shop").mkdir()
    (folder / "shop" / "__init__.py").touch()
    (folder / "shop" / "jobs.py").write_text(APP)
    assert load_app("shop.jobs:app").clients.url == "sqlite:///own.db"


def test_a_module_alone_will_do_if_it_has_one_app(folder):
    (folder / "app.py").write_text(f"{APP}also = app\n")
    assert load_app("app") is load_app("app:also")


@pytest.mark.parametrize(
    ("text", "reference", "message"),
    [
        (APP, "ap:app", 'there is no module "ap" in .* Did you mean "app"?'),
        (APP, "app:ap", 'module "app" has no attribute "ap". Did you mean "app"?'),
        (APP, "app:zzz", 'module "app" has no attribute "zzz". Did you mean "app"?'),
        (APP, "app:Onward", '"app:Onward" is a type, not an Onward. Did you mean "app:app"?'),
        (APP, "app.py", '"app.py" is not module:attribute; give one such as app:app'),
        (APP, "./shop/app.py:app", '"./shop/app.py:app" is not module:attribute; .* such as shop.app:app'),
        (APP, "", '"" is not module:attribute'),
        ("", "app", 'module "app" has no Onward; make one there: app = Onward()'),
        (
            f"{APP}two = Onward()",
            "app",
            'module "app" makes more than one Onward(); give one of app:app, app:two',
        ),
        ("import sys\n1/0", "app:app", 'importing "app" failed: ZeroDivisionError: division by zero'),
        ("import nonesuch", "app:app", 'importing "app" failed: ModuleNotFoundError: .* .nonesuch'),
        ("import app.inner", "app:app", 'importing "app" failed: ModuleNotFoundError: '),
    ],
)  # fmt: skip
def test_what_can_not_be_loaded_is_told_with_what_was_meant(folder, text, reference, message):
    (folder / "app.py").write_text(text)
    pattern = message.replace("(", r"\(").replace(")", r"\)").replace("?", r"\?")
    with pytest.raises(InvalidSetting, match=pattern):
        load_app(reference)


def test_an_app_that_fails_is_shown_from_its_own_first_line_on(folder, capsys):
    (folder / "app.py").write_text("def broken():\n    raise OSError('no disk')\nbroken()\n")
    with pytest.raises(InvalidSetting):
        load_app("app:app")
    shown = capsys.readouterr().err
    assert shown.splitlines()[0] == "Traceback (most recent call last):"
    assert "app.py" in shown.splitlines()[1]
    assert "loading.py" not in shown
    assert "importlib" not in shown


def file_of(app: Onward) -> str:
    with app.clients.open() as client:
        assert isinstance(client.store, SqliteStore)
        return client.store.file.path.name


def test_a_url_of_the_command_goes_before_that_of_the_code_which_goes_before_the_environments(
    folder, monkeypatch
):
    (folder / "app.py").write_text(APP)
    (folder / "shop.py").write_text("from onward import Onward\napp = Onward()\n")
    monkeypatch.setenv("ONWARD_URL", "sqlite:///env.db")
    assert file_of(load_app("app:app")) == "own.db"
    assert file_of(load_app("shop:app")) == "env.db"
    assert file_of(load_app("app:app", "sqlite:///given.db")) == "given.db"
    assert file_of(load_app("shop:app", "sqlite:///given.db")) == "given.db"


def test_a_command_says_that_the_database_of_the_code_is_used_instead_of_the_environments(folder):
    (folder / "app.py").write_text(APP)
    elsewhere = {"ONWARD_URL": "postgresql://ada:s3cret@db/shop"}
    for command in (("migrate",), ("worker", "--drain"), ("worker", "--drain", "--processes", "2")):
        with Program(folder, *command, **elsewhere) as program:
            assert program.end() == 0
        said = "the database is sqlite:///own.db, as the code says, and not postgresql://***@db/shop, as ONWA"
        assert program.output.count(said) == 1
        assert "s3cret" not in program.output
    with Program(folder, "queues", "list", "--url", "sqlite:///own.db", **elsewhere) as program:
        assert program.end() == 0
    assert "ONWARD_URL" not in program.output
    assert (folder / "own.db").exists()


def test_the_app_is_found_by_argument_then_environment_then_settings_then_the_folder(folder, monkeypatch):
    for name in ("app", "shop", "jobs"):
        (folder / f"{name}.py").write_text(
            f"from onward import Onward\n{name} = Onward('sqlite:///{name}.db')\n"
        )
    assert find_app(None).clients.url == "sqlite:///app.db"
    (folder / "pyproject.toml").write_text('[tool.onward]\napp = "shop"\n')
    assert find_app(None).clients.url == "sqlite:///shop.db"
    (folder / "onward.toml").write_text('app = "jobs:jobs"\n')
    assert find_app(None).clients.url == "sqlite:///jobs.db"
    monkeypatch.setenv("ONWARD_APP", "shop:shop")
    assert find_app(None).clients.url == "sqlite:///shop.db"
    assert find_app("app").clients.url == "sqlite:///app.db"


def test_a_script_that_has_nothing_to_do_with_onward_is_not_imported(folder):
    (folder / "app.py").write_text("raise SystemExit('formats the disk')")
    (folder / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert find_app(None) is None


@pytest.mark.parametrize("file", ["onward.toml", "pyproject.toml"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('ap = "app:app"', "has the unknown key 'ap'. Did you mean \"app\"?"),
        ('app = "app:app"\nqueues = 5', "has the unknown key 'queues'. It has only app."),
        ('url = "sqlite:///a.db"', "has the key 'url', but it names no database: give the URL to Onward(), "),
    ],
)
def test_a_key_that_no_command_reads_is_refused(folder, file, text, message):
    (folder / "app.py").write_text(APP)
    (folder / file).write_text(text if file == "onward.toml" else f"[tool.onward]\n{text}\n")
    with pytest.raises(InvalidSetting) as refused:
        find_app(None)
    where = file if file == "onward.toml" else "[tool.onward] in pyproject.toml"
    assert str(refused.value).startswith(f"{where} {message}")


def test_settings_that_are_no_table_are_refused(folder):
    (folder / "pyproject.toml").write_text("[tool]\nonward = 5\n")
    with pytest.raises(InvalidSetting, match=r"\[tool\.onward\] in pyproject\.toml is 5; give a table"):
        find_app(None)


@pytest.mark.parametrize("text", ["app = 5", 'app = ""', "app = "])
def test_settings_that_make_no_sense_are_refused_by_the_name_of_their_file(folder, text):
    (folder / "onward.toml").write_text(text)
    with pytest.raises(InvalidSetting, match=r"onward\.toml"):
        find_app(None)


@pytest.mark.parametrize("command", [("doctor",), ("gate", "status"), ("queues", "list"), ("dead", "list")])
def test_beside_an_app_that_is_made_elsewhere_no_command_takes_another_database(onward, folder, command):
    (folder / "app.py").write_text("from jobs import app\n")
    ran = onward(*command)
    assert ran.code == 2
    assert "no Onward() is made in app.py, and no database was named; name the app with --app" in ran.err
    assert not list(folder.glob("*.db"))
    assert onward("migrate", "--url", "sqlite:///other.db").code == 0
    # 1 of the doctor: nobody works there.
    assert onward(*command, "--url", "sqlite:///other.db").code in {0, 1}


@pytest.mark.parametrize(
    "command",
    [
        ("gate", "close", "--reason", "deploy"),
        ("queues", "pause", "q:default", "--reason", "x"),
        ("dead", "list"),
    ],
)
def test_a_command_of_an_operator_makes_no_database(onward, folder, command):
    ran = onward(*command)
    assert ran.code == 5
    assert f"there is no database file {folder}/onward.db; the first worker or enqueue makes it" in ran.err
    assert "name it with --app or ONWARD_APP, or its database with --url" in ran.err
    assert not list(folder.iterdir())


def test_a_bad_name_in_the_environment_is_named_without_a_traceback(onward, folder, monkeypatch):
    (folder / "app.py").write_text("from onward import Onward\napp = Onward('sqlite:///x.db')\n")
    monkeypatch.setenv("ONWARD_NAME", "My Shop")
    ran = onward("worker", "app:app")
    assert ran.code == 2
    assert "ONWARD_NAME is 'My Shop'" in ran.err
    assert "Traceback" not in ran.err
