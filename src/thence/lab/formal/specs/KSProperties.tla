----------------------------- MODULE KSProperties -----------------------------
(***************************************************************************)
(* What KS promises, by definition, on top of KS.tla.                      *)
(*                                                                         *)
(* Happened-before is kept as sets of events, without clocks, as in        *)
(* src/thence/core/model/order.py; what must be carried is that of the     *)
(* propagation constraints, as in src/thence/core/model/minimum.py (KS98   *)
(* section 3.4).  The history variables decide nothing: KS runs as it does *)
(* without them.                                                           *)
(***************************************************************************)
EXTENDS KS

VARIABLES
    past,  \* past[p]: the events in the causal past of p, its own included
    sent   \* the messages sent: who, count, destinations, and the events before the send

history == <<past, sent>>
allVars == <<clock, SR, LOG, held, net, past, sent>>

Id(m) == <<m.s, m.t>>
SendOf(m) == <<"send", m.s, m.t>>
DeliveryOf(m, p) == <<"deliver", m.s, m.t, p>>

Of(c) == CHOOSE m \in sent : m.s = c.s /\ m.t = c.t

HInit ==
    /\ Init
    /\ past = [p \in Proc |-> {}]
    /\ sent = {}

HSend(j, D) ==
    /\ Send(j, D)
    /\ LET m == [s |-> j, t |-> clock'[j], Dests |-> D, before |-> past[j]] IN
        /\ sent' = sent \cup {m}
        /\ past' = [past EXCEPT ![j] = @ \cup {SendOf(m)}]

HReceive(j, c) == Receive(j, c) /\ UNCHANGED history

HDeliver(j, c) ==
    /\ Deliver(j, c)
    /\ past' = [past EXCEPT ![j] = @ \cup Of(c).before \cup {SendOf(c), DeliveryOf(c, j)}]
    /\ UNCHANGED sent

HNext ==
    \/ \E j \in Proc : \E D \in Addressable[j] : Sent < MaxMessages /\ HSend(j, D)
    \/ \E c \in net : HReceive(c.d, c)
    \/ \E j \in Proc : \E c \in held[j] : HDeliver(j, c)

HSpec == HInit /\ [][HNext]_allVars

\* What arrives arrives in the end, and a process delivers what it can.
Fairness ==
    /\ \A j \in Proc : WF_allVars(\E c \in net : c.d = j /\ HReceive(j, c))
    /\ \A j \in Proc : WF_allVars(\E c \in held[j] : HDeliver(j, c))

FairSpec == HSpec /\ Fairness

-------------------------------------------------------------------------------
(* Order. *)

Delivered(m, p) == DeliveryOf(m, p) \in past[p]
Precedes(m, n) == SendOf(m) \in n.before

\* If p is a destination of m and n, and m was sent causally before n, then p delivers m before n.
\* That no state has n without m says so: deliveries are added one at a time.
CausalOrder ==
    \A n \in sent : \A m \in sent : \A p \in m.Dests \cap n.Dests :
        Precedes(m, n) /\ Delivered(n, p) => Delivered(m, p)

\* A copy waits only for its causes.
NoNeedlessWaiting ==
    \A j \in Proc : \A c \in held[j] :
        (\A m \in sent : j \in m.Dests /\ Precedes(m, Of(c)) => Delivered(m, j)) => Deliverable(j, c)

\* Each message exists at each destination once: in flight, held or delivered.
Where(m, p) ==
    Cardinality({c \in net : c.d = p /\ Id(c) = Id(m)}) + Cardinality({c \in held[p] : Id(c) = Id(m)})
        + (IF Delivered(m, p) THEN 1 ELSE 0)
ExactlyOnce ==
    /\ \A m \in sent : \A p \in Proc : Where(m, p) = IF p \in m.Dests THEN 1 ELSE 0
    /\ \A p \in Proc : \A e \in past[p] : e[1] = "deliver" /\ e[4] = p => \E m \in sent : e = DeliveryOf(m, p)
\* No step delivers what was delivered before.
AtMostOnce == [][\A j \in Proc : \A c \in held[j] : Deliver(j, c) => ~ Delivered(c, j)]_allVars

\* Whatever is sent is delivered at each destination; any state reached has delivered all, or will.
Liveness ==
    \A i \in Proc : \A t \in 1 .. MaxMessages : \A p \in Proc :
        (\E m \in sent : Id(m) = <<i, t>> /\ p \in m.Dests) ~> (<<"deliver", i, t, p>> \in past[p])

-------------------------------------------------------------------------------
(* Least information. *)

\* The facts <<s, t, d>>, "d is a destination of message t of s", that must be known after the events P.
Needed(P) ==
    UNION {{<<m.s, m.t, d>> : d \in {d \in m.Dests :
            /\ DeliveryOf(m, d) \notin P                                             \* PC1
            /\ ~ \E n \in sent : d \in n.Dests /\ SendOf(n) \in P /\ Precedes(m, n)}}  \* PC2
        : m \in {m \in sent : SendOf(m) \in P}}

Facts(L) == UNION {{<<l.s, l.t, d>> : d \in l.Dests} : l \in L}

ExactLogs == \A p \in Proc : Facts(LOG[p]) = Needed(past[p])

\* FP2's exception: a fact about a destination of the message itself travels on the copy to it, and on no other.
ExactCopies ==
    \A c \in net \cup UNION {held[p] : p \in Proc} :
        Facts(c.O) = {f \in Needed(Of(c).before) : f[3] = c.d \/ f[3] \notin c.Dests}

\* One entry for each message; an empty one is the newest of its sender; each sender of the past has one.
Canonical(L, P) ==
    /\ \A l \in L : \A k \in L : l.s = k.s /\ l.t = k.t => l = k
    /\ Purge(L) = L
    /\ \A i \in Proc :
        LET counts == {m.t : m \in {m \in sent : m.s = i /\ SendOf(m) \in P}} IN
        counts # {} => \E l \in L : l.s = i /\ \A t \in counts : t <= l.t
CanonicalLogs ==
    /\ \A p \in Proc : Canonical(LOG[p], past[p])
    /\ \A c \in net \cup UNION {held[p] : p \in Proc} : Canonical(c.O, Of(c).before)

===============================================================================
