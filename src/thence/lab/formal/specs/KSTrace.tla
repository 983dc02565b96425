------------------------------- MODULE KSTrace --------------------------------
(***************************************************************************)
(* Are recorded executions behaviours of KS.tla?  Each row of each trace   *)
(* must be a step of KS: a send, an arrival or a delivery, with the stamp  *)
(* that the row recorded.  A row that cannot be such a step is printed     *)
(* with the reason, and the run ends there (src/thence/formal/conform.py). *)
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

Copies(r, S) == {c \in S : c.d = r.p /\ c.s = r.s /\ c.t = r.t}
FactCount(O) == Cardinality(UNION {{<<o.s, o.t, d>> : d \in o.Dests} : o \in O})
Size(O) == <<Cardinality(O), FactCount(O)>>

SameStamp(c, r) == IF r.stamp = <<>> THEN TRUE ELSE c.O = r.stamp[1]
SameSize(c, r) == IF r.size = <<>> THEN TRUE ELSE Size(c.O) = r.size
Fits(c, r) == SameStamp(c, r) /\ SameSize(c, r)

Due(p) == {c \in held[p] : Deliverable(p, c)}
Prompt(r) == r.kind \in {"send", "receive"} => Due(r.p) = {}

\* A copy that was received before: it is held, or it is delivered.
Repeated(r) == r.p \in r.Dests /\ Copies(r, net) = {} /\ (Copies(r, held[r.p]) # {} \/ r.t <= SR[r.p][r.s])

Step(r) ==
    /\ Prompt(r)
    /\ \/ r.kind = "send" /\ r.t = clock[r.p] + 1 /\ Send(r.p, r.Dests)
       \/ r.kind = "receive" /\ \E c \in Copies(r, net) : Fits(c, r) /\ Receive(r.p, c)
       \/ r.kind = "receive" /\ Repeated(r) /\ UNCHANGED vars
       \/ r.kind = "deliver" /\ \E c \in Copies(r, held[r.p]) : Fits(c, r) /\ Deliver(r.p, c)
       \/ r.kind \in {"crash", "internal"} /\ UNCHANGED vars

\* Why a row is no step of KS.
Why(r) ==
    LET found == Copies(r, net \cup held[r.p]) IN
    IF ~ Prompt(r) THEN <<"due", {<<c.s, c.t>> : c \in Due(r.p)}>>
    ELSE IF found = {} /\ r.p \in r.Dests /\ r.t <= SR[r.p][r.s] THEN <<"again", SR[r.p][r.s]>>
    ELSE IF found = {} THEN <<"nowhere">>
    ELSE LET c == CHOOSE c \in found : TRUE IN
        IF ~ SameStamp(c, r) THEN <<"stamp", c.O>>
        ELSE IF ~ SameSize(c, r) THEN <<"size", Size(c.O)>>
        ELSE <<"early", {<<o.s, o.t>> : o \in {o \in c.O : r.p \in o.Dests /\ o.t > SR[r.p][o.s]}}>>

\* TLC works a constant out anew wherever it stands, so the traces are put aside once (1 worker).  The quantifier in
\* TNext makes it look each row up once.
ASSUME TLCSet(1, Traces)

Length == Len(TLCGet(1)[trace])

TInit == Init /\ at = 1 /\ trace \in 1 .. Len(TLCGet(1))

TNext ==
    /\ at <= Length
    /\ UNCHANGED trace
    /\ \E r \in {TLCGet(1)[trace][at]} :
        IF ENABLED Step(r)
        THEN /\ Step(r)
             /\ at' = at + 1
             /\ at = Length => PrintT(<<"conforms", trace, at>>)
        ELSE /\ PrintT(<<"refused", trace, at, Why(r)>>)
             /\ at' = Length + 1
             /\ UNCHANGED vars

TSpec == TInit /\ [][TNext]_<<clock, SR, LOG, held, net, trace, at>>

===============================================================================
