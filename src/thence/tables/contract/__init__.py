"""The columns of both tables, their types, and what makes a row unusable, stated once."""
