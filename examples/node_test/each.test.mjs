// Run it with `node --test each.test.mjs`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask } from "./agent.mjs";
import { simulated } from "./simulated.mjs";

test("the agent runs tests", async (t) => {
  const options = simulated(t, [
    { step: "user", contains: "tests" },
    { step: "calls", tool: "Bash", input: { command: "pytest" }, result: "3 passed" },
    { step: "expect_permission", tool: "Bash", decision: "allow" },
    { step: "says", text: "All pass." },
  ]);
  assert.equal(await ask("Run the tests", options), "All pass.");
});

test("the agent reports an API that refuses", async (t) => {
  const options = simulated(t, [{ step: "user" }, { step: "api_error", status: 401, message: "invalid key" }]);
  await assert.rejects(ask("Run the tests", options), /invalid key/);
});
