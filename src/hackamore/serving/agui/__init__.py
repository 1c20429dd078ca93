"""AG-UI: the agents of a pool for web front ends such as CopilotKit. `app` is an ASGI app; it needs `hackamore[agui]`."""

from hackamore.serving.agui.service import app, thread_key

__all__ = ["app", "thread_key"]
