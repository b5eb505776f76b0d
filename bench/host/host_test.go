package host_test

import (
	"context"
	"os"
	"testing"

	"github.com/tidemark/tidemark/bench/host"
)

func TestFingerprintTellsWhatResultsDependOn(t *testing.T) {
	f := host.Read(t.TempDir() + "/not/there/yet")
	if f.Kernel == "" || f.CPUModel == "" || f.Cores < 1 || f.CoresOnline < f.Cores || f.MemoryBytes == 0 || f.FileSystem == "" || f.FreeBytes == 0 || f.BootID == "" {
		t.Errorf("incomplete: %+v", f)
	}
	t.Logf("%+v", f)
}

func TestEveryCeilingIsMeasuredAndLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes three seconds")
	}
	dir := t.TempDir()
	for _, c := range host.Ceilings(context.Background(), dir, nil, nil) {
		if c.Error != "" || c.Value < 0 || c.Unit == "" || c.What == "" || c.Value == 0 && c.Unit != "ppm" {
			t.Errorf("%+v", c)
		}
		t.Logf("%-20s %10.1f %-5s %10.1f MB/CPU-s", c.Name, c.Value, c.Unit, c.PerCPU)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestCeilingThatCannotBeMeasuredSaysWhy(t *testing.T) {
	if c := host.ReceiveCeiling(t.TempDir()+"/missing", nil, nil); c.Error == "" || c.Value != 0 {
		t.Errorf("%+v", c)
	}
}
