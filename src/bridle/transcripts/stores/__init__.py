"""Session stores: the protocol, adapters, and how transcripts get there and back."""
