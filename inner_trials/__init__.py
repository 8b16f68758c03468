"""Programs that run inside a trial, and the contract they run under."""
