"""How an attempt reaches the hosts that its study lists, and no other."""
