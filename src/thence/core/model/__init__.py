"""The nouns: frozen, small, standard library only; nothing here knows a protocol or does I/O."""

from thence.core.model.events import Event, EventKind, order_of, parse, render
from thence.core.model.message import Cause, Copy, MessageId
from thence.core.model.roster import Roster

__all__ = ["Cause", "Copy", "Event", "EventKind", "MessageId", "Roster", "order_of", "parse", "render"]
