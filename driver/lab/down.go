package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// downPatience is how long a lab's process may take to end.
const downPatience = 10 * time.Second

// Down takes down a lab of another process, or what one left, and returns the namespaces that there were. With
// nothing to take down it returns none.
func Down(folder, name string) ([]string, error) {
	if folder == "" {
		folder = DefaultFolder
	}
	if name == "" {
		name = DefaultName
	}
	if !goodName.MatchString(name) {
		return nil, fmt.Errorf("lab name: got %q, want 1..6 small letters and digits", name)
	}
	if err := Permitted(); err != nil {
		return nil, err
	}
	there, err := left(name)
	if err != nil {
		return nil, err
	}
	own := filepath.Join(folder, name)
	if _, err := os.Stat(own); err == nil {
		if err := end(own); err != nil {
			return nil, fmt.Errorf("lab %s: %w", name, err)
		}
	}
	if _, err := clean(name); err != nil {
		return nil, fmt.Errorf("lab %s: %w", name, err)
	}
	if err := errors.Join(os.RemoveAll(own), os.RemoveAll(logFile(folder, name))); err != nil {
		return nil, fmt.Errorf("lab %s: %w", name, err)
	}
	return there, nil
}

// end ends the process of a lab, if it lives: it holds the lock.
func end(folder string) error {
	lock, err := hold(folder)
	if err == nil {
		return lock.Close()
	}
	st, readErr := read(folder)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := syscall.Kill(st.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end process %d: %w", st.PID, err)
		}
		for limit := time.Now().Add(downPatience); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
			lock, err := hold(folder)
			if err == nil {
				return lock.Close()
			}
			if errors.Is(err, os.ErrNotExist) {
				return nil // it has removed all
			}
		}
	}
	return fmt.Errorf("process %d does not end", st.PID)
}

func read(folder string) (*State, error) {
	text, err := os.ReadFile(filepath.Join(folder, "state.json"))
	if err != nil {
		return nil, err
	}
	st := new(State)
	if err := json.Unmarshal(text, st); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(folder, "state.json"), err)
	}
	return st, nil
}

// ErrNotUp says that there is no lab of the name.
var ErrNotUp = errors.New("it is not up (epic lab up)")

// Find returns the state of a lab that is up, of any process.
func Find(folder, name string) (*State, error) {
	if folder == "" {
		folder = DefaultFolder
	}
	if name == "" {
		name = DefaultName
	}
	own := filepath.Join(folder, name)
	st, err := read(own)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("lab %s: %w", name, ErrNotUp)
	}
	if err != nil {
		return nil, fmt.Errorf("lab %s: %w", name, err)
	}
	if lock, err := hold(own); err == nil {
		return nil, fmt.Errorf("lab %s: its process %d has ended, and left %s: epic lab down removes it", name, st.PID, errors.Join(lock.Close(), errors.New("its namespaces")))
	}
	return st, nil
}

// All lists the labs that are up.
func All(folder string) ([]*State, error) {
	if folder == "" {
		folder = DefaultFolder
	}
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("labs: %w", err)
	}
	var list []*State
	for _, e := range entries {
		if st, err := Find(folder, e.Name()); err == nil && st.Ready {
			list = append(list, st)
		}
	}
	return list, nil
}
