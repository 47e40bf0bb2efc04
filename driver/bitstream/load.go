package bitstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/epic-inc/epic/driver/device"
)

// Target is the board whose flash is loaded.
type Target struct {
	Flash    device.Flash
	DeviceID uint32 // IDCODE of its FPGA
	UserBase uint32 // where the image goes; below is the golden one. A multiple of a sector
}

// Step is a part of a load.
type Step string

// The steps, in their order.
const (
	Compare Step = "compare" // what is there already
	Erase   Step = "erase"
	Write   Step = "write"
	Verify  Step = "verify"
)

// Progress is told how far a step has come; done counts up to total, in bytes.
type Progress func(step Step, done, total int)

// Report says what a load did.
type Report struct {
	Bytes   int // of the image
	Kept    int // that were in the flash already
	Erased  int
	Written int
	Took    time.Duration
	Writing time.Duration // of it, to transfer and write the pages
}

// Errors that a load's errors wrap.
var (
	// ErrWrongBoard: the image and the board do not fit. Nothing was erased.
	ErrWrongBoard = errors.New("the image does not fit the board")
	// ErrFlash: the flash does not keep what it is told to.
	ErrFlash = errors.New("the flash fails")
)

const (
	sector = 1 << device.SectorLog2
	block  = 1 << device.BlockLog2
	page   = device.PageBytes
)

// patience is the longest that an erase of a block takes in any data sheet, and some more.
const patience = 4 * time.Second

// Flash makes the image that of the board's user region. Whatever ends it, Ctrl-C or a power cut, the board comes up
// with its golden image; done again, it keeps what it finds right and goes on. The image's first sector, without
// which the rest is no bitstream, is erased first and written last, when the rest has been read back.
func Flash(ctx context.Context, t Target, image *Bitstream, progress Progress) (*Report, error) {
	l := &load{Target: t, image: image.Data, progress: progress, report: Report{Bytes: len(image.Data)}}
	begin := time.Now()
	if err := l.fits(ctx, image.Device); err != nil {
		return nil, err
	}
	err := l.run(ctx)
	l.report.Took = time.Since(begin)
	if err != nil {
		return nil, fmt.Errorf("%w; the golden image is untouched, and boots when the board is power-cycled", err)
	}
	return &l.report, nil
}

type load struct {
	Target
	image    []byte
	progress Progress
	report   Report
}

// fits says whether the image may be written to the board at all. It only reads.
func (l *load) fits(ctx context.Context, d Device) error {
	if d.ID != l.DeviceID {
		return fmt.Errorf("%w: the bitstream is for %s, and the board has %s", ErrWrongBoard, d.Name, DeviceName(l.DeviceID))
	}
	if l.UserBase == 0 || l.UserBase%sector != 0 {
		return fmt.Errorf("%w: its user region begins at %#x, want a multiple of %#x behind a golden image", ErrWrongBoard, l.UserBase, sector)
	}
	id, err := l.Flash.FlashID(ctx)
	if err != nil {
		return err
	}
	size := id.Bytes()
	if size == 0 {
		return fmt.Errorf("%w: its id is %v, want that of a flash of 64 KiB to 16 MiB: is it wired?", ErrFlash, id)
	}
	if room := size - int(l.UserBase); len(l.image) > room {
		return fmt.Errorf("%w: it has %d bytes, and the flash of %d has %d behind the golden image", ErrWrongBoard, len(l.image), size, max(0, room))
	}
	return nil
}

// sectors is how many the image takes.
func (l *load) sectors() int { return (len(l.image) + sector - 1) / sector }

// want is what a sector is to hold; erased behind the image.
func (l *load) want(i int) []byte {
	b := bytes.Repeat([]byte{0xff}, sector)
	copy(b, l.image[i*sector:])
	return b
}

func (l *load) addr(i int) uint32 { return l.UserBase + uint32(i)*sector }

func (l *load) run(ctx context.Context) error {
	bad, err := l.compare(ctx)
	if err != nil || len(bad) == 0 {
		return err
	}
	// The first sector goes along with any other.
	if bad[0] != 0 {
		bad = slices.Insert(bad, 0, 0)
	}
	l.report.Kept = len(l.image) - l.bytesOf(bad)
	if err := l.erase(ctx, bad); err != nil {
		return err
	}
	rest := bad[1:]
	for try := 0; len(rest) > 0; try++ {
		if err := l.write(ctx, rest, try == 0); err != nil {
			return err
		}
		if rest, err = l.verify(ctx, rest, try); err != nil {
			return err
		}
		if len(rest) > 0 {
			if err := l.erase(ctx, rest); err != nil {
				return err
			}
		}
	}
	if err := l.write(ctx, bad[:1], false); err != nil {
		return err
	}
	_, err = l.verify(ctx, bad[:1], 1)
	return err
}

