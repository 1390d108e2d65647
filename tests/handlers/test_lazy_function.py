"""A handler that is given as `"module:function"`: imported at its first run, checked where it is known."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from onward import InvalidJob, InvalidSetting, Onward
from onward.errors import InvalidArguments
from tests.apps import fresh_app
from tests.worker.waiting import drain

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite", "postgres"])
def app(request, tmp_path):
    with fresh_app(request, tmp_path) as app:
        yield app
        app.close()


@pytest.fixture
def billing(tmp_path: Path, monkeypatch) -> str:
    """The name of a module that nothing has imported yet."""
    (tmp_path / "lazy_billing.py").write_text(
        dedent(
            """
            from onward import Context
            from onward import Onward

            app = Onward("sqlite:///never-opened.db")
            CALLS = []

            async def charge(ctx: Context, order: int, currency: str = "EUR") -> str:
                return f"{ctx.job.job_type} {order + 1} {currency}"

            def refund(order: int) -> int:
                CALLS.append(order)
                return order

            @app.job
            def taken() -> None: ...
            """
        )
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "lazy_billing", raising=False)
    return "lazy_billing"


async def test_a_lazy_handler_is_imported_at_its_first_run(app, billing):  # S3-18
    charge = app.job(f"{billing}:charge", queue="q:billing")
    refund = app.job(f"{billing}:refund", name="money back", max_attempts=1)
    handles = [await charge.aenqueue(order=1), await charge.aenqueue(order=2, currency="USD")]
    back = await refund.aenqueue(order=3)
    assert billing not in sys.modules
    assert (charge.name, refund.name) == ("charge", "money back")
    assert (await handles[0].arefresh()).queue == "q:billing"
    tally = await drain(app)
    assert tally.succeeded == 3
    assert [await one.aresult() for one in (*handles, back)] == ["charge 2 EUR", "charge 3 USD", 3]
    await app.aclose()


async def test_the_signature_is_checked_where_the_module_is_imported_and_before_each_run(app, billing):
    charge = app.job(f"{billing}:charge")
    wrong = await charge.aenqueue(ordr=1)
    with pytest.raises(InvalidArguments, match="positional"):
        charge.enqueue(1)
    await drain(app)
    job = await wrong.arefresh()
    assert (job.state.value, job.error.rule) == ("dead", "invalid_arguments")
    with pytest.raises(InvalidArguments, match='Did you mean "order"'):
        charge.enqueue(ordr=1)
    assert charge.enqueue(4).refresh().payload == {"order": 4}
    await app.aclose()


def test_its_key_is_made_with_the_defaults_once_the_module_is_imported(app, billing):
    charge = app.job(f"{billing}:charge", key="charge_{order}_{currency}")
    with pytest.raises(InvalidJob, match="field 'currency'"):
        charge.build(order=1)
    assert charge.build(order=1, currency="EUR").key == "charge_1_EUR"
    __import__(billing)
    assert charge.build(order=1).key == "charge_1_EUR"


def test_a_handler_of_an_imported_module_is_checked_at_its_definition(app, billing):
    __import__(billing)
    assert app.job(f"{billing}:refund").build(7).payload == {"order": 7}
    with pytest.raises(InvalidSetting, match="has no 'chrage'"):
        app.job(f"{billing}:chrage")
    with pytest.raises(InvalidSetting, match=r"without @app\.job"):
        app.job(f"{billing}:taken")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("lazy_biling:charge", "there is no module 'lazy_biling'"),
        ("lazy_billing.more:charge", "there is no module 'lazy_billing.more'"),
        ("lazy_billing:chrage", "module 'lazy_billing' has no 'chrage'"),
    ],
)
async def test_a_missing_module_or_function_is_a_clear_error_of_the_attempt(app, billing, reference, message):
    handle = await app.job(reference, max_attempts=1).aenqueue(order=1)
    await drain(app)
    error = (await handle.arefresh()).error
    assert error.error_class == "InvalidSetting"
    assert message in error.message
    await app.aclose()


async def test_a_module_that_fails_to_import_fails_the_attempt_and_is_tried_again(app, tmp_path, billing):
    (tmp_path / "lazy_broken.py").write_text("import lazy_missing_dependency")
    handle = await app.job("lazy_broken:work").aenqueue()
    await drain(app)
    job = await handle.arefresh()
    assert "lazy_missing_dependency" in job.error.message
    await app.aclose()


def test_a_lazy_handler_can_be_called_directly(billing):
    app = Onward("sqlite:///never-opened.db")
    refund = app.job(f"{billing}:refund")
    assert refund(order=5) == 5


@pytest.mark.parametrize("reference", ["charge", "a:", ":b", "a b:c", "a:b:c", ""])
def test_a_text_that_names_no_function_is_refused(reference):
    with pytest.raises(InvalidSetting, match="module:function"):
        Onward("sqlite:///never-opened.db").job(reference)


def test_a_lazy_handler_does_not_run_in_a_process(billing):
    with pytest.raises(InvalidSetting, match="executor='process'"):
        Onward("sqlite:///never-opened.db").job(f"{billing}:refund", executor="process")
