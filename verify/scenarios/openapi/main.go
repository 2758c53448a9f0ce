// Writes the OpenAPI v3 schemas of all built-in kinds, which the test server embeds, from the API specification in the
// module of Kubernetes. Run it in verify/scenarios/ after changing the version in go.mod:
//
//	go run ./openapi ../../server/testserver/src/documents/schemas.json.gz
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./openapi FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

func write(target string) error {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return fmt.Errorf("cannot find the module k8s.io/kubernetes (go mod download fetches it): %w", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), "api/openapi-spec/v3/*.json"))
	if err != nil {
		return err
	}
	schemas := map[string]json.RawMessage{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var document struct {
			Components struct {
				Schemas map[string]json.RawMessage `json:"schemas"`
			} `json:"components"`
		}
		if err := json.Unmarshal(text, &document); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for name, schema := range document.Components.Schemas {
			var compact bytes.Buffer
			if err := json.Compact(&compact, schema); err != nil {
				return fmt.Errorf("%s: %s: %w", file, name, err)
			}
			schemas[name] = compact.Bytes()
		}
	}
	if len(schemas) == 0 {
		return fmt.Errorf("no schemas in %d files", len(files))
	}
	// Maps are written in the order of their keys, so the file depends on the version only.
	text, err := json.Marshal(schemas)
	if err != nil {
		return err
	}
	out, err := os.Create(target)
	if err != nil {
		return err
	}
	zip, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := zip.Write(text); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return out.Close()
}
