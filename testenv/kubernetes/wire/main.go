// Prints how objects that Quotient reads and writes often are laid out in Kubernetes' binary format: for each message its
// fields, each with the name that it has in JSON, its number and its kind. It is made from the Go types, which say both.
//
//	go run ./wire > ../../crates/cluster/src/wire/layout.txt
//
// A kind is `string`, `int`, `bool`, `bytes`, a message, or one of the types that JSON shows as a string. Before it stand
// `[]` for a list, `map` for a map by strings, `inline` where JSON has the fields of the message instead of the message.
// A `?` behind it says that JSON leaves out what is empty or 0.
package main

import (
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var roots = []any{
	corev1.Pod{}, corev1.Node{}, corev1.Binding{}, corev1.Event{}, metav1.ListMeta{}, metav1.Status{},
}

// Types that are one value in JSON, and messages of their own in the binary format.
var values = map[reflect.Type]string{
	reflect.TypeOf(metav1.Time{}):        "time",
	reflect.TypeOf(metav1.MicroTime{}):   "microtime",
	reflect.TypeOf(resource.Quantity{}):  "quantity",
	reflect.TypeOf(intstr.IntOrString{}): "int-or-string",
	// JSON inside of what is binary: nobody here reads it.
	reflect.TypeOf(metav1.FieldsV1{}):      "raw",
	reflect.TypeOf(runtime.RawExtension{}): "raw",
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "wire: "+format+"\n", arguments...)
	os.Exit(1)
}

func main() {
	messages := map[string]reflect.Type{}
	var visit func(t reflect.Type) string
	visit = func(t reflect.Type) string {
		if name, ok := values[t]; ok {
			return name
		}
		switch t.Kind() {
		case reflect.String:
			return "string"
		case reflect.Bool:
			return "bool"
		case reflect.Int32, reflect.Int64:
			return "int"
		case reflect.Pointer:
			return visit(t.Elem())
		case reflect.Slice:
			if t.Elem().Kind() == reflect.Uint8 {
				return "bytes"
			}
			return "[]" + visit(t.Elem())
		case reflect.Map:
			if t.Key().Kind() != reflect.String {
				fail("%v: expected a map by strings", t)
			}
			return "map " + visit(t.Elem())
		case reflect.Struct:
			if known, ok := messages[t.Name()]; ok && known != t {
				fail("%v and %v have one name", known, t)
			} else if !ok {
				messages[t.Name()] = t
				for _, field := range fields(t) {
					visit(field.Type)
				}
			}
			return t.Name()
		}
		fail("%v: expected a type that objects are made of", t)
		return ""
	}
	for _, root := range roots {
		visit(reflect.TypeOf(root))
	}
	names := make([]string, 0, len(messages))
	for name := range messages {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Println("# Made by testenv/kubernetes/wire from Kubernetes' Go types, which says what this means.")
	for _, name := range names {
		fmt.Println(name)
		for _, field := range fields(messages[name]) {
			fmt.Println("  " + line(field, visit(field.Type)))
		}
	}
}

// The fields of a message: those that have a number.
func fields(t reflect.Type) []reflect.StructField {
	var found []reflect.StructField
	for i := range t.NumField() {
		if tag := t.Field(i).Tag.Get("protobuf"); tag != "" && tag != "-" {
			found = append(found, t.Field(i))
		}
	}
	return found
}

func line(field reflect.StructField, kind string) string {
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	number := strings.Split(field.Tag.Get("protobuf"), ",")[1]
	if name == "" && field.Anonymous {
		return fmt.Sprintf("- %s inline %s", number, kind)
	}
	isLeftOut := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
	if isLeftOut && field.Type.Kind() != reflect.Pointer {
		kind += "?"
	}
	return fmt.Sprintf("%s %s %s", name, number, kind)
}
