package rank_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/epic-inc/epic/driver/device"
	"github.com/epic-inc/epic/driver/rank"
	"github.com/epic-inc/epic/golden/host"
	"github.com/epic-inc/epic/golden/psn"
	"github.com/epic-inc/epic/golden/roce"
	"github.com/epic-inc/epic/golden/spec"
)

// lossy loses frames of a direction, by a seed.
type lossy struct {
	device.Link
	mu   sync.Mutex
	rng  *rand.Rand
	loss float64
}

func (l *lossy) Send(ctx context.Context, frame []byte) error {
	l.mu.Lock()
	lost := l.rng.Float64() < l.loss
	l.mu.Unlock()
	if lost {
		return nil
	}
	return l.Link.Send(ctx, frame)
}

// config is the queue pair of host i, 0 or 1, connected to the other's.
func config(i int, mtu int) host.Config {
	mac := func(i int) roce.MAC { return roce.MAC{0x52, 0x54, 0, 0, 0, byte(i + 1)} }
	ip := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, 0, byte(i + 1)}) }
	first := func(i int) psn.PSN { return psn.Add(0xfffff0, 1000*i) }
	return host.Config{Name: fmt.Sprint("host ", i), MAC: mac(i), PeerMAC: mac(1 - i), IP: ip(i), PeerIP: ip(1 - i), QPN: uint32(17 + i), PeerQPN: uint32(18 - i),
		PKey: 0xffff, UDPSport: 0xc000, TTL: 64, SendPSN: first(i), RecvPSN: first(1 - i), MTU: mtu,
		Timeout: 13, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 1, Settings: host.LinuxRXE()}
}

// endpoints are two hosts at the ends of a wire, with a queue pair between them.
func endpoints(t *testing.T, seed uint64, loss float64) (e [2]*rank.Endpoint) {
	t.Helper()
	x, y, err := device.Pair(9000)
	require.NoError(t, err)
	for i, l := range []device.Link{x, y} {
		c := config(i, 1024)
		e[i], err = rank.New(rank.Options{Name: c.Name, Link: &lossy{Link: l, rng: rand.New(rand.NewPCG(seed, uint64(i))), loss: loss}, MAC: c.MAC, IP: c.IP})
		require.NoError(t, err)
		q, err := e[i].AddQP(c, 4, 16)
		require.NoError(t, err)
		require.Zero(t, q)
		t.Cleanup(func() { assert.NoError(t, e[i].Close()) })
	}
	return e
}

func wait(t *testing.T, w *rank.Work) error {
	t.Helper()
	select {
	case <-w.Done():
		return w.Err()
	case <-time.After(20 * time.Second):
		t.Fatal("the work is not done after 20 s")
		return nil
	}
}

// Vectors go both ways at once, with and without loss, at one time several.
func TestTransfer(t *testing.T) {
	for _, loss := range []float64{0, 0.01, 0.2} {
		t.Run(fmt.Sprint(loss), func(t *testing.T) {
			const seed = 3
			e := endpoints(t, seed, loss)
			var sent, got [2][3][]byte
			var works [2][3]*rank.Work
			rng := rand.New(rand.NewPCG(seed, 9))
			for i := range e {
				for k := range sent[i] {
					sent[i][k], got[i][k] = make([]byte, 50001+k), make([]byte, 50001+k)
					for n := range sent[i][k] {
						sent[i][k][n] = byte(rng.Uint32())
					}
				}
			}
			for i := range e {
				for k := range works[i] {
					var err error
					works[i][k], err = e[i].Post(host.Op{Send: sent[i][k], Recv: len(got[i][k]), Into: got[i][k]})
					require.NoError(t, err)
				}
			}
			for i := range e {
				for k := range works[i] {
					require.NoError(t, wait(t, works[i][k]))
					require.True(t, bytes.Equal(sent[1-i][k], got[i][k]), "host %d, vector %d, seed %d", i, k, seed)
				}
				require.NoError(t, e[i].Err())
				require.Equal(t, psn.Add(config(i, 1024).SendPSN, 3*49), e[i].NextPSN(0))
			}
		})
	}
}

// The receiver comes late: RNR NAKs hold the sender off.
func TestReceiverNotReady(t *testing.T) {
	e := endpoints(t, 1, 0)
	w, err := e[0].Post(host.Op{Send: []byte("early")})
	require.NoError(t, err)
	select {
	case <-w.Done():
		t.Fatal("it is done, and nobody received")
	case <-time.After(50 * time.Millisecond):
	}
	require.ErrorContains(t, w.Err(), "not done yet")
	into := make([]byte, 5)
	r, err := e[1].Post(host.Op{Recv: 5, Into: into})
	require.NoError(t, err)
	require.NoError(t, wait(t, r))
	require.NoError(t, wait(t, w))
	require.Equal(t, "early", string(into))
}

// A NAK that ends the queue pair ends all work, with what it says.
func TestQueuePairInError(t *testing.T) {
	e := endpoints(t, 1, 0)
	late, err := e[1].Post(host.Op{Recv: 4}) // too short for what comes
	require.NoError(t, err)
	w, err := e[0].Post(host.Op{Send: make([]byte, 100)}, host.Op{Send: make([]byte, 100)})
	require.NoError(t, err)
	require.ErrorContains(t, wait(t, w), "send 1 of QPN 0x000011 completed with status 11, remote operation error")
	require.ErrorContains(t, wait(t, late), "receive 1 of QPN 0x000012 completed with status 2, local QP operation error")
	<-e[0].Failed()
	require.Error(t, e[0].Err())
	_, err = e[0].Post(host.Op{Send: []byte{1}})
	require.ErrorIs(t, err, e[0].Err())
}

