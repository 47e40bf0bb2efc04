package fabric

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/epic-inc/epic/golden/capture"
)

// probe is a node that notes what it gets and answers as told.
type probe struct {
	emit  Emit
	got   []Arrival
	wakes []uint64
	alarm []uint64
	reply func(port int, frame []byte)
}

func (p *probe) Bind(emit Emit) { p.emit = emit }
func (p *probe) Receive(now uint64, port int, frame []byte) {
	p.got = append(p.got, Arrival{At: now, Port: port, Frame: frame})
	if p.reply != nil {
		p.reply(port, frame)
	}
}
func (p *probe) NextWake() (uint64, bool) {
	if len(p.alarm) == 0 {
		return 0, false
	}
	return p.alarm[0], true
}
func (p *probe) Wake(now uint64) {
	p.wakes = append(p.wakes, now)
	if len(p.alarm) > 0 && p.alarm[0] <= now {
		p.alarm = p.alarm[1:]
	}
}

func pair(t *testing.T, seed uint64, ab, ba Link) (*Fabric, *probe, *probe) {
	t.Helper()
	f, a, b := New(seed), &probe{}, &probe{}
	require.NoError(t, f.Connect(f.Add("a", a), 3, f.Add("b", b), 5, ab, ba))
	return f, a, b
}

func times(as []Arrival) []uint64 {
	var ts []uint64
	for _, a := range as {
		ts = append(ts, a.At)
	}
	return ts
}

func TestDelayAndRate(t *testing.T) {
	// 3 bytes in 2 clocks: 10 bytes take 7 clocks (6.67 rounded up), 3 bytes 2.
	f, a, b := pair(t, 1, Link{Delay: 100, Rate: Rate{Bytes: 3, Clocks: 2}}, Link{Delay: 7})
	b.reply = func(port int, _ []byte) { b.emit(port, []byte("re")) }
	a.emit(3, make([]byte, 10))
	a.emit(3, make([]byte, 3))
	f.Run(50)
	require.Equal(t, uint64(50), f.Now())
	require.Empty(t, b.got)
	a.emit(3, make([]byte, 3)) // the link is free again
	f.Run(1000)
	require.Equal(t, []uint64{107, 109, 152}, times(b.got))
	require.Equal(t, 5, b.got[0].Port)
	require.Equal(t, []uint64{114, 116, 159}, times(a.got))
	require.Equal(t, 3, a.got[0].Port)
	require.Equal(t, uint64(6), f.Frames())
}

func TestRunStopsBefore(t *testing.T) {
	f, a, b := pair(t, 1, Link{Delay: 10}, Link{Delay: 10})
	a.emit(3, []byte("x"))
	f.Run(10)
	require.Empty(t, b.got, "at clock 10, not before it")
	at, ok := f.Next()
	require.True(t, ok)
	require.Equal(t, uint64(10), at)
	f.Run(11)
	require.Len(t, b.got, 1)
}

func TestOrderOfEqualTimes(t *testing.T) {
	f := New(1)
	a, b := &probe{alarm: []uint64{20}}, &probe{alarm: []uint64{20}}
	var order []string
	ida, idb := f.Add("a", a), f.Add("b", b)
	require.NoError(t, f.Connect(ida, 0, idb, 0, Link{Delay: 20}, Link{Delay: 20}))
	a.reply = func(int, []byte) { order = append(order, "a got") }
	b.reply = func(_ int, frame []byte) { order = append(order, "b got "+string(frame)) }
	b.emit(0, []byte("1"))
	a.emit(0, []byte("2"))
	a.emit(0, []byte("3"))
	f.Run(100)
	require.Equal(t, []string{"a got", "b got 2", "b got 3"}, order)
	require.Equal(t, []uint64{0, 20}, a.wakes)
	require.Equal(t, []uint64{0, 20}, b.wakes)
}

func TestFates(t *testing.T) {
	const n = 20000
	count := func(l Link) (fates map[Fate]int, got []Arrival) {
		f, a, b := pair(t, 7, l, Link{Delay: 1})
		fates = map[Fate]int{}
		f.SetTap(func(p Passage) { fates[p.Fate]++ })
		for i := range n {
			a.emit(3, []byte{byte(i), byte(i >> 8)})
		}
		f.Run(1 << 40)
		return fates, b.got
	}
	near := func(want, got int) {
		t.Helper()
		require.InDelta(t, want, got, 0.1*float64(want))
	}
	fates, got := count(Link{Delay: 100, Loss: 0.05, Dup: 0.02, Reorder: 0.03, Late: 50})
	near(n/20, fates[Lost])
	near(n*95/100*3/100, fates[Late])
	near(n*95/100*2/100, fates[Duplicate])
	require.Equal(t, n, fates[Lost]+fates[Late]+fates[Delivered])
	require.Len(t, got, fates[Late]+fates[Delivered]+fates[Duplicate])
	for _, a := range got {
		require.GreaterOrEqual(t, a.At, uint64(100))
		require.Less(t, a.At, uint64(100+50+50+1))
	}
	fates, got = count(Link{Delay: 100})
	require.Equal(t, map[Fate]int{Delivered: n}, fates)
	for i, a := range got {
		require.Equal(t, []byte{byte(i), byte(i >> 8)}, a.Frame, "a link keeps the order")
	}
	fates, _ = count(Link{Delay: 100, Loss: 1})
	require.Equal(t, map[Fate]int{Lost: n}, fates)
}

