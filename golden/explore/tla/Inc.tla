-------------------------------- MODULE Inc --------------------------------
(***************************************************************************)
(* What the three modes have in common: PSNs, trees and their pipes, the   *)
(* channel, and the hosts.  Sections are those of docs/protocol.md.        *)
(*                                                                         *)
(* A PSN is kept here as an integer that does not wrap, so that invariants *)
(* can tell a packet from one that is a whole PSN space older.  Engines    *)
(* and hosts may not look at it so: whatever they decide, they decide by   *)
(* Diff, Index and Same, which know it modulo Space only.                  *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, Sequences

CONSTANTS
  Tree,        \* of each node its parent, 0 at the root; leaves are the ranks, and come first
  Collective,  \* "allreduce", "reduce", "broadcast"
  Root,        \* the rank of a Reduce or Broadcast
  Slots,       \* N
  Space,       \* PSNs there are: 2^24 on the wire
  First,       \* p0, less than Space
  Total,       \* packets of the run, of each rank that sends
  Window,      \* the most packets a rank has sent and not had acknowledged: MW of Mode-II
  Life,        \* a packet may arrive until this many psns after it were sent the same way (section 1)
  Loss,        \* TRUE: all that is on its way may be lost for good
  Naks,        \* TRUE: hosts answer a gap
  Rule         \* "protocol", or the mistake to make

ASSUME /\ Slots \in 2..Space /\ Space % Slots = 0 /\ Space % 2 = 0
       /\ First \in 0..Space-1 /\ Loss \in BOOLEAN /\ Naks \in BOOLEAN
       /\ Collective \in {"allreduce", "reduce", "broadcast"}

----------------------------------------------------------------------------
(* Section 1: serial arithmetic.  a is before b when Diff(a, b) < 0.       *)

Diff(a, b) == LET d == (a - b) % Space IN IF d >= Space \div 2 THEN d - Space ELSE d
Same(a, b) == (a - b) % Space = 0
Index(k) == k % Slots
Later(a, b) == IF Diff(a, b) > 0 THEN a ELSE b

Last == First + Total    \* the psn after the run
Psns == First..Last-1

----------------------------------------------------------------------------
(* Trees, by name for the configurations.                                  *)

Flat2 == <<3, 3, 0>>
Flat3 == <<4, 4, 4, 0>>
Deep2 == <<3, 4, 4, 0>>           \* rank 1 below switch 3, rank 2 and switch 3 below 4
Deep3 == <<4, 4, 5, 5, 0>>        \* ranks 1 and 2 below switch 4, rank 3 and switch 4 below 5
Deep4 == <<5, 5, 6, 6, 7, 7, 0>>  \* two switches with two ranks each below a third

Nodes == DOMAIN Tree
Children == [n \in Nodes |-> {m \in Nodes : Tree[m] = n}]
Ranks == {n \in Nodes : Children[n] = {}}
Switches == Nodes \ Ranks
Top == CHOOSE n \in Nodes : Tree[n] = 0
Neighbours == [n \in Nodes |-> Children[n] \cup ({Tree[n]} \ {0})]

RECURSIVE Below(_)
Below(n) == IF Children[n] = {} THEN {n} ELSE UNION {Below(m) : m \in Children[n]}
Toward == [n \in Nodes |-> [r \in Ranks |->
             IF \E m \in Children[n] : r \in Below(m)
             THEN CHOOSE m \in Children[n] : r \in Below(m) ELSE Tree[n]]]
Switch(r) == Tree[r]

----------------------------------------------------------------------------
(* Section 2: every collective is a set of pipes.                          *)

Up(n) == <<n, "up">>
Down(n) == <<n, "down">>
Pipes == {Up(n) : n \in Switches}
         \cup IF Collective = "allreduce" THEN {Down(n) : n \in Switches \ {Top}} ELSE {}
At(p) == p[1]

Ins == [p \in Pipes |->
  CASE Collective = "allreduce" -> IF p = Up(At(p)) THEN Children[At(p)] ELSE {Tree[At(p)]}
    [] Collective = "reduce"    -> Neighbours[At(p)] \ {Toward[At(p)][Root]}
    [] Collective = "broadcast" -> {Toward[At(p)][Root]}]
Outs == [p \in Pipes |->
  CASE Collective = "allreduce" -> IF p = Up(At(p)) /\ At(p) # Top THEN {Tree[At(p)]} ELSE Children[At(p)]
    [] Collective = "reduce"    -> {Toward[At(p)][Root]}
    [] Collective = "broadcast" -> Neighbours[At(p)] \ {Toward[At(p)][Root]}]

Ends == UNION {{<<n, m>> : m \in Neighbours[n]} : n \in Switches}  \* endpoints: node and peer
PipeIn  == [e \in Ends |-> IF \E p \in Pipes : At(p) = e[1] /\ e[2] \in Ins[p]
                           THEN CHOOSE p \in Pipes : At(p) = e[1] /\ e[2] \in Ins[p] ELSE <<0, "none">>]
PipeOut == [e \in Ends |-> IF \E p \in Pipes : At(p) = e[1] /\ e[2] \in Outs[p]
                           THEN CHOOSE p \in Pipes : At(p) = e[1] /\ e[2] \in Outs[p] ELSE <<0, "none">>]

Senders == CASE Collective = "allreduce" -> Ranks
             [] Collective = "reduce"    -> Ranks \ {Root}
             [] Collective = "broadcast" -> {Root}
Receivers == CASE Collective = "allreduce" -> Ranks
               [] Collective = "reduce"    -> {Root}
               [] Collective = "broadcast" -> Ranks \ {Root}

----------------------------------------------------------------------------
(* Payloads.  A payload is the set of the contributions that are in it,    *)
(* each a pair of rank and psn; Twice is in it once anything was added     *)
(* that was there already (a bag would say no more: it is never right      *)
(* again), and stands for what memories hold at power-up, too.             *)

Twice == <<0, 0>>
Add(a, b) == IF a \cap b = {} THEN a \cup b ELSE a \cup b \cup {Twice}
Own(r, k) == {<<r, k>>}
Whole(k) == {<<r, k>> : r \in Senders}

----------------------------------------------------------------------------
(* The channel: net holds every packet ever sent.  Any of them may arrive   *)
(* at any time, in any order, again and again, or never.  Nothing is ever   *)
(* taken out of it but by age, section 1, and by Lose: at one moment all    *)
(* that was ever sent is lost for good.  That says as much as packets lost  *)
(* one by one.  What an engine or a host can come to is the same, since a   *)
(* packet need not arrive; and if the end is reached from a state without   *)
(* the help of anything sent before, it is reached from that state with any *)
(* part of it lost.                                                         *)

VARIABLES
  net,
  lost,      \* Lose has happened
  sent,      \* of each rank: the psn after the last it has sent
  acked,     \* of each rank: psns below it are acknowledged
  expected,  \* of each rank: the psn it takes next
  got        \* of each rank: the payload it took last
hosts == <<sent, acked, expected, got>>
channel == <<net, lost>>

Data(from, to, k, sum) == [kind |-> "data", from |-> from, to |-> to, psn |-> k, sum |-> sum]
Ack(from, to, k) == [kind |-> "ack", from |-> from, to |-> to, psn |-> k]
Nak(from, to, k) == [kind |-> "nak", from |-> from, to |-> to, psn |-> k]

SameWay(a, b) == a.from = b.from /\ a.to = b.to /\ (a.kind = "data") = (b.kind = "data")
Young(all) == IF Total <= Life THEN all
              ELSE {a \in all : \A b \in all : SameWay(a, b) => b.psn - a.psn <= Life}

Emit(packets) == net' = Young(net \cup packets) /\ UNCHANGED lost
Silent == UNCHANGED channel
Lose == Loss /\ ~lost /\ lost' = TRUE /\ net' = {} /\ UNCHANGED hosts

----------------------------------------------------------------------------
(* Hosts: reliable connections as RC has them.  A rank may send anything   *)
(* again that is not acknowledged, whenever it likes: that its timer or a  *)
(* NAK made it do so is not modelled, and no retry count runs out.         *)

HostsInit(nothing) ==
  /\ net = {} /\ lost = FALSE
  /\ sent = [r \in Ranks |-> First] /\ acked = [r \in Ranks |-> First]
  /\ expected = [r \in Ranks |-> First] /\ got = [r \in Ranks |-> nothing]

RankSends(r, payload) ==
  /\ r \in Senders
  /\ sent[r] < Last /\ sent[r] < acked[r] + Window
  /\ sent' = [sent EXCEPT ![r] = @ + 1]
  /\ Emit({Data(r, Switch(r), sent[r], payload)})
  /\ UNCHANGED <<acked, expected, got>>

RankResends(r, k, payload) ==
  /\ lost  \* before that it is in net
  /\ r \in Senders /\ acked[r] <= k /\ k < sent[r]
  /\ Emit({Data(r, Switch(r), k, payload)})
  /\ UNCHANGED hosts

(* A result: taken if it is the next, acknowledged again if it came before. *)
RankTakes(m) ==
  LET r == m.to  d == Diff(m.psn, expected[r]) IN
  /\ m.kind = "data" /\ r \in Receivers
  /\ \/ /\ d = 0
        /\ expected' = [expected EXCEPT ![r] = @ + 1] /\ got' = [got EXCEPT ![r] = m.sum]
        /\ Emit({Ack(r, m.from, expected[r])})
     \/ /\ d < 0
        /\ Emit({Ack(r, m.from, expected[r] - 1)})
        /\ UNCHANGED <<expected, got>>
     \/ /\ d > 0 /\ Naks
        /\ Emit({Nak(r, m.from, expected[r])})
        /\ UNCHANGED <<expected, got>>
  /\ UNCHANGED <<sent, acked>>

(* An answer: as Linux does it, one from beyond what was sent is taken for  *)
(* one of all that was sent.  All that NAK(q) says here is ACK(q-1).        *)
RankHears(m) ==
  LET r == m.to
      d == Diff(m.psn, acked[r]) + IF m.kind = "ack" THEN 1 ELSE 0 IN
  /\ m.kind # "data" /\ r \in Senders
  /\ Diff(m.psn, acked[r]) >= 0
  /\ acked' = [acked EXCEPT ![r] = IF @ + d <= sent[r] THEN @ + d ELSE sent[r]]
  /\ Silent
  /\ UNCHANGED <<sent, expected, got>>

RankStep(payload(_, _)) ==
  \/ Lose
  \/ \E r \in Ranks : RankSends(r, payload(r, sent[r]))
  \/ \E r \in Ranks, k \in Psns : RankResends(r, k, payload(r, k))
  \/ \E m \in net : m.to \in Ranks /\ (RankTakes(m) \/ RankHears(m))

Done == /\ \A r \in Senders : acked[r] = Last
        /\ \A r \in Receivers : expected[r] = Last

----------------------------------------------------------------------------
(* Section 8.                                                              *)

(* 1 and 2: what a rank took as its n-th result is the result of the n-th   *)
(* psn, and nothing is taken after the last.                                *)
Delivered(whole(_)) ==
  \A r \in Receivers : /\ expected[r] <= Last
                       /\ expected[r] > First => got[r] = whole(expected[r] - 1)

(* A rank is told that its packet arrived when whoever must have its result *)
(* has it, and of nothing that it has not sent.                             *)
Told2 == \A r \in Senders : /\ acked[r] <= sent[r]
                            /\ \A q \in IF r \in Receivers THEN {r} ELSE Receivers : acked[r] <= expected[q]
Told == \A r \in Senders : acked[r] <= sent[r]
NotBeyond == \A m \in net : m.kind = "ack" /\ m.to \in Ranks => m.psn < sent[m.to]

(* 3: Grows says that no run goes on for ever, so every run ends; TLC's     *)
(* check for deadlock says that none ends but where Done holds.  Both       *)
(* together: the end is reached from every reachable state, whatever is     *)
(* done on the way.                                                         *)
RECURSIVE Power(_, _)
Power(b, n) == IF n = 0 THEN 1 ELSE b * Power(b, n - 1)
(* A function, since TLC evaluates the arguments of a recursive operator again at every level. *)
Sum(f(_), s) == LET sum[t \in SUBSET s] == IF t = {} THEN 0
                                          ELSE LET x == CHOOSE x \in t : TRUE IN f(x) + sum[t \ {x}]
                IN sum[s]

NetMeasure == IF Total <= Life THEN Cardinality(net) + (IF lost THEN 10000 ELSE 0)
              ELSE LET weight(m) == Power(2, m.psn - First + 1)
                   IN Sum(weight, net) + (IF lost THEN Power(2, Total + 8) ELSE 0)
HostMeasure == LET of(r) == sent[r] + acked[r] + expected[r] IN NetMeasure + Sum(of, Ranks)
=============================================================================
