package versus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark/tidemark/bench/suites"
	"github.com/tidemark/tidemark/bench/target"
)

// startTimeout is how long a broker may take until it listens: Kafka with 10,000 partitions after a kill takes a minute.
const startTimeout = 6 * time.Minute

// arm is one side: how it is started, and started again.
type arm struct {
	info   ArmInfo
	target *target.Target
	data   string // folder of its own
	start  func(ctx context.Context, a *arm) (*target.Target, error)
}

func (a *arm) pid() int {
	if a.target == nil || len(a.target.PIDs) == 0 {
		return 0
	}
	return a.target.PIDs[0]
}

// cpu is the arm's CPU clock.
func (a *arm) cpu() int64 {
	total := int64(0)
	if a.target != nil {
		for _, pid := range a.target.PIDs {
			n, err := target.CPUNanos(pid)
			if err == nil {
				total += n
			}
		}
	}
	return total
}

// up starts the arm in its folder; fresh empties it first.
func (a *arm) up(ctx context.Context, fresh bool) error {
	if fresh {
		if err := os.RemoveAll(a.data); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(a.data, 0o755); err != nil {
		return err
	}
	t, err := a.start(ctx, a)
	if err != nil {
		return fmt.Errorf("start %s: %w", a.info.Name, err)
	}
	a.target = t
	if a.info.Ours {
		a.info.Version = t.Version
	}
	return nil
}

// end ends the arm by a signal, waits until it is gone, and says how long that took.
func (a *arm) end(ctx context.Context, s syscall.Signal) (time.Duration, error) {
	t := a.target
	if t == nil {
		return 0, nil
	}
	began := time.Now()
	for _, pid := range t.PIDs { // children of this process: the pid is theirs until they are waited for
		if t.Alive() {
			_ = syscall.Kill(pid, s)
		}
	}
	ticks := time.NewTicker(2 * time.Millisecond)
	defer ticks.Stop()
	limit := time.After(startTimeout)
	for t.Alive() {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-limit:
			return 0, fmt.Errorf("%s did not end within %v", a.info.Name, startTimeout)
		}
	}
	a.target = nil
	return time.Since(began), nil
}

// down ends the arm for good and removes its data.
func (a *arm) down() error {
	var err error
	if a.target != nil {
		// What runs here is measured no more and its data is removed: nothing is lost by a kill, and Kafka takes seconds to stop.
		_, err = a.end(context.Background(), syscall.SIGKILL)
	}
	return errors.Join(err, os.RemoveAll(a.data))
}

// goneAtMost is how long a window waits for the files of the topic before it.
const goneAtMost = 3 * time.Second

