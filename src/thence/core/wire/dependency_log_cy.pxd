# What other compiled modules use of log_cy.py.
cimport cython

from thence.core.wire.words_cy cimport Words, Writer


@cython.final
cdef class Log:
    cdef readonly Py_ssize_t entries
    cdef Py_ssize_t width, stride, place
    cdef bytearray raw
    cdef long long* data

    cdef long long sender(self, Py_ssize_t i) noexcept
    cdef long long count(self, Py_ssize_t i) noexcept
    cdef bint last(self, Py_ssize_t i) noexcept
    cdef bint empty(self, Py_ssize_t i) noexcept
    cdef object mask(self, Py_ssize_t i)
    cdef object lay_out(self, Py_ssize_t entries, Py_ssize_t width)
    cdef void head(self, long long sender, long long count) noexcept
    cdef void words(self, Words words) noexcept
    cdef void take(self, Log log, Py_ssize_t i) noexcept
    cdef void copy(self, Log log, Py_ssize_t i, Words ended) noexcept
    cdef void meet(self, Log log, Py_ssize_t i) noexcept
    cdef void purge(self, Py_ssize_t first) noexcept
    cdef Log trimmed(self)
    cpdef long long newest(self, long long sender) except -1
    cpdef bint beyond(self, long long me, long long sent, long long sender, long long count) except -1
    cpdef list needs(self, Py_ssize_t me)
    cpdef object union(self)
    cpdef Log without(self, object mask)
    cpdef Log appended(self, long long sender, long long count, object mask)
    cpdef Log merged(self, Log other, object ended=*)
    cpdef object write(self, bytearray out, Py_ssize_t size)


cdef Log blank(Py_ssize_t entries, Py_ssize_t width)
