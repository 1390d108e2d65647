"""What becomes of a few hundred jobs, step by step, on a SQLite file that is removed at the end.

Time is moved by `now=` instead of slept through; without it the database's clock decides.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from onward import Client, Failed, Job, JobFilter, JobState, LeaseLost, NewJob, Outcome, Skip, Succeeded

QUEUES = ("q:critical", "q:notifications", "q:exports", "q:default")
START = datetime.now(UTC)
EXPECTED = {"succeeded": 293, "dead": 1, "cancelled": 1}


def orders() -> Iterator[NewJob]:
    """Order 306 jobs of two orgs; twelve repeat a key."""
    for number in range(200):
        org = ("acme", "globex")[number % 2]
        yield NewJob(job_type="send_mail", payload={"to": number}, category="notification", org_id=org)
    for number in range(60):
        key = f"report:{number % 48}"
        yield NewJob(job_type="write_report", payload={"page": number}, category="import_export", key=key)
    for number in range(40):
        yield NewJob(job_type="remind", payload={"booking": number}, delay=timedelta(hours=1), org_id="acme")
    for number in range(3):
        yield NewJob(job_type="resize", payload={"image": number}, priority=10)
    yield NewJob(job_type="charge", category="critical", priority=1, max_attempts=3)
    yield NewJob(job_type="clean_up", priority=9)
    yield NewJob(job_type="send_mail", payload={"to": 200}, run_at=START + timedelta(days=365))


def handle(job: Job) -> Outcome:
    """Do the work of a job, which here means to decide what it comes to."""
    match job.job_type:
        case "send_mail" if job.payload["to"] % 10 == 0 and job.attempt == 1:
            return Failed({"class": "MailError", "message": "503 from the provider"})
        case "charge":
            return Failed({"class": "CardError", "message": "the bank does not answer"})
        case "resize":
            return Skip("the image is small already")
        case _:
            return Succeeded({"done": True})


def work(client: Client, now: datetime, worker_id: str = "worker-1") -> int:
    """Run all that is ready, a batch at a time; gives how many attempts that took."""
    attempts = 0
    for queue in QUEUES:
        while jobs := client.claim(queue, limit=50, worker_id=worker_id, now=now):
            client.finish([(job, handle(job)) for job in jobs], now=now).require()
            attempts += len(jobs)
    return attempts


def book(client: Client, path: str) -> None:
    """Enqueue within transactions of our own: one is rolled back, one is committed."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE booking (id INTEGER PRIMARY KEY)")
    for number, end in ((1, connection.rollback), (2, connection.commit)):
        connection.execute("INSERT INTO booking VALUES (?)", (number,))
        job = NewJob(job_type="confirm", payload={"booking": number}, org_id="acme")
        enqueued = client.within(connection).enqueue(job, now=START)
        end()
        known = any(job.id == enqueued.id for job in client.list_jobs(JobFilter(job_type="confirm")).jobs)
        print(f"  booking {number}: {end.__name__}, so its job {'exists' if known else 'never existed'}")
    connection.close()


def lose_a_worker(client: Client, now: datetime) -> Job:
    """Let a worker claim a job and fall silent until its lease is over; gives the job that it held."""
    client.register("worker-2", lease=timedelta(seconds=30), now=now - timedelta(seconds=31))
    [job] = client.claim("q:default", worker_id="worker-2", now=now - timedelta(seconds=2))
    rescued = client.rescue(now=now).held
    print(f"  worker-2 fell silent with a {job.job_type} job: {len(rescued)} rescued when its lease was over")
    return job


def come_too_late(client: Client, job: Job, now: datetime) -> None:
    """Let the lost worker write its result after all."""
    try:
        client.finish([(job, Succeeded({"done": "too late"}))], now=now).require()
    except LeaseLost:
        winner = client.get(job.id).worker_id
        print(f"  worker-2 came back with a result: refused, {winner} had finished the job")


def work_through_time(client: Client, now: datetime) -> None:
    """Jump from one due time to the next until no job waits."""
    attempts = jumps = 0
    while next_due := client.promote(now=now).next_due:
        now, jumps = next_due, jumps + 1
        client.extend("worker-1", [], now=now)
        client.promote(now=now)
        attempts += work(client, now)
    print(f"  {attempts} attempts in {jumps} jumps over {str(now - START).split('.')[0]}, nothing slept")


def look(client: Client) -> bool:
    """Show the dead job's story and the counts; False if they are not those that were to be expected."""
    [dead] = client.list_jobs(JobFilter(state=JobState.DEAD)).jobs
    print(f"6. Look at the dead one\n  {dead.job_type}: {dead.error}")
    for event in client.events(dead.id):
        print(f"  {event.at - START!s:>15.15}  {event.event}")
    counts = client.count()
    found = {state.value: counts.total(state) for state in JobState}
    print("\nstate        jobs  expected")
    for state, number in found.items():
        print(f"{state:<10}  {number:>5}  {EXPECTED.get(state, 0):>8}")
    skipped = len(client.list_jobs(JobFilter(state="skipped")).jobs)
    acme = client.count("acme").total(JobState.SUCCEEDED)
    print(f"\nOf the succeeded, {skipped} were skipped and {acme} are acme's.")
    return found == {state.value: EXPECTED.get(state, 0) for state in JobState} and (skipped, acme) == (
        3,
        141,
    )


def main() -> int:
    """Run every step; 1 if the counts at the end are off."""
    with tempfile.TemporaryDirectory() as folder, Client(f"sqlite:///{folder}/onward.db") as client:
        print("1. Enqueue")
        answers = client.enqueue_many(orders(), now=START)
        stored = sum(answer.created for answer in answers)
        print(f"  {len(answers)} asked for, {stored} stored; the rest repeat a key")
        print("2. Enqueue with a transaction of our own")
        book(client, f"{folder}/onward.db")
        print("3. Cancel the job that is a year away")
        print(f"  {client.cancel(answers[-1].id, reason='not needed', now=START)}")
        print("4. Lose a worker")
        client.register("worker-1", now=START)
        job = lose_a_worker(client, START)
        print("5. Work, then jump to when the next job is due")
        print(f"  {work(client, START)} attempts at once")
        come_too_late(client, job, START)
        work_through_time(client, START)
        return 0 if look(client) else 1


if __name__ == "__main__":
    sys.exit(main())
