/** Lets the client do what an application does, against the service at the address that is given. */
import { Client, NoAnswer, ServiceProblem, type RankedList } from "./perturank.js";

declare const process: { argv: string[] };

function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}

const client = new Client(process.argv[2]!, { timeoutMs: 120_000, patienceMs: 120_000 });
const described = await client.putModel("typed", { n_features: 2, ranker: "p2linrank" });
check(described.spec.ranker === "p2linrank", "the model is described");

const documents = ["a", "b", "c"].map((id, i) => ({ id, features: [i, NaN] }));
const shown: RankedList = await client.rank("typed", { documents, source: "me" });
check(shown.ranking.map((each) => each.id).sort().join() === "a,b,c", "all are shown");
const events = [{ id: "a", action: "click" }, { id: "a", action: "purchase", value: 39.9 }];
const feedback = { impression: shown.impression, events, seen: 3, final: true };
check((await client.feedback("typed", feedback)).status === "recorded", "feedback is recorded");
check((await client.feedback("typed", feedback)).status === "known", "feedback counts once");
while ((await client.versions("typed", { limit: 1 })).versions[0]?.learned !== 1) {
  await new Promise((resolve) => setTimeout(resolve, 50));
}
const { served, versions } = await client.versions("typed", { before: 2 });
check(versions.length === 1 && versions[0]!.version === 1 && served <= 1, "the list was learned");
check((await client.generations("typed")).generations[0]!.restorable === false, "it is the present one");

const refused = await client.rank("typed", { documents: [{ id: "a", features: [1] }] }).catch((problem) => problem);
check(refused instanceof ServiceProblem && refused.status === 422 && refused.kind === "bad-input", String(refused));
const anew = await client.patchModel("typed", { seed: 7 }).catch((problem) => problem);
check(anew instanceof ServiceProblem && anew.kind === "begins-anew", String(anew));
check((await client.patchModel("typed", { seed: 7 }, { begin_anew: true })).spec.seed === 7, "it begins anew");

const bytes = await client.file("typed", { history: false });
check(bytes.byteLength > 0, "a file has bytes");
check((await client.alive()).status === "alive" && (await client.metrics()).includes("perturank_"), "it is watched");
check(["ready", "compiling"].includes((await client.ready()).status), "503 is an answer as well");
for await (const now of client.live()) {
  check("models" in now, "an event holds the overview");
  break;
}
check((await client.deleteModel("typed")) === undefined, "it is deleted");

const nobody = await new Client("http://127.0.0.1:1").alive({ patienceMs: 200 }).catch((problem) => problem);
check(nobody instanceof NoAnswer && nobody.cause !== undefined, String(nobody));
let attempts = 0;
const flaky: typeof fetch = (...given) => {
  attempts += 1;
  return attempts < 3 ? Promise.resolve(new Response("{}", { status: 503 })) : fetch(...given);
};
check((await new Client(process.argv[2]!, { fetch: flaky }).alive()).status === "alive" && attempts === 3, "again");
const ended = await client.alive({ signal: AbortSignal.abort() }).catch((problem) => problem);
check(ended.name === "AbortError", String(ended));
console.log("done");
