"""The pytests that run in this process share its modules of Hackamore: one that only they import would be imported by each of them."""

from __future__ import annotations

import hackamore.aio.query
import hackamore.sync.query
import hackamore.testing.cassettes.cassette
import hackamore.testing.plugin.traces
import hackamore.testing.simulation.simulated_cli  # noqa: F401
