// A script for each test: write the simulated CLI, and check it when the test ends.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export function simulated(t, steps) {
  const folder = mkdtempSync(join(tmpdir(), "agent-"));
  const [script, cli] = [join(folder, "script.json"), join(folder, "cli")];
  writeFileSync(script, JSON.stringify({ steps }));
  const path = execFileSync("hackamore", ["simulate", script, "--install", cli], { encoding: "utf8" });
  t.after(() => {
    const report = spawnSync("hackamore", ["simulate", "--check", cli], { encoding: "utf8" });
    rmSync(folder, { recursive: true });
    assert.equal(report.status, 0, report.stdout + report.stderr);
  });
  return { pathToClaudeCodeExecutable: path.trim() };
}
