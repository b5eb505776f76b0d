package profiles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"runtime/pprof"
	"strconv"
	"time"
)

// maxProfileBytes bounds a profile that comes over the network.
const maxProfileBytes = 64 << 20

// Self begins to capture profiles of this process. The returned function ends it and gives each kind's pprof bytes; call it
// exactly once. A process has one CPU profile at a time: a second Self with CPU fails.
func Self(kinds []Kind) (end func() (map[Kind][]byte, error), err error) {
	var cpu bytes.Buffer
	withCPU := false
	for _, k := range kinds {
		switch k {
		case CPU:
			if err := pprof.StartCPUProfile(&cpu); err != nil {
				return nil, fmt.Errorf("profile this process: %w", err)
			}
			withCPU = true
		case Mutex:
			runtime.SetMutexProfileFraction(MutexFraction)
		case Block:
			runtime.SetBlockProfileRate(BlockRateNanos)
		}
	}
	return func() (map[Kind][]byte, error) {
		out := map[Kind][]byte{}
		if withCPU {
			pprof.StopCPUProfile()
			out[CPU] = cpu.Bytes()
		}
		var errs []error
		for _, k := range kinds {
			if k == CPU {
				continue
			}
			var b bytes.Buffer
			if err := pprof.Lookup(string(k)).WriteTo(&b, 0); err != nil {
				errs = append(errs, fmt.Errorf("profile %s of this process: %w", k, err))
				continue
			}
			out[k] = b.Bytes()
		}
		runtime.SetMutexProfileFraction(0)
		runtime.SetBlockProfileRate(0)
		return out, errors.Join(errs...)
	}, nil
}

// Fetch gets a profile from a process's /debug/pprof at HOST:PORT. CPU runs for the duration given (StartCPU for one that
// ends when its caller says so); mutex and block are
// sampled for it (by the broker's own ?seconds= and ?rate=); heap and goroutine are taken at once.
func Fetch(ctx context.Context, client *http.Client, admin string, k Kind, d time.Duration) ([]byte, error) {
	path := string(k)
	q := url.Values{}
	seconds := strconv.Itoa(max(1, int(d.Round(time.Second)/time.Second)))
	switch k {
	case CPU:
		path = "profile"
		q.Set("seconds", seconds)
	case Mutex:
		q.Set("seconds", seconds)
		q.Set("rate", strconv.Itoa(MutexFraction))
	case Block:
		q.Set("seconds", seconds)
		q.Set("rate", strconv.Itoa(BlockRateNanos))
	}
	u := url.URL{Scheme: "http", Host: admin, Path: "/debug/pprof/" + path, RawQuery: q.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetch %s profile: %w", k, err)
	}
	defer resp.Body.Close()
	return readProfile(resp, k, u.String())
}
