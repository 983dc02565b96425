--------------------------------- MODULE KsFt ---------------------------------
(***************************************************************************)
(* Causal multicast that survives crashes, with the least information of   *)
(* KS98 kept per group: src/thence/core/protocols/ks_ft.py.  It stands on the*)
(* OKs of A_fifo (Schiper and Pedone, "Fast, flexible, and highly          *)
(* resilient genuine fifo and causal multicast algorithms"; "line" below   *)
(* means a line of their Algorithm A_fifo) with the two repairs of errata  *)
(* 18 and 20: the failure detector is accurate in each group, and a sender *)
(* holds back a message until its earlier ones are secured.                *)
(*                                                                         *)
(* A message is received (relayed and OKed), F-delivered in its sender's   *)
(* order once all trusted destinations have OKed it, and delivered once    *)
(* what its stamp says is on its way here is delivered.                    *)
(*                                                                         *)
(* Deliveries are urgent: nothing else happens while one is possible, as   *)
(* in the code, where they belong to the step that sets them free.         *)
(* Departure: a send that must be held back is not enabled yet, where the  *)
(* code queues it.                                                         *)
(***************************************************************************)
EXTENDS DependencyLog, FiniteSets, Sequences, TLC

CONSTANTS
    Proc,
    Groups,       \* disjoint sets of processes that cover Proc; a message addresses whole groups
    Workload,     \* the sends that are made, as <<sender, destinations>>, each once in any order; {} allows any
    MaxMessages,
    MaxCrashes,
    HoldsBack     \* TRUE; FALSE is A_causal as printed (errata 20)

VARIABLES
    clock, LOG, SR,  \* as in KS.tla; SR[j][i]: the count of the last message of i delivered at j
    cast,      \* cast[j][g]: how many messages j has sent to group g
    following, \* following[j][i]: the number of the next message of i to this group to be F-delivered at j
    mail,      \* mail[j]: messages received, not F-delivered: message, who has OKed it, whether j has
    waiting,   \* waiting[j]: messages F-delivered, not delivered
    own,       \* own[j]: j's own messages that are not secured: message, who has OKed it
    net,       \* copies in flight: kind ("message" or "ok"), source, destination, message
    trust,     \* trust[j]: whom the failure detector lets j trust
    faulty,    \* who will crash: fixed at the beginning, when is not
    crashed,
    past, sent \* history, as in KSProperties.tla

state == <<clock, LOG, SR, cast, following, mail, waiting, own, net, trust, faulty, crashed>>
vars == <<clock, LOG, SR, cast, following, mail, waiting, own, net, trust, faulty, crashed, past, sent>>

GroupOf(p) == CHOOSE g \in Groups : p \in g
Alive == Proc \ crashed
Destinations == {UNION G : G \in SUBSET Groups \ {{}}}
\* A copy from j to each of these who lives.
Copies(kind, j, to, m) == {[kind |-> kind, source |-> j, d |-> d, m |-> m] : d \in to \ crashed}
Secured(j, m, okayed) == m.Dests \cap trust[j] \subseteq okayed
Number(j, m) == m.number[GroupOf(j)]

\* A copy whose arrival would change nothing any more: it is taken out of flight at once, for fewer states.
Spent(c) ==
    LET late == c.d \notin c.m.Dests \/ Number(c.d, c.m) < following[c.d][c.m.s] IN
    IF c.kind = "ok" THEN late /\ ~ \E o \in own[c.d] : o.m = c.m
    ELSE late \/ \E e \in mail[c.d] : e.m = c.m

SendOf(m) == <<"send", m.s, m.t>>
DeliveryOf(m, p) == <<"deliver", m.s, m.t, p>>

-------------------------------------------------------------------------------
(* The failure detector and crashes.                                       *)

\* Accuracy, per group: of every group with a correct member, some correct member is trusted.
Legal(T) == \A g \in Groups : g \ faulty # {} => (T \cap g) \ faulty # {}
\* The least such sets: what an adversary would choose.
Least == {T \in SUBSET (Proc \ faulty) : Legal(T) /\ \A p \in T : ~ Legal(T \ {p})}

\* The detector tells j to trust T.
Told(j, T) ==
    /\ j \notin crashed
    /\ trust' = [trust EXCEPT ![j] = T]
    /\ own' = [own EXCEPT ![j] = {o \in @ : ~ (o.m.Dests \cap T \subseteq o.okayed)}]
    /\ UNCHANGED <<clock, LOG, SR, cast, following, mail, waiting, faulty, crashed, past, sent>>
    /\ net' = {c \in net : ~ Spent(c)'}

Trust(j, T) ==
    /\ T # trust[j]
    /\ \/ trust[j] = Proc /\ T \in Least
       \/ crashed = faulty /\ T = Alive            \* completeness: in the end exactly the living are trusted
    /\ Told(j, T)

Crash(j) ==
    /\ j \in faulty \ crashed
    /\ crashed' = crashed \cup {j}
    /\ net' = {c \in net : c.d # j}
    /\ UNCHANGED <<clock, LOG, SR, cast, following, mail, waiting, own, trust, faulty, past, sent>>

\* Links are quasi-reliable: a copy may be lost once its source has crashed.
Lose(c) ==
    /\ c.source \in crashed
    /\ net' = net \ {c}
    /\ UNCHANGED <<clock, LOG, SR, cast, following, mail, waiting, own, trust, faulty, crashed, past, sent>>

-------------------------------------------------------------------------------
Begin ==
    /\ clock = [p \in Proc |-> 0]
    /\ LOG = [p \in Proc |-> {}]
    /\ SR = [p \in Proc |-> [q \in Proc |-> 0]]
    /\ cast = [p \in Proc |-> [g \in Groups |-> 0]]
    /\ following = [p \in Proc |-> [q \in Proc |-> 1]]
    /\ mail = [p \in Proc |-> {}]
    /\ waiting = [p \in Proc |-> {}]
    /\ own = [p \in Proc |-> {}]
    /\ net = {}
    /\ trust = [p \in Proc |-> Proc]
    /\ crashed = {}
    /\ past = [p \in Proc |-> {}]
    /\ sent = {}

Init == Begin /\ faulty \in {F \in SUBSET Proc : Cardinality(F) <= MaxCrashes}

\* Hold-back (errata 20): each earlier message of j that is not addressed within D is secured.
MayLeave(j, D) == HoldsBack => \A o \in own[j] : o.m.Dests \subseteq D

Send(j, D) ==
    LET numbers == [g \in Groups |-> IF g \subseteq D THEN cast[j][g] + 1 ELSE cast[j][g]]
        m == [s |-> j, t |-> clock[j] + 1, Dests |-> D, number |-> numbers, O |-> LOG[j]]
    IN
    /\ j \notin crashed
    /\ MayLeave(j, D)
    /\ clock' = [clock EXCEPT ![j] = @ + 1]
    /\ cast' = [cast EXCEPT ![j] = numbers]
    /\ LOG' = [LOG EXCEPT ![j] = AfterSend(@, j, m.t, D)]                       \* PC2
    /\ own' = [own EXCEPT ![j] = @ \cup (IF Secured(j, m, {}) THEN {} ELSE {[m |-> m, okayed |-> {}]})]
    /\ net' = net \cup Copies("message", j, D, m)
    /\ sent' = sent \cup {[s |-> j, t |-> m.t, Dests |-> D, before |-> past[j]]}
    /\ past' = [past EXCEPT ![j] = @ \cup {SendOf(m)}]
    /\ UNCHANGED <<SR, following, mail, waiting, trust, faulty, crashed>>

\* Lines 10 to 16: the first copy is OKed if it is next in its sender's order, else handed on; OKs are counted.
Receive(j, c) ==
    LET m == c.m
        by == IF c.kind = "ok" THEN {c.source} ELSE {}
        known == {e \in mail[j] : e.m = m}
        next == Number(j, m) = following[j][m.s]
        fresh == j \in m.Dests /\ known = {} /\ Number(j, m) >= following[j][m.s]
        told == IF m.s = j THEN m.Dests ELSE m.Dests \cup {m.s}
        mine == IF m.s = j THEN by \cup (IF fresh /\ next THEN {j} ELSE {}) ELSE {}
        heard == {[o EXCEPT !.okayed = IF o.m = m THEN @ \cup mine ELSE @] : o \in own[j]}
    IN
    /\ c \in net
    /\ c.d = j
    /\ own' = [own EXCEPT ![j] = {o \in heard : ~ Secured(j, o.m, o.okayed)}]
    /\ mail' = [mail EXCEPT ![j] =
            IF fresh THEN @ \cup {[m |-> m, okayed |-> by \cup (IF next THEN {j} ELSE {}), here |-> next]}  \* line 12
            ELSE {IF e.m = m THEN [e EXCEPT !.okayed = @ \cup by] ELSE e : e \in @}]
    /\ UNCHANGED <<clock, LOG, SR, cast, following, waiting, trust, faulty, crashed, past, sent>>
    /\ LET all == (net \ {c}) \cup
                (IF ~ fresh THEN {}
                 ELSE IF next THEN Copies("ok", j, told \ {j}, m)              \* line 13
                 ELSE Copies("message", j, m.Dests \ {j}, m))                  \* line 15
       IN net' = {k \in all : ~ Spent(k)'}

