-------------------------------- MODULE Hop --------------------------------
(***************************************************************************)
(* One hop of Mode-III: an out of one engine and the in of the next, with  *)
(* all the state of section 6 of docs/protocol.md that Mode3.tla leaves    *)
(* out: cursor, timer, retries and rnrWait; nakSent and ackKind.  The      *)
(* packets of the hop are really lost here: net is what is on its way, and *)
(* a packet that arrives or is lost leaves it, or stays to come again.     *)
(*                                                                         *)
(* Around the hop: the pipe above releases whenever its window, psnStart = *)
(* lastAcked + 1 with one out, lets it; the pipe below recycles what it    *)
(* has, in order, whenever it likes.                                       *)
(*                                                                         *)
(* A packet that arrives, each event the engine makes itself, and the loss *)
(* of a packet are one action each.  When Kind has happened nothing is     *)
(* lost or comes twice any more, and a timer runs out only when nothing    *)
(* else can happen: Ends says that the end is reached then, so it is       *)
(* reachable from every reachable state.  Retries stop counting at         *)
(* Retries, where the endpoint is in error: it must not be by an RNR wait. *)
(* The mistakes of Rule:                                                   *)
(*   nak-stops       a sequence NAK stops the timer: harmless, because the *)
(*                   send that follows arms it again                       *)
(*   nak-disarms     the same, and only what is sent first arms it         *)
(*   no-ACK          what comes again is not acknowledged again            *)
(*   ack-gap         the ACK names what came, above a gap too              *)
(*   rnr-retry       an RNR NAK counts as a retry                          *)
(*   rnr-lost        an RNR NAK stops the timer, and its wait has no end   *)
(*   nak-forgotten   nakSent is not cleared, and a duplicate is not        *)
(*                   acknowledged while it is set                          *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS Slots, Space, First, Total, Retries, Losses, Rule
(* Losses: how often a timer may run out before Kind, since it is that which fills the channel. *)

ASSUME Space % Slots = 0 /\ Total + Slots <= Space \div 2
ASSUME Rule \in {"protocol", "nak-stops", "nak-disarms", "no-ACK", "ack-gap", "rnr-retry", "rnr-lost", "nak-forgotten"}

VARIABLES
  net, kind,
  nextSend, lastAcked, cursor, sentMax, retries, timerArmed, rnrWait, failed,  \* the out
  ePSN, psnStart, held, nakSent, ackKind                                       \* the in; held: psns in its slots

out == <<nextSend, lastAcked, cursor, sentMax, retries, timerArmed, rnrWait, failed>>
in == <<ePSN, psnStart, held, nakSent, ackKind>>
vars == <<net, kind, out, in>>

Diff(a, b) == LET d == (a - b) % Space IN IF d >= Space \div 2 THEN d - Space ELSE d
Max(a, b) == IF Diff(a, b) > 0 THEN a ELSE b
Last == First + Total

Packet(what, k) == [what |-> what, psn |-> k]

Init ==
  /\ net = {} /\ kind = FALSE
  /\ nextSend = First /\ lastAcked = First - 1 /\ cursor = First /\ sentMax = First - 1
  /\ retries = 0 /\ timerArmed = FALSE /\ rnrWait = FALSE /\ failed = FALSE
  /\ ePSN = First /\ psnStart = First /\ held = {} /\ nakSent = FALSE /\ ackKind = "none"

----------------------------------------------------------------------------
(* The out. *)

Release ==
  /\ nextSend < Last /\ Diff(nextSend, lastAcked + 1) < Slots
  /\ nextSend' = nextSend + 1
  /\ UNCHANGED <<net, kind, lastAcked, cursor, sentMax, retries, timerArmed, rnrWait, failed, in>>

Send ==  \* send and resend
  /\ Diff(cursor, nextSend) < 0 /\ ~rnrWait /\ ~failed
  /\ net' = net \cup {Packet("data", cursor)}
  /\ cursor' = cursor + 1 /\ sentMax' = Max(sentMax, cursor)
  /\ timerArmed' = (timerArmed \/ Rule # "nak-disarms" \/ Diff(cursor, sentMax) > 0)
  /\ UNCHANGED <<kind, nextSend, lastAcked, retries, rnrWait, failed, in>>

CanTimer == timerArmed
Timer ==
  /\ CanTimer
  /\ timerArmed' = FALSE
  /\ IF retries = Retries THEN failed' = TRUE /\ UNCHANGED <<cursor, retries>>
     ELSE cursor' = lastAcked + 1 /\ retries' = retries + 1 /\ UNCHANGED failed
  /\ UNCHANGED <<net, kind, nextSend, lastAcked, sentMax, rnrWait, in>>

CanExpire == rnrWait /\ Rule # "rnr-lost"
RNRExpiry ==
  /\ CanExpire
  /\ rnrWait' = FALSE
  /\ UNCHANGED <<net, kind, nextSend, lastAcked, cursor, sentMax, retries, timerArmed, failed, in>>

(* An ACK, NAK or RNR NAK with psn q: the table of section 6. *)
Answered(m) ==
  LET q == m.psn
      limit == IF m.what = "ack" THEN sentMax ELSE sentMax + 1
      below == IF m.what = "ack" THEN q ELSE q - 1
      moves == Diff(below, lastAcked) > 0
      acked == IF moves THEN below ELSE lastAcked
      past == IF moves THEN Max(cursor, below + 1) ELSE cursor
      tries == IF moves THEN 0 ELSE retries
      (* of ACK(below), if it moves anything *)
      timer == IF moves /\ ~rnrWait THEN Diff(below, sentMax) < 0 ELSE timerArmed IN
  IF failed \/ Diff(q, lastAcked) <= 0 \/ Diff(limit, q) < 0
  THEN UNCHANGED out
  ELSE /\ lastAcked' = acked
       /\ CASE m.what = "ack" ->
                 cursor' = past /\ timerArmed' = timer /\ retries' = tries /\ UNCHANGED rnrWait
            [] m.what = "nak" ->
                 /\ cursor' = (IF rnrWait THEN past ELSE q)
                 /\ timerArmed' = (IF rnrWait THEN timer ELSE Diff(q, sentMax) <= 0 /\ Rule \notin {"nak-stops", "nak-disarms"})
                 /\ retries' = tries /\ UNCHANGED rnrWait
            [] m.what = "rnr" ->
                 /\ cursor' = q /\ rnrWait' = TRUE /\ timerArmed' = FALSE
                 /\ retries' = (IF Rule = "rnr-retry" /\ tries < Retries THEN tries + 1 ELSE tries)
       /\ failed' = (Rule = "rnr-retry" /\ m.what = "rnr" /\ tries = Retries)
       /\ UNCHANGED <<nextSend, sentMax>>

----------------------------------------------------------------------------
(* The in. *)

Ack == IF ackKind = "none" THEN "ack" ELSE ackKind

Taken(m) ==
  LET k == m.psn  d == Diff(k, psnStart) IN
  CASE d < 0 \/ (d < Slots /\ k \in held) ->  \* behind, duplicate
         /\ ackKind' = (IF Rule = "no-ACK" \/ (Rule = "nak-forgotten" /\ nakSent) THEN ackKind ELSE Ack)
         /\ UNCHANGED <<ePSN, psnStart, held, nakSent>>
    [] d >= Slots ->  \* beyond
         /\ IF Diff(k, ePSN) = 0 THEN ackKind' = "rnr" /\ nakSent' = TRUE
            ELSE IF ~nakSent THEN ackKind' = "nak" /\ nakSent' = TRUE
            ELSE UNCHANGED <<ackKind, nakSent>>
         /\ UNCHANGED <<ePSN, psnStart, held>>
    [] OTHER ->
         /\ held' = held \cup {k}
         /\ IF Diff(k, ePSN) > 0 /\ Rule = "ack-gap" THEN ackKind' = "ack" /\ UNCHANGED nakSent
            ELSE IF Diff(k, ePSN) > 0 /\ ~nakSent THEN ackKind' = "nak" /\ nakSent' = TRUE
            ELSE UNCHANGED <<ackKind, nakSent>>
         /\ UNCHANGED <<ePSN, psnStart>>

Advance ==
  /\ ePSN \in held
  /\ ePSN' = ePSN + 1 /\ nakSent' = (IF Rule = "nak-forgotten" THEN nakSent ELSE FALSE) /\ ackKind' = "ack"
  /\ UNCHANGED <<net, kind, out, psnStart, held>>

Highest == IF \E k \in held : Diff(k, ePSN) >= 0
           THEN CHOOSE k \in held : \A j \in held : Diff(k, j) >= 0 ELSE ePSN - 1
AckOut ==
  /\ ackKind # "none"
  /\ net' = net \cup {Packet(ackKind, IF ackKind # "ack" THEN ePSN
                                      ELSE IF Rule = "ack-gap" THEN Highest ELSE ePSN - 1)}
  /\ ackKind' = "none"
  /\ UNCHANGED <<kind, out, ePSN, psnStart, held, nakSent>>

