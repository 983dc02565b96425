# C types of codes_cy.py, for the compiled modules that build on it.

from thence.tables.delivery.coded_rows_cy cimport CodedRows

cdef class Source:
    cdef public long long seen
    cdef public long long refs
    cdef public bint quarantined
    cdef public bint noted
    cdef public bint retired
    cdef public list holes
    cdef Row row
    cdef dict held
    cdef list numbers
    cdef public list watchers
    cdef long long stale
    cdef object prefix

cdef class Row:
    cdef public long long ticket
    cdef public object label
    cdef public long long code
    cdef public long long number
    cdef public object needs
    cdef public object waited
    cdef public double since
    cdef public double ahead
    cdef public long long came
    cdef public bint here
    cdef long long rank
    cdef long long unmet
    cdef long long causes
    cdef long long effects

cdef Row held_row(long long ticket, object label, long long code, long long number)
cdef bint in_hole(Source source, long long number)

cdef class Codes:
    cdef public object reading
    cdef public bint cyclic
    cdef public bint dense
    cdef public dict orders
    cdef public dict kept
    cdef public long long holes
    cdef public long long remember
    cdef public object recent
    cdef public set forgotten
    cdef public list fresh
    cdef public list gone
    cdef public list changed
    cdef Py_ssize_t count
    cdef long long[::1] level
    cdef list extra
    cdef list names
    cdef list free
    cdef list loose
    cdef list delivered
    cdef object lexicon
    cdef int[::1] origin

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
