package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// startPatience is how long a lab may take until it is up.
const startPatience = time.Minute

// logFile is what the process of a lab says, which Detach has started.
func logFile(folder, name string) string { return filepath.Join(folder, name+".log") }

// Detach starts a program, which makes the lab of a name in its foreground, as a process that stays when this one ends,
// and returns the lab's state once it is up. If it does not come up the error is what the program said.
func Detach(folder, name string, program string, args ...string) (*State, error) {
	if folder == "" {
		folder = DefaultFolder
	}
	if name == "" {
		name = DefaultName
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("lab %s: %w", name, err)
	}
	log, err := os.OpenFile(logFile(folder, name), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lab %s: %w", name, err)
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("lab %s: %w", name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for limit := time.Now().Add(startPatience); time.Now().Before(limit); {
		select {
		case err := <-ended:
			said, _ := os.ReadFile(log.Name()) // the error of the process is said all the same
			text := strings.TrimPrefix(strings.TrimSpace(string(said)), "epic: ")
			if text == "" {
				text = fmt.Sprintf("its process ended: %v", err)
			}
			return nil, errors.New(text)
		case <-time.After(20 * time.Millisecond):
		}
		if st, err := read(filepath.Join(folder, name)); err == nil && st.Ready && st.PID == cmd.Process.Pid {
			return st, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("lab %s: it is not up after %v: see %s", name, startPatience, log.Name()), cmd.Process.Kill())
}
