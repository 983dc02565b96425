# C types of codes_cy.py, for the compiled modules that build on it.

from thence.tables.delivery.coded_rows_cy cimport CodedRows
from thence.tables.delivery.held_cy cimport Held

cdef long long[::1] DONE_LEVEL
cdef int[::1] DONE_ROWS

cdef class Source:
    cdef public long long seen
    cdef public bint quarantined
    cdef public bint noted
    cdef public bint retired
    cdef public list holes
    cdef dict held
    cdef list numbers
    cdef object prefix

cdef bint in_hole(Source source, long long number)

cdef class Codes(Held):
    cdef public object reading
    cdef public bint cyclic
    cdef public bint dense
    cdef public dict orders
    cdef public long long holes
    cdef public long long remember
    cdef public object recent
    cdef public set forgotten
    cdef public list fresh
    cdef public list gone
    cdef public list changed
    cdef Py_ssize_t count
    cdef long long[::1] level
    cdef int[::1] refs
    cdef int[::1] row_of
    cdef int[::1] watch
    cdef list extra
    cdef list names
    cdef list free
    cdef list loose
    cdef list delivered
    cdef object lexicon
    cdef int[::1] origin

    cdef void lose_all(self)
    cdef void make_room(self, Py_ssize_t count)
    cdef int _enter(self, CodedRows rows, list names, list entered, int number)
    cpdef object settle(self)
    cpdef object tidy(self)
    cdef void _remember(self, dict names, object name)
    cpdef long long code(self, object label, object name)
    cpdef long long known(self, object label, object name)
    cpdef Source source(self, long long code)
    cpdef object text(self, long long code)
    cpdef object retire(self, long long code)
    cpdef object let_go(self, long long code)
    cdef long long _new(self, object name)
    cdef void recycle(self, long long code)
    cdef object name(self, long long code, long long number)
    cdef object named(self, object needs)
    cdef void note(self, long long code)
