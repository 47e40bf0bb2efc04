package device

// Board is a board with an engine on it, by one way that leads there. All methods may be called from several
// goroutines at once; register accesses of one are in its order.
type Board interface {
	Registers
	// Links are the links to the engine's ports, by port, that this way has. A serial line has none.
	Links() []Link
	// Close ends the calls under way and to come with ErrClosed. Closing again does nothing.
	Close() error
}
