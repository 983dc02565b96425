"""Messages, stamps and the protocols that order them: standard library only, no I/O, no clock, no randomness."""
