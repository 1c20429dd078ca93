"""The state tables: what is not in a table cannot happen, and a cell that is missing is a protocol error.

A machine is an enum of states, an enum of triggers, and a dict from a pair of both to what follows. `session` has the machines of a
connection, where only the next state follows; `query` has the one that judges a query, where a cell also says what the reader gets.
"""
