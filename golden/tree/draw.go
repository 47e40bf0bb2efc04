package tree

import "strings"

// Draw pictures the tree as text, one node a line, the root first. label gives the text of a node;
// nil takes Name.
func (t *Tree) Draw(label func(Node) string) string {
	if label == nil {
		label = t.Name
	}
	var b strings.Builder
	b.WriteString(label(Switch(t.root)) + "\n")
	t.draw(&b, "", t.root, label)
	return b.String()
}

func (t *Tree) draw(b *strings.Builder, indent string, s int, label func(Node) string) {
	for i, n := range t.children[s] {
		branch, below := "├── ", "│   "
		if i == len(t.children[s])-1 {
			branch, below = "└── ", "    "
		}
		b.WriteString(indent + branch + label(n) + "\n")
		if !n.IsRank() {
			t.draw(b, indent+below, n.Index, label)
		}
	}
}
