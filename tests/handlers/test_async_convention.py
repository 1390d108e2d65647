"""Every verb that touches the database has a sync form and an `a…` form, which differ in nothing else."""

import inspect

import pytest

from onward import Context, Onward
from onward.handlers.handles.batch_handle import BatchHandle, OwnBatch
from onward.handlers.handles.flow_handle import FlowHandle
from onward.handlers.handles.handle import Handle
from onward.handlers.job_type import JobType

PAIRS = [
    (kind, name)
    for kind in (Onward, Context, JobType, Handle, BatchHandle, OwnBatch, FlowHandle)
    for name, method in inspect.getmembers(kind, inspect.iscoroutinefunction)
    if not name.startswith("_")
]

DIFFERENT = {"acall_provider", "aclose"}
"""Async forms that do more than the sync one: await the function, or close the client of the loop as well."""


def parameters(method: object) -> list[tuple[str, object, object]]:
    assert callable(method)
    return [(one.name, one.kind, one.default) for one in inspect.signature(method).parameters.values()]


def opening(method: object) -> str:
    return (inspect.getdoc(method) or "").split(".")[0]


@pytest.mark.parametrize(("kind", "name"), PAIRS, ids=lambda one: getattr(one, "__name__", one))
def test_an_async_verb_is_its_sync_verb_with_an_a(kind, name):
    assert name.startswith("a")
    sync = getattr(kind, name.removeprefix("a"))
    assert not inspect.iscoroutinefunction(sync)
    assert parameters(getattr(kind, name)) == parameters(sync)


@pytest.mark.parametrize(
    ("kind", "name"),
    [pair for pair in PAIRS if pair[1] not in DIFFERENT],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_both_forms_have_the_same_docstring(kind, name):
    assert opening(getattr(kind, name)) == opening(getattr(kind, name.removeprefix("a")))


def test_there_are_pairs_to_compare():
    assert {"await_for", "asleep_for", "aresult", "ajoin", "aenqueue"} <= {name for _, name in PAIRS}
