# What other compiled modules use of reader_cy.py.
cimport cython

from thence.core.wire.words_cy cimport Words


@cython.final
cdef class Reader:
    cdef readonly object raw
    cdef const unsigned char[::1] data
    cdef public Py_ssize_t at, end, size
    cdef Words words
    cdef bytearray raw_counts
    cdef long long* counts
    cdef Py_ssize_t place

    cpdef object span(self, Py_ssize_t at, Py_ssize_t end)
    cpdef bytes take(self, Py_ssize_t count)
    cpdef long long varint(self) except -1
    cpdef list numbers(self, long long count)
    cpdef tuple packed(self)
    cpdef bint flag(self) except -1
    cpdef long long length(self) except -1
    cdef object falling(self, long long length)
    cpdef dict pairs(self)
    cpdef object done(self)
    cpdef object mask(self)
    cpdef list masks(self, Py_ssize_t count)
    cpdef tuple message(self)
    cdef Words set(self)
    cdef object _read_bits(self, Words words, long long length)
    cdef object _read_ids(self, Words words, long long length, bint rest)
