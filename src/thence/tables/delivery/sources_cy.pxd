# C types of sources_cy.py, for the compiled modules that build on it.

from thence.tables.delivery.codes_cy cimport Codes, Row, Source

cdef class Sources(Codes):
    cdef Row held_at(self, Source source, long long number)
    cdef object repeat(self, Source source, long long code, long long number)
    cpdef object hold(self, Row row)
    cdef bint watch(self, Row row)
    cdef void met(self, long long code, long long number)
    cpdef object wake(self, long long code, list ready)
    cpdef object remove(self, Row row)
    cdef tuple first_unmet(self, Row row)
    cdef tuple before(self, tuple need)
    cdef object root(self, Row row, dict found)
    cdef tuple blocker(self, Row row, object root)
    cpdef object waive(self, long long code, long long number)
    cdef void fill(self, long long code, Source source, long long number)
    cdef bint lacks(self, long long code, long long number)
    cdef tuple absent(self, object needs)
