# What other compiled modules use of words_cy.py.
cimport cython


@cython.final
cdef class Words:
    cdef Py_ssize_t width, ones
    cdef bytearray raw
    cdef long long* word

    cpdef object mask(self)
    cdef bint has(self, Py_ssize_t position) except -1
    cdef bint empty(self) except -1
    cdef void clear(self) noexcept
    cdef int form(self, Py_ssize_t size) except -1
    cdef Py_ssize_t _extra(self, Py_ssize_t size, bint rest) except -1


@cython.final
cdef class Writer:
    cdef bytearray out
    cdef unsigned char* data
    cdef Py_ssize_t at, end

    cdef object close(self)
    cdef Py_ssize_t fits(self, Py_ssize_t count) except -1
    cdef Py_ssize_t number(self, long long value) except -1
    cdef Py_ssize_t set(self, Words words, Py_ssize_t size) except -1
    cdef Py_ssize_t _bits(self, Words words) except -1
    cdef Py_ssize_t _ids(self, Words words, Py_ssize_t size, bint rest) except -1


cdef bytearray room(Py_ssize_t count)
cdef long long* numbers_in(bytearray raw)
cdef Py_ssize_t ones_in(long long word) noexcept
cdef Py_ssize_t lowest(long long word) noexcept
cpdef long long word_below(Py_ssize_t size, Py_ssize_t j) except -1
cpdef Py_ssize_t width_of(Py_ssize_t size) except -1
cpdef Words words_of(object mask, Py_ssize_t width)
cpdef Py_ssize_t set_bytes(Py_ssize_t size) except -1
