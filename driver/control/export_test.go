package control

import bolt "go.etcd.io/bbolt"

// NoSync lets the store be as fast as memory: what a test kills is this process's control plane, not the machine.
func (s *Store) NoSync() { s.db.NoSync = true }

// Around calls step before and after each write; an error of it is what the writer gets.
func (s *Store) Around(step func() error) {
	s.update = func(f func(*bolt.Tx) error) error {
		if err := step(); err != nil {
			return err
		}
		if err := s.db.Update(f); err != nil {
			return err
		}
		return step()
	}
}
