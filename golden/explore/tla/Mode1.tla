------------------------------- MODULE Mode1 -------------------------------
(***************************************************************************)
(* Mode-I, connection terminated: section 7 of docs/protocol.md, for       *)
(* AllReduce.  What is not seen is what Mode3.tla does not see, for the    *)
(* same reasons; Resend reads the sum as send does.  A payload here is the *)
(* sequence of contributions in the order in which they were added, since  *)
(* Mode-I promises that order.  The mistakes of Rule are those of          *)
(* Mode1Mistake in golden/engine.                                          *)
(***************************************************************************)
EXTENDS Inc

CONSTANT Messages  \* how many packets the messages have, in turn: <<2, 1>> is 2, 1, 2, 1, ...

VARIABLES
  ePSN,       \* of each pipe and in
  buffer,     \* of each pipe and in: the message {first, parts, ended}
  sum,        \* of each pipe: {first, parts, ins}; ins are those whose messages are in it, in their order
  psnStart,   \* of each pipe
  nextSend,   \* of each pipe
  lastAcked,  \* of each pipe and out
  sentMax     \* of each pipe and out
engine == <<ePSN, buffer, sum, psnStart, nextSend, lastAcked, sentMax>>
vars == <<channel, hosts, engine>>

Singles == <<1>>
Pairs == <<2>>
TwoOne == <<2, 1>>

ASSUME Collective = "allreduce"
ASSUME Rule \in {"protocol", "arrival-order", "early-release", "overwrites", "takes-gaps",
                 "retakes-duplicates", "fastest"}

(* Messages: the opcode of psn k, which is what a packet is recognised by.  *)
RECURSIVE EndsFrom(_, _)
EndsFrom(k, n) == IF k >= Last THEN {}
                  ELSE LET e == k + Messages[(n % Len(Messages)) + 1] - 1
                       IN {e} \cup EndsFrom(e + 1, n + 1)
LastOf == EndsFrom(First, 0)
IsLast(k) == k \in LastOf
ASSUME Last - 1 \in LastOf

(* Ins in the order of endpoints: that of their numbers. *)
RECURSIVE Ordered(_)
Ordered(s) == IF s = {} THEN <<>>
              ELSE LET x == CHOOSE x \in s : \A y \in s : x <= y IN <<x>> \o Ordered(s \ {x})
InOrder == [p \in Pipes |-> Ordered(Ins[p])]

One(r, k) == <<<<r, k>>>>
RECURSIVE Leaves(_, _)
Leaves(n, k) == IF n \in Ranks THEN One(n, k)
                ELSE LET o == Ordered(Children[n])
                         RECURSIVE All(_)
                         All(j) == IF j > Len(o) THEN <<>> ELSE Leaves(o[j], k) \o All(j + 1)
                     IN All(1)
WholeOf == [k \in Psns |-> Leaves(Top, k)]
WholeSeq(k) == WholeOf[k]

Empty == [first |-> -1, parts |-> <<>>, ended |-> FALSE]
EmptySum == [first |-> -1, parts |-> <<>>, ins |-> <<>>]

Init ==
  /\ HostsInit(<<>>)
  /\ ePSN = [p \in Pipes |-> [i \in Ins[p] |-> First]]
  /\ buffer = [p \in Pipes |-> [i \in Ins[p] |-> Empty]]
  /\ sum = [p \in Pipes |-> EmptySum]
  /\ psnStart = [p \in Pipes |-> First]
  /\ nextSend = [p \in Pipes |-> First]
  /\ lastAcked = [p \in Pipes |-> [o \in Outs[p] |-> First - 1]]
  /\ sentMax = [p \in Pipes |-> [o \in Outs[p] |-> First - 1]]

Lone(p) == Cardinality(Ins[p]) = 1
Answer(p, i, k) == Emit({Ack(At(p), i, k - 1)})

