"""Arguments that are nested too deep are refused with their place, before any SQL."""

from __future__ import annotations

from typing import Any

import pytest

from onward import NewJob, Onward, PayloadRejected
from tests.policy.contract.conftest import make_app

__all__ = ["make_app"]


def nest(depth: int) -> Any:
    value: Any = "leaf"
    for _ in range(depth):
        value = [value]
    return value


def cycle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def mixed(depth: int) -> Any:
    value: Any = ("leaf",)
    for _ in range(depth):
        value = {"in": (value,)}
    return value


@pytest.fixture
def app(make_app: Any) -> Onward:
    app: Onward = make_app()

    @app.job
    def take(item: Any) -> None:
        raise NotImplementedError

    @app.job
    def take_list(item: list[Any], *, more: int = 0) -> None:
        raise NotImplementedError

    @app.job
    def take_all(**items: Any) -> None:
        raise NotImplementedError

    return app


@pytest.mark.parametrize("name", ["take", "take_list", "take_all"])
@pytest.mark.parametrize("depth", [65, 400, 5_000, 100_000])
def test_what_is_nested_too_deep_is_refused_with_its_place(app, name, depth):
    why = r"payload at \$\.item(\[0\]){63}: \[.* is nested deeper than 64 levels; flatten it"
    with pytest.raises(PayloadRejected, match=why):
        app.jobs[name].enqueue(item=nest(depth))
    with pytest.raises(PayloadRejected, match=why):
        app.client.enqueue(NewJob(job_type=name, payload={"item": nest(depth)}))
    assert app.client.jobs.list().items == []


def test_a_cycle_is_refused_with_its_place(app):
    with pytest.raises(
        PayloadRejected, match=r"payload at \$\.item\[0\]: .* contains itself; break the cycle"
    ):
        app.jobs["take"].enqueue(cycle())


def test_other_containers_count_as_levels_too(app):
    with pytest.raises(PayloadRejected, match=r"payload at \$\.item\.in"):
        app.jobs["take"].enqueue(mixed(5_000))
