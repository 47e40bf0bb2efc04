// Package coll is the library of collectives that an application uses: a communicator of ranks that does AllReduce,
// Reduce, Broadcast, Barrier, ReduceScatter and AllGather through the network, and among the hosts where the network
// does not.
package coll
