# C types of coded_rows_cy.py, for the compiled modules that build on it.

cdef class CodedRows:
    cdef readonly object lexicon
    cdef readonly dict odd
    cdef int[::1] own
    cdef long long[::1] number
    cdef int[::1] start
    cdef int[::1] need
    cdef long long[::1] wanted
    cdef int[::1] mark
