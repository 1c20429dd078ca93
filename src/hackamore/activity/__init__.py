"""Actions of an agent, read once: replies, tool calls, prices, decisions and words. No clock, no IO."""
