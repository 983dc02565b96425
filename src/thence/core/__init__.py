"""What a message is and how protocols treat it: standard library only, no I/O, no clock, no randomness."""
