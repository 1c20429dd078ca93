"""The CLI on another machine: over SSH, in a container, behind any command. Hooks, permissions and tools stay in this process.

::

    Session(options, transport=SSH("build1", cwd="~/repo"))
    Session(options, transport=Container("img:tag", mounts={".": "/repo"}))
    Session(options, transport=Command(["kubectl", "exec", "-i", "pod", "--"]))
"""

from __future__ import annotations

from hackamore.transports.remote.checking import CheckReport
from hackamore.transports.remote.findings import Finding
from hackamore.transports.remote.paths import PathMap
from hackamore.transports.remote.places import SSH, Command, Container, Machines, Place

__all__ = ["SSH", "CheckReport", "Command", "Container", "Finding", "Machines", "PathMap", "Place"]