\* Lines 17 to 21: the next message of its sender that all trusted destinations have OKed; then OK the one after it.
FDeliver(j, e) ==
    LET i == e.m.s
        nowNext(f) == f.m.s = i /\ Number(j, f.m) = following[j][i] + 1 /\ ~ f.here
        okayed == {f \in mail[j] : nowNext(f)}
        heard == {IF \E f \in okayed : f.m = o.m THEN [o EXCEPT !.okayed = @ \cup {j}] ELSE o : o \in own[j]}
    IN
    /\ j \notin crashed
    /\ e \in mail[j]
    /\ Number(j, e.m) = following[j][i]
    /\ Secured(j, e.m, e.okayed)                                                \* line 17
    /\ waiting' = [waiting EXCEPT ![j] = @ \cup {e.m}]                          \* line 18
    /\ following' = [following EXCEPT ![j][i] = @ + 1]                          \* line 19
    /\ mail' = [mail EXCEPT ![j] =
            {IF nowNext(f) THEN [f EXCEPT !.okayed = @ \cup {j}, !.here = TRUE] ELSE f : f \in @ \ {e}}]
    /\ own' = [own EXCEPT ![j] = {o \in heard : ~ Secured(j, o.m, o.okayed)}]
    /\ UNCHANGED <<clock, LOG, SR, cast, trust, faulty, crashed, past, sent>>
    /\ LET all == net \cup UNION {Copies("ok", j, (f.m.Dests \cup {f.m.s}) \ {j}, f.m) : f \in okayed}  \* 20, 21
       IN net' = {k \in all : ~ Spent(k)'}

