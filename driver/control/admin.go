package control

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/epic-inc/epic/driver/control/controlpb"
	"github.com/epic-inc/epic/driver/control/failure"
)

// Admin is an operator's side of a control plane.
type Admin struct {
	addr   string
	conn   *grpc.ClientConn
	client controlpb.ControlClient
}

// DialAdmin makes an Admin of the control plane at addr, host:port.
func DialAdmin(addr string) (*Admin, error) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("control plane at %s: %w", addr, err)
	}
	return &Admin{addr, conn, controlpb.NewControlClient(conn)}, nil
}

// Close ends the connection.
func (a *Admin) Close() error { return a.conn.Close() }

func (a *Admin) plain(err error) error {
	if fail, ok := failure.FromStatus(err); ok {
		return fail
	}
	if st := status.Convert(err); st.Code() == codes.Unavailable || st.Code() == codes.DeadlineExceeded {
		return fmt.Errorf("control plane at %s: %w: %s", a.addr, failure.ErrLost, st.Message())
	} else if st.Code() == codes.Canceled {
		return context.Canceled
	}
	return fmt.Errorf("control plane at %s: %s", a.addr, status.Convert(err).Message())
}

// Status of a job, or of all if the name is empty.
func (a *Admin) Status(ctx context.Context, job string) (*controlpb.StatusReply, error) {
	r, err := a.client.Status(ctx, &controlpb.StatusRequest{Job: job})
	if err != nil {
		return nil, a.plain(err)
	}
	return r, nil
}

// Destroy ends a job for all its ranks. done says that it is out of the switches already.
func (a *Admin) Destroy(ctx context.Context, job string) (done bool, err error) {
	if job == "" {
		return false, badRequest("job: got no name, want that of a job")
	}
	r, err := a.client.Destroy(ctx, &controlpb.DestroyRequest{Job: job})
	if err != nil {
		return false, a.plain(err)
	}
	return r.Done, nil
}

// WriteJSON writes a status for programs.
func WriteJSON(w io.Writer, r *controlpb.StatusReply) error {
	text, err := protojson.MarshalOptions{Multiline: true, EmitUnpopulated: true, UseProtoNames: true}.Marshal(r)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// WriteText writes a status for readers.
func WriteText(w io.Writer, r *controlpb.StatusReply) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "switch\tendpoints\tpipes\tblocks\t")
	for _, s := range r.Switches {
		if s.Error != "" {
			fmt.Fprintf(t, "%s\tdoes not answer: %s\n", s.Name, s.Error)
			continue
		}
		use := func(u *controlpb.Use) string { return fmt.Sprintf("%d of %d", u.GetUsed(), u.GetTotal()) }
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t\n", s.Name, use(s.Endpoints), use(s.Pipes), use(s.Blocks))
	}
	_ = t.Flush() // to memory
	for _, j := range r.Jobs {
		fmt.Fprintf(&b, "\njob %s", j.Name)
		if j.Id != "" {
			fmt.Fprintf(&b, " (%s)", j.Id)
		}
		fmt.Fprintf(&b, ": %s, %d of %d ranks", j.State, len(j.Members), j.Ranks)
		if j.Mtu != 0 {
			fmt.Fprintf(&b, ", mode %d, MTU %d", j.Mode, j.Mtu)
		}
		b.WriteString("\n")
		if j.Error != "" {
			fmt.Fprintf(&b, "  %s\n", j.Error)
		}
		if j.State == string(jobEnded) {
			continue
		}
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, m := range j.Members {
			lease := ""
			switch {
			case m.Left:
				lease = "has left"
			case j.State == string(jobRunning):
				lease = fmt.Sprintf("lease %.1f s", float64(m.LeaseMs)/1000)
			}
			at := cmp.Or(m.Switch, "nowhere known")
			if m.Switch != "" {
				at = fmt.Sprintf("%s port %d", m.Switch, m.Port)
			}
			fmt.Fprintf(t, "  rank %d\t%s\t%s\t%s\t%s\n", m.Rank, m.Ip, m.Mac, at, lease)
		}
		for _, s := range j.Subgroups {
			fmt.Fprintf(t, "  %s\t%s\tfirst psn 0x%06x\t%s\t%s\n", s.Collective, s.State, s.Psn0, s.Id, s.Error)
		}
		_ = t.Flush()
	}
	_, err := io.WriteString(w, b.String())
	return err
}
