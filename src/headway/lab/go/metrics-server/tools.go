//go:build tools

// Package tools names the programs that the lab builds, so that `go mod tidy` keeps what they need.
package tools

import (
	_ "sigs.k8s.io/metrics-server/cmd/metrics-server"
)
