"""The record of every study: states, records, entries, tables, and the artifact store."""
