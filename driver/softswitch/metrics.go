package softswitch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// The metrics of a switch. Labels: switch, port; verdict, of rtl/spec/inc.yaml; id, pipe and endpoint as installed.
var (
	rxFrames   = describe("port_rx_frames_total", "Frames that came in.", "port")
	rxBytes    = describe("port_rx_bytes_total", "Bytes of frames that came in, without FCS.", "port")
	txFrames   = describe("port_tx_frames_total", "Frames that left.", "port")
	txBytes    = describe("port_tx_bytes_total", "Bytes of frames that left, without FCS.", "port")
	dropped    = describe("port_tx_dropped_total", "Frames for which the port had no room, or that its link did not take.", "port")
	bridged    = describe("port_bridged_total", "Frames that came in for another port.", "port")
	answered   = describe("port_answered_total", "ARP requests, neighbour solicitations and echo requests that were answered.", "port")
	portUp     = describe("port_up", "1 while the port's link is open.", "port")
	verdicts   = describe("frames_total", "Frames to the switch, by what became of them.", "port", "verdict")
	epFrames   = describe("endpoint_frames_total", "Frames at an endpoint, by what became of them.", "id", "endpoint", "verdict")
	pipeFault  = describe("pipe_fault", "1 if the pipe is in error.", "id", "pipe")
	pipeWaits  = describe("pipe_missing", "Ins for which the oldest incomplete psn of the pipe waits.", "id", "pipe")
	pipeUnsure = describe("pipe_unacked", "Outs that have not acknowledged the oldest psn of the pipe's window.", "id", "pipe")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("epic_"+name, help, append([]string{"switch"}, labels...), nil)
}

// collector of all switches of a process: their metrics differ in the label alone.
type collector []*Switch

// Describe is prometheus.Collector's.
func (c collector) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, to) }

// Collect is prometheus.Collector's.
func (c collector) Collect(to chan<- prometheus.Metric) {
	for _, s := range c {
		s.collect(to)
	}
}

func (s *Switch) collect(to chan<- prometheus.Metric) {
	st := s.State()
	send := func(kind prometheus.ValueType, d *prometheus.Desc, v uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, float64(v), append([]string{s.name}, labels...)...)
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	for i, p := range st.Ports {
		port := strconv.Itoa(p.Port)
		for _, c := range []struct {
			d *prometheus.Desc
			v uint64
		}{{rxFrames, p.RxFrames}, {rxBytes, p.RxBytes}, {txFrames, p.TxFrames}, {txBytes, p.TxBytes}, {dropped, p.Dropped}, {bridged, p.Bridged}, {answered, p.Answered}} {
			send(counter, c.d, c.v, port)
		}
		for v, n := range p.Verdicts {
			send(counter, verdicts, n, port, v)
		}
		send(gauge, portUp, bit(s.ports[st.Ports[i].Port].down() == nil), port)
	}
	told := map[[2]string]bool{} // an endpoint may be an in and an out
	for _, p := range st.Pipes {
		send(gauge, pipeFault, bit(p.Fault != ""), p.ID, p.Pipe)
		var w WaitState
		if p.Waits != nil {
			w = *p.Waits
		}
		send(gauge, pipeWaits, uint64(len(w.Missing)), p.ID, p.Pipe)
		send(gauge, pipeUnsure, uint64(len(w.Unacked)), p.ID, p.Pipe)
		for _, list := range [][]EndpointState{p.Ins, p.Outs} {
			for _, ep := range list {
				if told[[2]string{p.ID, ep.Name}] {
					continue
				}
				told[[2]string{p.ID, ep.Name}] = true
				for v, n := range ep.Verdicts {
					send(counter, epFrames, n, p.ID, ep.Name, v)
				}
			}
		}
	}
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// Handler serves /metrics for Prometheus, and /state: the State as JSON, which `epic doctor` reads. With several
// switches it is a list.
func Handler(switches ...*Switch) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector(switches)); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) {
		states := make([]State, 0, len(switches))
		for _, s := range switches {
			states = append(states, s.State())
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(states); err != nil {
			return // the client has gone
		}
	})
	return mux, nil
}

// Serve serves a handler at a listener until ctx ends, and closes it.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	const patience = 5 * time.Second
	server := &http.Server{Handler: h, ReadHeaderTimeout: patience}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics at %v: %w", l.Addr(), err)
	}
	return nil
}
