"""`Options`: one frozen value with everything a program may say about a query or a session."""