// What happens to a direction's frames depends on the seed and on nothing else.
func TestDirectionsAreIndependent(t *testing.T) {
	l := Link{Delay: 10, Loss: 0.3, Dup: 0.2, Reorder: 0.2}
	run := func(seed uint64, disturb bool) []uint64 {
		f, a, b := pair(t, seed, l, l)
		for i := range 200 {
			a.emit(3, []byte{byte(i)})
			if disturb {
				b.emit(5, []byte{byte(i)})
			}
			f.Run(f.Now() + 100)
		}
		f.Run(1 << 20)
		return times(b.got)
	}
	require.Equal(t, run(5, false), run(5, false))
	require.Equal(t, run(5, false), run(5, true))
	require.NotEqual(t, run(5, false), run(6, false))
}

func TestForeign(t *testing.T) {
	f, b := New(1), &probe{}
	rtl := f.AddForeign("rtl")
	idb := f.Add("b", b)
	require.NoError(t, f.Connect(rtl, 1, idb, 0, Link{Delay: 30}, Link{Delay: 40}))
	require.Equal(t, uint64(40), f.LookAhead(rtl))

	b.emit(0, []byte("to rtl"))
	b.emit(0, []byte("and more"))
	as, err := f.Arrivals(rtl, 40)
	require.NoError(t, err)
	require.Empty(t, as)
	_, err = f.Arrivals(rtl, 41)
	require.ErrorContains(t, err, "arrivals at rtl before 41: something sent now may come at 40")
	f.Run(1)
	as, err = f.Arrivals(rtl, 41)
	require.NoError(t, err)
	require.Equal(t, []uint64{40, 40}, times(as))
	require.Equal(t, []byte("to rtl"), as[0].Frame)
	require.Equal(t, 1, as[0].Port)

	f.Run(100)
	require.NoError(t, f.Inject(rtl, 1, 120, []byte("from rtl")))
	require.ErrorContains(t, f.Inject(rtl, 1, 99, nil), "inject at rtl: got time 99, which is over; now is 100")
	require.ErrorContains(t, f.Inject(idb, 0, 120, nil), "it is not a foreign node")
	_, err = f.Arrivals(idb, 120)
	require.ErrorContains(t, err, "it is not a foreign node")
	f.Run(200)
	require.Equal(t, []uint64{150}, times(b.got))
}

func TestConnectErrors(t *testing.T) {
	f := New(1)
	a, b := f.Add("a", &probe{}), f.Add("b", &probe{})
	good := Link{Delay: 1}
	require.NoError(t, f.Connect(a, 0, b, 0, good, good))
	for want, err := range map[string]error{
		"port 0 of a has a link already": f.Connect(a, 0, b, 1, good, good),
		"port 0 of b has a link already": f.Connect(a, 1, b, 0, good, good),
		"got node 2, want 0..1":          f.Connect(a, 1, 2, 0, good, good),
		"port 1 of a to itself":          f.Connect(a, 1, a, 1, good, good),
		"delay: got 0 clocks":            f.Connect(a, 1, b, 1, good, Link{}),
		"loss: got 1.5, want 0..1":       f.Connect(a, 1, b, 1, Link{Delay: 1, Loss: 1.5}, good),
		"dup: got -1, want 0..1":         f.Connect(a, 1, b, 1, Link{Delay: 1, Dup: -1}, good),
		"reorder: got 2, want 0..1":      f.Connect(a, 1, b, 1, Link{Delay: 1, Reorder: 2}, good),
		"rate: got 3 bytes in 0 clocks":  f.Connect(a, 1, b, 1, Link{Delay: 1, Rate: Rate{Bytes: 3}}, good),
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestUnplugged(t *testing.T) {
	f, a := New(1), &probe{}
	f.Add("a", a)
	var seen []Passage
	f.SetTap(func(p Passage) { seen = append(seen, p) })
	a.emit(9, []byte("x"))
	f.Run(10)
	require.Len(t, seen, 1)
	require.Equal(t, Unplugged, seen[0].Fate)
	require.Equal(t, "unplugged", seen[0].Fate.String())
}

func TestScale(t *testing.T) {
	s := Scale{Clocks: 1562, Per: 10 * time.Microsecond}
	require.Equal(t, uint64(1562), s.Of(10*time.Microsecond))
	require.Equal(t, uint64(1), s.Of(0))
	require.Equal(t, uint64(157), s.Of(time.Microsecond), "156.2 rounded up")
	require.Equal(t, uint64(562320000000), s.Of(time.Hour))
	_, err := NewHost(Scale{}, 0)
	require.ErrorContains(t, err, "scale: got 0 clocks in 0s")
}

func TestRecord(t *testing.T) {
	f, a, b := pair(t, 1, Link{Delay: 10, Dup: 1}, Link{Delay: 10, Loss: 1})
	var file bytes.Buffer
	r := f.Record(&file, 3200) // 312.5 MHz
	b.reply = func(port int, frame []byte) { b.emit(port, append([]byte("re: "), frame...)) }
	a.emit(3, []byte("hello, long enough for a frame"))
	f.Run(100)
	require.NoError(t, r.Flush())

	in, err := capture.NewReader("test", &file)
	require.NoError(t, err)
	var got []capture.Frame
	for {
		fr, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		got = append(got, fr)
	}
	require.Len(t, got, 3, "the duplicate left once; what was lost did leave")
	require.Equal(t, "a:3", got[0].Name)
	require.Equal(t, "b:5", got[1].Name)
	require.Equal(t, int64(0), got[0].Time.UnixNano())
	require.Equal(t, int64(32), got[1].Time.UnixNano(), "clock 10 at 3.2 ns")
	require.Equal(t, "re: hello, long enough for a frame", string(got[1].Data))
}
