"""Containers of a Docker engine, kept by a daemon that listens to its events."""
