# What other compiled modules use of reader_cy.py.
cimport cython


@cython.final
cdef class Words:
    cdef Py_ssize_t width
    cdef long long[::1] word

    cpdef object mask(self)
    cdef bint has(self, Py_ssize_t position)
    cdef bint empty(self)
    cdef void clear(self)
    cdef int form(self, Py_ssize_t size)
    cdef Py_ssize_t _extra(self, Py_ssize_t size, bint rest)


@cython.final
cdef class Writer:
    cdef bytearray raw
    cdef unsigned char[::1] data
    cdef Py_ssize_t at

    cdef object written(self)
    cdef Py_ssize_t number(self, long long value)
    cdef Py_ssize_t set(self, Words words, Py_ssize_t size)
    cdef Py_ssize_t _bits(self, Words words)
    cdef Py_ssize_t _ids(self, Words words, Py_ssize_t size, bint rest)


@cython.final
cdef class Reader:
    cdef readonly object raw
    cdef const unsigned char[::1] data
    cdef public Py_ssize_t at, end, size
    cdef Words words
    cdef long long[::1] counts

    cpdef object span(self, Py_ssize_t at, Py_ssize_t end)
    cpdef bytes take(self, Py_ssize_t count)
    cpdef long long varint(self)
    cpdef list numbers(self, long long count)
    cpdef bint flag(self)
    cpdef long long length(self)
    cdef object falling(self, long long length)
    cpdef dict pairs(self)
    cpdef object done(self)
    cpdef object mask(self)
    cpdef list masks(self, Py_ssize_t count)
    cpdef tuple message(self)
    cdef Words set(self)
    cdef object _read_bits(self, Words words, long long length)
    cdef object _read_ids(self, Words words, long long length, bint rest)


cpdef Py_ssize_t width_of(Py_ssize_t size)
cpdef Words words_of(object mask, Py_ssize_t width)
cpdef Py_ssize_t set_bytes(Py_ssize_t size)
