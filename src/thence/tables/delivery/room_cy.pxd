# C types of room_cy.py, for the compiled modules that build on it.

cdef class Room:
    cdef long long[::1] longs
    cdef int[::1] ints
    cdef double[::1] doubles
    cdef signed char[::1] chars
    cdef object cycles
    cdef Py_ssize_t longs_taken
    cdef Py_ssize_t ints_taken
    cdef Py_ssize_t doubles_taken
    cdef Py_ssize_t chars_taken

    cdef long long[::1] more_longs(self, long long[::1] old, Py_ssize_t length)
    cdef int[::1] more_ints(self, int[::1] old, Py_ssize_t length)
    cdef double[::1] more_doubles(self, double[::1] old, Py_ssize_t length)
    cdef signed char[::1] more_chars(self, signed char[::1] old, Py_ssize_t length)
