"""Run every claim and print which rows vanish when a program for the official package runs on `hackamore.compat`.

python bench/claims/table.py            # all three sides: three minutes
python bench/claims/table.py --layer    # the layer alone
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CLAIMS = "leaving_early killed_host clean_exit unread_messages newer_cli failed_cli structured_output bare_string"


def output(name: str) -> str:
    command = [sys.executable, str(Path(__file__).with_name(f"{name}.py")), *sys.argv[1:]]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    with ThreadPoolExecutor(2) as threads:
        outputs = list(threads.map(output, CLAIMS.split()))
    lines = "".join(outputs).splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    print("\n".join(line for line in lines if line not in rows))
    print("\n".join(["| case | vanishes |", "|---|---|", *rows]))
    print(f"\n{sum(row.endswith('| yes |') for row in rows)} of {len(rows)} rows vanish")
