package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/epic-inc/epic/driver/softswitch"
	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/psn"
)

// Again creates the lab's groups again on the same queue pairs: whatever earlier ranks left under way does not count
// any more, and their PSNs begin psn.Leap further on. The files of the groups are written anew.
func (l *Lab) Again() error {
	var groups []*group.Group
	for i, g := range l.o.Set.Groups {
		old, err := l.firstPSNs(i)
		if err != nil {
			return err
		}
		for k := range old {
			old[k] = psn.Add(old[k], psn.Leap)
		}
		moved, err := g.Moved(old)
		if err != nil {
			return err
		}
		groups = append(groups, moved)
	}
	set, err := group.NewSet(groups...)
	if err != nil {
		return err
	}
	if err := l.Regroup(set, l.Seed); err != nil {
		return err
	}
	return l.writeGroups()
}

// firstPSNs of the subgroups of a group.
func (l *Lab) firstPSNs(i int) ([]psn.PSN, error) {
	g := l.o.Set.Groups[i]
	var list []psn.PSN
	for k := range g.SubgroupList() {
		c, err := g.HostConfig(0, k)
		if err != nil {
			return nil, err
		}
		list = append(list, c.SendPSN)
	}
	return list, nil
}

// writeGroups writes the files of the groups.
func (l *Lab) writeGroups() error {
	for i, g := range l.o.Set.Groups {
		text, err := g.Marshal()
		if err != nil {
			return err
		}
		file := l.groupFile(i)
		if err := errors.Join(os.WriteFile(file, text, 0o644), os.RemoveAll(usedMark(file))); err != nil {
			return err
		}
	}
	return nil
}

// usedMark is a file beside a group's that says that its first PSNs are used up.
func usedMark(groupFile string) string { return groupFile + ".used" }

// Claim says that ranks of a group of a lab with switches apart run now: once for each time that the groups are created.
// The switch would take the next ones for those before: a duplicate is not added again, and in Mode-II it is answered
// with the old result.
func (st *State) Claim(group int) error {
	f, err := os.OpenFile(usedMark(st.Groups[group]), os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("lab %s: ranks have run since %s was written, and the switches remember their PSNs; create the group again (epic lab again --name %s) and start the switches anew",
			st.Name, st.Groups[group], st.Name)
	}
	if err != nil {
		return fmt.Errorf("lab %s: %w", st.Name, err)
	}
	return f.Close()
}

// handler serves what the switches do, and POST /again.
func (l *Lab) handler() (http.Handler, error) {
	switches, err := softswitch.Handler(l.switches...)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", switches)
	mux.HandleFunc("POST /again", func(w http.ResponseWriter, _ *http.Request) {
		l.again.Lock()
		defer l.again.Unlock()
		if err := l.Again(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return mux, nil
}

// Again asks the process of a lab to create its groups again.
func (st *State) Again(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", st.Socket)
	}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://lab/again", nil)
	if err != nil {
		return fmt.Errorf("lab %s: %w", st.Name, err)
	}
	reply, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("lab %s: %w", st.Name, err)
	}
	const most = 4096
	text, err := io.ReadAll(io.LimitReader(reply.Body, most))
	err = errors.Join(err, reply.Body.Close())
	if reply.StatusCode != http.StatusOK {
		err = errors.Join(fmt.Errorf("create the groups again: %s", strings.TrimSpace(string(text))), err)
	}
	if err != nil {
		return fmt.Errorf("lab %s: %w", st.Name, err)
	}
	return nil
}
