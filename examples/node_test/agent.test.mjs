// Run it with `bridle simulate script.toml -- node --test agent.test.mjs`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask } from "./agent.mjs";

const options = { pathToClaudeCodeExecutable: process.env.BRIDLE_SIMULATED_CLI };

test("the agent deletes nothing", async () => {
  assert.equal(await ask("Clear the cache", options), "The cache is still there.");
});
