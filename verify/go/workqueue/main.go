// Command workqueue runs client-go's work-queue benchmarks and prints one JSON line for each:
// {"benchmark":"queue","ns_per_op":…}. The Rust benchmark of kube-workqueue starts it and prints the ratios.
//
// Upstream they are BenchmarkQueue, BenchmarkDelayingQueue_AddAfter and BenchmarkParallelizeUntil. Here each has a
// fixed size, so that both sides do the same work, in several rounds of which the best is reported, because
// interference on a shared machine only adds time. A round is long enough to include garbage collection.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"time"

	"k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"
)

const (
	queueRounds     = 30
	queueIterations = 3_000
	parallelRounds  = 30
	parallelRuns    = 1_000
	delayedRounds   = 5
	delayedKeys     = 500_000
)

func main() {
	report := json.NewEncoder(os.Stdout)
	measure := func(name string, rounds int, run func() float64) {
		best := run()
		for range rounds - 1 {
			best = min(best, run())
		}
		line := struct {
			Benchmark string  `json:"benchmark"`
			NsPerOp   float64 `json:"ns_per_op"`
		}{name, best}
		if err := report.Encode(line); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}

	measure("queue", queueRounds, func() float64 { return queue(workqueue.TypedQueueConfig[string]{}) })
	measure("queue with metrics", queueRounds, func() float64 {
		return queue(workqueue.TypedQueueConfig[string]{Name: "bench", MetricsProvider: provider{}})
	})
	measure("add after", delayedRounds, addAfter)
	for _, shape := range []struct{ pieces, workers, chunk int }{
		{1000, 10, 1}, {1000, 10, 10}, {1000, 10, 100}, {999, 10, 13},
	} {
		name := fmt.Sprintf("parallelize %d/%d/%d", shape.pieces, shape.workers, shape.chunk)
		measure(name, parallelRounds, func() float64 { return parallelize(shape.pieces, shape.workers, shape.chunk) })
	}
}

// queue adds, gets and finishes 100 distinct keys on a fresh queue.
func queue(config workqueue.TypedQueueConfig[string]) float64 {
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
	}
	var total time.Duration
	for range queueIterations {
		q := workqueue.NewTypedWithConfig(config)
		start := time.Now()
		for _, key := range keys {
			q.Add(key)
			got, _ := q.Get()
			q.Done(got)
		}
		total += time.Since(start)
		q.ShutDown()
	}
	return perOp(total, queueIterations)
}

// addAfter delays many keys by random times below ten minutes, advances the clock and takes them all.
func addAfter() float64 {
	clock := testingclock.NewFakeClock(time.Now())
	q := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Clock: clock})
	defer q.ShutDown()
	start := time.Now()
	for n := range delayedKeys {
		q.AddAfter(strconv.Itoa(n), time.Duration(rand.Int63n(int64(10*time.Minute))))
	}
	clock.Step(11 * time.Minute)
	for range delayedKeys {
		q.Get()
	}
	return perOp(time.Since(start), delayedKeys)
}

// parallelize looks for primes among the numbers of the pieces.
func parallelize(pieces, workers, chunk int) float64 {
	ctx := context.Background()
	isPrime := make([]bool, pieces)
	start := time.Now()
	for range parallelRuns {
		workqueue.ParallelizeUntil(ctx, workers, pieces, func(p int) {
			isPrime[p] = prime(p)
		}, workqueue.WithChunkSize(chunk))
	}
	took := time.Since(start)
	for p, found := range isPrime {
		if found != prime(p) {
			fmt.Fprintf(os.Stderr, "piece %d was not visited\n", p)
			os.Exit(1)
		}
	}
	return perOp(took, parallelRuns)
}

func prime(p int) bool {
	if p <= 1 {
		return false
	}
	for i := 2; i*i <= p; i++ {
		if p%i == 0 {
			return false
		}
	}
	return true
}

func perOp(total time.Duration, ops int) float64 {
	return float64(total.Nanoseconds()) / float64(ops)
}

// provider implements client-go's metrics and keeps only the last value.
type provider struct{}

type metric struct{ last float64 }

func (m *metric) Inc()              { m.last++ }
func (m *metric) Dec()              { m.last-- }
func (m *metric) Set(v float64)     { m.last = v }
func (m *metric) Observe(v float64) { m.last = v }

func (provider) NewDepthMetric(string) workqueue.GaugeMetric            { return &metric{} }
func (provider) NewAddsMetric(string) workqueue.CounterMetric           { return &metric{} }
func (provider) NewLatencyMetric(string) workqueue.HistogramMetric      { return &metric{} }
func (provider) NewWorkDurationMetric(string) workqueue.HistogramMetric { return &metric{} }
func (provider) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return &metric{}
}
func (provider) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return &metric{}
}
func (provider) NewRetriesMetric(string) workqueue.CounterMetric { return &metric{} }
