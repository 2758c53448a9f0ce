package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// The annotation with the round and the time of the last write.
const sent = "example.org/sent"

// meter holds the events received in the current round.
type meter struct {
	lock        sync.Mutex
	round       int
	wanted      int
	first, last time.Time
	// Microseconds from the write to the handler.
	delays   []int64
	complete chan struct{}
	// The key of the last object, so that the compiler cannot leave its computation out.
	key string
}

func newMeter() *meter {
	return &meter{complete: make(chan struct{}, 1)}
}

// saw is called by the handler for every object it receives.
func (m *meter) saw(object metav1.Object) {
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		return
	}
	m.key = key
	round, nanos, ok := strings.Cut(object.GetAnnotations()[sent], "-")
	if !ok {
		return
	}
	number, err := strconv.Atoi(round)
	if err != nil {
		return
	}
	at, err := strconv.ParseInt(nanos, 10, 64)
	if err != nil {
		return
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	if number != m.round || len(m.delays) >= m.wanted {
		return
	}
	now := time.Now()
	if m.first.IsZero() {
		m.first = now
	}
	m.last = now
	m.delays = append(m.delays, (now.UnixNano()-at)/1000)
	if len(m.delays) == m.wanted {
		m.complete <- struct{}{}
	}
}

func (m *meter) begin(round, wanted int) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.round, m.wanted = round, wanted
	m.first, m.last = time.Time{}, time.Time{}
	m.delays = make([]int64, 0, wanted)
}

func (m *meter) finish() map[string]any {
	<-m.complete
	m.lock.Lock()
	defer m.lock.Unlock()
	slices.Sort(m.delays)
	at := func(part float64) int64 { return m.delays[int(float64(len(m.delays)-1)*part)] }
	return map[string]any{
		"event": "measured", "round": m.round, "updates": len(m.delays), "seconds": m.last.Sub(m.first).Seconds(),
		"p50_us": at(0.5), "p99_us": at(0.99),
	}
}

// list lists everything and reads each object.
func list(indexer cache.Indexer) int {
	named := 0
	for _, object := range indexer.List() {
		if object.(*corev1.Pod).Name != "" {
			named++
		}
	}
	return named
}

// listing lists in a loop until the returned function is called, which returns the lists per second.
func listing(indexer cache.Indexer) func() float64 {
	var stop atomic.Bool
	var rounds atomic.Int64
	ended := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		for !stop.Load() {
			list(indexer)
			rounds.Add(1)
		}
	}()
	return func() float64 {
		stop.Store(true)
		perSecond := float64(rounds.Load()) / time.Since(began).Seconds()
		<-ended
		return perSecond
	}
}

// The number of timed batches of each kind of read; the median is reported.
const (
	batches   = 101
	readCount = 1000
)

func reads(indexer cache.Indexer, objects int) map[string]any {
	// The names are spread over the whole cache; the Rust peers use the same ones.
	keys := indexer.ListKeys()
	slices.Sort(keys)
	next := uint64(12_345)
	number := func() int {
		next = next*1_103_515_245 + 12_345
		return int((next >> 8) % uint64(max(objects, 1)))
	}
	some := make([]string, readCount)
	nodes := make([]string, readCount)
	for i := range some {
		if len(keys) > 0 {
			// A copy: a lookup by the same bytes that the map holds would be faster than a real one.
			some[i] = strings.Clone(keys[number()%len(keys)])
		}
	}
	for i := range nodes {
		nodes[i] = fmt.Sprintf("worker-%05d", number()/20)
	}
	names := make([]cache.ObjectName, readCount)
	for i, key := range some {
		name, err := cache.ParseObjectName(key)
		if err != nil {
			panic(err)
		}
		names[i] = name
	}
	found := 0
	get := func() {
		found = 0
		for _, key := range some {
			if _, exists, err := indexer.GetByKey(key); err == nil && exists {
				found++
			}
		}
	}
	read := func() {
		found = 0
		for _, key := range some {
			object, exists, err := indexer.GetByKey(key)
			if err == nil && exists && len(object.(*corev1.Pod).Name) < len(key) {
				found++
			}
		}
	}
	// What a controller calls: a lister of one namespace.
	lister := corelisters.NewPodLister(indexer)
	byName := func() {
		for _, name := range names {
			if _, err := lister.Pods(name.Namespace).Get(name.Name); err != nil {
				panic(err)
			}
		}
	}
	index := func() {
		for _, node := range nodes {
			if _, err := indexer.ByIndex("node", node); err != nil {
				panic(err)
			}
		}
	}
	getTime, readTime, byNameTime, indexTime := median(get), median(read), median(byName), median(index)
	listTime := median(func() { list(indexer) })
	return map[string]any{
		"event": "reads", "found": found,
		"get_ns": getTime * 1e9 / readCount, "read_ns": readTime * 1e9 / readCount,
		"name_ns": byNameTime * 1e9 / readCount, "index_ns": indexTime * 1e9 / readCount, "list_us": listTime * 1e6,
	}
}

func median(run func()) float64 {
	times := make([]float64, batches)
	for i := range times {
		start := time.Now()
		run()
		times[i] = time.Since(start).Seconds()
	}
	slices.Sort(times)
	return times[batches/2]
}
