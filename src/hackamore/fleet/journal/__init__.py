"""The journal of a fleet: its tasks, their attempts and every change of their states, in a database."""

from hackamore.fleet.journal.journal import Attempt, Change, Journal, Lease, open_journal
from hackamore.storage.stores import Store

__all__ = ["Attempt", "Change", "Journal", "Lease", "Store", "open_journal"]
