"""One prompt and its stream of messages, without waiting: prompts, the ending table, outcomes."""
