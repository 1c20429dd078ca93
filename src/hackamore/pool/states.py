"""The states of a pool. A missing cell is a defect of the pool and raises.

A slot is one CLI process, from its start to its end. A lease is the right to run a conversation, and the call of the registry about it.
"""

from __future__ import annotations

from enum import auto

from hackamore.runtime.tables import Member


class State(Member):
    STARTING = auto()
    WARM = auto()
    """Ready, never used by a holder, and of no conversation."""
    RESERVED = auto()
    """Ready, and of a conversation whose caller gets it once the registry has stored the conversation: no other caller's victim."""
    BUSY = auto()
    """It has a holder."""
    LOST = auto()
    """Its process is gone, and its holder has not returned it yet."""
    SETTLING = auto()
    """Its holder returned it while a turn or a background task was open."""
    IDLE = auto()
    """Of a conversation, without a holder, and quiet."""
    HIBERNATING = auto()
    """Its input is closed, and it finishes its transcript."""
    STOPPING = auto()
    GONE = auto()


class Trigger(Member):
    """Events that move a slot from one state to the next."""

    READY = auto()
    """Started, for no conversation."""
    READY_FOR_KEY = auto()
    """Started, for a conversation."""
    FAILED = auto()
    BOUND = auto()
    """A conversation took it."""
    GRANTED = auto()
    LEFT = auto()
    """The last caller that it was reserved for is gone."""
    RETURNED_QUIET = auto()
    RETURNED_OPEN = auto()
    UNUSED = auto()
    """Its caller left before it used the session."""
    QUIET = auto()
    DIED = auto()
    """Its process is gone, and the pool had not requested that."""
    HIBERNATE = auto()
    STOP = auto()
    STOPPED = auto()


_S, _H = State, Trigger

LIVE: frozenset[State] = frozenset(set(_S) - {_S.LOST, _S.GONE})
"""The states in which a process may exist: they count against `max_live`."""

SLOT: dict[tuple[State, Trigger], State] = {
    (_S.STARTING, _H.READY): _S.WARM,
    (_S.STARTING, _H.READY_FOR_KEY): _S.RESERVED,
    (_S.STARTING, _H.FAILED): _S.GONE,
    (_S.STARTING, _H.STOP): _S.STOPPING,
    (_S.WARM, _H.BOUND): _S.RESERVED,
    (_S.WARM, _H.GRANTED): _S.BUSY,
    (_S.WARM, _H.DIED): _S.GONE,
    (_S.WARM, _H.STOP): _S.STOPPING,
    (_S.RESERVED, _H.GRANTED): _S.BUSY,
    (_S.RESERVED, _H.LEFT): _S.IDLE,
    (_S.RESERVED, _H.DIED): _S.GONE,
    (_S.RESERVED, _H.STOP): _S.STOPPING,
    (_S.RESERVED, _H.HIBERNATE): _S.HIBERNATING,
    (_S.BUSY, _H.RETURNED_QUIET): _S.IDLE,
    (_S.BUSY, _H.RETURNED_OPEN): _S.SETTLING,
    (_S.BUSY, _H.UNUSED): _S.WARM,
    (_S.BUSY, _H.DIED): _S.LOST,
    (_S.BUSY, _H.STOP): _S.STOPPING,
    (_S.LOST, _H.RETURNED_QUIET): _S.GONE,
    (_S.LOST, _H.RETURNED_OPEN): _S.GONE,
    (_S.LOST, _H.UNUSED): _S.GONE,
    (_S.LOST, _H.STOP): _S.GONE,
    (_S.SETTLING, _H.QUIET): _S.IDLE,
    (_S.SETTLING, _H.GRANTED): _S.BUSY,
    (_S.SETTLING, _H.DIED): _S.GONE,
    (_S.SETTLING, _H.STOP): _S.STOPPING,
    (_S.IDLE, _H.GRANTED): _S.BUSY,
    (_S.IDLE, _H.DIED): _S.GONE,
    (_S.IDLE, _H.HIBERNATE): _S.HIBERNATING,
    (_S.IDLE, _H.STOP): _S.STOPPING,
    (_S.HIBERNATING, _H.DIED): _S.HIBERNATING,
    (_S.HIBERNATING, _H.STOP): _S.STOPPING,
    (_S.HIBERNATING, _H.STOPPED): _S.GONE,
    # The holder of a session that the pool stops gives it back later, or its start fails because of the stop.
    (_S.STOPPING, _H.RETURNED_QUIET): _S.STOPPING,
    (_S.STOPPING, _H.RETURNED_OPEN): _S.STOPPING,
    (_S.STOPPING, _H.UNUSED): _S.STOPPING,
    (_S.STOPPING, _H.READY): _S.STOPPING,
    (_S.STOPPING, _H.READY_FOR_KEY): _S.STOPPING,
    (_S.STOPPING, _H.FAILED): _S.GONE,
    (_S.STOPPING, _H.DIED): _S.STOPPING,
    (_S.STOPPING, _H.STOP): _S.STOPPING,
    (_S.STOPPING, _H.STOPPED): _S.GONE,
    **{(_S.GONE, trigger): _S.GONE for trigger in (_H.RETURNED_QUIET, _H.RETURNED_OPEN, _H.UNUSED)},
    **{(_S.GONE, trigger): _S.GONE for trigger in (_H.DIED, _H.QUIET, _H.STOPPED, _H.STOP, _H.FAILED)},
}


