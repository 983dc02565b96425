# What other compiled modules use of log_reader_cy.py.
from thence.core.wire.dependency_log_cy cimport Log
from thence.core.wire.reader_cy cimport Reader


cpdef Log read_log(Reader reader)
cpdef object read_needs(Reader reader, Py_ssize_t me, list sources, list counts)
