"""The jobs of `make demo`, defined as an application defines its own."""

import asyncio
import hashlib
import os
import signal
import time

from onward import Context, Onward, Retry, Unrecoverable

app = Onward()  # jobs are kept where ONWARD_URL says, else in ./onward.db


@app.job(category="notification")
async def send_mail(to: str) -> dict[str, bool]:
    """Send a mail: an async function runs on the worker's event loop, beside many others."""
    await asyncio.sleep(0.05)
    return {"sent": to.endswith("@example.com")}


@app.job
def resize_image(image_id: int, width: int = 640) -> dict[str, int]:
    """Resize an image: a plain function runs in a thread, so it may block."""
    time.sleep(0.02)
    return {"image_id": image_id, "width": width}


@app.job(category="import_export", executor="process", timeout="10s")
def seal_report(month: int) -> str:
    """Seal a report: work on the processor gets a process, where it holds up nobody."""
    return hashlib.pbkdf2_hmac("sha256", b"report", bytes([month]), 50_000).hex()


@app.job
async def update_contact(ctx: Context, contact_id: int) -> dict[str, int]:
    """Update a contact of a provider that is down at first; any other exception would be retried, too."""
    if ctx.job.attempt < 3:
        raise Retry("503 from the provider", after=0.3)  # without after= it waits by its category
    return {"contact_id": contact_id, "attempt": ctx.job.attempt}


@app.job(priority=1)
async def renew_subscription(customer: str) -> None:
    """Renew a subscription, which no second attempt can do: the job is dead at once."""
    raise Unrecoverable(f"the card of {customer} was refused", hint="ask the customer for another card")


@app.job(priority=1)
def export_everything(ctx: Context, pages: int) -> None:
    """Export page by page until someone cancels it: both ctx.progress() and ctx.sleep() then give way."""
    for _page in ctx.progress(range(pages)):
        ctx.sleep(0.1)


@app.job(category="import_export", executor="process", priority=1)
def convert_video(ctx: Context, video_id: int) -> dict[str, int]:
    """Convert a video with a library that crashes: that ends its process, and only this attempt fails."""
    if ctx.job.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"video_id": video_id}


@app.job
def import_orders(ctx: Context, file: str) -> dict[str, str]:
    """Import orders. At first its whole worker is killed, as by the kernel when memory runs out."""
    if ctx.job.attempt == 1:
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGKILL)
    return {"imported": file}


@app.job
async def confirm_booking(booking_id: int) -> dict[str, int]:
    """Confirm a booking that was stored in the same transaction as this job."""
    return {"booking_id": booking_id}
