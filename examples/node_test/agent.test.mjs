// Run it with `hackamore simulate script.toml -- node --test agent.test.mjs`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask } from "./agent.mjs";

const path = process.env.HACKAMORE_SIMULATED_CLI;
assert.ok(path, "this would start the real CLI: run it with `hackamore simulate`");
const options = { pathToClaudeCodeExecutable: path };

test("the agent deletes nothing", async () => {
  assert.equal(await ask("Clear the cache", options), "The cache is still there.");
});
