package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// Field is one protobuf field of a message, with what decides how JSON prints it.
type Field struct {
	Number int
	// Name in JSON; "" for an embedded struct.
	Name string
	// Shape is Single, List, Map or Embedded.
	Shape string
	// Kind of the value, or of the elements.
	Kind string
	// Message of a value of a message kind.
	Message string `json:",omitempty"`
	// Keep: a zero on the wire is printed.
	Keep bool `json:",omitempty"`
	// Always: printed even if it is absent from the wire.
	Always bool `json:",omitempty"`
	// Null: printed as null, not as zero, if it is absent from the wire.
	Null bool `json:",omitempty"`
	// OmitZero: a zero time is left out.
	OmitZero bool `json:",omitempty"`
	// Pointer: absent and zero differ on the wire.
	Pointer bool `json:",omitempty"`
	// Later: the message is older than the field.
	Later bool `json:",omitempty"`
	// Key is the field that identifies an element of the list.
	Key string `json:",omitempty"`
}

// Dump is what one version of the Go modules says.
type Dump struct {
	Messages map[string][]Field
	// Kinds by group version and kind: the name of the message.
	Kinds map[string]map[string]string
}

var special = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                                             "Time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                                        "MicroTime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":                                         "Duration",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                                         "FieldsV1",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                                         "Quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                                       "IntOrString",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                                          "RawExtension",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                         "Json",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "SchemaOrBool",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "SchemaOrArray",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "SchemaOrStrings",
}

type dumper struct{ dump Dump }

