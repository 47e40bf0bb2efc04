// Package cover chooses cases of many factors: all of them, or a pairwise slice.
package cover

// Factor is one thing that varies, with its levels by number 0..Levels-1.
type Factor struct {
	Name   string
	Levels int
}

// Pair is two levels of two factors that stand together; A < B.
type Pair struct{ A, LevelA, B, LevelB int }

// Space is factors with the pairs that may not stand together.
type Space struct {
	Factors []Factor
	Never   func(Pair) bool
}

const open = -1 // a factor that has no level yet

// allowed says whether a level may join those that a row has already.
func (s *Space) allowed(row []int, factor, level int) bool {
	for other, l := range row {
		if l == open || other == factor {
			continue
		}
		p := Pair{other, l, factor, level}
		if other > factor {
			p = Pair{factor, level, other, l}
		}
		if s.Never(p) {
			return false
		}
	}
	return true
}

// completable says whether the open factors can be given levels, by trying.
func (s *Space) completable(row []int) bool {
	for f := range s.Factors {
		if row[f] != open {
			continue
		}
		for l := range s.Factors[f].Levels {
			if s.allowed(row, f, l) {
				row[f] = l
				ok := s.completable(row)
				row[f] = open
				if ok {
					return true
				}
			}
		}
		return false
	}
	return true
}

// Whole lists every row in which no pair stands that may not.
func (s *Space) Whole() [][]int {
	var rows [][]int
	row := make([]int, len(s.Factors))
	for i := range row {
		row[i] = open
	}
	var fill func(f int)
	fill = func(f int) {
		if f == len(row) {
			rows = append(rows, append([]int(nil), row...))
			return
		}
		for l := range s.Factors[f].Levels {
			if s.allowed(row, f, l) {
				row[f] = l
				fill(f + 1)
				row[f] = open
			}
		}
	}
	fill(0)
	return rows
}

// Pairwise returns rows in which every pair of levels stands that can stand in any row: a covering array of
// strength two. It is greedy: a row begins with the first pair that no row has yet, and each other factor,
// those with most levels first, takes the level that brings most pairs which no row has, of equals the one
// taken least so far, of those the lowest. There is no randomness, so the same factors give the same rows.
func (s *Space) Pairwise() [][]int {
	left := map[Pair]bool{}
	var order []Pair // of left, for no map's order may count
	empty := make([]int, len(s.Factors))
	for i := range empty {
		empty[i] = open
	}
	for a := range s.Factors {
		for b := a + 1; b < len(s.Factors); b++ {
			for la := range s.Factors[a].Levels {
				for lb := range s.Factors[b].Levels {
					p := Pair{a, la, b, lb}
					row := append([]int(nil), empty...)
					row[a] = la
					if !s.allowed(row, b, lb) {
						continue
					}
					if row[b] = lb; s.completable(row) {
						left[p] = true
						order = append(order, p)
					}
				}
			}
		}
	}
	factors := make([]int, 0, len(s.Factors)) // most levels first
	for f := range s.Factors {
		at := len(factors)
		for at > 0 && s.Factors[factors[at-1]].Levels < s.Factors[f].Levels {
			at--
		}
		factors = append(factors[:at], append([]int{f}, factors[at:]...)...)
	}
	taken := make([][]int, len(s.Factors)) // how many rows have a level
	for f := range taken {
		taken[f] = make([]int, s.Factors[f].Levels)
	}
	var rows [][]int
	for _, first := range order {
		if !left[first] {
			continue
		}
		row := append([]int(nil), empty...)
		row[first.A], row[first.B] = first.LevelA, first.LevelB
		for _, f := range factors {
			if row[f] != open {
				continue
			}
			best, most := open, -1
			for l := range s.Factors[f].Levels {
				if !s.allowed(row, f, l) {
					continue
				}
				row[f] = l
				ok := s.completable(row)
				row[f] = open
				if n := s.gain(left, row, f, l); ok && (n > most || n == most && taken[f][l] < taken[f][best]) {
					best, most = l, n
				}
			}
			row[f] = best
		}
		for a := range row {
			taken[a][row[a]]++
			for b := a + 1; b < len(row); b++ {
				delete(left, Pair{a, row[a], b, row[b]})
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// gain counts the pairs that a level would bring and no row has.
func (s *Space) gain(left map[Pair]bool, row []int, factor, level int) (n int) {
	for other, l := range row {
		if l == open {
			continue
		}
		p := Pair{other, l, factor, level}
		if other > factor {
			p = Pair{factor, level, other, l}
		}
		if left[p] {
			n++
		}
	}
	return n
}
