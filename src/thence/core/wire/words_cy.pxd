# What other compiled modules use of words_cy.py.
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


cpdef long long word_below(Py_ssize_t size, Py_ssize_t j)
cpdef Py_ssize_t width_of(Py_ssize_t size)
cpdef Words words_of(object mask, Py_ssize_t width)
cpdef Py_ssize_t set_bytes(Py_ssize_t size)
