// graphile-worker with the settings of its own page on performance (24 jobs at once, completions batched without
// delay), but a local queue of 1 000 where that page has 500: it was a third faster here.
import { makeWorkerUtils, run, Logger } from "graphile-worker";
import pg from "pg";
import { clock, serve } from "./speaking.mjs";

const connectionString = process.env.PEER_URL;
const logger = new Logger(() => () => {});
const pgPool = new pg.Pool({ connectionString, max: 25 });
pgPool.on("error", () => {});
pgPool.on("connect", (client) => client.on("error", () => {}));
const preset = {
  worker: {
    concurrentJobs: Number(process.env.PEER_CONCURRENCY ?? 24),
    maxPoolSize: 25,
    localQueue: { size: Number(process.env.PEER_BATCH ?? 1000) },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    logger,
  },
};

let utils;

await serve({
  async open() {
    utils ??= await makeWorkerUtils({ pgPool, logger });
  },
  async setup() {
    await this.open();
    await utils.migrate();
  },
  async one(jobs) {
    for (let n = 0; n < jobs; n += 1) await utils.addJob("noop", { n });
  },
  async many(jobs) {
    await utils.addJobs(Array.from({ length: jobs }, (_, n) => ({ identifier: "noop", payload: { n } })));
  },
  async trickle(jobs, pause) {
    for (let n = 0; n < jobs; n += 1) {
      await pause();
      await utils.addJob("sent", { sent: clock() });
    }
  },
  async work(tally) {
    const taskList = {
      noop: async () => tally.ran(),
      sent: async (payload) => tally.started(payload.sent),
    };
    await run({ pgPool, taskList, preset, noHandleSignals: true });
  },
  async close() {
    await pgPool.end();
  },
});