// gone waits until a deleted topic's files are gone: dirty pages that have no file any more cost the next window's sync
// nothing, and a disk of 100 MB/s would take ten seconds for them.
func (a *arm) gone(ctx context.Context, topic string) {
	end := time.Now().Add(goneAtMost)
	for time.Now().Before(end) && ctx.Err() == nil {
		left := 0
		for _, dir := range []string{a.data, filepath.Join(a.data, "data")} { // Kafka's is below
			found, err := filepath.Glob(filepath.Join(dir, topic+"-*"))
			if err == nil {
				left += len(found)
			}
		}
		if left == 0 {
			return
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// ownBroker starts this program's broker.
func ownBroker(o *Options, s *Suite, log io.Writer) func(context.Context, *arm) (*target.Target, error) {
	return func(ctx context.Context, a *arm) (*target.Target, error) {
		return startEmbedded(ctx, o, a, s.Broker, log)
	}
}

// startEmbedded starts a broker of ours on the folder as it is; target.Start would empty it.
func startEmbedded(ctx context.Context, o *Options, a *arm, properties map[string]string, log io.Writer) (*target.Target, error) {
	return target.Start(ctx, target.Options{
		Bin: o.Bin, Data: a.data, KeepData: true, Properties: settingsOf(properties), Log: log, NoCeilings: true, LightSampling: true, Version: o.Version,
		Env: o.Env, Cores: o.cores, LoadCores: o.loadCores, StartTimeout: startTimeout,
	})
}

func settingsOf(m map[string]string) []suites.Setting {
	var out []suites.Setting
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, suites.Setting{Field: name, Value: m[name]})
	}
	return out
}

// kafkaStarts is how often Kafka is started before it is given up: its two ports are free when they are looked for, and
// may be taken when it listens.
const kafkaStarts = 3

// apacheKafka starts Apache Kafka by the script that the repository has for it.
func apacheKafka(o *Options, s *Suite, k Kafka, log io.Writer) func(context.Context, *arm) (*target.Target, error) {
	return func(ctx context.Context, a *arm) (*target.Target, error) {
		var properties []string
		for _, set := range []map[string]string{s.Broker, k.Set} {
			for _, p := range settingsOf(set) {
				properties = append(properties, p.Field+"="+p.Value)
			}
		}
		var failed error
		for range kafkaStarts {
			port, err := freePorts()
			if err != nil {
				return nil, err
			}
			t, err := target.Start(ctx, target.Options{
				Target: suites.Target{Command: []string{o.Kafka, "start", a.data, strconv.Itoa(port)}, Bootstrap: "127.0.0.1:" + strconv.Itoa(port)},
				Bin:    o.Bin, Data: a.data, Log: log, NoCeilings: true, LightSampling: true, Version: o.Version,
				Env:   append(slices.Clone(o.Env), "KAFKA_HEAP="+k.Heap, "KAFKA_PROPERTIES="+strings.Join(properties, ";")),
				Cores: o.cores, LoadCores: o.loadCores, StartTimeout: startTimeout,
			})
			if err == nil || ctx.Err() != nil {
				return t, err
			}
			failed = err
		}
		return nil, failed
	}
}

// Ports for Kafka are looked for below those that the kernel gives to clients (32768 on Linux): a connection that begins
// between the look and Kafka's bind cannot take them.
const firstPort, lastPort, portTries = 21000, 31998, 200

// freePorts finds two neighbouring ports that nobody listens on.
func freePorts() (int, error) {
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if listens(port) && listens(port+1) {
			return port, nil
		}
	}
	return 0, errors.New("no two neighbouring ports are free")
}

// listens reports whether a port can be listened on.
func listens(port int) bool {
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err == nil {
		l.Close()
	}
	return err == nil
}

// needs says in one line what Apache Kafka needs and this host lacks.
func needs(script string) error {
	if _, err := os.Stat(script); err != nil {
		return fmt.Errorf("%s is not there: run this from the repository's root, or say --kafka PATH/scripts/kafka/kafka", script)
	}
	if _, err := exec.LookPath("java"); err != nil {
		return errors.New("java is missing: Apache Kafka needs a Java runtime, 17 or newer, and Maven brings it here (Debian: apt-get install openjdk-17-jdk-headless maven)")
	}
	return nil
}

// classPath resolves Kafka's artifacts; the first time Maven downloads them.
func classPath(ctx context.Context, script string, progress io.Writer) (string, error) {
	cmd := exec.CommandContext(ctx, script, "classpath")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, progress
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s classpath: %w", script, err)
	}
	return strings.TrimSpace(out.String()), nil
}

// kafkaVersion reads the version off the class path: .../kafka_2.13-4.4.0.jar.
func kafkaVersion(classPath string) string {
	for _, jar := range strings.Split(classPath, ":") {
		if name, ok := strings.CutPrefix(filepath.Base(jar), "kafka_2.13-"); ok {
			return "Apache Kafka " + strings.TrimSuffix(name, ".jar")
		}
	}
	return "Apache Kafka"
}

// compilerNanos is the CPU time of a JVM's compiler threads so far.
func compilerNanos(pid int) int64 {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	total := int64(0)
	for _, t := range tasks {
		name, err := os.ReadFile(dir + "/" + t.Name() + "/comm")
		if err != nil || !bytes.HasPrefix(name, []byte("C1 Comp")) && !bytes.HasPrefix(name, []byte("C2 Comp")) {
			continue
		}
		if b, err := os.ReadFile(dir + "/" + t.Name() + "/schedstat"); err == nil {
			if f := bytes.Fields(b); len(f) == 3 {
				n, _ := strconv.ParseInt(string(f[0]), 10, 64)
				total += n
			}
		}
	}
	return total
}
