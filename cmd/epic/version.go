package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/epic-inc/epic/golden/group"
	"github.com/epic-inc/epic/golden/spec"
)

func versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and those of the formats",
		Example: "  epic version --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := version()
			if asJSON {
				return printJSON(cmd.OutOrStdout(), v)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "epic %s %s (%s), group.yaml version %d, spec %s\n",
				v.Version, v.Revision, v.Go, v.GroupVersion, v.SpecHash)
			return err
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

type versionInfo struct {
	Version      string `json:"version"`
	Revision     string `json:"revision"` // of the source, "+" after it if that was changed
	Go           string `json:"go"`
	GroupVersion int    `json:"group_version"`
	SpecHash     string `json:"spec_hash"`
}

func version() versionInfo {
	v := versionInfo{Version: "devel", Revision: "unknown", GroupVersion: group.Version, SpecHash: fmt.Sprintf("%#08x", spec.SpecHash)}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Go = info.GoVersion
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	changed := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				changed = "+"
			}
		}
	}
	v.Revision += changed
	return v
}

func jsonFlag(c *cobra.Command, asJSON *bool) {
	c.Flags().BoolVar(asJSON, "json", false, "print JSON instead of text")
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
