package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
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
		if err := os.WriteFile(l.groupFile(i), text, 0o644); err != nil {
			return err
		}
	}
	return nil
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