Recycle ==
  /\ Diff(psnStart, ePSN) < 0
  /\ psnStart' = psnStart + 1 /\ held' = held \ {psnStart}
  /\ UNCHANGED <<net, kind, out, ePSN, nakSent, ackKind>>

----------------------------------------------------------------------------
Arrives(m, stays) ==
  /\ net' = IF stays THEN net ELSE net \ {m}
  /\ IF m.what = "data" THEN Taken(m) /\ UNCHANGED out ELSE Answered(m) /\ UNCHANGED in
  /\ UNCHANGED kind

Lost(m) == net' = net \ {m} /\ UNCHANGED <<kind, out, in>>

Done == lastAcked = Last - 1 /\ ePSN = Last

Own == Release \/ Send \/ Advance \/ AckOut \/ Recycle
Waits == Timer \/ RNRExpiry

Kind == kind' = TRUE /\ UNCHANGED <<net, out, in>>

Hard == /\ ~kind
        /\ \/ Own \/ RNRExpiry
           \/ Timer /\ retries < Losses
           \/ \E m \in net : Arrives(m, TRUE) \/ Arrives(m, FALSE) \/ Lost(m)
           \/ Kind
Kindly == /\ kind
          /\ \/ Own
             \/ \E m \in net : Arrives(m, FALSE)
             \/ ~ENABLED Own /\ net = {} /\ Waits
Next == ((Hard \/ Kindly) /\ vars' # vars) \/ (Done /\ UNCHANGED vars)

Spec == Init /\ [][Next]_vars /\ WF_vars(Kindly)

----------------------------------------------------------------------------

(* 1 and 2 at a hop: ePSN passes a psn only when it came, and the out is told of no more than that. *)
Results == lastAcked < ePSN /\ \A k \in held : k < Last
Counters == /\ lastAcked <= sentMax /\ sentMax < nextSend /\ lastAcked < cursor /\ cursor <= nextSend
            /\ cursor <= sentMax + 1
            /\ psnStart <= ePSN /\ ePSN <= psnStart + Slots
            /\ ~(timerArmed /\ rnrWait)
(* Something is outstanding: then it is sent, or a timer runs, or an RNR wait will be over. *)
Watched == ~failed /\ lastAcked < sentMax /\ cursor > sentMax => timerArmed \/ rnrWait
Alive == ~failed
Ends == kind ~> Done
=============================================================================
