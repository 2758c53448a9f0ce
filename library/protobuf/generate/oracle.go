package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

var words = []string{"a", "web", "Ready", "app.kubernetes.io/name", "x-1", "10.0.0.1", "node-0001", "\"q\"\\", "ü€😀"}

// Invalid UTF-8, among it an unpaired surrogate.
var broken = []string{"\xff", "a\xed\xa0\x80b", "\xe2\x82", "\xf0\x9f\x98"}

var quantities = []string{"0", "100m", "1", "1500m", "128Mi", "3Gi", "12e6", "1k", "-5", "0.5n", "7Ei", "1.5", "1024", "2000", "-1500m", "123456789012345678901"}

func pick[T any](c randfill.Continue, from []T) T { return from[c.Intn(len(from))] }

// funcs fill the types whose JSON has rules of its own. With small, strings are short and compress well.
func funcs(small bool) fuzzer.FuzzerFuncs {
	return func(serializer.CodecFactory) []interface{} {
		return []interface{}{
			func(q *resource.Quantity, c randfill.Continue) { *q = resource.MustParse(pick(c, quantities)) },
			func(q *intstr.IntOrString, c randfill.Continue) {
				*q = pick(c, []intstr.IntOrString{intstr.FromString("50%"), intstr.FromInt32(0), intstr.FromString(""), intstr.FromInt32(-7), intstr.FromInt32(8080)})
			},
			func(f *metav1.FieldsV1, c randfill.Continue) {
				f.Raw = []byte(pick(c, []string{`{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:x":{"k:{\"ip\":\"1\"}":{}}}`, `{}`, ""}))
			},
			func(r *runtime.RawExtension, c randfill.Continue) {
				r.Object = nil
				r.Raw = []byte(pick(c, []string{`{"b":[1,-2.5,"x",null,true],"a":{"z":{}}}`, `null`, `"text"`, `[]`, `12`}))
				if c.Intn(5) == 0 {
					r.Raw = nil
				}
				if c.Intn(8) == 0 {
					r.Raw = []byte("\xd9\xd9\xf7\xa2\x41a\x83\x01\x20\xfb\x3f\xf8\x00\x00\x00\x00\x00\x00\x63kex\xd6\x43abc")
				}
			},
			func(j *apiextensionsv1.JSON, c randfill.Continue) {
				j.Raw = []byte(pick(c, []string{`{"a":1}`, `null`, `"x"`, `[1,2]`, `0`, `false`, ``}))
			},
			func(s *apiextensionsv1.JSONSchemaPropsOrBool, c randfill.Continue) {
				s.Allows = c.Bool()
				s.Schema = nil
				if c.Bool() {
					s.Schema = &apiextensionsv1.JSONSchemaProps{}
					c.Fill(s.Schema)
				}
			},
			func(d *metav1.Duration, c randfill.Continue) { d.Duration = 0; c.Fill(&d.Duration) },
			func(f *float64, c randfill.Continue) {
				*f = pick(c, []float64{0, 1, -1, 1.5, 1e20, 1 << 60, -(1 << 60), 1e-7, 9.3e18, 18446744073709549568, 123456789.125, 1e300})
			},
			func(j *int32, c randfill.Continue) { *j = pick(c, []int32{0, 1, -1, 420, c.Int31(), -c.Int31()}) },
			func(j *int64, c randfill.Continue) { *j = pick(c, []int64{0, 1, -1, 300, c.Int63(), -c.Int63()}) },
			func(s *string, c randfill.Continue) {
				switch {
				case c.Intn(5) == 0:
					*s = ""
				case c.Intn(60) == 0:
					*s = pick(c, broken)
				case small:
					*s = pick(c, words)
				default:
					*s = c.String(0)
				}
			},
		}
	}
}

