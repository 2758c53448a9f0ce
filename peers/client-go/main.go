// client-go's shared informer, telling what its handler is told: one JSON object per line.
//
// It stops when its standard input ends, and then prints what its store holds, one line per object.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
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

var output sync.Mutex

func tell(l line) {
	output.Lock()
	defer output.Unlock()
	text, err := json.Marshal(l)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(string(text))
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

func main() {
	server := flag.String("server", "", "URL of the API server")
	resource := flag.String("resource", "/v1/pods", "group/version/resource")
	flag.Parse()
	parts := strings.Split(*resource, "/")
	if *server == "" || len(parts) != 3 {
		fmt.Fprintln(os.Stderr, "usage: client-go -server URL -resource group/version/resource")
		os.Exit(2)
	}
	client, err := dynamic.NewForConfig(&rest.Config{Host: *server})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
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
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

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
