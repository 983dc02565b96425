"""The nouns: frozen, small, standard library only; nothing here knows a protocol or does I/O."""
