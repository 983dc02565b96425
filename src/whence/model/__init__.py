"""The nouns: frozen, small, standard library only; nothing here knows a protocol or does I/O."""

from whence.model.events import Event, Kind, order_of, parse, render
from whence.model.message import Cause, Copy, MessageId
from whence.model.roster import Roster

__all__ = ["Cause", "Copy", "Event", "Kind", "MessageId", "Roster", "order_of", "parse", "render"]
