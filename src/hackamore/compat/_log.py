"""The log of the layer: records with the attributes that all records of Hackamore have."""

import logging

logger = logging.LoggerAdapter(
    logging.getLogger("hackamore.compat"), {"session_id": None, "turn_id": None, "pid": None}
)
