"""Causal order inside frameworks for services, as users import it; it lives in `thence.tables.integrations`."""
