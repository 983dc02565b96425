----------------------------- MODULE DependencyLog ----------------------------
(***************************************************************************)
(* Dependency logs of KS98: sets of entries.  What is absent speaks too:   *)
(* if the newest entry of s in a log is t, each older message of s without *)
(* an entry is delivered, or guaranteed to be delivered in causal order,   *)
(* everywhere.  The code is src/thence/core/protocols/dependency.py.       *)
(***************************************************************************)
EXTENDS Naturals

\* An entry: message t of s may still be on its way to Dests.
Entry(s, t, Dests) == [s |-> s, t |-> t, Dests |-> Dests]

\* PURGE_NULL_ENTRIES: an entry without destinations stays only as the newest of its sender.
Purge(L) == {l \in L : l.Dests # {} \/ ~ \E k \in L : k.s = l.s /\ l.t < k.t}

Without(L, D) == {[l EXCEPT !.Dests = @ \ D] : l \in L}

\* SND(3), SND(4), SND(5): the log after message t of s was sent to D.
AfterSend(L, s, t, D) == Purge(Without(L, D) \cup {Entry(s, t, D)})

Has(L, s, t) == \E l \in L : l.s = s /\ l.t = t

\* An entry is redundant to a log that has none for the message, but a newer one of its sender.
Redundant(e, L) == ~ Has(L, e.s, e.t) /\ \E l \in L : l.s = e.s /\ e.t < l.t

\* RCV(4), RCV(5): two logs become one.
Merge(L, O) ==
    LET L1 == {l \in L : ~ Redundant(l, O)}
        O1 == {o \in O : ~ Redundant(o, L)}
        Both == {Entry(l.s, l.t, l.Dests \cap (CHOOSE o \in O1 : o.s = l.s /\ o.t = l.t).Dests) :
                    l \in {l \in L1 : Has(O1, l.s, l.t)}}
    IN Purge(Both \cup {l \in L1 : ~ Has(O1, l.s, l.t)} \cup {o \in O1 : ~ Has(L1, o.s, o.t)})

===============================================================================
