# What other compiled modules use of bits_cy.py.
cimport cython

from thence.core.wire.reader_cy cimport Reader
from thence.core.wire.words_cy cimport Words


@cython.final
cdef class BitWriter:
    cdef bytearray out
    cdef unsigned char* data
    cdef Py_ssize_t at, end
    cdef unsigned long long kept
    cdef int fill

    cdef object grow(self, Py_ssize_t more)
    cdef int put(self, unsigned long long value, int bits) except -1
    cdef int number(self, unsigned long long value, int width) except -1
    cdef int wide(self, unsigned long long value, int bits) except -1
    cdef int one_of(self, unsigned long long value, unsigned long long count) except -1
    cdef int middle(
        self, long long* positions, Py_ssize_t first, Py_ssize_t count, long long low, long long high
    ) except -1
    cdef object close(self)


@cython.final
cdef class BitReader:
    cdef Reader reader
    cdef unsigned long long kept
    cdef int fill

    cdef int need(self, int bits) except -1
    cdef unsigned long long get(self, int bits) except -1
    cdef unsigned long long wide(self, int bits) except -1
    cdef long long number(self, int width) except -1
    cdef long long one_of(self, unsigned long long count) except -1
    cdef int middle(self, Words words, long long count, long long low, long long high) except -1
    cdef object close(self)


cdef int length_of(unsigned long long value) noexcept
