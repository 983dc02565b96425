------------------------------- MODULE KSTrace --------------------------------
(***************************************************************************)
(* Are recorded executions behaviours of KS.tla?  Each row of each trace   *)
(* must be a step of KS: a send, an arrival or a delivery, with the stamp  *)
(* that the row recorded.  A row that cannot be such a step is printed     *)
(* with the reason, and the run ends there (lab/formal/conform.py).        *)
(*                                                                         *)
(* A row:                                                                  *)
(*   kind   "send", "receive", "deliver", "crash" or "internal"            *)
(*   p      the process                                                    *)
(*   s, t   the message, as sender and count                               *)
(*   Dests  the destinations of the message                                *)
(*   stamp  <<>>, or <<O>>: the stamp in the clear                         *)
(*   size   <<>>, or <<entries, facts>>: its size                          *)
(*                                                                         *)
(* Beyond KS, rows must be prompt, as the code is: a process that holds a  *)
(* copy it can deliver delivers before it sends or receives anything else. *)
(* A process that starts again after a crash goes on from its journal, so  *)
(* a crash changes nothing here; what it had received may arrive again.    *)
(***************************************************************************)
EXTENDS KS, TLC

CONSTANT Traces  \* Traces[k][i]: row i of trace k

VARIABLES
    trace,  \* which trace this behaviour follows
    at      \* the next row

Copies(r, S) == {c \in S : c.t = r.t /\ c.s = r.s /\ c.d = r.p}
FactCount(O) == Cardinality(UNION {{<<o.s, o.t, d>> : d \in o.Dests} : o \in O})
Size(O) == <<Cardinality(O), FactCount(O)>>

SameStamp(c, r) == IF r.stamp = <<>> THEN TRUE ELSE c.O = r.stamp[1]
SameSize(c, r) == IF r.size = <<>> THEN TRUE ELSE Size(c.O) = r.size

Due(p) == {c \in held[p] : Deliverable(p, c)}

\* A copy that was received before: it is held, or it is delivered.
Repeated(r) == r.p \in r.Dests /\ (Copies(r, held[r.p]) # {} \/ r.t <= SR[r.p][r.s])

Step(r) ==
    CASE r.kind = "send" -> Send(r.p, r.Dests)
      [] r.kind = "receive" ->
            IF Copies(r, net) # {} THEN \E c \in Copies(r, net) : Receive(r.p, c) ELSE UNCHANGED vars
      [] r.kind = "deliver" -> \E c \in Copies(r, held[r.p]) : Deliver(r.p, c)
      [] OTHER -> UNCHANGED vars

\* Why a copy that is there cannot arrive, or be delivered, as a row says; <<>> if it can.
WhyCopy(c, r) ==
    IF ~ SameStamp(c, r) THEN <<"stamp", c.O>>
    ELSE IF ~ SameSize(c, r) THEN <<"size", Size(c.O)>>
    ELSE IF r.kind = "deliver" /\ ~ Deliverable(r.p, c)
    THEN <<"early", {<<o.s, o.t>> : o \in {o \in c.O : r.p \in o.Dests /\ o.t > SR[r.p][o.s]}}>>
    ELSE <<>>

\* Why a row is no step of KS; <<>> if it is one.
Why(r) ==
    LET there == Copies(r, IF r.kind = "receive" THEN net ELSE held[r.p]) IN
    IF r.kind \in {"crash", "internal"} THEN <<>>
    ELSE IF r.kind \in {"send", "receive"} /\ Due(r.p) # {} THEN <<"due", {<<c.s, c.t>> : c \in Due(r.p)}>>
    ELSE IF r.kind = "send" THEN IF r.t = clock[r.p] + 1 THEN <<>> ELSE <<"nowhere">>
    ELSE IF there # {} THEN WhyCopy(CHOOSE c \in there : TRUE, r)
    ELSE IF r.kind = "receive" /\ Repeated(r) THEN <<>>
    ELSE IF r.p \in r.Dests /\ r.t <= SR[r.p][r.s] THEN <<"again", SR[r.p][r.s]>>
    ELSE <<"nowhere">>

\* TLC works a constant out anew wherever it stands, so the traces are put aside once (1 worker).  The quantifier in
\* TNext makes it look each row up once, and work the reason out once.
ASSUME TLCSet(1, Traces)

Length == Len(TLCGet(1)[trace])

TInit == Init /\ at = 1 /\ trace \in 1 .. Len(TLCGet(1))

TNext ==
    /\ at <= Length
    /\ UNCHANGED trace
    /\ \E r \in {TLCGet(1)[trace][at]} : \E why \in {Why(r)} :
        IF why = <<>>
        THEN /\ Step(r)
             /\ at' = at + 1
             /\ at = Length => PrintT(<<"conforms", trace, at>>)
        ELSE /\ PrintT(<<"refused", trace, at, why>>)
             /\ at' = Length + 1
             /\ UNCHANGED vars

TSpec == TInit /\ [][TNext]_<<clock, SR, LOG, held, net, trace, at>>

\* Each trace is one behaviour, so a row names its state: TLC need not fingerprint all copies in flight at each step.
TView == <<trace, at>>

===============================================================================
