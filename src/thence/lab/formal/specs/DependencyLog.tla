----------------------------- MODULE DependencyLog ----------------------------
(***************************************************************************)
(* Dependency logs of KS98: sets of entries.  What is absent speaks too:   *)
(* if the newest entry of s in a log is t, each older message of s without *)
(* an entry is delivered, or guaranteed to be delivered in causal order,   *)
(* everywhere.  The code is src/thence/core/wire/dependency_log_cy.py.    *)
(***************************************************************************)
EXTENDS Naturals

\* An entry: message t of s may still be on its way to Dests.
Entry(s, t, Dests) == [s |-> s, t |-> t, Dests |-> Dests]

\* PURGE_NULL_ENTRIES: an entry without destinations stays only as the newest of its sender.
Purge(L) == {l \in L : l.Dests # {} \/ ~ \E k \in L : k.s = l.s /\ l.t < k.t}

Without(L, D) == {[l EXCEPT !.Dests = @ \ D] : l \in L}

\* SND(3), SND(4), SND(5): the log after message t of s was sent to D.
AfterSend(L, s, t, D) == Purge(Without(L, D) \cup {Entry(s, t, D)})

\* The messages that have an entry.
Named(L) == {<<l.s, l.t>> : l \in L}

\* An entry is redundant to a log that names other messages: not this one, but a newer one of its sender.
Redundant(e, names) == <<e.s, e.t>> \notin names /\ \E n \in names : n[1] = e.s /\ e.t < n[2]

\* RCV(4), RCV(5): two logs become one.
Merge(L, O) ==
    LET inL == Named(L)
        inO == Named(O)
        L1 == {l \in L : ~ Redundant(l, inO)}
        O1 == {o \in O : ~ Redundant(o, inL)}
        Both == {Entry(l.s, l.t, l.Dests \cap (CHOOSE o \in O1 : o.s = l.s /\ o.t = l.t).Dests) :
                    l \in {l \in L1 : <<l.s, l.t>> \in inO}}
    IN Purge(Both \cup {l \in L1 : <<l.s, l.t>> \notin inO} \cup {o \in O1 : <<o.s, o.t>> \notin inL})

===============================================================================
