# C types of completion_cy.py, for the compiled modules that build on it.

from thence.tables.delivery.codes_cy cimport Source
from thence.tables.delivery.outcome_cy cimport Outcomes
from thence.tables.delivery.sources_cy cimport Sources

cdef class Completion(Sources):
    cdef public dict started
    cdef dict dead
    cdef str why

    cdef Outcomes begun(self, Outcomes into)
    cdef void cascade(self, long long code, Outcomes out)
    cdef Py_ssize_t unplaced(self, int row, int kind, object reason, Outcomes out)
    cdef void start(self, object label, long long code, long long number, long long ticket)
    cdef int stop(self, long long ticket)
    cdef object behind(self, list waited)
    cdef void bury(self, long long code, long long number, str reason, Outcomes out)
    cdef list effects(self, long long code)
    cdef void forget(self, object label, long long code)
    cdef void give_up_root(self, int row, Outcomes out)
    cdef int blocked_by(self, str cause, object label)
