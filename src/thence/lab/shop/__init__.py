"""A shop whose payments overtake their orders, for `thence demo`: as a trace, as arrivals, and live."""
