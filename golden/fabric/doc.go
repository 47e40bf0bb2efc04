// Package fabric is a deterministic discrete-event network: nodes with ports, and links between them
// that delay, lose, duplicate and reorder frames. Time is a count of clocks from 0; what a clock
// lasts is up to the user.
//
// Everything that is random comes from one seed. Each direction of each link draws from its own
// generator, so what happens to the n-th frame of a direction depends on nothing else.
//
// A node that lives elsewhere (a simulator of the RTL) is a foreign node: what is on its way to it is
// known as soon as it has been sent, so with link delays of at least L its arrivals before now+L can
// be taken at once, and what it sends is injected with the time it left.
package fabric
