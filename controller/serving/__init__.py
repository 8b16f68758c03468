"""Serving: promoted models as vLLM's command lines, and adapters gated in a running server."""
