// The child's side of a measured process on Node: the same words as bench/speaking.py.
import { createInterface } from "node:readline";

export const clock = () => Number(process.hrtime.bigint() / 1000n);
export const say = (values) => process.stdout.write(JSON.stringify(values) + "\n");
const cpu = () => (({ user, system }) => (user + system) / 1e6)(process.cpuUsage());
const memory = () => process.memoryUsage().rss / 1e6;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Tally {
  jobs = 0;
  first = 0;
  waits = [];
  ran() {
    if (!this.jobs) this.first = clock();
    this.jobs += 1;
  }
  started(sent) {
    this.waits.push(clock() - sent);
    this.ran();
  }
}

async function timed(jobs, work) {
  const start = clock();
  await work();
  say({ jobs, seconds: (clock() - start) / 1e6 });
}

function work(run) {
  const tally = new Tally();
  let start = 0;
  let before = -1;
  const report = () => {
    if (tally.jobs === before) return;
    before = tally.jobs;
    say({ jobs: tally.jobs, at: clock(), first: tally.first, cpu: cpu() - start });
  };
  createInterface({ input: process.stdin }).on("line", (line) => {
    if (line === "go") {
      start = cpu();
      setInterval(report, 20);
      run(tally).catch((error) => { console.error(error); process.exit(1); });
    } else if (line === "memory") {
      say({ memory: memory() });
    } else if (line === "stop") {
      const words = { stopped: true, ...tally, cpu: cpu() - start, memory: memory() };
      process.stdout.write(JSON.stringify(words) + "\n", () => process.exit(0));
    }
  });
  say({ ready: true });
}

export async function serve(subject) {
  const [verb, argument] = process.argv.slice(2);
  const jobs = Number(argument) || 0;
  let number = 0;
  const pause = () => sleep(20 + ((number += 1) * 7) % 20);
  if (verb === "work") return work((tally) => subject.work(tally));
  if (verb === "setup") {
    await subject.setup();
    say({ done: true });
  }
  await subject.open();
  if (verb === "one") await timed(jobs, () => subject.one(jobs));
  if (verb === "many") await timed(jobs, () => subject.many(jobs));
  if (verb === "trickle") await timed(jobs, () => subject.trickle(jobs, pause));
  await subject.close();
  process.exit(0);
}
