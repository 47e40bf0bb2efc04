------------------------------- MODULE Mode3 -------------------------------
(***************************************************************************)
(* Mode-III, connection augmented: section 6 of docs/protocol.md.          *)
(*                                                                         *)
(* Every event of section 6 that moves a counter or a slot is an action of *)
(* its own: data, ACK, advance, release, recycle, send and resend.  What   *)
(* is not seen, and why it need not be:                                    *)
(*   ack_out, A, MSN   an answer leaves with the event that asks for it;   *)
(*                     the channel may hold it for ever                    *)
(*   NAK, RNR NAK      say what ACK(ePSN-1) says, and when to send again;  *)
(*                     here an out may do that at any time (cursor, timer, *)
(*                     retries and rnrWait are not seen), so gaps and      *)
(*                     packets that come too early are not answered        *)
(*   error, binding    pipes are bound and pinned, contributions agree     *)
(* So the end that is shown to be reached is reached by an out that sends  *)
(* again whatever is not acknowledged.  That the engine's timer makes it   *)
(* do so is for Hop.tla.  The mistakes of Rule:                            *)
(*   clear-ahead    Mode-II's recycling: completing psn clears slot        *)
(*                  psn + N/2, and slots have no tags                      *)
(*   no-ePSN        release without ePSN > nextSend at every in            *)
(*   fastest        recycles what one out has acknowledged                 *)
(*   ack-gap        acknowledges what it took, above a gap too             *)
(*   not-bound      slots without the valid walk                           *)
(*   no-ACK         a packet that comes again is not acknowledged again    *)
(***************************************************************************)
EXTENDS Inc

VARIABLES
  ePSN,       \* of each pipe and in
  psnStart,   \* of each pipe
  nextSend,   \* of each pipe
  slot,       \* of each pipe: N slots {psn, bits, sum}; a tag is psn mod Space, over N; psn -1: not valid
  lastAcked,  \* of each pipe and out
  sentMax     \* of each pipe and out
engine == <<ePSN, psnStart, nextSend, slot, lastAcked, sentMax>>
vars == <<channel, hosts, engine>>

ASSUME Rule \in {"protocol", "clear-ahead", "no-ePSN", "fastest", "ack-gap", "not-bound", "no-ACK"}

Empty == [psn |-> -1, bits |-> {}, sum |-> {}]

(* What a memory may hold that nobody has walked: a slot of this very turn, complete. *)
Left(p, i) == [psn |-> First + ((i - First) % Slots), bits |-> Ins[p], sum |-> {Twice}]

Init ==
  /\ HostsInit({})
  /\ ePSN = [p \in Pipes |-> [i \in Ins[p] |-> First]]
  /\ psnStart = [p \in Pipes |-> First]
  /\ nextSend = [p \in Pipes |-> First]
  /\ slot = [p \in Pipes |-> [i \in 0..Slots-1 |-> IF Rule = "not-bound" THEN Left(p, i) ELSE Empty]]
  /\ lastAcked = [p \in Pipes |-> [o \in Outs[p] |-> First - 1]]
  /\ sentMax = [p \in Pipes |-> [o \in Outs[p] |-> First - 1]]

Belongs(s, k) == s.psn # -1 /\ (Rule = "clear-ahead" \/ Same(s.psn, k))
Slot(p, k) == slot[p][Index(k)]

Answer(p, i, k) == Emit({Ack(At(p), i, k - 1)})

(* Data at an in: the rows of the table, by d = psn - psnStart.             *)
Again(p, m) ==  \* behind, duplicate
  LET d == Diff(m.psn, psnStart[p])  s == Slot(p, m.psn) IN
  /\ d < 0 \/ (d < Slots /\ Belongs(s, m.psn) /\ m.from \in s.bits)
  /\ Rule # "no-ACK"
  /\ Answer(p, m.from, ePSN[p][m.from])
  /\ UNCHANGED engine

Contribute(p, m) ==
  LET d == Diff(m.psn, psnStart[p])
      i == Index(m.psn)
      s == slot[p][i]
      new == IF Belongs(s, m.psn)
             THEN [s EXCEPT !.bits = @ \cup {m.from}, !.sum = Add(@, m.sum)]
             ELSE [psn |-> m.psn, bits |-> {m.from}, sum |-> m.sum]
      set == [slot[p] EXCEPT ![i] = new] IN
  /\ d \in 0..Slots-1
  /\ ~(Belongs(s, m.psn) /\ m.from \in s.bits)
  /\ slot' = [slot EXCEPT ![p] = IF Rule = "clear-ahead" /\ new.bits = Ins[p]
                                 THEN [set EXCEPT ![(i + Slots \div 2) % Slots] = Empty] ELSE set]
  /\ IF Rule = "ack-gap" THEN Answer(p, m.from, m.psn + 1) ELSE Silent
  /\ UNCHANGED <<ePSN, psnStart, nextSend, lastAcked, sentMax>>

(* An ACK at an out. *)
Acknowledge(p, m) ==
  LET o == m.from
      q == IF m.kind = "ack" THEN m.psn ELSE m.psn - 1 IN
  /\ Diff(q, lastAcked[p][o]) > 0 /\ Diff(sentMax[p][o], q) >= 0
  /\ lastAcked' = [lastAcked EXCEPT ![p][o] = q]
  /\ Silent
  /\ UNCHANGED <<ePSN, psnStart, nextSend, slot, sentMax>>

Arrives(m) ==
  /\ m.to \in Switches
  /\ IF m.kind = "data"
     THEN LET p == PipeIn[<<m.to, m.from>>] IN Again(p, m) \/ Contribute(p, m)
     ELSE LET p == PipeOut[<<m.to, m.from>>] IN Acknowledge(p, m)
  /\ UNCHANGED hosts

(* Events the engine makes itself. *)
Advance(p, i) ==
  LET k == ePSN[p][i]  s == Slot(p, k) IN
  /\ Belongs(s, k) /\ i \in s.bits
  /\ ePSN' = [ePSN EXCEPT ![p][i] = k + 1]
  /\ Answer(p, i, k + 1)
  /\ UNCHANGED <<psnStart, nextSend, slot, lastAcked, sentMax>>

Release(p) ==
  LET k == nextSend[p]  s == Slot(p, k) IN
  /\ Belongs(s, k) /\ s.bits = Ins[p]
  /\ Rule = "no-ePSN" \/ \A i \in Ins[p] : Diff(ePSN[p][i], k) > 0
  /\ nextSend' = [nextSend EXCEPT ![p] = k + 1]
  /\ Silent
  /\ UNCHANGED <<ePSN, psnStart, slot, lastAcked, sentMax>>

(* One psn at a time: hardware may stop on the way anywhere. *)
Recycle(p) ==
  /\ IF Rule = "fastest" THEN \E o \in Outs[p] : Diff(lastAcked[p][o], psnStart[p]) >= 0
                         ELSE \A o \in Outs[p] : Diff(lastAcked[p][o], psnStart[p]) >= 0
  /\ psnStart' = [psnStart EXCEPT ![p] = @ + 1]
  /\ Silent
  /\ UNCHANGED <<ePSN, nextSend, slot, lastAcked, sentMax>>

Send(p, o) ==
  LET k == sentMax[p][o] + 1 IN
  /\ Diff(nextSend[p], k) > 0
  /\ sentMax' = [sentMax EXCEPT ![p][o] = k]
  /\ Emit({Data(At(p), o, k, Slot(p, k).sum)})
  /\ UNCHANGED <<ePSN, psnStart, nextSend, slot, lastAcked>>

Resend(p, o, k) ==
  /\ lastAcked[p][o] < k /\ k <= sentMax[p][o]
  /\ Emit({Data(At(p), o, k, Slot(p, k).sum)})
  /\ UNCHANGED engine

Event(p) == \/ \E i \in Ins[p] : Advance(p, i)
            \/ Release(p)
            \/ Recycle(p)
            \/ \E o \in Outs[p] : Send(p, o) \/ \E k \in Psns : Resend(p, o, k)

Step == \/ RankStep(Own) /\ UNCHANGED engine
        \/ \E m \in net : Arrives(m)
        \/ (\E p \in Pipes : Event(p)) /\ UNCHANGED hosts
Next == (Step /\ vars' # vars) \/ (Done /\ UNCHANGED vars)
Spec == Init /\ [][Next]_vars

----------------------------------------------------------------------------
Results == Delivered(Whole)
Answers == Told /\ NotBeyond

(* The counters of section 6, between each other. *)
Counters == \A p \in Pipes :
  /\ psnStart[p] <= nextSend[p]
  /\ \A i \in Ins[p] : nextSend[p] <= ePSN[p][i] /\ ePSN[p][i] <= psnStart[p] + Slots
  /\ \A o \in Outs[p] : /\ psnStart[p] <= lastAcked[p][o] + 1
                        /\ lastAcked[p][o] <= sentMax[p][o] /\ sentMax[p][o] < nextSend[p]

PipeMeasure(p) ==
  LET in(i) == ePSN[p][i]
      out(o) == lastAcked[p][o] + sentMax[p][o]
      of(i) == 8 * (slot[p][i].psn + 1) + Cardinality(slot[p][i].bits)
  IN psnStart[p] + nextSend[p] + Sum(in, Ins[p]) + Sum(out, Outs[p]) + Sum(of, 0..Slots-1)
Measure == HostMeasure + Sum(PipeMeasure, Pipes)
Grows == [][Measure' > Measure]_vars
=============================================================================
