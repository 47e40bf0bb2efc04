// Package lab is groups on one machine: for every host a network namespace with an interface eth0 that has its MAC and
// IP, veths to software switches, and wires between that pace, delay, lose, duplicate and reorder as the groups' links
// say, from a seed. Whatever ranks run in the namespaces meet what they would meet on cables.
//
// A lab has a name. All that it makes in the kernel is in namespaces epic-NAME-...; a lock tells whether its process is
// alive, so that what one left that ended badly is known for what it is, and removed by Down or the next Up.
package lab
