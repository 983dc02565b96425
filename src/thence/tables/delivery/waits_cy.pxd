# C types of waits_cy.py, for the compiled modules that build on it.

from thence.tables.delivery.completion_cy cimport Completion

cdef class Waits(Completion):
    cdef public object policy
    cdef public object where
    cdef public long long rows
    cdef public double now
    cdef public double began
    cdef public double doubted
    cdef public dict foreign
    cdef bint counted
    cdef double max_jump

    cdef void begin(self)
    cdef double see(self, double time)
    cdef void move(self, double time)
    cdef object doubting(self, object reason, double ahead)
    cdef double seconds(self, double since)
    cdef object explained(self, int row, dict found)
    cdef str about(self, int row, object root, tuple need, str blocker)
