"""A reference service for ARL's job protocol: runs attempts here, or creates machines."""
