------------------------------- MODULE Mode2 -------------------------------
(***************************************************************************)
(* Mode-II, connection translated: section 5 of docs/protocol.md.          *)
(*                                                                         *)
(* One action is one packet's arrival and all it makes the engine forward. *)
(* The FIFO of forwards is not seen: whatever waits in it might as well    *)
(* have left, because the channel may hold it for ever.  What tx_full      *)
(* refuses might as well have been lost.  Pipes are bound and pinned.      *)
(* The mistakes of Rule:                                                   *)
(*   clear-ahead   section 4's tempting rule: completing psn clears slot   *)
(*                 psn + N/2, and slots have no tags                       *)
(*   any-tag       no window says which psns may start a slot              *)
(*   on-advance    minimum: an ACK only when the minimum moves             *)
(*   arriving      minimum: each ACK as it came                            *)
(*   replay-early  the slot is replayed before it is complete              *)
(***************************************************************************)
EXTENDS Inc

VARIABLES
  high,       \* of each pipe: C, 1 + the highest psn completed
  slot,       \* of each pipe: N slots {psn, bits, sum}; a tag is psn mod Space, over N; psn -1: not valid
  lastAcked,  \* of each pipe and out, rule minimum
  nak         \* the same: psn of the NAK that is pending, -1: none
engine == <<high, slot, lastAcked, nak>>
vars == <<channel, hosts, engine>>

Half == Slots \div 2
ASSUME Window <= Half
ASSUME Rule \in {"protocol", "clear-ahead", "any-tag", "on-advance", "arriving", "replay-early"}

Empty == [psn |-> -1, bits |-> {}, sum |-> {}]
Adds == {p \in Pipes : Cardinality(Ins[p]) > 1}
Minimum == IF Collective = "broadcast" THEN Pipes ELSE {}

Init ==
  /\ HostsInit({})
  /\ high = [p \in Adds |-> First]
  /\ slot = [p \in Adds |-> [i \in 0..Slots-1 |-> Empty]]
  /\ lastAcked = [p \in Minimum |-> [o \in Outs[p] |-> First - 1]]
  /\ nak = [p \in Minimum |-> [o \in Outs[p] |-> -1]]

Belongs(s, k) == s.psn # -1 /\ (Rule = "clear-ahead" \/ Same(s.psn, k))

Copies(p, outs, k, sum) == {Data(At(p), o, k, sum) : o \in outs}

(* Data at an in of a pipe with one in: a copy to every out. *)
Pass(p, m) ==
  /\ p \notin Adds
  /\ Emit(Copies(p, Outs[p], m.psn, m.sum))
  /\ UNCHANGED engine

(* Data at an in of a pipe with several: the rows of the table. *)
InWindow(p, k) == \/ Rule \in {"any-tag", "clear-ahead"}
                  \/ Diff(k, high[p]) \in -Half..Half-1

Replay(p, m) ==  \* the slot belongs to psn and has the bit
  LET s == slot[p][Index(m.psn)]
      asker == m.from \in Ranks /\ m.from \in Outs[p] IN
  /\ p \in Adds /\ InWindow(p, m.psn)
  /\ Belongs(s, m.psn) /\ m.from \in s.bits
  /\ s.bits = Ins[p] \/ Rule = "replay-early"
  /\ Emit(Copies(p, IF asker THEN {m.from} ELSE Outs[p], m.psn, s.sum))
  /\ UNCHANGED engine

Contribute(p, m) ==
  LET i == Index(m.psn)
      s == slot[p][i]
      new == IF Belongs(s, m.psn)
             THEN [s EXCEPT !.bits = @ \cup {m.from}, !.sum = Add(@, m.sum)]
             ELSE [psn |-> m.psn, bits |-> {m.from}, sum |-> m.sum]
      set == [slot[p] EXCEPT ![i] = new] IN
  /\ p \in Adds /\ InWindow(p, m.psn)
  /\ ~(Belongs(s, m.psn) /\ m.from \in s.bits)
  /\ IF new.bits = Ins[p]
     THEN /\ high' = [high EXCEPT ![p] = Later(m.psn + 1, @)]
          /\ slot' = [slot EXCEPT ![p] = IF Rule = "clear-ahead"
                                         THEN [set EXCEPT ![(i + Half) % Slots] = Empty] ELSE set]
          /\ Emit(Copies(p, Outs[p], m.psn, new.sum))
     ELSE /\ slot' = [slot EXCEPT ![p] = set] /\ Silent /\ UNCHANGED high
  /\ UNCHANGED <<lastAcked, nak>>

(* An ACK or NAK at an out.  Rule reflect: back to the rank it came from.  *)
Reflect(p, m) ==
  /\ Collective = "allreduce" /\ m.from \in Ranks
  /\ Emit({[m EXCEPT !.from = m.to, !.to = m.from]})
  /\ UNCHANGED engine

(* Rule replicate: to every in. *)
Replicate(p, m) ==
  /\ Collective = "reduce"
  /\ Emit({[m EXCEPT !.from = m.to, !.to = i] : i \in Ins[p]})
  /\ UNCHANGED engine

(* Rule minimum. *)
Least(f) == CHOOSE k \in {f[o] : o \in DOMAIN f} : \A o \in DOMAIN f : Diff(f[o], k) >= 0
OnlyIn(p) == CHOOSE i \in Ins[p] : TRUE

Minimise(p, m) ==
  LET o == m.from
      v == IF m.kind = "ack" THEN m.psn ELSE m.psn - 1
      min == Least(lastAcked[p])
      acks == [lastAcked[p] EXCEPT ![o] = v]
      naks == [nak[p] EXCEPT ![o] = IF m.kind = "nak" THEN m.psn
                                    ELSE IF @ # -1 /\ Diff(v, @) >= 0 THEN -1 ELSE @]
      least == Least(acks)
      asks == \E q \in Outs[p] : naks[q] # -1 /\ Same(naks[q], least + 1)
      answer == CASE Rule = "arriving" -> [m EXCEPT !.from = m.to, !.to = OnlyIn(p)]
                  [] asks -> Nak(m.to, OnlyIn(p), least + 1)
                  [] OTHER -> Ack(m.to, OnlyIn(p), least) IN
  /\ Collective = "broadcast"
  /\ Diff(v, lastAcked[p][o]) >= 0 /\ Diff(v, min) <= Half
  /\ lastAcked' = [lastAcked EXCEPT ![p] = acks] /\ nak' = [nak EXCEPT ![p] = naks]
  /\ IF \/ Rule = "arriving"
        \/ Same(v, least) /\ (Rule # "on-advance" \/ ~Same(least, min))
     THEN Emit({answer}) ELSE Silent
  /\ UNCHANGED <<high, slot>>

Arrives(m) ==
  /\ m.to \in Switches
  /\ IF m.kind = "data"
     THEN LET p == PipeIn[<<m.to, m.from>>] IN Pass(p, m) \/ Replay(p, m) \/ Contribute(p, m)
     ELSE LET p == PipeOut[<<m.to, m.from>>] IN Reflect(p, m) \/ Replicate(p, m) \/ Minimise(p, m)
  /\ UNCHANGED hosts

Step == \/ RankStep(Own) /\ UNCHANGED engine
        \/ \E m \in net : Arrives(m)
Next == (Step /\ vars' # vars) \/ (Done /\ UNCHANGED vars)
Spec == Init /\ [][Next]_vars

----------------------------------------------------------------------------
Results == Delivered(Whole)
Answers == Told2 /\ NotBeyond

SlotMeasure(p) == LET of(i) == 8 * (slot[p][i].psn + 1) + Cardinality(slot[p][i].bits)
                  IN high[p] + Sum(of, 0..Slots-1)
(* A NAK that becomes pending counts; it is cleared only as lastAcked goes past it. *)
AckMeasure(p) == LET of(o) == 4 * lastAcked[p][o] + (IF nak[p][o] = -1 THEN 0 ELSE 1) IN Sum(of, Outs[p])
Measure == HostMeasure + Sum(SlotMeasure, Adds) + Sum(AckMeasure, Minimum)
Grows == [][Measure' > Measure]_vars
=============================================================================
