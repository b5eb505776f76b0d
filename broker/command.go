package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/logdir"
	"github.com/tidemark/tidemark/core/buildinfo"
	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/vfs"
)

// drainTimeout is how long a stop waits for requests that are being served.
const drainTimeout = 10 * time.Second

// Commands are the broker's commands, for main to add to its own.
func Commands() []*cobra.Command {
	all := []*cobra.Command{brokerCommand(), dumpCommand()}
	for _, c := range all {
		c.SetFlagErrorFunc(nearestFlag)
	}
	return all
}

// nearestFlag adds the nearest name to the error about an unknown flag.
func nearestFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedName() == "" {
		return usageError{err}
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if n := config.Nearest(unknown.GetSpecifiedName(), names); n != "" {
		err = fmt.Errorf("%w (did you mean --%s?)", err, n)
	}
	return usageError{err}
}

// runFlags are the flags of `tidemark broker`.
type runFlags struct {
	config, listen, data, admin, logLevel string
	overrides                             []string
}

func brokerCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "run one broker",
		Long: `Runs one broker until SIGTERM or SIGINT, then drains, closes its logs and exits 0. What tidemark.fsync and flush.ms promise is on
disk then; with more than 64 logs in use the rest is left to the system to write, as it is while the broker runs.

When it accepts connections it prints exactly one line on standard output,

  ready HOST:PORT node=ID cluster=ID

and logs to standard error. Settings have Kafka's own property names. With nothing given it is a single-node cluster on
127.0.0.1:9092 in a temporary folder, which it removes when it stops; with a --config file what the file leaves out has Kafka's
defaults: all interfaces at port 9092, and /tmp/kafka-logs.`,
		Example: `  tidemark broker
  tidemark broker --listen 127.0.0.1:0 --data /var/lib/tidemark --admin 127.0.0.1:0
  tidemark broker --config server.properties -o num.partitions=6 -o log.retention.hours=1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), &f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.config, "config", "", "a `server.properties` file")
	fl.StringArrayVarP(&f.overrides, "override", "o", nil, "a property, `name=value`; repeatable, wins over the file")
	fl.StringVar(&f.listen, "listen", "", "`host:port` for clients (listeners=PLAINTEXT://host:port, and so advertised); port 0 picks one")
	fl.StringVar(&f.data, "data", "", "the data `folder` (log.dirs and metadata.log.dir)")
	fl.StringVar(&f.admin, "admin", "", "`host:port` of /healthz, /readyz, /metrics and /debug/pprof; none by default")
	fl.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	return cmd
}

// usageError is a wrong flag or setting: exit code 2.
type usageError struct{ error }

// ExitCode is the program's exit code for this error.
func (usageError) ExitCode() int { return 2 }

func run(ctx context.Context, f *runFlags) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return usageError{fmt.Errorf("--log-level %q: want debug, info, warn or error", f.logLevel)}
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	cfg, temporary, err := settings(f, logger)
	if temporary != "" {
		defer func() { _ = vfs.OS{}.RemoveAll(temporary) }()
	}
	if err != nil {
		return usageError{err}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	b := New(Options{Config: cfg, Logger: logger, Admin: f.admin})
	logger.Info("starting", "build", buildinfo.Version(), "node", cfg.NodeID, "listeners", cfg.Listeners, "folders", cfg.LogDirs, "metadata", cfg.MetadataDir())
	if err := rarelyCollecting(func() error { return b.Start(ctx) }); err != nil {
		if ctx.Err() != nil {
			logger.Info("stopped while it started", "reached", err)
			return nil
		}
		return err
	}
	fmt.Printf("ready %s node=%d cluster=%s\n", b.Addr(), cfg.NodeID, b.ClusterID())
	select {
	case <-ctx.Done():
	case <-b.Failed():
	}
	logger.Info("stopping")
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	err = b.Shutdown(drain)
	select {
	case <-b.Failed(): // perhaps only now: the last folder may go offline while the logs are closed
		return errors.Join(b.Err(), err)
	default:
		return err
	}
}

// startGCPercent is by how much the heap may grow between two collections while the broker starts. Nearly all that a start makes
// stays, so the collector, which would run each time the heap has doubled, finds next to nothing.
const startGCPercent = 400

// rarelyCollecting runs a start with startGCPercent, unless the environment (GOGC) wants even fewer collections.
func rarelyCollecting(start func() error) error {
	before := debug.SetGCPercent(startGCPercent)
	if before < 0 || before > startGCPercent {
		debug.SetGCPercent(before)
	}
	defer debug.SetGCPercent(before)
	return start()
}

// settings reads the file and the flags. temporary is the folder to remove at the end where none was given.
func settings(f *runFlags, logger *slog.Logger) (cfg *config.Broker, temporary string, err error) {
	over := append([]string(nil), f.overrides...)
	if f.listen != "" {
		over = append(over, "listeners=PLAINTEXT://"+f.listen)
	} else if f.config == "" && !overrides(over, "listeners") {
		over = append(over, "listeners=PLAINTEXT://127.0.0.1:9092")
	}
	switch {
	case f.data != "":
		over = append(over, "log.dirs="+f.data)
		if !overrides(over, "metadata.log.dir") { // else a file's would be shared with the broker that the file is for
			first, _, _ := strings.Cut(f.data, ",")
			over = append(over, "metadata.log.dir="+first)
		}
	case f.config == "" && !overrides(over, "log.dirs") && !overrides(over, "log.dir"):
		if temporary, err = os.MkdirTemp("", "tidemark-broker-*"); err != nil {
			return nil, "", err
		}
		over = append(over, "log.dirs="+temporary)
		logger.Info("no --data given: records live in a temporary folder that is removed at the end", "folder", temporary)
	}
	cfg, warnings, err := config.Load(f.config, over)
	if err == nil && f.data != "" && f.config != "" && !overrides(f.overrides, "metadata.log.dir") {
		if file, _, ferr := config.Load(f.config, f.overrides); ferr == nil && file.MetadataLogDir != "" {
			logger.Warn("--data takes the place of the file's metadata.log.dir too; say -o metadata.log.dir=... to keep it", "was", file.MetadataLogDir)
		}
	}
	if err == nil && f.listen != "" && len(cfg.AdvertisedListeners) > 0 && !overrides(over, "advertised.listeners") {
		logger.Warn("--listen takes the place of the file's advertised.listeners too: they name another address; say -o advertised.listeners=... to give one",
			"was", cfg.AdvertisedListeners)
		cfg, warnings, err = config.Load(f.config, append(over, "advertised.listeners="))
	}
	if err != nil {
		return nil, temporary, err
	}
	for _, w := range warnings {
		logger.Warn(w.String())
	}
	return cfg, temporary, nil
}

func overrides(over []string, name string) bool {
	for _, o := range over {
		if strings.HasPrefix(strings.TrimSpace(o), name+"=") {
			return true
		}
	}
	return false
}

func dumpCommand() *cobra.Command {
	var opt commitlog.DumpOptions
	cmd := &cobra.Command{
		Use:   "dump FILE|FOLDER...",
		Short: "print log segments, indexes, snapshots and checkpoints",
		Long: `Prints a partition's files (.log, .index, .timeindex, .txnindex, .snapshot, leader-epoch-checkpoint,
partition.metadata), or all of a partition's folder, written by Tidemark or by
Apache Kafka, and says where one is damaged. Exit code 5 then. Of a log folder (log.dirs) it prints meta.properties and
the checkpoints.`,
		Example: `  tidemark dump /var/lib/tidemark/orders-0/00000000000000000000.log --deep`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, path := range args {
				known, err := logdir.Dump(cmd.OutOrStdout(), vfs.OS{}, path)
				if !known {
					err = commitlog.Dump(cmd.OutOrStdout(), vfs.OS{}, path, opt)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&opt.Deep, "deep", false, "print the records of a .log, not its batches alone")
	cmd.Flags().BoolVar(&opt.Data, "data", false, "with --deep: print keys and values")
	return cmd
}
