"""Runs the jobs of demo_jobs.py on a SQLite file that is removed at the end, and checks what came of them."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

from examples import demo_jobs as jobs
from onward import JobState
from onward.results import Job

# Of each job type: enqueued, succeeded, retried, dead, cancelled. To be rescued from a crash is no retry.
EXPECTED = {
    "send_mail": (300, 300, 0, 0, 0),
    "resize_image": (60, 60, 0, 0, 0),
    "seal_report": (12, 12, 0, 0, 0),
    "update_contact": (20, 20, 40, 0, 0),
    "renew_subscription": (1, 0, 0, 1, 0),
    "export_everything": (1, 0, 0, 0, 1),
    "convert_video": (1, 1, 1, 0, 0),
    "import_orders": (1, 1, 0, 0, 0),
    "confirm_booking": (1, 1, 0, 0, 0),
}
WORKER = "worker examples.demo_jobs:app --processes 2 --grace 2s -q q:default,q:notifications,q:exports=1"
LONGEST = 16.0


def book(path: Path) -> None:
    """Enqueue in transactions of our own: one is rolled back, one is committed; then use its key again."""
    jobs.app.client.migrate()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_autocheckpoint = 0")  # Onward does it
    connection.execute("CREATE TABLE booking (id INTEGER PRIMARY KEY)")
    for number, end in ((1, connection.rollback), (2, connection.commit)):
        connection.execute("INSERT INTO booking VALUES (?)", (number,))
        confirm = jobs.confirm_booking.using(key=f"confirm:{number}")
        handle = confirm.using(tx=connection).enqueue(booking_id=number)
        end()
        exists = handle.id in jobs.app.client.jobs.get_many([handle.id])
        print(f"  booking {number}: {end.__name__}, so its job {'exists' if exists else 'never existed'}")
    connection.close()
    again = confirm.enqueue(booking_id=2)
    print(f"  booking 2 again: {'a second job' if again.created else 'its key gives the earlier job'}")


class Display:
    """Shows how many jobs are in which state: a line that is redrawn, or off a terminal one now and then."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._bar = "{}{}" if os.environ.get("NO_COLOR") else "\x1b[32m{}\x1b[0m{}"
        self._shown = time.monotonic()
        self._too_late = self._shown + LONGEST
        self._looks: deque[tuple[float, int]] = deque(maxlen=10)
        self.live = 0

    def watch(self, done: Callable[[], bool]) -> None:
        """Show the counts until something is so; goes on without it if that takes too long."""
        self._look()
        while not done() and self._process.poll() is None and self._looks[-1][0] < self._too_late:
            time.sleep(0.1)
            self._look()

    def say(self, text: str) -> None:
        """Print a line, in place of the one that is redrawn."""
        print(f"\r\x1b[2K  {text}" if self._terminal else f"  {text}", flush=True)

    def _look(self) -> None:
        counts, now = jobs.app.client.jobs.count(), time.monotonic()
        states = {state: counts.total(state) for state in JobState}
        total, ended = sum(states.values()), sum(counts.ended.values())
        self.live = total - ended
        self._looks.append((now, ended))
        speed = (ended - self._looks[0][1]) / max(now - self._looks[0][0], 0.1)
        shown = " · ".join(f"{number} {state}" for state, number in states.items() if number)
        text = f"{ended}/{total} · {speed:.0f} jobs/s · {shown}"
        if self._terminal:
            columns = shutil.get_terminal_size().columns - 3
            width = max(8, min(30, columns - len(text) - 1))
            bar = self._bar.format("█" * (full := width * ended // total), "░" * (width - full))
            print(f"\r\x1b[2K  {bar} {text[: columns - width - 1]}", end="", flush=True)
        elif now - self._shown > 1 or not self.live:
            self._shown = now
            self.say(text)


def play(display: Display) -> None:
    """Enqueue, cancel a job while it runs, and lose a worker process."""
    export = jobs.export_everything.enqueue(pages=10_000)
    jobs.renew_subscription.enqueue(customer="Ada")
    video = jobs.convert_video.enqueue(video_id=7)
    # One statement each, however many jobs.
    jobs.app.enqueue_many(jobs.send_mail.build(f"{n}@example.com") for n in range(200))
    jobs.app.enqueue_many(jobs.resize_image.build(image_id) for image_id in range(60))
    jobs.app.enqueue_many(jobs.seal_report.build(month) for month in range(12))
    jobs.app.enqueue_many(jobs.update_contact.build(contact_id) for contact_id in range(20))
    display.watch(lambda: export.refresh().state == JobState.RUNNING)
    export.cancel(reason="the customer has called it off")
    display.say("export_everything is cancelled while it runs")
    display.watch(lambda: display.live == (video.refresh().ended_at is None))  # no job but the video is left
    mails = [jobs.send_mail.build(f"{n}@example.com") for n in range(200, 300)]
    jobs.app.enqueue_many([jobs.import_orders.build("orders.csv"), *mails])
    display.say("100 more mails, and import_orders, whose worker process dies of kill -9")
    display.watch(lambda: display.live == 0)


def summarise(found: list[Job]) -> list[str]:
    """Print what became of each job type; gives what is not as expected."""
    heads = ("enqueued", "succeeded", "retried", "dead", "cancelled", "rescued", "longest wait")
    print(f"\n\n{'job type':<18}  {'  '.join(heads)}")
    wrong = []
    for job_type, expected in EXPECTED.items():
        mine = [job for job in found if job.job_type == job_type]
        ends = Counter(job.state for job in mine)
        rescued = sum(job.crashes for job in mine)
        retried = sum(max(job.attempt - 1, 0) for job in mine) - rescued
        # From when it was due until its last attempt began.
        waits = [(job.started_at - job.run_at).total_seconds() for job in mine if job.started_at]
        counts = (len(mine), ends[JobState.SUCCEEDED], retried, ends[JobState.DEAD], ends[JobState.CANCELLED])
        row = zip(heads, (*counts, rescued, f"{max(waits, default=0):.2f} s"), strict=True)
        print(f"{job_type:<18}" + "".join(f"{cell:>{len(head) + 2}}" for head, cell in row))
        if counts != expected or (job_type == "import_orders" and not rescued):
            wrong.append(f"{job_type}: {counts}, {rescued} rescued; not {expected}")
    return wrong


def tell(job: Job) -> None:
    """Tell the story of one job, from its audit."""
    print(f"\n{job.job_type}: {job.state} after attempt {job.attempt} of {job.max_attempts}")
    errors = {
        job.attempt: job.error,
        **{run.attempt: run.error for run in jobs.app.client.jobs.attempts(job.id)},
    }
    for event in jobs.app.client.jobs.events(job.id):
        error = errors.get(event.attempt or 0) if event.event in {"job.failed", "job.deadlettered"} else None
        told = error.summary if error else event.worker_id or ""
        print(f"  {(event.at - job.created_at).total_seconds():6.2f} s  {event.event:<17} {told}".rstrip())
    if job.error and job.error.hint:
        print(f"  hint: {job.error.hint}")


def main() -> int:
    """Run it all; 1 if anything came out otherwise than expected."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ONWARD_URL"] = f"sqlite:///{folder}/onward.db"
        print("Enqueue in a transaction, and with a key")
        book(Path(folder, "onward.db"))
        print(f"$ onward {WORKER}")
        command, log = [sys.executable, "-m", "onward", *WORKER.split()], Path(folder, "worker.log")
        with log.open("wb") as file:
            # A group of its own: Ctrl-C reaches us alone, and we stop it.
            process = subprocess.Popen(command, stdout=file, stderr=file, process_group=0)  # noqa: S603 - fixed
        try:
            play(Display(process))
        finally:
            process.terminate()
            code = process.wait()
        found = list(jobs.app.client.jobs.list(limit=1000))
        wrong = summarise(found) + ([f"the worker's exit code: {code}"] if code else [])
        for job_type in ("renew_subscription", "convert_video", "import_orders"):
            tell(next(job for job in found if job.job_type == job_type))
        print("\n".join(["\nNot as expected:", *wrong, log.read_text()] if wrong else ["\nAll as expected."]))
        jobs.app.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
