// pg-boss: 2 000 jobs to one call of the handler, LISTEN and NOTIFY on, polls every half second besides.
import { PgBoss } from "pg-boss";
import { clock, serve } from "./speaking.mjs";

const connectionString = process.env.PEER_URL;
let boss;

await serve({
  async open() {
    if (boss) return;
    boss = new PgBoss({ connectionString, max: 10, supervise: false, schedule: false, useListenNotify: true });
    boss.on("error", () => {});
    await boss.start();
  },
  async setup() {
    await this.open();
    await boss.createQueue("noop", { notify: true });
    await boss.createQueue("sent", { notify: true });
  },
  async one(jobs) {
    for (let n = 0; n < jobs; n += 1) await boss.send("noop", { n });
  },
  async many(jobs) {
    await boss.insert("noop", Array.from({ length: jobs }, (_, n) => ({ data: { n } })));
  },
  async trickle(jobs, pause) {
    for (let n = 0; n < jobs; n += 1) {
      await pause();
      await boss.send("sent", { sent: clock() });
    }
  },
  async work(tally) {
    await this.open();
    const batchSize = Number(process.env.PEER_BATCH ?? 2000);
    const options = { pollingIntervalSeconds: 0.5, burstWhenBatchFull: true, batchSize };
    await boss.work("noop", options, async (jobs) => jobs.forEach(() => tally.ran()));
    await boss.work("sent", { pollingIntervalSeconds: 0.5 }, async ([job]) => tally.started(job.data.sent));
  },
  async close() {
    await boss?.stop({ graceful: false });
  },
});
