------------------------------ MODULE KsFtTrace -------------------------------
(***************************************************************************)
(* Are recorded executions of ks-ft behaviours of KsFt.tla?  As in         *)
(* KSTrace.tla each row must be a step, with the stamp that it recorded.   *)
(* What is not recorded follows from what is: F-deliveries happen as soon  *)
(* as they can, and a copy that was lost never arrives.                    *)
(*                                                                         *)
(* A row, beyond those of KSTrace.tla:                                     *)
(*   kind    also "ok", "relay" (a protocol message arrives at p), "trust" *)
(*   source  who sent the OK or the relay; 0 where any will do             *)
(*   T       whom p trusts from now on                                     *)
(*                                                                         *)
(* A detector may tell any legal set at any time; KsFt lets it tell the    *)
(* least ones, which is enough to break what can be broken.                *)
(***************************************************************************)
EXTENDS KsFt

CONSTANTS
    Traces,  \* Traces[k][i]: row i of trace k
    Faulty   \* Faulty[k]: who crashes in trace k

VARIABLES
    trace,  \* which trace this behaviour follows
    at,     \* the next row
    steps,  \* how many steps were taken, F-deliveries too
    said    \* the messages sent so far, with their stamps

FactCount(O) == Cardinality(UNION {{<<o.s, o.t, d>> : d \in o.Dests} : o \in O})
Size(O) == <<Cardinality(O), FactCount(O)>>
SameStamp(m, r) == IF r.stamp = <<>> THEN TRUE ELSE m.O = r.stamp[1]
SameSize(m, r) == IF r.size = <<>> THEN TRUE ELSE Size(m.O) = r.size

\* What can be F-delivered now.
Ready == UNION {{<<j, e>> : e \in {e \in mail[j] :
    Number(j, e.m) = following[j][e.m.s] /\ Secured(j, e.m, e.okayed)}} : j \in Alive}

Due(p) == {m \in waiting[p] : Missing(p, m) = {}}

Arrivals == {"receive", "ok", "relay"}
Wire(r) == IF r.kind = "ok" THEN "ok" ELSE "message"
Flying(r) == {c \in net :
    c.d = r.p /\ c.kind = Wire(r) /\ c.m.s = r.s /\ c.m.t = r.t /\ (r.source = 0 \/ c.source = r.source)}

\* The source of a copy has what it passes on: it has received the message, and OKed it if the copy says so.
Passed(j, m) == j \in m.Dests /\ Number(j, m) < following[j][m.s]
HasSent(c) ==
    \/ c.source = c.m.s /\ c.kind = "message"
    \/ Passed(c.source, c.m)
    \/ \E e \in mail[c.source] : e.m = c.m /\ (c.kind = "ok" => e.here)
\* A copy that KsFt took out of flight, because its arrival changes nothing.
Late(m, r) ==
    LET c == [kind |-> Wire(r), source |-> IF r.source = 0 THEN m.s ELSE r.source, d |-> r.p, m |-> m]
    IN {c.source, c.d} \subseteq m.Dests \cup {m.s} /\ Spent(c) /\ HasSent(c)

Step(r) ==
    CASE r.kind = "send" -> Send(r.p, r.Dests)
      [] r.kind \in Arrivals ->
            IF Flying(r) # {} THEN Receive(r.p, CHOOSE c \in Flying(r) : TRUE) ELSE UNCHANGED vars
      [] r.kind = "deliver" -> \E m \in Due(r.p) : m.s = r.s /\ m.t = r.t /\ Deliver(r.p, m)
      [] r.kind = "trust" -> Told(r.p, r.T)
      [] r.kind = "crash" -> IF r.p \in faulty THEN Crash(r.p) ELSE UNCHANGED vars
      [] OTHER -> UNCHANGED vars

WhyStamp(m, r) ==
    IF ~ SameStamp(m, r) THEN <<"stamp", m.O>>
    ELSE IF ~ SameSize(m, r) THEN <<"size", Size(m.O)>>
    ELSE <<>>

WhySend(r) ==
    IF r.t # clock[r.p] + 1 \/ r.Dests \notin Destinations THEN <<"nowhere">>
    ELSE IF ~ MayLeave(r.p, r.Dests)
    THEN <<"held", {<<o.m.s, o.m.t>> : o \in {o \in own[r.p] : ~ o.m.Dests \subseteq r.Dests}}>>
    ELSE <<>>

WhyArrival(m, r) == IF Flying(r) = {} /\ ~ Late(m, r) THEN <<"nowhere">> ELSE WhyStamp(m, r)

WhyDelivery(m, r) ==
    LET queued == {e \in mail[r.p] : e.m = m} IN
    IF m \in waiting[r.p] THEN
        IF Missing(r.p, m) = {} THEN WhyStamp(m, r)
        ELSE <<"early", {<<o.s, o.t>> : o \in Missing(r.p, m)}>>
    ELSE IF r.p \in m.Dests /\ m.t <= SR[r.p][m.s] THEN <<"again", SR[r.p][m.s]>>
    ELSE IF queued # {} THEN <<"unsecured", UNION {(m.Dests \cap trust[r.p]) \ e.okayed : e \in queued}>>
    ELSE <<"nowhere">>

\* Why a row is no step of KsFt; <<>> if it is one.
Why(r) ==
    LET known == {m \in said : m.s = r.s /\ m.t = r.t} IN
    IF r.p \in crashed THEN <<"crashed">>
    ELSE IF r.kind \in {"crash", "internal"} THEN <<>>
    ELSE IF r.kind # "deliver" /\ Due(r.p) # {} THEN <<"due", {<<m.s, m.t>> : m \in Due(r.p)}>>
    ELSE IF r.kind = "trust" THEN IF Legal(r.T) THEN <<>> ELSE <<"trust">>
    ELSE IF r.kind = "send" THEN WhySend(r)
    ELSE IF known = {} THEN <<"nowhere">>
    ELSE LET m == CHOOSE m \in known : TRUE IN
        IF r.kind = "deliver" THEN WhyDelivery(m, r) ELSE WhyArrival(m, r)

ASSUME TLCSet(1, Traces)

Length == Len(TLCGet(1)[trace])

TInit ==
    /\ trace \in 1 .. Len(TLCGet(1))
    /\ Begin
    /\ faulty = Faulty[trace]
    /\ at = 1
    /\ steps = 0
    /\ said = {}

TNext ==
    /\ at <= Length
    /\ UNCHANGED trace
    /\ steps' = steps + 1
    /\ \E ready \in {Ready} :
        IF ready # {}
        THEN /\ \E x \in {CHOOSE x \in ready : TRUE} : FDeliver(x[1], x[2])
             /\ UNCHANGED <<at, said>>
        ELSE \E r \in {TLCGet(1)[trace][at]} : \E why \in {Why(r)} :
            IF why = <<>>
            THEN /\ Step(r)
                 /\ said' = IF r.kind = "send" THEN said \cup {c.m : c \in net'} ELSE said
                 /\ at' = at + 1
                 /\ at = Length => PrintT(<<"conforms", trace, at>>)
            ELSE /\ PrintT(<<"refused", trace, at, why>>)
                 /\ at' = Length + 1
                 /\ UNCHANGED <<vars, said>>

TSpec == TInit /\ [][TNext]_<<vars, trace, at, steps, said>>

\* Each trace is one behaviour, so the number of steps names a state.
TView == <<trace, steps>>

===============================================================================