func path(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

// name of the message of a type: core_v1_Pod.
func name(t reflect.Type) string {
	parts := strings.Split(t.PkgPath(), "/")
	return fmt.Sprintf("%s_%s_%s", parts[len(parts)-2], parts[len(parts)-1], t.Name())
}

func implements(t reflect.Type, method string) bool {
	_, found := reflect.PointerTo(t).MethodByName(method)
	return found
}

// value returns the kind of a single value and its message.
func (d *dumper) value(t reflect.Type) (string, string) {
	if kind, ok := special[path(t)]; ok {
		if strings.HasPrefix(kind, "Schema") {
			return kind, d.wrapper(t)
		}
		return kind, ""
	}
	switch t.Kind() {
	case reflect.String:
		return "String", ""
	case reflect.Bool:
		return "Bool", ""
	case reflect.Int32:
		return "Int32", ""
	case reflect.Int64, reflect.Int:
		return "Int64", ""
	case reflect.Float64:
		return "Double", ""
	case reflect.Struct:
		if implements(t, "MarshalJSON") {
			panic("JSON of its own: " + path(t))
		}
		d.message(t)
		return "Message", name(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "Bytes", ""
		}
		// A named list of strings is a message with one repeated field.
		if t.Name() != "" && t.Elem().Kind() == reflect.String && implements(t, "Unmarshal") {
			return "Strings", ""
		}
	}
	panic("no kind for " + t.String())
}

// wrapper records a type whose JSON is one of its fields.
func (d *dumper) wrapper(t reflect.Type) string {
	d.fields(t)
	return name(t)
}

func (d *dumper) message(t reflect.Type) {
	d.fields(t)
}

func (d *dumper) fields(t reflect.Type) {
	if _, seen := d.dump.Messages[name(t)]; seen {
		return
	}
	d.dump.Messages[name(t)] = nil
	var fields []Field
	for i := 0; i < t.NumField(); i++ {
		if f := t.Field(i); f.PkgPath == "" {
			if field, ok := d.field(t, f); ok {
				fields = append(fields, field)
			}
		}
	}
	sort.Slice(fields, func(a, b int) bool { return fields[a].Number < fields[b].Number })
	d.dump.Messages[name(t)] = fields
}

func (d *dumper) field(owner reflect.Type, f reflect.StructField) (Field, bool) {
	words := strings.Split(f.Tag.Get("json"), ",")
	tag := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(tag) < 2 {
		if f.Name != "TypeMeta" && !(f.Name == "Object" && path(owner) == "k8s.io/apimachinery/pkg/runtime.RawExtension") {
			panic("no protobuf tag: " + path(owner) + "." + f.Name)
		}
		return Field{}, false
	}
	number, err := strconv.Atoi(tag[1])
	must(err)
	if number >= 64 {
		panic("field number above 63: " + path(owner) + "." + f.Name)
	}
	field := Field{Number: number, Name: words[0], Shape: "Single"}
	omitEmpty, omitZero := false, false
	for _, word := range words[1:] {
		omitEmpty = omitEmpty || word == "omitempty"
		omitZero = omitZero || word == "omitzero"
	}
	if strings.HasPrefix(special[path(owner)], "Schema") {
		// Not seen in JSON: any name will do.
		field.Name, omitEmpty = f.Name, true
	}
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t, field.Pointer = t.Elem(), true
	}
	if f.Anonymous && words[0] == "" {
		if field.Pointer {
			panic("embedded pointer: " + path(owner) + "." + f.Name)
		}
		field.Shape, field.Kind, field.Always = "Embedded", "Message", true
		_, field.Message = d.value(t)
		return field, true
	}
	if field.Name == "" || field.Name == "-" {
		panic("no JSON name: " + path(owner) + "." + f.Name)
	}
	_, isSpecial := special[path(t)]
	named := t.Kind() == reflect.Slice && t.Name() != "" && t.Elem().Kind() == reflect.String && implements(t, "Unmarshal")
	switch {
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && !named:
		if t.Elem().Kind() == reflect.Pointer {
			panic("list of pointers: " + path(owner) + "." + f.Name)
		}
		field.Shape, field.Null, field.Always = "List", true, !omitEmpty
		field.Kind, field.Message = d.value(t.Elem())
		if field.Kind == "Message" {
			field.Key = key(t.Elem(), f.Tag.Get("patchMergeKey"))
		}
	case t.Kind() == reflect.Map:
		if t.Key().Kind() != reflect.String {
			panic("map of other keys: " + path(owner) + "." + f.Name)
		}
		field.Shape, field.Null, field.Always = "Map", true, !omitEmpty
		if named := t.Elem(); named.Kind() == reflect.Slice && named.Elem().Kind() != reflect.Uint8 && !implements(named, "Unmarshal") {
			panic("map of lists: " + path(owner) + "." + f.Name)
		}
		field.Kind, field.Message = d.value(t.Elem())
	default:
		field.Kind, field.Message = d.value(t)
		switch {
		case field.Pointer:
			field.Keep, field.Null, field.Always = true, true, !omitEmpty
		case t.Kind() == reflect.Struct || isSpecial:
			field.Keep, field.Always, field.OmitZero = true, !omitZero, omitZero
			if omitZero && field.Kind != "Time" {
				panic("omitzero of another type than Time: " + path(owner) + "." + f.Name)
			}
		default:
			field.Keep, field.Always = !omitEmpty, !omitEmpty
			field.Null = t.Kind() == reflect.Slice
		}
	}
	return field, true
}

// key is the field that tells the elements of a list apart: the merge key, or the first of a few usual names.
func key(element reflect.Type, merge string) string {
	for _, wanted := range []string{merge, "name", "type", "key"} {
		for i := 0; i < element.NumField() && wanted != ""; i++ {
			f := element.Field(i)
			kind := f.Type.Kind()
			if strings.Split(f.Tag.Get("json"), ",")[0] == wanted && (kind == reflect.String || wanted == merge && kind == reflect.Int32) {
				return wanted
			}
		}
	}
	return ""
}

// dump prints what the Go types of the current module version say.
func dump() {
	scheme := newScheme()
	d := dumper{Dump{map[string][]Field{}, map[string]map[string]string{}}}
	types := scheme.AllKnownTypes()
	for _, gvk := range kindsOf(scheme) {
		t := types[gvk]
		if t.PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1" && isMetaKind(gvk.Kind) && gvk.GroupVersion().String() != "v1" {
			continue
		}
		if _, ok := reflect.PointerTo(t).MethodByName("Unmarshal"); !ok {
			fmt.Fprintln(os.Stderr, "no protobuf:", gvk)
			continue
		}
		d.message(t)
		version := gvk.GroupVersion().String()
		if d.dump.Kinds[version] == nil {
			d.dump.Kinds[version] = map[string]string{}
		}
		d.dump.Kinds[version][gvk.Kind] = name(t)
	}
	must(json.NewEncoder(os.Stdout).Encode(d.dump))
}
