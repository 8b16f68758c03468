"""PPO by OpenRLHF as a command, for clusters."""
