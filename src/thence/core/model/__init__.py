"""Basic types: messages, events, rosters, verdicts. Immutable, standard library only, without protocols or I/O."""
