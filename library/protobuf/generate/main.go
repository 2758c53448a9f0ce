// Command generate makes the schema table of kube-protobuf from the Go types of Kubernetes, and the objects it is
// tested with. Each subcommand but "table" describes the module version it is built with (-modfile).
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: generate dump | table DUMP... | oracle [--rounds N] [--small] [--out FILE] | testdata FILE DIR | check | quantities")
		os.Exit(2)
	}
	switch os.Args[1] {
	case "dump":
		dump()
	case "table":
		table(os.Args[2:])
	case "oracle":
		oracle(os.Args[2:])
	case "testdata":
		testdata(os.Args[2], os.Args[3])
	case "check":
		check()
	case "quantities":
		printQuantities()
	default:
		fmt.Fprintln(os.Stderr, "unknown subcommand")
		os.Exit(2)
	}
}
