"""Everything that is done with tables of events, on any engine: read, judge, deliver, cost."""
