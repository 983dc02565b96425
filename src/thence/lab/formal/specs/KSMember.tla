------------------------------- MODULE KSMember -------------------------------
(***************************************************************************)
(* KS in the steps of the code: a member delivers, in the step in which a  *)
(* copy arrives, that copy and every held copy that it sets free, the one  *)
(* that arrived first next (src/thence/core/protocols/receiver.py).  Each step*)
(* here is a Receive of KS.tla and the Deliver steps that follow it.       *)
(*                                                                         *)
(* `View` is what the explorer takes for the same state (src/thence/check: *)
(* members, copies in flight and what the judge remembers), so that both   *)
(* count the same states: tests/formal compares the numbers.               *)
(***************************************************************************)
EXTENDS KSProperties

\* Here held[j] is a sequence, in order of arrival.
MInit ==
    /\ clock = [p \in Proc |-> 0]
    /\ SR = [p \in Proc |-> [q \in Proc |-> 0]]
    /\ LOG = [p \in Proc |-> {}]
    /\ held = [p \in Proc |-> <<>>]
    /\ net = {}
    /\ past = [p \in Proc |-> {}]
    /\ sent = {}

RemoveAt(q, i) == SubSeq(q, 1, i - 1) \o SubSeq(q, i + 1, Len(q))

\* Deliver what can be delivered, the first come first; `new` gathers the events.
RECURSIVE Cascade(_, _, _, _)
Cascade(sr, log, queue, new) ==
    LET ready == {i \in 1 .. Len(queue) : Met(sr, queue[i])} IN
    IF ready = {} THEN [sr |-> sr, log |-> log, queue |-> queue, new |-> new]
    ELSE LET i == CHOOSE i \in ready : \A k \in ready : i <= k
             c == queue[i]
         IN Cascade([sr EXCEPT ![c.s] = c.t], Merge(log, Learned(c)), RemoveAt(queue, i),
                    new \cup Of(c).before \cup {SendOf(c), DeliveryOf(c, c.d)})

MReceive(j, c) ==
    LET after == Cascade(SR[j], LOG[j], Append(held[j], c), {}) IN
    /\ net' = net \ {c}
    /\ SR' = [SR EXCEPT ![j] = after.sr]
    /\ LOG' = [LOG EXCEPT ![j] = after.log]
    /\ held' = [held EXCEPT ![j] = after.queue]
    /\ past' = [past EXCEPT ![j] = @ \cup after.new]
    /\ UNCHANGED <<clock, sent>>

MNext ==
    \/ \E j \in Proc : \E D \in Addressable[j] : Sent < MaxMessages /\ HSend(j, D)
    \/ \E c \in net : MReceive(c.d, c)

MSpec == MInit /\ [][MNext]_allVars

-------------------------------------------------------------------------------
\* What the explorer's judge remembers (src/thence/lab/explorer/judge_memory.py): facts not yet delivered, and who knows which.
Outstanding == UNION {{<<m.s, m.t, d>> : d \in {d \in m.Dests : ~ Delivered(m, d)}} : m \in sent}
KnownIn(P) == {f \in Outstanding : <<"send", f[1], f[2]>> \in P}
Memory ==
    <<[p \in Proc |-> KnownIn(past[p])],
      {<<m.s, m.t, KnownIn(m.before)>> : m \in {m \in sent : \E d \in m.Dests : ~ Delivered(m, d)}}>>

View == <<clock, SR, LOG, held, net, Memory>>

===============================================================================