// oracle writes objects of every kind in both encodings. A record is a protobuf body and its JSON, each after its
// length as four bytes, the lowest first. The JSON is what Go prints after reading the protobuf.
func oracle(args []string) {
	flags := flag.NewFlagSet("oracle", flag.ExitOnError)
	rounds := flags.Int("rounds", 200, "objects of each kind")
	small := flags.Bool("small", false, "short strings, few elements")
	out := flags.String("out", "oracle.bin.gz", "file to write")
	must(flags.Parse(args))
	scheme := newScheme()
	codecs := serializer.NewCodecFactory(scheme)
	serial := protobuf.NewSerializer(scheme, scheme)
	file, err := os.Create(*out)
	must(err)
	zipped, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if !*small {
		zipped, err = gzip.NewWriterLevel(file, gzip.BestSpeed)
	}
	must(err)
	w := bufio.NewWriterSize(zipped, 1<<20)
	put := func(b []byte) {
		must(binary.Write(w, binary.LittleEndian, uint32(len(b))))
		w.Write(b)
	}
	kinds, objects, mutants := 0, 0, 0
	for _, gvk := range kindsOf(scheme) {
		if isMetaKind(gvk.Kind) && gvk.GroupVersion().String() != "v1" {
			continue
		}
		if _, ok := reflect.PointerTo(scheme.AllKnownTypes()[gvk]).MethodByName("Unmarshal"); !ok || gvk.Kind == "WatchEvent" {
			continue
		}
		kinds++
		for round := 0; round < *rounds; round++ {
			hash := fnv.New64()
			fmt.Fprint(hash, gvk.String(), round)
			r := rand.New(rand.NewSource(int64(hash.Sum64())))
			fill := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, funcs(*small)), r, codecs)
			switch round % 4 {
			case 1:
				fill = fill.NilChance(.1).NumElements(1, 1)
			case 2:
				fill = fill.NilChance(.9).NumElements(0, 1)
			default:
				fill = fill.NilChance(.5).NumElements(0, 2)
			}
			fill = fill.MaxDepth(map[bool]int{true: 9, false: 12}[*small])
			// Schemas contain themselves in a dozen fields.
			if strings.HasPrefix(gvk.Kind, "CustomResourceDefinition") || gvk.Kind == "ConversionReview" {
				fill = fill.NilChance(.85).NumElements(0, 1).MaxDepth(10)
			}
			obj, err := scheme.New(gvk)
			must(err)
			if round > 0 {
				fill.Fill(obj)
			}
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			var b bytes.Buffer
			must(serial.Encode(obj, &b))
			text, err := toJSON(serial, b.Bytes())
			if err != nil {
				panic(fmt.Sprint(gvk, ": ", err))
			}
			put(b.Bytes())
			put(text)
			objects++
			// Their status was added later: if it is missing, the table follows older servers.
			added := strings.HasPrefix(gvk.Kind, "CSINode") || strings.HasPrefix(gvk.Kind, "DeviceTaintRule")
			for n := 0; !*small && !added && n < 2; n++ {
				mutant := mutate(b.Bytes(), r)
				if text, err := toJSON(serial, mutant); err == nil {
					put(mutant)
					put(text)
					mutants++
				}
			}
		}
	}
	must(w.Flush())
	must(zipped.Close())
	must(file.Close())
	fmt.Println(kinds, "kinds,", objects, "objects,", mutants, "with fields reordered, missing, repeated or unknown")
}

func toJSON(decoder runtime.Decoder, body []byte) ([]byte, error) {
	obj, gvk, err := decoder.Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(*gvk)
	return json.Marshal(obj)
}

type wireField struct {
	number int
	raw    []byte
	body   []byte
}

func split(message []byte) []wireField {
	var fields []wireField
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			panic("tag")
		}
		end := n
		var body []byte
		switch tag & 7 {
		case 0:
			_, m := binary.Uvarint(message[n:])
			if m <= 0 {
				panic("varint")
			}
			end += m
		case 1:
			end += 8
		case 2:
			length, m := binary.Uvarint(message[n:])
			body = message[n+m : n+m+int(length)]
			end += m + int(length)
		case 5:
			end += 4
		default:
			panic("wire type")
		}
		fields = append(fields, wireField{int(tag >> 3), message[:end], body})
		message = message[end:]
	}
	return fields
}

func delimited(number int, body []byte) []byte {
	out := binary.AppendUvarint(nil, uint64(number)<<3|2)
	out = binary.AppendUvarint(out, uint64(len(body)))
	return append(out, body...)
}

// mutate changes the encoding: Go decides what it means.
func mutate(body []byte, r *rand.Rand) []byte {
	out := append([]byte{}, body[:4]...)
	for _, f := range split(body[4:]) {
		if f.number == 2 {
			f.raw = delimited(2, mutateMessage(f.body, r, 2))
		}
		out = append(out, f.raw...)
	}
	return out
}

func mutateMessage(message []byte, r *rand.Rand, depth int) []byte {
	fields := split(message)
	var parts [][]byte
	for _, f := range fields {
		if depth > 0 && f.number <= 3 && f.body != nil && len(f.body) > 0 && f.raw[0]&7 == 2 && looksLikeMessage(f.body) {
			f.raw = delimited(f.number, mutateMessage(f.body, r, depth-1))
		}
		switch r.Intn(12) {
		case 0: // missing
		case 1: // twice
			parts = append(parts, f.raw, f.raw)
		case 2: // an unknown field before it
			parts = append(parts, delimited(63, []byte("unknown")), f.raw)
		default:
			parts = append(parts, f.raw)
		}
	}
	if r.Intn(2) == 0 {
		r.Shuffle(len(parts), func(a, b int) { parts[a], parts[b] = parts[b], parts[a] })
	}
	return bytes.Join(parts, nil)
}

