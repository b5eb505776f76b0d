package logdir

import (
	"fmt"
	"path"
)

// Partitions looks through the log folders for logs of partitions and names one folder that holds some; "" when none does. It
// lists every folder, which takes long where there are many logs: it is for starts that are in doubt.
func (d *Dirs) Partitions() (folder string, err error) {
	for _, r := range d.dirs {
		infos, err := r.fs.ReadDir(r.path)
		if err != nil {
			return "", fmt.Errorf("log folder %s: %w", r.path, err)
		}
		for _, st := range infos {
			if _, ok := parseFolder(st.Name); ok {
				return r.path, nil
			}
		}
	}
	return "", nil
}

// Has names a log folder that has an entry of a name, those that but is true of left out; "" when none does.
func (d *Dirs) Has(name string, but func(folder string) bool) (folder string) {
	for _, r := range d.dirs {
		if but(r.path) {
			continue
		}
		if _, err := r.fs.Stat(path.Join(r.path, name)); err == nil {
			return r.path
		}
	}
	return ""
}
