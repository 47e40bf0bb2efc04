// Package namespace enters network namespaces of Linux.
package namespace

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/vishvananda/netns"
)

// Inside calls f on a thread that is in a network namespace meanwhile: one of `ip netns` by its name, or a path as
// /proc/1234/ns/net. With an empty name it is that of the process, and f may go where it likes. To enter needs the capability
// CAP_SYS_ADMIN.
func Inside(name string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		// If the way back fails the thread is not unlocked: it ends with the goroutine, and no other gets into the namespace.
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			done <- fmt.Errorf("own namespace: %w", err)
			return
		}
		defer home.Close()
		err = enter(name, f)
		if back := netns.Set(home); back == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// Explain adds to an error that is one of permission what a raw socket in a namespace needs; nil stays nil.
func Explain(err error) error {
	if !errors.Is(err, os.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w: it needs the capability CAP_NET_RAW (root, or setcap cap_net_raw+ep on the program), and CAP_SYS_ADMIN to enter a namespace", err)
}

func enter(name string, f func() error) error {
	if name == "" {
		return f()
	}
	find := netns.GetFromName
	if strings.Contains(name, "/") {
		find = netns.GetFromPath
	}
	ns, err := find(name)
	if err != nil {
		return fmt.Errorf("namespace %q: got none of that name or path (%w); want one of `ip netns`, or a path as /proc/1234/ns/net", name, err)
	}
	defer ns.Close()
	if err := netns.Set(ns); err != nil {
		return fmt.Errorf("namespace %q: %w", name, err)
	}
	return f()
}
