# C types of held_cy.py, for the compiled modules that build on it.

from thence.tables.delivery.room_cy cimport Room

cdef int HERE
cdef int STARTED
cdef int GONE
cdef signed char[::1] NO_CHARS
cdef int[::1] NO_INTS
cdef long long[::1] NO_LONGS
cdef double[::1] NO_DOUBLES

cdef class Places:
    cdef long long[::1] row_ticket
    cdef long long[::1] row_number
    cdef long long[::1] row_came
    cdef long long[::1] row_key
    cdef double[::1] row_since
    cdef double[::1] row_ahead
    cdef int[::1] row_code
    cdef int[::1] row_needs
    cdef int[::1] row_unmet
    cdef int[::1] row_before
    cdef int[::1] row_after
    cdef int[::1] row_child
    cdef int[::1] row_sibling
    cdef signed char[::1] row_state
    cdef signed char[::1] row_queued
    cdef int[::1] need_code
    cdef long long[::1] need_number
    cdef int[::1] need_row
    cdef int[::1] need_next
    cdef int[::1] need_before
    cdef int[::1] need_after
    cdef signed char[::1] need_waited

cdef Places NO_PLACES

cdef class Held:
    cdef Room room
    cdef readonly Py_ssize_t held
    cdef dict labels
    cdef dict waited_names
    cdef dict by_ticket
    cdef int head
    cdef int tail
    cdef int rows_used
    cdef int rows_free
    cdef int needs_used
    cdef int needs_free
    cdef Places at

    cdef void hold_nothing(self)
    cdef Places own_places(self)
    cdef void more_rows(self)
    cdef void more_needs(self)
    cdef int new_row(self, long long ticket, object label, int code, long long number)
    cdef int new_need(self, int row, int last, int code, long long number, bint waited)
    cdef void free_row(self, int row)
    cdef void list_row(self, int row)
    cdef void unlist_row(self, int row)
    cdef int place_of(self, long long ticket)
    cdef list places(self)
    cdef list pairs(self, int row, bint waited)
    cdef void fill_arrays(self, object found)
    cdef object described(self, int row)
    cdef int queued(self, int root, int row, long long key)
    cdef int melded(self, int one, int other)
    cdef int unqueued(self, int root)