Missing(j, m) == {o \in m.O : j \in o.Dests /\ o.t > SR[j][o.s]}

Deliver(j, m) ==
    LET ended == IF GroupOf(j) = {j} THEN {j} ELSE {} IN                        \* PC1 only in groups of one
    /\ j \notin crashed
    /\ m \in waiting[j]
    /\ Missing(j, m) = {}
    /\ waiting' = [waiting EXCEPT ![j] = @ \ {m}]
    /\ SR' = [SR EXCEPT ![j][m.s] = m.t]
    /\ LOG' = [LOG EXCEPT ![j] =
            Merge(@, Purge(Without(m.O, m.Dests) \cup {Entry(m.s, m.t, m.Dests \ ended)}))]   \* PC2, PC1
    /\ past' = [past EXCEPT ![j] = @ \cup {SendOf(m), DeliveryOf(m, j)} \cup
            (CHOOSE n \in sent : n.s = m.s /\ n.t = m.t).before]
    /\ UNCHANGED <<clock, cast, following, mail, own, net, trust, faulty, crashed, sent>>

Asked(j, D) ==
    /\ Cardinality(sent) < MaxMessages
    /\ Workload # {} => <<j, D>> \in Workload /\ ~ \E m \in sent : m.s = j /\ m.Dests = D

