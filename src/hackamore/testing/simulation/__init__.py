"""The simulated CLI: a Claude Code CLI that plays a script."""
