// Package buildinfo tells which build of the program runs. It holds no state and begins no goroutine.
package buildinfo

import "runtime/debug"

// Version is the commit that the program was built from and Go's version, "+dirty" where the tree had changes; the module's
// version where no commit is known, as after go install.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version, dirty := info.Main.Version, ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			version = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if version == "" {
		version = "unknown"
	}
	return version + dirty + " " + info.GoVersion
}
