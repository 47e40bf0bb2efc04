package points

import (
	"fmt"
	"io"
	"strings"
)

// Table is what is made of counts.
type Table struct {
	Groups  []Group
	Missed  []string // points that did not happen
	Against []string // points of never.yaml that did
}

// Group is the points of one kind: what stands before the first slash of their names.
type Group struct {
	Name                  string
	Points, Hit, Excluded int
}

// Tabulate holds counts to the list of points.
func Tabulate(counts Counts) (*Table, error) {
	never, err := Never()
	if err != nil {
		return nil, err
	}
	t, known := &Table{}, map[string]bool{}
	for _, name := range All() {
		known[name] = true
		kind, _, _ := strings.Cut(name, "/")
		g := t.group(kind)
		switch hit := counts[name] > 0; {
		case never[name] != "" && hit:
			t.Against = append(t.Against, name)
		case never[name] != "":
			g.Excluded++
		case hit:
			g.Points, g.Hit = g.Points+1, g.Hit+1
		default:
			g.Points++
			t.Missed = append(t.Missed, name)
		}
	}
	for name := range counts {
		if !known[name] {
			return nil, fmt.Errorf("points: got counts of %q, which is no point of this program", name)
		}
	}
	return t, nil
}

func (t *Table) group(name string) *Group {
	for i := range t.Groups {
		if t.Groups[i].Name == name {
			return &t.Groups[i]
		}
	}
	t.Groups = append(t.Groups, Group{Name: name})
	return &t.Groups[len(t.Groups)-1]
}

// WriteText prints the table for a page, a line for each kind of points.
func (t *Table) WriteText(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintln(b, "| points | reached | of | cannot happen |\n| --- | --- | --- | --- |")
	var all Group
	for _, g := range t.Groups {
		fmt.Fprintf(b, "| %s | %d | %d | %d |\n", g.Name, g.Hit, g.Points, g.Excluded)
		all.Hit, all.Points, all.Excluded = all.Hit+g.Hit, all.Points+g.Points, all.Excluded+g.Excluded
	}
	fmt.Fprintf(b, "| all | %d | %d | %d |\n", all.Hit, all.Points, all.Excluded)
	_, err := io.WriteString(w, b.String())
	return err
}
