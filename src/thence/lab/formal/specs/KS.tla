---------------------------------- MODULE KS ----------------------------------
(***************************************************************************)
(* Causal multicast with the least information: Kshemkalyani and Singhal,  *)
(* "Necessary and sufficient conditions on information for causal message  *)
(* ordering", 1998, section 4.3.  The step labels SND(1) to RCV(5) are the *)
(* paper's; the code is src/thence/core/protocols/ks.py.                   *)
(*                                                                         *)
(* Departures from the printed text, as in the code:                       *)
(*  - RCV(4), first loop, reads "l_{s,t} not in LOG", as its comment says  *)
(*    (the printed l_{s,t'} makes the test vacuous; errata 2).             *)
(*  - No initial entries (i, 0, {}): an absent entry says the same.        *)
(*                                                                         *)
(* RCV may wait at RCV(1), so it is two steps here: Receive (the copy      *)
(* arrives and is held) and Deliver (RCV(1) holds; RCV(2) to RCV(5)).      *)
(* Nothing is asked of the network: copies overtake each other, and a copy *)
(* that arrives a second time changes nothing (a stuttering step).         *)
(***************************************************************************)
EXTENDS DependencyLog, FiniteSets, Sequences

CONSTANTS
    Proc,         \* the processes
    Fanout,       \* how many destinations a message may have: "unicast", "any" or "broadcast"
    ToSelf,       \* whether a process may address itself
    MaxMessages   \* the most messages that are sent, over all processes

VARIABLES
    clock,  \* clock[j]: how many messages j has sent
    SR,     \* SR[j][i]: the count of the last message of i delivered at j
    LOG,    \* LOG[j]: the dependency log, a set of entries
    held,   \* held[j]: the copies that have arrived at j and wait at RCV(1)
    net     \* the copies in flight

vars == <<clock, SR, LOG, held, net>>

\* A copy: message t of s, addressed to Dests, on its way to d, with the stamp O.
Copy(s, t, Dests, d, O) == [s |-> s, t |-> t, Dests |-> Dests, d |-> d, O |-> O]

\* The sets of destinations that each process may send to.
Addressable ==
    [p \in Proc |->
        LET Others == IF ToSelf THEN Proc ELSE Proc \ {p} IN
        CASE Fanout = "unicast" -> {{q} : q \in Others}
          [] Fanout = "broadcast" -> {Others} \ {{}}
          [] Fanout = "any" -> SUBSET Others \ {{}}]

-------------------------------------------------------------------------------
\* SND(2): the stamp of the copy to d of a message to D.
Stamp(L, D, d) == Purge({[l EXCEPT !.Dests = (@ \ D) \cup (@ \cap {d})] : l \in L})

\* RCV(3): what a copy teaches its destination.
Learned(c) == Without({Entry(c.s, c.t, c.Dests)} \cup c.O, {c.d})

-------------------------------------------------------------------------------
Init ==
    /\ clock = [p \in Proc |-> 0]
    /\ SR = [p \in Proc |-> [q \in Proc |-> 0]]
    /\ LOG = [p \in Proc |-> {}]
    /\ held = [p \in Proc |-> {}]
    /\ net = {}

RECURSIVE Sum(_, _)
Sum(f, S) == IF S = {} THEN 0 ELSE LET p == CHOOSE p \in S : TRUE IN f[p] + Sum(f, S \ {p})
Sent == Sum(clock, Proc)

Send(j, D) ==
    LET t == clock[j] + 1 IN
    /\ clock' = [clock EXCEPT ![j] = t]                                           \* SND(1)
    /\ net' = net \cup {Copy(j, t, D, d, Stamp(LOG[j], D, d)) : d \in D}           \* SND(2)
    /\ LOG' = [LOG EXCEPT ![j] = AfterSend(@, j, t, D)]                           \* SND(3) to SND(5)
    /\ UNCHANGED <<SR, held>>

Receive(j, c) ==
    /\ c \in net
    /\ c.d = j
    /\ net' = net \ {c}
    /\ held' = [held EXCEPT ![j] = @ \cup {c}]
    /\ UNCHANGED <<clock, SR, LOG>>

\* RCV(1), the Delivery Condition: what the stamp says is on its way to c.d has been delivered there.
Met(sr, c) == \A o \in c.O : c.d \in o.Dests => o.t <= sr[o.s]
Deliverable(j, c) == Met(SR[j], c)

Deliver(j, c) ==
    /\ c \in held[j]
    /\ Deliverable(j, c)                                                          \* RCV(1)
    /\ SR' = [SR EXCEPT ![j][c.s] = c.t]                                          \* RCV(2)
    /\ LOG' = [LOG EXCEPT ![j] = Merge(@, Learned(c))]                            \* RCV(3) to RCV(5)
    /\ held' = [held EXCEPT ![j] = @ \ {c}]
    /\ UNCHANGED <<clock, net>>

Next ==
    \/ \E j \in Proc : \E D \in Addressable[j] : Sent < MaxMessages /\ Send(j, D)
    \/ \E c \in net : Receive(c.d, c)
    \/ \E j \in Proc : \E c \in held[j] : Deliver(j, c)

Spec == Init /\ [][Next]_vars

===============================================================================
