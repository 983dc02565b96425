------------------------------ MODULE KsFtMember ------------------------------
(***************************************************************************)
(* KsFt with the states that the explorer finds: no history, and nothing   *)
(* of a process that has crashed.  F-deliveries and deliveries belong to   *)
(* the step that sets them free, so a state in which one is possible is no *)
(* state of the code: `Counted` prints a line for each of the others.      *)
(* Copies stay in flight until they arrive or are lost, as in the explorer *)
(* without reductions: Spent is replaced by Never, which the test says     *)
(* (tests/support/formal_models.py).                                       *)
(***************************************************************************)
EXTENDS KsFt

Never(c) == FALSE

Living(f) == [p \in Proc |-> IF p \in crashed THEN {} ELSE <<f[p]>>]

View ==
    <<Living(clock), Living(LOG), Living(SR), Living(cast), Living(following), Living(mail), Living(waiting),
      Living(own), Living(trust), net, faulty, crashed, Cardinality(sent), Urgent>>

Counted == Urgent \/ PrintT(<<"state">>)

===============================================================================
