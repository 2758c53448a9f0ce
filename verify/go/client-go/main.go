// Runs client-go's shared informer and prints the events its handler receives, one JSON object per line.
//
// It stops when its standard input ends, and then prints the objects in its store, one line per object.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

type line struct {
	Event              string `json:"event"`
	Initial            bool   `json:"initial,omitempty"`
	Cause              string `json:"cause,omitempty"`
	Namespace          string `json:"namespace,omitempty"`
	Name               string `json:"name,omitempty"`
	UID                string `json:"uid,omitempty"`
	ResourceVersion    string `json:"resourceVersion,omitempty"`
	OldResourceVersion string `json:"oldResourceVersion,omitempty"`
}

var (
	output sync.Mutex
	out    = bufio.NewWriter(os.Stdout)
)

func tell(l line) {
	output.Lock()
	defer output.Unlock()
	text, err := json.Marshal(l)
	fail(err)
	out.Write(text)
	out.WriteByte('\n')
	fail(out.Flush())
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func about(event string, object any) line {
	o := object.(*unstructured.Unstructured)
	return line{
		Event:           event,
		Namespace:       o.GetNamespace(),
		Name:            o.GetName(),
		UID:             string(o.GetUID()),
		ResourceVersion: o.GetResourceVersion(),
	}
}

func deleted(object any) line {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		l := about("deleted", tombstone.Obj)
		l.Cause = "missed"
		return l
	}
	l := about("deleted", object)
	l.Cause = "observed"
	return l
}

// lists prints a line for every request of a list. client-go lists again on its own where a watch could have resumed: after an
// error of the connection that it does not know, and after a watch that ended within a second without an event.
type lists struct{ next http.RoundTripper }

func (l lists) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if !query.Has("watch") || query.Get("sendInitialEvents") == "true" {
		tell(line{Event: "listing"})
	}
	return l.next.RoundTrip(request)
}

func configuration(server, kubeconfig string) (*rest.Config, error) {
	if server != "" {
		return &rest.Config{Host: server}, nil
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

func main() {
	server := flag.String("server", "", "URL of the API server, if there is no kubeconfig")
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "path of a kubeconfig")
	resource := flag.String("resource", "/v1/pods", "group/version/resource")
	namespace := flag.String("namespace", "", "the namespace; all if empty")
	labels := flag.String("label-selector", "", "which objects, by label")
	fields := flag.String("field-selector", "", "which objects, by field")
	watchList := flag.Bool("watch-list", true, "use a watch-list for the initial list")
	resync := flag.Duration("resync", 0, "resync period")
	printLists := flag.Bool("print-lists", false, "print a line for every request of a list, too")
	flag.Parse()
	parts := strings.Split(*resource, "/")
	if len(parts) != 3 || (*server == "" && *kubeconfig == "") {
		fmt.Fprintln(os.Stderr, "usage: client-go --kubeconfig=FILE --resource=group/version/resource, see --help")
		os.Exit(2)
	}
	// The gate is read when the first client is created.
	fail(os.Setenv("KUBE_FEATURE_WatchListClient", strconv.FormatBool(*watchList)))

	config, err := configuration(*server, *kubeconfig)
	fail(err)
	config.QPS = -1
	if *printLists {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return lists{next} })
	}
	client, err := dynamic.NewForConfig(config)
	fail(err)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, *resync, *namespace,
		func(options *metav1.ListOptions) {
			options.LabelSelector = *labels
			options.FieldSelector = *fields
		})
	gvr := schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	informer := factory.ForResource(gvr).Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initial bool) {
			l := about("added", object)
			l.Initial = initial
			tell(l)
		},
		UpdateFunc: func(old, object any) {
			l := about("updated", object)
			l.OldResourceVersion = old.(*unstructured.Unstructured).GetResourceVersion()
			tell(l)
		},
		DeleteFunc: func(object any) { tell(deleted(object)) },
	})
	fail(err)

	ctx, stop := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			tell(line{Event: "synced"})
		}
	}()
	io.Copy(io.Discard, os.Stdin)
	for _, object := range informer.GetStore().List() {
		tell(about("stored", object))
	}
	stop()
	factory.Shutdown()
}