// After Abort no vector is touched, but the endpoint answers for its address.
func TestAbort(t *testing.T) {
	e := endpoints(t, 1, 0)
	into := make([]byte, 1<<20)
	r, err := e[1].Post(host.Op{Recv: len(into), Into: into})
	require.NoError(t, err)
	_, err = e[0].Post(host.Op{Send: bytes.Repeat([]byte{1}, len(into))})
	require.NoError(t, err)
	time.Sleep(time.Millisecond)
	why := errors.New("enough")
	e[1].Abort(why)
	require.ErrorIs(t, wait(t, r), why)
	for i := range into { // the race detector sees who else writes
		into[i] = 0
	}
	time.Sleep(20 * time.Millisecond)
	require.Equal(t, make([]byte, len(into)), into)

	got := make(chan []byte, 1)
	e[0].Handle(func(frame []byte) { got <- frame })
	ask := append(append(bytes.Repeat([]byte{0xff}, 6), 0x52, 0x54, 0, 0, 0, 1), 8, 6, 0, 1, 8, 0, 6, 4, 0, 1,
		0x52, 0x54, 0, 0, 0, 1, 10, 9, 0, 1, 0, 0, 0, 0, 0, 0, 10, 9, 0, 2)
	e[0].Transmit(ask)
	select {
	case frame := <-got:
		require.Equal(t, []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, 2, 0x52, 0x54, 0, 0, 0, 2, 10, 9, 0, 2}, frame[12:32])
	case <-time.After(5 * time.Second):
		t.Fatal("no answer to ARP")
	}
	require.Equal(t, uint64(1), e[1].Stats().Answered)
}

// Frames that are no good are counted by what is wrong, and others' are not looked at.
func TestBadFrames(t *testing.T) {
	x, y, err := device.Pair(9000)
	require.NoError(t, err)
	defer x.Close()
	c := config(1, 1024)
	e, err := rank.New(rank.Options{Name: "host 1", Link: y, MAC: c.MAC, IP: c.IP})
	require.NoError(t, err)
	defer e.Close()
	pkt := &roce.Packet{DstMAC: c.MAC, SrcMAC: c.PeerMAC, Src: c.PeerIP, Dst: c.IP, TTL: 64, Opcode: spec.OpcodeSendOnly, PKey: 0xffff, DestQP: c.QPN, PSN: c.RecvPSN, Payload: []byte{1, 2, 3, 4}}
	spoiled := pkt.Encode()
	spoiled[len(spoiled)-1] ^= 1
	other := pkt.Clone()
	other.DstMAC[5] = 9
	for _, f := range [][]byte{spoiled, other.Encode(), pkt.Encode()} { // the last finds no queue pair
		require.NoError(t, x.Send(t.Context(), f))
	}
	require.Eventually(t, func() bool { return e.Stats().Received == 2 }, 5*time.Second, time.Millisecond)
	require.Equal(t, map[spec.Verdict]uint64{spec.VerdictICRC: 1}, e.Stats().Bad)
}

// The link goes away: everything ends, with its reason.
func TestLinkGone(t *testing.T) {
	x, y, err := device.Pair(9000)
	require.NoError(t, err)
	c := config(0, 1024)
	e, err := rank.New(rank.Options{Name: "host 0", Link: x, MAC: c.MAC, IP: c.IP})
	require.NoError(t, err)
	defer e.Close()
	_, err = e.AddQP(c, 1, 1)
	require.NoError(t, err)
	w, err := e.Post(host.Op{Recv: 1})
	require.NoError(t, err)
	require.NoError(t, y.Close())
	require.ErrorIs(t, wait(t, w), device.ErrClosed)
}

func TestErrors(t *testing.T) {
	_, err := rank.New(rank.Options{Name: "none"})
	require.ErrorContains(t, err, "rank none: got link false")
	e := endpoints(t, 1, 0)
	_, err = e[0].Post(host.Op{QP: 7})
	require.ErrorContains(t, err, "got queue pair 7, want 0..0")
	_, err = e[0].AddQP(config(1, 1024), 1, 1)
	require.ErrorContains(t, err, "want 52:54:00:00:00:01 and 10.9.0.1, the endpoint's")
	_, err = e[0].AddQP(config(0, 1024), 1, 1)
	require.ErrorContains(t, err, "two queue pairs have QPN 0x000011")
	long := config(0, 4096)
	x, y, err := device.Pair(1500)
	require.NoError(t, err)
	defer y.Close()
	short, err := rank.New(rank.Options{Name: "0", Link: x, MAC: long.MAC, IP: long.IP})
	require.NoError(t, err)
	defer short.Close()
	_, err = short.AddQP(long, 1, 1)
	require.ErrorContains(t, err, "packets of 4096 bytes, which the link does not carry: its MTU is 1500, want at least 41")
	require.NoError(t, e[0].Err(), "it goes on")
}

// Close ends everything that New began.
func TestNoGoroutineIsLeft(t *testing.T) {
	before := goleak.IgnoreCurrent()
	e := endpoints(t, 1, 0)
	w, err := e[0].Post(host.Op{Recv: 1})
	require.NoError(t, err)
	for i := range e {
		require.NoError(t, e[i].Close())
	}
	require.ErrorIs(t, w.Err(), device.ErrClosed)
	goleak.VerifyNone(t, before)
}
