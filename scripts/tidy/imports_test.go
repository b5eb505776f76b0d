package tidy

import "strings"

// module is the import path's prefix of this repository.
const module = "github.com/tidemark/tidemark/"

// starCore is core without the two packages that only a broker may see.
var starCore = []string{"core/kafka", "core/buf", "core/clock", "core/invariants", "core/compress", "core/record", "core/wire", "core/lie"}

// exact lists what a package may import of this module. A package that is not here follows the rule of its top folder.
var exact = map[string][]string{
	"":                {"bench", "loadgen", "broker", "core/clock", "core/buildinfo"},
	"core/kafka":      {},
	"core/buf":        {"core/invariants"},
	"core/clock":      {"core/invariants"},
	"core/invariants": {},
	"core/vfs":        {"core/invariants", "core/clock", "core/buf"},
	"core/compress":   {"core/kafka", "core/buf", "core/invariants"},
	"core/record":     {"core/kafka", "core/compress", "core/buf", "core/invariants"},
	"core/wire":       {"core/kafka", "core/record", "core/compress", "core/buf", "core/invariants"},
	"core/commitlog":  {"core/kafka", "core/record", "core/compress", "core/buf", "core/vfs", "core/clock", "core/invariants"},

	"broker/proc":     {},
	"bench/calibrate": append([]string{"loadgen/workload", "loadgen/result", "loadgen/sink", "broker/proc"}, starCore...),
	"broker/config":   {"core/*"},

	// It reads back itself what its windows had acknowledged.
	"bench/versus": append([]string{"bench/*", "loadgen/workload", "loadgen/result", "loadgen/verify", "broker/proc", "profiles"}, starCore...),

	"broker/internal/purgatory":    {"core/*"},
	"broker/internal/group":        {"core/*"},
	"broker/internal/txn":          {"core/*"},
	"broker/internal/metadata":     {"core/*"},
	"broker/internal/fetchsession": {"core/*"},
	"broker/internal/quota":        {"core/*", "broker/config"},
	"broker/internal/auth":         {"core/*", "broker/config", "broker/internal/metadata"},
	"broker/internal/monitor":      {"core/*", "broker/config"},
	"broker/internal/partition":    {"core/*", "broker/config", "broker/internal/purgatory"},
	"broker/internal/logdir":       {"core/*", "broker/config"},
	"broker/internal/controller":   {"core/*", "broker/config", "broker/internal/metadata"},
	"broker/internal/replica": {"core/*", "broker/config", "broker/internal/logdir", "broker/internal/partition",
		"broker/internal/metadata", "broker/internal/purgatory"},
	"broker/internal/coordinator": {"core/*", "broker/config", "broker/internal/group", "broker/internal/txn",
		"broker/internal/replica", "broker/internal/partition", "broker/internal/metadata"},
	"broker/internal/api": {"core/*", "broker/config", "broker/internal/coordinator", "broker/internal/controller",
		"broker/internal/replica", "broker/internal/partition", "broker/internal/purgatory", "broker/internal/fetchsession",
		"broker/internal/quota", "broker/internal/auth", "broker/internal/metadata", "broker/internal/group", "broker/internal/logdir"},
	"broker/internal/server": {"core/*", "broker/config", "broker/internal/api", "broker/internal/quota", "broker/internal/auth",
		"broker/internal/purgatory"},
	"broker/internal/sim": {"core/*", "broker/*"},
}

// byTop gives the rule of each top folder.
var byTop = map[string][]string{
	"core":       {},
	"broker":     {"broker/*", "core/*", "profiles"},
	"loadgen":    append([]string{"loadgen/*", "profiles"}, starCore...),
	"profiles":   starCore,
	"bench":      append([]string{"bench/*", "loadgen/workload", "loadgen/result", "broker/config", "broker/proc", "profiles"}, starCore...),
	"scripts":    {"*"},
	"dashboards": {"*"},
}

// mayImport reports whether package from (path below the module) may import package to.
func mayImport(from, to string, test bool) bool {
	if test && (to == "broker/proc" || strings.HasSuffix(to, "test")) || from == to {
		return true
	}
	if test && isFrontDoor(to) && strings.HasPrefix(from, "broker/") == (to == "broker") {
		return true
	}
	if strings.HasSuffix(from, "test") && strings.Contains(from, "/") {
		return true
	}
	rules, ok := exact[from]
	if !ok {
		rules = byTop[strings.SplitN(from, "/", 2)[0]]
	}
	for _, r := range rules {
		if r == "*" || r == to || strings.HasSuffix(r, "/*") && strings.HasPrefix(to, strings.TrimSuffix(r, "*")) {
			return true
		}
	}
	return false
}

// isFrontDoor reports whether only main.go and tests may import the package.
func isFrontDoor(pkg string) bool { return pkg == "broker" || pkg == "loadgen" || pkg == "bench" }
