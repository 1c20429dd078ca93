"""Session stores: entries of the transcript on their way to a store, and conversations on their way back to the disk."""