(* Data at an in, d = psn - ePSN: the rows of the table. *)
Again(p, m) ==
  /\ Diff(m.psn, ePSN[p][m.from]) < 0
  /\ Rule # "retakes-duplicates"
  /\ Answer(p, m.from, ePSN[p][m.from])
  /\ UNCHANGED engine

HasRoom(p, m) ==
  LET b == buffer[p][m.from] IN
  /\ ~b.ended \/ Rule = "overwrites"
  /\ ~Lone(p) \/ Diff(m.psn, psnStart[p]) < Slots

Take(p, m) ==
  LET i == m.from
      d == Diff(m.psn, ePSN[p][i])
      b == buffer[p][i]
      new == IF b.ended \/ b.first = -1
             THEN [first |-> m.psn, parts |-> <<m.sum>>, ended |-> IsLast(m.psn)]
             ELSE [b EXCEPT !.parts = Append(@, m.sum), !.ended = IsLast(m.psn)] IN
  /\ \/ d = 0
     \/ d > 0 /\ Rule = "takes-gaps"
     \/ d < 0 /\ Rule = "retakes-duplicates"
  /\ HasRoom(p, m)
  /\ Len(new.parts) <= Slots
  /\ buffer' = [buffer EXCEPT ![p][i] = new]
  /\ ePSN' = [ePSN EXCEPT ![p][i] = IF d < 0 THEN @ ELSE m.psn + 1]
  /\ Answer(p, i, ePSN'[p][i])
  /\ UNCHANGED <<sum, psnStart, nextSend, lastAcked, sentMax>>

Acknowledge(p, m) ==
  LET o == m.from
      q == IF m.kind = "ack" THEN m.psn ELSE m.psn - 1 IN
  /\ Diff(q, lastAcked[p][o]) > 0 /\ Diff(sentMax[p][o], q) >= 0
  /\ lastAcked' = [lastAcked EXCEPT ![p][o] = q]
  /\ Silent
  /\ UNCHANGED <<ePSN, buffer, sum, psnStart, nextSend, sentMax>>

Arrives(m) ==
  /\ m.to \in Switches
  /\ IF m.kind = "data"
     THEN LET p == PipeIn[<<m.to, m.from>>] IN Again(p, m) \/ Take(p, m)
     ELSE LET p == PipeOut[<<m.to, m.from>>] IN Acknowledge(p, m)
  /\ UNCHANGED hosts

(* Events the engine makes itself. *)
Together(a, b) == [j \in DOMAIN a |-> IF j \in DOMAIN b THEN a[j] \o b[j] ELSE a[j]]

Aggregate(p, i) ==
  LET b == buffer[p][i]  s == sum[p]  degree == Len(s.ins) IN
  /\ ~Lone(p) /\ b.ended /\ b.first = nextSend[p]
  /\ degree < Len(InOrder[p])
  /\ IF Rule = "arrival-order" THEN \A j \in DOMAIN s.ins : s.ins[j] # i
                               ELSE InOrder[p][degree + 1] = i
  /\ sum' = [sum EXCEPT ![p] = IF degree = 0
                               THEN [first |-> b.first, parts |-> b.parts, ins |-> <<i>>]
                               ELSE [s EXCEPT !.parts = Together(@, b.parts), !.ins = Append(@, i)]]
  /\ buffer' = [buffer EXCEPT ![p][i] = Empty]
  /\ Silent
  /\ UNCHANGED <<ePSN, psnStart, nextSend, lastAcked, sentMax>>

Release(p) ==
  /\ psnStart[p] = nextSend[p]
  /\ IF Lone(p)
     THEN LET i == CHOOSE i \in Ins[p] : TRUE  b == buffer[p][i] IN
          /\ b.ended /\ b.first = nextSend[p]
          /\ sum' = [sum EXCEPT ![p] = [first |-> b.first, parts |-> b.parts, ins |-> <<i>>]]
          /\ buffer' = [buffer EXCEPT ![p][i] = Empty]
          /\ nextSend' = [nextSend EXCEPT ![p] = @ + Len(b.parts)]
     ELSE /\ \/ Len(sum[p].ins) = Len(InOrder[p])
             \/ Rule = "early-release" /\ sum[p].ins # <<>>
          /\ nextSend' = [nextSend EXCEPT ![p] = @ + Len(sum[p].parts)]
          /\ UNCHANGED <<sum, buffer>>
  /\ Silent
  /\ UNCHANGED <<ePSN, psnStart, lastAcked, sentMax>>

