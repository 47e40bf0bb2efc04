// Package stream plays frames through network interfaces, as fast as it can or at a rate, receives what comes back, and says
// what of it was lost, came twice, was overtaken, or is no frame that was sent.
//
// Frames go out in batches (sendmmsg) without the queueing discipline, and come in through a ring that the kernel
// writes and nobody copies (TPACKET_V3), so that one core carries more than a program that makes a system call for each frame.
package stream
