package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
)

// table merges the dumps, oldest version first, and prints them as Rust.
func table(files []string) {
	all := Dump{map[string][]Field{}, map[string]map[string]string{}}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(err)
		var dump Dump
		must(json.Unmarshal(data, &dump))
		for name, fields := range dump.Messages {
			all.Messages[name] = merge(name, all.Messages[name], fields)
		}
		for version, kinds := range dump.Kinds {
			if all.Kinds[version] == nil {
				all.Kinds[version] = map[string]string{}
			}
			for kind, message := range kinds {
				all.Kinds[version][kind] = message
			}
		}
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprintln(out, "// Generated from the Go types of Kubernetes by .ci/protobuf-table: do not edit.")
	fmt.Fprintln(out, "use super::{KEEP, Kind::*, L, MANAGED, Message, NO_FIELD as A, OMIT_ZERO, OPTIONAL, P, REQUIRED, REQUIRED_BYTES, REQUIRED_LIST, REQUIRED_POINTER, Shape, embedded, field, key, list, list_of, map, map_of, message, of, scalar};")
	fmt.Fprintln(out)
	for _, name := range sorted(all.Messages) {
		fmt.Fprintf(out, "pub(super) static %s: Message = message(\"%s\", &[", name, readable(name))
		next := 0
		for _, f := range all.Messages[name] {
			for ; next < f.Number; next++ {
				fmt.Fprint(out, "A, ")
			}
			next = f.Number + 1
			fmt.Fprint(out, rust(all, name, f), ", ")
		}
		fmt.Fprintln(out, "]);")
	}
	fmt.Fprintln(out, "\npub(super) static KINDS: &[(&str, &[(&str, &Message)])] = &[")
	for _, version := range sorted(all.Kinds) {
		fmt.Fprintf(out, "    (\"%s\", &[", version)
		for i, kind := range sorted(all.Kinds[version]) {
			if i > 0 {
				fmt.Fprint(out, ", ")
			}
			fmt.Fprintf(out, "(\"%s\", &%s)", kind, all.Kinds[version][kind])
		}
		fmt.Fprintln(out, "]),")
	}
	fmt.Fprintln(out, "];")
}

// merge adds the fields of a newer version. Numbers never change their meaning; how JSON prints a field may change,
// and then the newest version decides.
func merge(name string, old, new []Field) []Field {
	byNumber := map[int]Field{}
	later := map[int]bool{}
	for _, f := range old {
		later[f.Number] = f.Later
		// A field that the newest version does not have is printed only if it is on the wire.
		f.Always = f.Always && f.Shape == "Embedded"
		byNumber[f.Number] = f
	}
	for _, f := range new {
		if was, ok := byNumber[f.Number]; ok {
			if was.Name != f.Name || was.Shape != f.Shape || was.Kind != f.Kind || was.Message != f.Message {
				panic(fmt.Sprintf("%s: field %d was %+v and is %+v", name, f.Number, was, f))
			}
			if was.Always, was.Later = f.Always, f.Later; was != f {
				fmt.Fprintf(os.Stderr, "%s.%s: was %+v, is %+v\n", name, f.Name, was, f)
			}
		}
		_, known := byNumber[f.Number]
		if f.Later = later[f.Number] || !known && len(old) > 0; f.Later && !f.Null && f.Shape != "Embedded" {
			// A server that knows the field writes it. If it is absent, the server is older, and its JSON has none.
			f.Always = false
		}
		byNumber[f.Number] = f
	}
	var fields []Field
	names := map[string]bool{}
	for _, f := range byNumber {
		if f.Name != "" && names[f.Name] {
			panic(name + ": two fields are called " + f.Name)
		}
		names[f.Name] = true
		fields = append(fields, f)
	}
	sort.Slice(fields, func(a, b int) bool { return fields[a].Number < fields[b].Number })
	return fields
}

// names of the combinations of keep, always, null and pointer.
var names = map[[4]bool]string{
	{false, false, false, false}: "OPTIONAL",
	{true, true, false, false}:   "REQUIRED",
	{true, false, true, true}:    "P",
	{true, true, true, true}:     "REQUIRED_POINTER",
	{true, true, true, false}:    "REQUIRED_BYTES",
	{false, false, true, false}:  "L",
	{false, true, true, false}:   "REQUIRED_LIST",
	{false, true, false, false}:  "REQUIRED",
	{true, false, false, false}:  "KEEP",
	{true, false, true, false}:   "KEEP | L",
}

// rust prints a field as a call of one of the constructors of the schema module.
func rust(all Dump, owner string, f Field) string {
	bits, ok := names[[4]bool{f.Keep, f.Always, f.Null, f.Pointer}]
	switch {
	case f.OmitZero:
		bits = "KEEP | OMIT_ZERO"
	case !ok:
		panic(fmt.Sprintf("%s: no name for the flags of %+v", owner, f))
	case owner == "meta_v1_ObjectMeta" && f.Name == "managedFields":
		bits += " | MANAGED"
	}
	for _, element := range all.Messages[f.Message] {
		if f.Key != "" && element.Name == f.Key {
			bits += fmt.Sprintf(" | key(%d)", element.Number)
		}
	}
	if f.Message != "" && f.Kind != "Message" {
		return fmt.Sprintf("field(%q, %s, %s, &%s, %s)", f.Name, "Shape::"+f.Shape, f.Kind, f.Message, bits)
	}
	switch {
	case f.Shape == "Embedded":
		return fmt.Sprintf("embedded(&%s)", f.Message)
	case f.Message != "":
		return fmt.Sprintf("%s(%q, &%s, %s)", map[string]string{"Single": "of", "List": "list_of", "Map": "map_of"}[f.Shape], f.Name, f.Message, bits)
	default:
		return fmt.Sprintf("%s(%q, %s, %s)", map[string]string{"Single": "scalar", "List": "list", "Map": "map"}[f.Shape], f.Name, f.Kind, bits)
	}
}

// readable turns core_v1_Pod into core.v1.Pod.
func readable(name string) string { return strings.Replace(name, "_", ".", 2) }

func sorted[T any](m map[string]T) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
