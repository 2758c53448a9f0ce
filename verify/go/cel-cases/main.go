// Prints the cases of CEL's conformance suite as JSON, one in each line: the expression, its variables and what it must return.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"cel.dev/expr/conformance/test"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	_ "cel.dev/expr/conformance/proto2"
	_ "cel.dev/expr/conformance/proto3"
)

func encode(message proto.Message) json.RawMessage {
	text, err := protojson.Marshal(message)
	if err != nil {
		panic(err)
	}
	return text
}

func main() {
	files, _ := filepath.Glob(filepath.Join(os.Args[1], "tests/simple/testdata/*.textproto"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		suite := &test.SimpleTestFile{}
		if err := prototext.Unmarshal(text, suite); err != nil {
			panic(fmt.Errorf("%s: %w", file, err))
		}
		for _, section := range suite.Section {
			for _, one := range section.Test {
				bindings := map[string]json.RawMessage{}
				for name, value := range one.Bindings {
					bindings[name] = encode(value)
				}
				line := map[string]any{
					"file":      strings.TrimSuffix(filepath.Base(file), ".textproto"),
					"name":      section.Name + "/" + one.Name,
					"expr":      one.Expr,
					"unchecked": one.DisableCheck,
					"bindings":  bindings,
				}
				switch {
				case one.GetValue() != nil:
					line["value"] = encode(one.GetValue())
				case one.GetTypedResult().GetResult() != nil:
					line["value"] = encode(one.GetTypedResult().Result)
				case one.GetEvalError() != nil, one.GetAnyEvalErrors() != nil:
					line["error"] = true
				case one.GetUnknown() != nil, one.GetAnyUnknowns() != nil:
					continue
				default:
					line["value"] = json.RawMessage(`{"boolValue":true}`)
				}
				json.NewEncoder(os.Stdout).Encode(line)
			}
		}
	}
}