Urgent ==
    \E j \in Alive :
        \/ \E e \in mail[j] : Number(j, e.m) = following[j][e.m.s] /\ Secured(j, e.m, e.okayed)
        \/ \E m \in waiting[j] : Missing(j, m) = {}

\* Each of these steps uses something up.
Progress ==
    \/ \E j \in Proc : \E e \in mail[j] : FDeliver(j, e)
    \/ \E j \in Proc : \E m \in waiting[j] : Deliver(j, m)
    \/ ~ Urgent /\ \E c \in net : Receive(c.d, c)

Next ==
    \/ Progress
    \/ /\ ~ Urgent
       /\ \/ \E j \in Proc : \E D \in Destinations : Asked(j, D) /\ Send(j, D)
          \/ \E c \in net : Lose(c)
          \/ \E j \in Proc : Crash(j)
          \/ \E j \in Proc : \E T \in SUBSET Proc : Trust(j, T)

Spec == Init /\ [][Next]_vars
\* Arrivals and deliveries are fair; sends, losses and crashes happen or do not.
FairSpec == Spec /\ WF_vars(Progress)

-------------------------------------------------------------------------------
(* Properties.                                                             *)

Delivered(m, p) == DeliveryOf(m, p) \in past[p]
Precedes(m, n) == SendOf(m) \in n.before

\* Uniform: of processes that crash later, too.
CausalOrder ==
    \A n \in sent : \A m \in sent : \A p \in m.Dests \cap n.Dests :
        Precedes(m, n) /\ Delivered(n, p) => Delivered(m, p)

\* A message is delivered where it was addressed, and once.
Integrity == \A p \in Proc : \A e \in past[p] :
    e[1] = "deliver" /\ e[4] = p => \E m \in sent : e = DeliveryOf(m, p) /\ p \in m.Dests
AtMostOnce == \A j \in Proc : \A m \in waiting[j] \cup {e.m : e \in mail[j]} : ~ Delivered(m, j)

\* Only its sender and its destinations take part in a message.
Genuine == \A c \in net : {c.source, c.d} \subseteq c.m.Dests \cup {c.m.s}

\* Every fault has happened and been noticed, and nothing but a send can happen.  Every step but a send uses something
\* up, so each execution that goes on long enough without sends gets there.
AtRest ==
    /\ crashed = faulty
    /\ \A j \in Alive : trust[j] = Alive
    /\ net = {}
    /\ ~ Urgent

Validity == AtRest => \A m \in sent : m.s \in Alive => \A p \in m.Dests \cap Alive : Delivered(m, p)
UniformAgreement ==
    AtRest => \A m \in sent : (\E q \in Proc : Delivered(m, q)) => \A p \in m.Dests \cap Alive : Delivered(m, p)
\* Nothing keeps a living sender from sending forever.
Secures == AtRest => \A j \in Alive : own[j] = {}

\* Where the failure detector settles on the living, what a living process sends, and what any process delivers, is
\* delivered at each living destination in the end.
Served ==
    \A m \in sent : m.s \in Alive \/ (\E q \in Proc : Delivered(m, q)) => \A p \in m.Dests \cap Alive : Delivered(m, p)
Liveness == <>[](crashed = faulty /\ \A j \in Alive : trust[j] = Alive) => <>[]Served

\* PC1 and PC2, where each group is one process: what a log must hold, and no more.
Needed(P) ==
    UNION {{<<m.s, m.t, d>> : d \in {d \in m.Dests :
            /\ DeliveryOf(m, d) \notin P
            /\ ~ \E n \in sent : d \in n.Dests /\ SendOf(n) \in P /\ Precedes(m, n)}}
        : m \in {m \in sent : SendOf(m) \in P}}
Facts(L) == UNION {{<<l.s, l.t, d>> : d \in l.Dests} : l \in L}
ExactLogs == (\A g \in Groups : Cardinality(g) = 1) => \A p \in Proc : Facts(LOG[p]) = Needed(past[p])

\* Renamings that leave the groups as they are: states that differ by one are one to TLC.
Symmetry == {f \in Permutations(Proc) : {{f[p] : p \in g} : g \in Groups} = Groups}

===============================================================================
