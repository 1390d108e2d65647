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


def test_a_stale_twin_is_found_and_then_written(tmp_path, monkeypatch):
    monkeypatch.setattr(make_sync, "ROOT", tmp_path)
    monkeypatch.setattr(make_sync, "TWINS", {"one_async.py": "one.py"})
    (tmp_path / "one_async.py").write_text("async def one() -> int:\n    return await two_async()\n")
    assert not make_sync.refresh("one_async.py", check=True)
    assert not (tmp_path / "one.py").exists()
    assert make_sync.refresh("one_async.py", check=False)
    assert make_sync.refresh("one_async.py", check=True)
    header, *code = (tmp_path / "one.py").read_text().splitlines()
    assert header == "# Generated from one_async.py by tools/make_sync.py. Edit that file instead."
    assert [line for line in code if line] == ["def one() -> int:", "    return two()"]
