"""Put pip into a virtual environment that was made without it, as on Debian without the package python3-venv.

Run as `.venv/bin/python scripts/bootstrap_pip.py`. The wheel comes from the package index that pip is configured for
(PIP_INDEX_URL), else from PyPI, and must have the checksum below.
"""

# ruff: noqa: T201 - a script talks by printing

from __future__ import annotations

import hashlib
import html.parser
import os
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

WHEEL = "pip-25.3-py3-none-any.whl"
SHA256 = "9655943313a94722b7774661c21049070f6bbb0a1516bf02f7c8d5d9201514cd"
TIMEOUT = 60


class Links(html.parser.HTMLParser):
    """The addresses on an index page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the address of a link."""
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def fetch(url: str) -> tuple[str, bytes]:
    """Return the final address and the contents of `url`."""
    # The scheme comes from pip's configuration, as pip itself would use it.
    with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:  # noqa: S310
        return answer.url, answer.read()


def main() -> int:
    """Install pip for the running interpreter."""
    if sys.prefix == sys.base_prefix:
        print("Run this with the interpreter of a virtual environment", file=sys.stderr)
        return 2
    index = os.environ.get("PIP_INDEX_URL") or "https://pypi.org/simple"
    try:
        page_url, page = fetch(f"{index.rstrip('/')}/pip/")
        links = Links()
        links.feed(page.decode("utf-8", "replace"))
        chosen = next((link for link in links.found if WHEEL in link.partition("#")[0]), None)
        if chosen is None:
            print(f"{index} does not have {WHEEL}", file=sys.stderr)
            return 1
        _, wheel = fetch(urllib.parse.urljoin(page_url, chosen.partition("#")[0]))
    except OSError as error:
        print(f"Could not get pip from {index}: {error}", file=sys.stderr)
        return 1
    if hashlib.sha256(wheel).hexdigest() != SHA256:
        print(f"What {index} gave as {WHEEL} has the wrong checksum; nothing was installed", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, WHEEL)
        path.write_bytes(wheel)
        # A wheel is a zip file that Python can run from: pip installs itself.
        install = [sys.executable, f"{path}/pip", "install", "--quiet", "--no-index", "--no-deps", str(path)]
        return subprocess.run(install, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
