# C types of completion_cy.py, for the compiled modules that build on it.

from thence.tables.delivery.outcome_cy cimport Outcome
from thence.tables.delivery.sources_cy cimport Row, Source, Sources

cdef class Completion(Sources):
    cdef public dict started
    cdef dict dead
    cdef str why

    cdef void cascade(self, Source source, list out)
    cdef void meet(self, dict sources, Source own, object name, long long number)
    cdef Outcome unplaced(self, Row row, int kind, object reason)
    cdef void start(self, dict sources, Source own, tuple identity, long long ticket)
    cdef Row stop(self, long long ticket)
    cdef object behind(self, list waited)
    cdef void bury(self, Source source, long long number, str reason, list out)
    cdef list effects(self, Source source)
    cdef void forget(self, object label, Source source)
    cdef void give_up_root(self, Row row, list out)
    cdef Row blocked_by(self, str cause, object label)
