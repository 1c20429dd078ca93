"""Actions of an agent, read once: replies, prices, decisions and words. No clock, no IO."""