Recycle(p) ==
  LET s == psnStart[p] + 1 IN
  /\ psnStart[p] < nextSend[p]
  /\ IF Rule = "fastest" THEN \E o \in Outs[p] : Diff(lastAcked[p][o], psnStart[p]) >= 0
                         ELSE \A o \in Outs[p] : Diff(lastAcked[p][o], psnStart[p]) >= 0
  /\ psnStart' = [psnStart EXCEPT ![p] = s]
  /\ sum' = IF s = nextSend[p] THEN [sum EXCEPT ![p] = EmptySum] ELSE sum
  /\ Silent
  /\ UNCHANGED <<ePSN, buffer, nextSend, lastAcked, sentMax>>

(* Packet k of the sum; what is no longer there cannot be sent. *)
Part(p, k) == sum[p].parts[k - sum[p].first + 1]
There(p, k) == sum[p].first # -1 /\ k - sum[p].first + 1 \in DOMAIN sum[p].parts

Send(p, o) ==
  LET k == sentMax[p][o] + 1 IN
  /\ Diff(nextSend[p], k) > 0 /\ Diff(k, psnStart[p]) >= 0 /\ There(p, k)
  /\ sentMax' = [sentMax EXCEPT ![p][o] = k]
  /\ Emit({Data(At(p), o, k, Part(p, k))})
  /\ UNCHANGED <<ePSN, buffer, sum, psnStart, nextSend, lastAcked>>

Resend(p, o, k) ==
  /\ lastAcked[p][o] < k /\ k <= sentMax[p][o] /\ There(p, k)
  /\ Emit({Data(At(p), o, k, Part(p, k))})
  /\ UNCHANGED engine

Event(p) == \/ \E i \in Ins[p] : Aggregate(p, i)
            \/ Release(p)
            \/ Recycle(p)
            \/ \E o \in Outs[p] : Send(p, o) \/ \E k \in Psns : Resend(p, o, k)

Step == \/ RankStep(One) /\ UNCHANGED engine
        \/ \E m \in net : Arrives(m)
        \/ (\E p \in Pipes : Event(p)) /\ UNCHANGED hosts
Next == (Step /\ vars' # vars) \/ (Done /\ UNCHANGED vars)
Spec == Init /\ [][Next]_vars

----------------------------------------------------------------------------
Results == Delivered(WholeSeq)
Answers == Told /\ NotBeyond

(* No more is held than the buffers of section 7 have room for. *)
Counters == \A p \in Pipes :
  /\ psnStart[p] <= nextSend[p] /\ Len(sum[p].parts) <= Slots
  /\ \A i \in Ins[p] : /\ nextSend[p] <= ePSN[p][i]
                       /\ Lone(p) => ePSN[p][i] <= psnStart[p] + Slots
  /\ \A o \in Outs[p] : /\ psnStart[p] <= lastAcked[p][o] + 1
                        /\ lastAcked[p][o] <= sentMax[p][o] /\ sentMax[p][o] < nextSend[p]

(* A message that was added has left its buffer for good: nextSend or the degree tells. *)
PipeMeasure(p) ==
  LET in(i) == 4 * ePSN[p][i]
      out(o) == lastAcked[p][o] + sentMax[p][o]
  IN 9 * psnStart[p] + 9 * nextSend[p] + Sum(in, Ins[p]) + Sum(out, Outs[p]) + Len(sum[p].ins)
Measure == HostMeasure + Sum(PipeMeasure, Pipes)
Grows == [][Measure' > Measure]_vars
=============================================================================
