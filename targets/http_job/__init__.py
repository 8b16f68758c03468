"""A job service elsewhere, reached over HTTP."""
