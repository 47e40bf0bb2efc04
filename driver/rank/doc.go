// Package rank is a host's end of RoCE connections on a device.Link: golden's Rank, its NICs and its library, in real
// time, and the answers to ARP, neighbour discovery and echo for its address.
package rank
