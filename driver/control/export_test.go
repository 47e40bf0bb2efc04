package control

// NoSync lets the store be as fast as memory: what a test kills is this process's control plane, not the machine.
func (s *Store) NoSync() { s.db.NoSync = true }