func looksLikeMessage(b []byte) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	for _, f := range split(b) {
		if f.number == 0 || f.number > 63 {
			return false
		}
	}
	return true
}

// testdata writes the objects in the test data of the API module: those of the newest version and of those before.
func testdata(out, dir string) {
	file, err := os.Create(out)
	must(err)
	w := gzip.NewWriter(file)
	objects := 0
	files, err := filepath.Glob(dir + "/*/*.pb")
	must(err)
	for _, name := range files {
		// Kinds of webhooks are not served.
		base := filepath.Base(name)
		if strings.Contains(name, ".after_roundtrip.") || strings.HasPrefix(base, "admission.k8s.io.") || strings.HasPrefix(base, "imagepolicy.k8s.io.") {
			continue
		}
		body, err := os.ReadFile(name)
		must(err)
		if bytes.HasPrefix(body, []byte("k8s\x00\x0a\x04\x0a\x00\x12\x00")) {
			fmt.Println("without a type:", base)
			continue
		}
		text, err := os.ReadFile(strings.TrimSuffix(name, ".pb") + ".json")
		must(err)
		for _, b := range [][]byte{body, text} {
			must(binary.Write(w, binary.LittleEndian, uint32(len(b))))
			w.Write(b)
		}
		objects++
	}
	must(w.Close())
	must(file.Close())
	fmt.Println(objects, "objects of the test data")
}

// check reads records on stdin, decodes each body and compares its JSON with the JSON of the record. Where the record's JSON does
// not say which of two values it is (a null is an empty RawExtension or no pointer), the body must be what Go itself reads from
// that JSON.
func check() {
	scheme := newScheme()
	serial := protobuf.NewSerializer(scheme, scheme)
	text := kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, scheme, scheme, kjson.SerializerOptions{})
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	next := func() []byte {
		var length uint32
		if err := binary.Read(in, binary.LittleEndian, &length); err == io.EOF {
			return nil
		} else {
			must(err)
		}
		b := make([]byte, length)
		_, err := io.ReadFull(in, b)
		must(err)
		return b
	}
	n, reread, removed, different := 0, 0, 0, 0
	for body := next(); body != nil; body = next() {
		want := next()
		n++
		got, err := toJSON(serial, body)
		if err == nil && sameJSON(want, got) {
			continue
		}
		// The test data has kinds of older versions, which this one cannot read.
		if runtime.IsNotRegisteredError(err) {
			removed++
			continue
		}
		read, readErr := toJSON(text, want)
		if err == nil && readErr == nil && sameJSON(read, got) {
			reread++
			continue
		}
		different++
		if different < 5 {
			fmt.Println("different:", err, readErr, "\nwant", string(want), "\nread", string(read), "\ngot ", string(got))
		}
	}
	fmt.Println(n-removed, "objects read by Go,", reread, "of them as Go reads their JSON,", different, "different;", removed, "of kinds that were removed")
	if different > 0 || n == removed {
		os.Exit(1)
	}
}

func sameJSON(one, other []byte) bool {
	var a, b any
	must(json.Unmarshal(one, &a))
	must(json.Unmarshal(other, &b))
	return reflect.DeepEqual(a, b)
}

// printQuantities prints texts and what Go prints after reading them; "!" for an error.
func printQuantities() {
	r := rand.New(rand.NewSource(1))
	suffixes := []string{"", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-3", "e7", "e0", "K", "i", "mm", "e"}
	for n := 0; n < 4000; n++ {
		text := []string{"", "", "-", "+"}[r.Intn(4)]
		digits := func(most int) {
			for i := r.Intn(most); i > 0; i-- {
				text += string("0001234567890"[r.Intn(13)])
			}
		}
		digits(16)
		if r.Intn(3) == 0 {
			text += "."
			digits(13)
		}
		text += suffixes[r.Intn(len(suffixes))]
		q, err := resource.ParseQuantity(text)
		out := "!"
		if err == nil {
			b, err := q.MarshalJSON()
			must(err)
			out = strings.Trim(string(b), "\"")
		}
		fmt.Printf("%s %s\n", text, out)
	}
}
