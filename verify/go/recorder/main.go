// client-go's event recorder. It records one event for each line of its input, and stops when its input ends.
//
// A line has seven fields, separated by tabs: the type of the event, the namespace, name and UID of a pod, the reason, the
// action and the note.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
)

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	server := flag.String("server", "", "the URL of the API server")
	controller := flag.String("controller", "example.dev/go", "the name of the reporting controller")
	flag.Parse()

	client, err := kubernetes.NewForConfig(&rest.Config{Host: *server})
	fail(err)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	ctx, stop := context.WithCancel(context.Background())
	fail(broadcaster.StartRecordingToSinkWithContext(ctx))
	recorder := broadcaster.NewRecorder(scheme.Scheme, *controller)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) != 7 {
			fail(fmt.Errorf("%d fields instead of 7: %q", len(fields), lines.Text()))
		}
		pod := &corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: fields[1], Name: fields[2], UID: types.UID(fields[3]),
		}
		recorder.Eventf(pod, nil, fields[0], fields[4], fields[5], "%s", fields[6])
	}
	fail(lines.Err())
	broadcaster.Shutdown()
	stop()
}
