"""The JSON documents of the ledger's nouns: one shape each, wherever they are shown."""
