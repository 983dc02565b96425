"""The nouns: frozen, small, standard library only; nothing here knows a protocol or does I/O."""

from thence.model.events import Event, Kind, order_of, parse, render
from thence.model.message import Cause, Copy, MessageId
from thence.model.roster import Roster

__all__ = ["Cause", "Copy", "Event", "Kind", "MessageId", "Roster", "order_of", "parse", "render"]
