// The client-go peer: a shared informer for pods with one handler and one index. It uses the line protocol described in
// the README of verify/bench, as the Rust peers do.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	server := flag.String("server", "", "URL of the API server; without it, the kubeconfig of the environment")
	drop := flag.Bool("drop", false, "drop managedFields")
	onlyJSON := flag.Bool("json", false, "request JSON instead of client-go's default")
	kind := flag.String("kind", "pods", "pods, secrets, configmaps or events")
	flag.Parse()
	if err := run(*server, *kind, *drop, *onlyJSON); err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
}

func run(server, kind string, drop, onlyJSON bool) error {
	config, err := configuration(server)
	if err != nil {
		return err
	}
	if onlyJSON {
		config.ContentType = "application/json"
		config.AcceptContentTypes = "application/json"
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var options []informers.SharedInformerOption
	if drop {
		options = append(options, informers.WithTransform(dropManagedFields))
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, options...)
	shared, err := factory.ForResource(corev1.SchemeGroupVersion.WithResource(kind))
	if err != nil {
		return err
	}
	informer := shared.Informer()
	byNode := func(object any) ([]string, error) {
		pod, ok := object.(*corev1.Pod)
		if !ok || pod.Spec.NodeName == "" {
			return nil, nil
		}
		return []string{pod.Spec.NodeName}, nil
	}
	if err := informer.AddIndexers(cache.Indexers{"node": byNode}); err != nil {
		return err
	}
	m := newMeter()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { m.saw(object.(metav1.Object)) },
		UpdateFunc: func(old, object any) {
			// A relist also delivers objects that did not change.
			if old.(metav1.Object).GetResourceVersion() != object.(metav1.Object).GetResourceVersion() {
				m.saw(object.(metav1.Object))
			}
		},
		DeleteFunc: func(any) {},
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	factory.Start(ctx.Done())
	// Closed when the handler has received everything; WaitForCacheSync would check only ten times a second.
	<-registration.HasSyncedChecker().Done()
	tell(map[string]any{"event": "synced", "objects": len(informer.GetIndexer().ListKeys())})
	return runCommands(informer.GetIndexer(), m)
}

// dropManagedFields is the transform of client-go's own documentation.
func dropManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil && accessor.GetManagedFields() != nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

func configuration(server string) (*rest.Config, error) {
	if server != "" {
		return &rest.Config{Host: server}, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
}

func tell(line map[string]any) {
	text, err := json.Marshal(line)
	if err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
	fmt.Println(string(text))
}

// runCommands executes the commands on standard input until it ends.
func runCommands(indexer cache.Indexer, m *meter) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		numbers := make([]int, 0, 2)
		for _, word := range words[min(1, len(words)):] {
			if number, err := strconv.Atoi(word); err == nil {
				numbers = append(numbers, number)
			}
		}
		switch {
		case len(words) == 3 && words[0] == "measure" && len(numbers) == 2:
			m.begin(numbers[0], numbers[1])
			tell(map[string]any{"event": "ready"})
			tell(m.finish())
		case len(words) == 4 && words[0] == "measure" && words[3] == "listing" && len(numbers) == 2:
			m.begin(numbers[0], numbers[1])
			stop := listing(indexer)
			tell(map[string]any{"event": "ready"})
			line := m.finish()
			line["lists_per_second"] = stop()
			tell(line)
		case len(words) == 2 && words[0] == "reads" && len(numbers) == 1:
			tell(reads(indexer, numbers[0]))
		default:
			return fmt.Errorf("%q is not a command", lines.Text())
		}
	}
	return lines.Err()
}