class Lease(Member):
    NONE = auto()
    CLAIMED = auto()
    """Not had, and a call runs: the conversation is forgotten, or a request for it is cancelled."""
    ASKING = auto()
    HELD = auto()
    SAVING = auto()
    RELEASING = auto()


class LeaseTrigger(Member):
    """Events that move a lease from one state to the next."""

    CLAIM = auto()
    ASK = auto()
    TAKEN = auto()
    REFUSED = auto()
    FOUND = auto()
    """The registry has it for this pool, which did not know of it."""
    SAVE = auto()
    SAVED = auto()
    RELEASE = auto()
    RELEASED = auto()
    LOST = auto()
    """Another program may run the conversation."""
    FAILED = auto()
    FAILED_AT_THE_END = auto()
    """The call failed, and the pool is closed: its heartbeats end soon."""


_L, _T = Lease, LeaseTrigger

HELD: frozenset[Lease] = frozenset({_L.HELD, _L.SAVING})
"""The states in which the conversation may have a process."""

QUIET: frozenset[Lease] = frozenset({_L.NONE, _L.HELD})
"""The states without a call of the registry. There is one call at a time."""

LEASE: dict[tuple[Lease, LeaseTrigger], Lease] = {
    (_L.NONE, _T.CLAIM): _L.CLAIMED,
    (_L.NONE, _T.ASK): _L.ASKING,
    (_L.NONE, _T.FOUND): _L.HELD,
    (_L.ASKING, _T.TAKEN): _L.HELD,
    (_L.ASKING, _T.REFUSED): _L.NONE,
    (_L.ASKING, _T.FAILED): _L.NONE,
    (_L.ASKING, _T.FAILED_AT_THE_END): _L.NONE,
    (_L.HELD, _T.SAVE): _L.SAVING,
    (_L.HELD, _T.RELEASE): _L.RELEASING,
    (_L.HELD, _T.LOST): _L.NONE,
    (_L.SAVING, _T.SAVED): _L.HELD,
    (_L.SAVING, _T.LOST): _L.CLAIMED,  # the call still runs
    (_L.SAVING, _T.FAILED): _L.HELD,
    (_L.SAVING, _T.FAILED_AT_THE_END): _L.HELD,
    (_L.RELEASING, _T.RELEASED): _L.NONE,
    (_L.RELEASING, _T.FAILED): _L.HELD,  # it is given back later: it would not end before this process
    (_L.RELEASING, _T.FAILED_AT_THE_END): _L.NONE,
    (_L.CLAIMED, _T.TAKEN): _L.HELD,
    **{(_L.CLAIMED, each): _L.NONE for each in (_T.REFUSED, _T.SAVED, _T.RELEASED, _T.LOST)},
    **{(_L.CLAIMED, each): _L.NONE for each in (_T.FAILED, _T.FAILED_AT_THE_END)},
}
