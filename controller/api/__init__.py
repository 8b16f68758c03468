"""The REST API: the ledger's documents over HTTP, and what operators may ask."""
