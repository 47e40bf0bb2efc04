// Package softswitch is a switch in software: the golden engine on device.Links, in real time. Frames to its own
// addresses are the engine's, or ARP, neighbour discovery and echo requests, which it answers; all others it
// forwards between its ports as a learning bridge does.
//
// A subgroup, the pipes that share endpoints, has an engine of its own. So groups cannot touch each other, their
// frames are worked on at once, and setting one up or taking it down concerns no other.
package softswitch
