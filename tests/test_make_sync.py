"""The generator of the sync twins translates what it knows and refuses what it does not."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "tools" / "make_sync.py"


def load_script():
    spec = importlib.util.spec_from_file_location("make_sync", SCRIPT)
    assert spec
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make_sync = load_script()


@pytest.mark.parametrize(
    ("source", "twin"),
    [
        ("async def get(self): ...", "def get(self): ..."),
        ("async with a as b, c: ...", "with a as b, c: ..."),
        ("rows = await run_async(op, conn)", "rows = run(op, conn)"),
        ("x = [i async for i in rows]", "x = [i for i in rows]"),
        ("await (await first())()", "(first())()"),
        ("from .postgres_async import open_async_store", "from .postgres import open_store"),
        ("pool: AsyncConnectionPool[AsyncConnection[Row]]", "pool: ConnectionPool[Connection[Row]]"),
        ("class _AsyncTx(AbstractAsyncContextManager): ...", "class _Tx(AbstractContextManager): ..."),
        ("@asynccontextmanager", "@contextmanager"),
        ("async def __aenter__(self): ...", "def __enter__(self): ..."),
        ("import asyncio\nawait asyncio.sleep(1)", "import time\ntime.sleep(1)"),
        ('"""An async client; see `AsyncClient`."""', '"""A sync client; see `Client`."""'),
        ("# Callers await the end.", "# Callers await the end."),
        ('x = """\nAn async\nclient\n""" + await y', 'x = """\nA sync\nclient\n""" + y'),
    ],
)
def test_async_source_becomes_its_sync_twin(source, twin):
    assert make_sync.to_sync(source) == twin


def test_asyncio_without_a_known_twin_is_refused():
    with pytest.raises(SystemExit, match=r"no sync twin is known for: asyncio.gather\(a, b\)"):
        make_sync.to_sync("import asyncio\nawait asyncio.gather(a, b)\n")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of its own, with one async source."""
    monkeypatch.setattr(make_sync, "ROOT", tmp_path)
    monkeypatch.setattr(make_sync, "PACKAGE", tmp_path)
    monkeypatch.setattr(make_sync, "FOLDERS", ("package",))
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "one.py").write_text(
        "from package.two import AsyncTwo\n\n\nclass AsyncOne:\n    two: AsyncTwo\n"
    )
    (folder / "two.py").write_text("class AsyncTwo:\n    pass\n")
    return folder


def test_a_stale_twin_is_found_and_then_written(package, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["make_sync", "--check"])
    assert make_sync.main() == 1
    assert "package/sync/one.py is stale: run `make fmt`" in capsys.readouterr().err
    assert not (package / "sync").exists()
    monkeypatch.setattr("sys.argv", ["make_sync"])
    assert make_sync.main() == 0
    monkeypatch.setattr("sys.argv", ["make_sync", "--check"])
    assert make_sync.main() == 0


def test_a_twin_imports_twins(package, monkeypatch):
    monkeypatch.setattr("sys.argv", ["make_sync"])
    make_sync.main()
    header, *code = (package / "sync" / "one.py").read_text().splitlines()
    assert header == "# Generated from package/one.py by tools/make_sync.py. Edit that file instead."
    assert [line for line in code if line] == [
        "from package.sync.two import Two",
        "class One:",
        "    two: Two",
    ]


def test_a_twin_that_lost_its_source_is_removed(package, monkeypatch):
    monkeypatch.setattr("sys.argv", ["make_sync"])
    make_sync.main()
    (package / "two.py").unlink()
    make_sync.main()
    assert not (package / "sync" / "two.py").exists()


def test_a_module_with_both_twins_written_by_hand_has_no_generated_one():
    assert make_sync.is_source("class AsyncOne: ...")
    assert not make_sync.is_source("class AsyncOne: ...\nclass One: ...")
