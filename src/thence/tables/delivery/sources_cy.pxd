# C types of sources_cy.py, for the compiled modules that build on it.

cdef class Source:
    cdef public object name
    cdef public long long level
    cdef public long long seen
    cdef public bint quarantined
    cdef public list holes
    cdef Row row
    cdef dict held
    cdef list numbers
    cdef public list watchers
    cdef dict wanting
    cdef object prefix
    cdef public bint noted

cdef class Row:
    cdef public long long ticket
    cdef public object label
    cdef public Source source
    cdef public long long number
    cdef public object needs
    cdef public object waited
    cdef public double since
    cdef public double ahead
    cdef public long long came
    cdef public bint here
    cdef long long causes
    cdef long long effects

cdef Row held_row(long long ticket, object label, Source source, long long number)
cdef bint in_hole(Source source, long long number)

cdef class Sources:
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

    cdef dict order(self, object label)
    cdef Source known(self, dict sources, object name)
    cdef Source source(self, dict sources, object name)
    cdef Row held_at(self, Source source, long long number)
    cdef object name(self, Source source, long long number)
    cdef object names(self, object needs)
    cdef object repeat(self, Source own, long long number)
    cdef list unmet(self, dict sources, list names, list numbers)
    cdef list needs(self, dict sources, list names, list numbers)
    cpdef object hold(self, Row row)
    cdef bint watch(self, Row row)
    cdef void met(self, dict sources, Source own, object name, long long number)
    cdef void note(self, Source source)
    cpdef object wake(self, Source source, list ready)
    cpdef object remove(self, Row row)
    cdef tuple first_unmet(self, Row row)
    cdef tuple before(self, tuple need)
    cdef object root(self, Row row, dict found)
    cdef tuple blocker(self, Row row, object root)
    cpdef object waive(self, Source source, long long number)
    cdef void fill(self, Source source, long long number)
    cdef bint lacks(self, Source source, long long number)
    cdef tuple absent(self, object needs)