// bytesOf is how much of the image is in the sectors.
func (l *load) bytesOf(sectors []int) (n int) {
	for _, i := range sectors {
		n += min(sector, len(l.image)-i*sector)
	}
	return n
}

// compare returns the sectors that are not what they are to be. It reads a page of each, and the rest only of those
// whose page is right: a flash with another image costs little, one with most of this one nothing more than reading.
func (l *load) compare(ctx context.Context) (bad []int, err error) {
	n := l.sectors()
	var rest []int
	l.progress(Compare, 0, n*sector)
	for i := range n {
		got := make([]byte, page)
		if err := l.Flash.ReadFlash(ctx, l.addr(i), got, func(int) {}); err != nil {
			return nil, err
		}
		if bytes.Equal(got, l.want(i)[:page]) {
			rest = append(rest, i)
		} else {
			bad = append(bad, i)
		}
	}
	for _, i := range rest {
		got := make([]byte, sector)
		if err := l.Flash.ReadFlash(ctx, l.addr(i), got, func(int) {}); err != nil {
			return nil, err
		}
		if !bytes.Equal(got, l.want(i)) {
			bad = append(bad, i)
		}
		l.progress(Compare, (i+1)*sector, n*sector)
	}
	l.progress(Compare, n*sector, n*sector)
	slices.Sort(bad)
	if len(bad) == 0 {
		l.report.Kept = len(l.image)
	}
	return bad, nil
}

// erase erases the sectors, the first one first, and whole blocks of them at a time where it can.
func (l *load) erase(ctx context.Context, sectors []int) error {
	total := len(sectors) * sector
	l.progress(Erase, 0, total)
	for done := 0; done < len(sectors); {
		i, n, log2 := sectors[done], 1, device.SectorLog2
		const each = block / sector
		if l.addr(i)%block == 0 && done+each <= len(sectors) && sectors[done+each-1] == i+each-1 {
			n, log2 = each, device.BlockLog2
		}
		if err := l.Flash.Erase(ctx, l.addr(i), log2); err != nil {
			return err
		}
		if err := l.idle(ctx); err != nil {
			return err
		}
		done += n
		l.report.Erased += n * sector
		l.progress(Erase, done*sector, total)
	}
	return nil
}

// idle waits until the flash is done.
func (l *load) idle(ctx context.Context) error {
	end := time.Now().Add(patience)
	for {
		busy, err := l.Flash.FlashBusy(ctx)
		if err != nil || !busy {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w: it is still busy after %v", ErrFlash, patience)
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// write writes the sectors, runs of neighbours at a time.
func (l *load) write(ctx context.Context, sectors []int, tell bool) error {
	total, done := l.bytesOf(sectors), 0
	begin := time.Now()
	for len(sectors) > 0 {
		n := 1
		for n < len(sectors) && sectors[n] == sectors[0]+n {
			n++
		}
		from, to := sectors[0]*sector, min(len(l.image), (sectors[0]+n)*sector)
		err := l.Flash.Program(ctx, l.addr(sectors[0]), l.image[from:to], func(bytes int) {
			done += bytes
			if tell {
				l.progress(Write, done, total)
			}
		})
		if err != nil {
			return err
		}
		l.report.Written += to - from
		sectors = sectors[n:]
	}
	l.report.Writing += time.Since(begin)
	return l.idle(ctx)
}

// tries is how often a sector is erased and written before the flash counts as failing.
const tries = 2

// verify reads the sectors back and returns those that are wrong; an error if that was the last try.
func (l *load) verify(ctx context.Context, sectors []int, try int) (bad []int, err error) {
	total, done := len(sectors)*sector, 0
	for _, i := range sectors {
		got := make([]byte, sector)
		if err := l.Flash.ReadFlash(ctx, l.addr(i), got, func(int) {}); err != nil {
			return nil, err
		}
		done += sector
		if try == 0 {
			l.progress(Verify, done, total)
		}
		want := l.want(i)
		if bytes.Equal(got, want) {
			continue
		}
		if try+1 >= tries {
			at := 0
			for got[at] == want[at] {
				at++
			}
			return nil, fmt.Errorf("%w: byte %#x is %#02x, want %#02x, after it was written %d times",
				ErrFlash, int(l.addr(i))+at, got[at], want[at], try+1)
		}
		bad = append(bad, i)
	}
	return bad, nil
}
