package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/epic-inc/epic/cosim/run"
	"github.com/epic-inc/epic/driver/doctor"
	"github.com/epic-inc/epic/driver/lab"
	"github.com/epic-inc/epic/driver/softswitch"
	"github.com/epic-inc/epic/golden/group"
)

func switchCommand() *cobra.Command {
	var o softswitch.Service
	var files, ports []string
	c := &cobra.Command{
		Use:   "switch --group FILE --port 0=INTERFACE...",
		Short: "Run the golden engine as a switch on this machine's interfaces",
		Long: `Switch runs a switch of the groups of --group in software, or one without groups that a control plane
programs (--listen). Frames to its addresses are the engine's, or ARP, neighbour discovery and echo requests,
which it answers; others pass between its ports. On a terminal it shows its counters; elsewhere it writes a
line in 10 seconds if something moved. Interfaces need CAP_NET_RAW, ports over UDP nothing.`,
		Example: `  epic switch --group group.yaml --port 0=veth0 --port 1=veth1 --metrics 127.0.0.1:9464
  epic switch --name root --listen 127.0.0.1:7701 --port 0=eth1 --port 1=udp:127.0.0.1:9000,127.0.0.1:9001`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, file := range files {
				g, err := group.Load(file)
				if err != nil {
					return err
				}
				o.Groups = append(o.Groups, g)
			}
			if len(ports) == 0 {
				return errors.New("--port: got none, want one at least: " + softswitch.PortForms)
			}
			for _, s := range ports {
				p, err := softswitch.ParsePort(s)
				if err != nil {
					return fmt.Errorf("--%w", err)
				}
				o.Ports = append(o.Ports, p)
			}
			return o.Run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringArrayVar(&files, "group", nil, "group.yaml; more of them share the switch")
	f.StringVar(&o.Name, "name", "", "name of the switch in the groups, if they have several or there is none")
	f.StringArrayVar(&ports, "port", nil, "a port and what it is connected to: "+softswitch.PortForms)
	f.IntVar(&o.MTU, "mtu", 9000, "MTU of ports over UDP")
	f.StringVar(&o.Metrics, "metrics", "", "HOST:PORT or unix:PATH for Prometheus (/metrics) and for epic doctor (/state)")
	f.StringVar(&o.Listen, "listen", "", "address at which a control plane programs the switch")
	return c
}

func doctorCommand() *cobra.Command {
	var o doctor.Options
	var files []string
	var name, folder, device, namespace string
	var rank int
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say why nothing flows: links, addresses, MTU, QPN, PSN, ICRC, who waits for whom",
		Long: `Doctor looks at the interfaces of ranks and asks their switches over them (ARP, echo requests short and as long
as a RoCE packet), and reads from the switches what they have counted and what their pipes wait for. Causes come
first, each with what to look at. Without --group it examines the lab that is up. Its exit status is 1 if
something was found.`,
		Example: `  epic doctor
  epic doctor --group group.yaml --rank 2 --device eth1 --switch http://10.0.0.1:9464`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			var report *doctor.Report
			if len(files) == 0 {
				st, err := lab.Find(folder, name)
				if err != nil {
					return fmt.Errorf("%w; or say what to examine with --group", err)
				}
				if report, err = doctor.Lab(cmd.Context(), st); err != nil {
					return err
				}
			} else {
				for _, file := range files {
					g, err := group.Load(file)
					if err != nil {
						return err
					}
					o.Groups = append(o.Groups, g)
				}
				if device != "" {
					if n := len(o.Groups[0].Ranks); rank < 0 || rank >= n {
						return fmt.Errorf("--rank: got %d, want 0..%d", rank, n-1)
					}
					o.Hosts = []doctor.Place{{Rank: rank, Namespace: namespace, Interface: device}}
				}
				if len(o.Hosts)+len(o.Switches) == 0 {
					return errors.New("--group: got neither --device nor --switch, want where to look")
				}
				if report, err = doctor.Examine(cmd.Context(), o); err != nil {
					return err
				}
			}
			if len(report.Findings) > 0 {
				err = fmt.Errorf("%w: the doctor has %d findings", run.ErrDifference, len(report.Findings))
			}
			return errors.Join(print(cmd, report, asJSON), err)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringArrayVar(&files, "group", nil, "group.yaml; more of them for several groups")
	f.IntVar(&rank, "rank", 0, "rank of the first group at --device")
	f.StringVar(&device, "device", "", "interface of the rank on this machine")
	f.StringVar(&namespace, "netns", "", "network namespace of the interface")
	f.StringArrayVar(&o.Switches, "switch", nil, "address of a switch, that of its --metrics: http://HOST:PORT or unix:PATH")
	labName(c, &name, &folder)
	jsonFlag(c, &asJSON)
	return c
}
