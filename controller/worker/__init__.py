"""Drives claimed studies: the loop, leases, recovery and the driver of one study."""
