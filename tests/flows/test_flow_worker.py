"""Flows by a real worker: S0's invoice chain, the results of parents, and a graph as the model says."""

from __future__ import annotations

from typing import Any

import pytest

from onward import Context, JobFailed, Onward, Unrecoverable
from onward.core.flows.flow import Flow, group
from onward.core.work.error_record import ErrorRecord
from onward.errors import InvalidJob, InvalidSetting
from tests.flows.model import final_states, random_nodes
from tests.worker.waiting import drain

pytestmark = pytest.mark.anyio


async def test_the_invoice_is_announced_once_it_is_issued(app: Onward) -> None:  # S0-34
    done: list[str] = []

    @app.job
    async def issue_invoice(booking_id: int) -> dict[str, str]:
        done.append(f"issued {booking_id}")
        return {"number": f"2026/{booking_id}"}

    @app.job
    async def send_invoice_ready(ctx: Context, booking_id: int) -> None:
        [issued] = await ctx.aparents()
        done.append(f"sent {issued.result['number']} of {issued.job_type}, which {issued.state}")

    chain = issue_invoice.build(booking_id=42).then(send_invoice_ready.build(booking_id=42))
    flow = await app.aenqueue_flow(chain)
    assert [one.state for one in flow] == ["queued", "blocked"]
    await drain(app)
    assert done == ["issued 42", "sent 2026/42 of issue_invoice, which succeeded"]
    assert [str(job.state) for job in await flow.ajoin(timeout=5)] == ["succeeded", "succeeded"]
    assert await flow.aresult() == flow.result(timeout=0) == [{"number": "2026/42"}, None]
    await app.aclose()


async def test_the_invoice_is_not_announced_if_it_is_not_issued(app: Onward) -> None:  # S0-34
    sent: list[int] = []

    @app.job
    def issue_invoice(booking_id: int) -> None:
        raise Unrecoverable("no such booking")

    @app.job
    def send_invoice_ready(booking_id: int) -> None:
        sent.append(booking_id)

    @app.job
    def send_later(ctx: Context) -> list[str]:
        return [str(job.state) for job in ctx.parents()]

    issued = await issue_invoice.aenqueue(booking_id=42)
    announced = await send_invoice_ready.using(after=[issued]).aenqueue(booking_id=42)
    cleaned = await send_later.using(after=[issued, announced.id], after_needs="ended").aenqueue()
    await drain(app)
    assert sent == []
    with pytest.raises(JobFailed, match="which it waited for, is dead"):
        await announced.aresult()
    assert await cleaned.aresult() == ["dead", "cancelled"]
    await app.aclose()


async def test_a_graph_of_a_hundred_jobs_is_run_as_the_model_says(app: Onward) -> None:
    nodes = random_nodes(12, 100)

    @app.job
    async def step(place: int) -> None:
        if nodes[place].fate == "dead":
            raise Unrecoverable("no")

    jobs = tuple(
        step.using(after_needs=node.needs, after_failure=node.on_failure).build(node.place) for node in nodes
    )
    links = tuple((parent, node.place) for node in nodes for parent in node.parents)
    cancelled = 40
    flow = await app.aenqueue_flow(Flow(jobs, links))
    await flow[cancelled].acancel(reason="not needed")
    await drain(app, concurrency=8)
    expected = final_states(nodes, {cancelled: "cancelled"})
    assert [str(job.state) for job in await flow.arefresh()] == expected
    assert {"succeeded", "dead", "cancelled", "blocked"} == set(expected)
    await app.aclose()


def test_a_whole_flow_can_be_cancelled(app: Onward) -> None:
    step = app.job(name="step")(lambda: None)
    flow = app.enqueue_flow(group(step.build(), step.build()).then(step.build()))
    assert [one.state for one in flow.cancel(reason="not needed")] == ["cancelled"] * 3
    assert [job.error for job in flow.refresh()] == [ErrorRecord(reason="not needed")] * 3
    assert len(flow.ids) == len(set(flow.ids)) == 3


def test_what_a_job_waits_for_is_given_by_handles_jobs_or_ids(app: Onward) -> None:
    step = app.job(name="step")(lambda: None)
    handle = step.enqueue()
    for after in (handle, handle.id, [handle], [handle.id], (one for one in [handle.refresh()])):
        assert step.using(after=after).build().after == (handle.id,)
    assert step.using(after=[handle]).using(after=None).build().after == ()
    assert step.using(after=[handle], after_needs=None).build().after_needs == "succeeded"
    wrong: Any
    for wrong in (42, [42], "soon", [None]):
        with pytest.raises(InvalidJob):
            step.using(after=wrong)
    for wrong in (step.build(), [step.build()], [step.build().then(step.build())]):
        with pytest.raises(InvalidJob, match="enqueue it first, or put both into a flow"):
            step.using(after=wrong)
    for option in ("after_needs", "after_failure"):
        with pytest.raises(InvalidJob, match=f"{option} is 'waits'; give"):
            step.using(**{option: "waits"})  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="after_needs"):
        step.using(after_need="ended")  # type: ignore[call-arg]
