# C types of sources_cy.py, for the compiled modules that build on it.

from thence.tables.delivery.codes_cy cimport Codes, Source

cdef class Sources(Codes):
    cdef int held_at(self, Source source, long long code, long long number)
    cdef object repeat(self, Source source, long long code, long long number)
    cdef void hold(self, int row)
    cdef bint watch_next(self, int row)
    cdef void met(self, long long code, long long number)
    cdef int wake(self, long long code, int ready)
    cdef void detach(self, int row)
    cdef tuple first_unmet(self, int row)
    cdef tuple before(self, tuple need)
    cdef object root(self, int row, dict found)
    cdef tuple blocker(self, int row, object root)
    cpdef object waive(self, long long code, long long number)
    cdef void fill(self, long long code, Source source, long long number)
    cdef bint lacks(self, long long code, long long number)
    cdef tuple absent(self, object needs)
