# C types of outcome_cy.py, for the compiled modules that build on it.

cdef class Outcome:
    cdef public long long ticket
    cdef public int kind
    cdef public long long position
    cdef public object waited_for
    cdef public long long held_for
    cdef public double held_seconds
    cdef public object reason
    cdef public object missing
    cdef public object blocker

cdef Outcome outcome(long long ticket, int kind, object reason)
