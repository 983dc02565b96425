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

cdef class Outcomes:
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t waits
    cdef public object lexicon
    cdef readonly list texts
    cdef readonly dict reason
    cdef readonly dict missing
    cdef readonly dict blocker
    cdef long long[::1] ticket
    cdef long long[::1] position
    cdef long long[::1] held_for
    cdef double[::1] held_seconds
    cdef signed char[::1] kind
    cdef int[::1] waited_start
    cdef int[::1] waited

    cdef void _grow(self, Py_ssize_t room)
    cdef Py_ssize_t add(self, long long ticket, int kind, object reason)
    cdef void waits_for(self, int number)
    cdef void waits_for_text(self, object text)
