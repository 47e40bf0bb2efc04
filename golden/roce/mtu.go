package roce

import (
	"slices"
	"strconv"
	"strings"
)

// MTUs returns the path MTUs of RoCE in payload bytes (IBTA 9.3.4.1): what a pipe's U, a host's path
// MTU and a configuration may be.
func MTUs() []int { return []int{256, 512, 1024, 2048, 4096} }

// ValidMTU says whether bytes is one of MTUs.
func ValidMTU(bytes int) bool { return slices.Contains(MTUs(), bytes) }

// WantMTU names MTUs for messages: "one of 256, 512, ...".
func WantMTU() string {
	var names []string
	for _, m := range MTUs() {
		names = append(names, strconv.Itoa(m))
	}
	return "one of " + strings.Join(names, ", ")
}

// IPBytes is the longest IP packet of SENDs with payloads of an MTU: what a link must carry. An RDMA WRITE has
// RETHSize bytes more.
func IPBytes(mtu int, v6 bool) int {
	n := ipv4Size + udpSize + BTHSize + ImmDtSize + mtu + ICRCSize
	if v6 {
		n += ipv6Size - ipv4Size
	}
	return n
}
