"""Job types in child processes that meter what they use."""

import threading
import time
from pathlib import Path

from onward import Context, Onward

app = Onward()
process_job = app.job(executor="process")
late: list[threading.Thread] = []


@process_job
def count(ctx: Context, fail: bool = False) -> None:
    ctx.meter("cpu", 1.5, cost_micros=20)
    ctx.meter("cpu", 0.5, cost_micros=2)
    ctx.meter("pages")
    if fail:
        raise ValueError("boom")


@process_job
def hang(ctx: Context, sign: str) -> None:
    ctx.meter("cpu", 3, cost_micros=7)
    Path(sign).touch()
    time.sleep(60)


@process_job
def overdo(ctx: Context) -> None:
    ctx.meter("cpu", -1)


@process_job
def leave_a_thread(ctx: Context) -> None:
    go = threading.Event()

    def meter_too_late() -> None:
        go.wait()
        ctx.meter("too late", cost_micros=1000)

    late.append(threading.Thread(target=meter_too_late))
    late[0].go = go  # type: ignore[attr-defined]
    late[0].start()


@process_job
def wake_the_thread(ctx: Context) -> None:
    late[0].go.set()  # type: ignore[attr-defined]
    late[0].join()
    ctx.meter("in time", cost_micros=1)
