package host_test

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/bench/host"
	"github.com/tidemark/tidemark/broker/proc"
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
	cores := proc.Cores()
	for _, c := range host.Ceilings(context.Background(), dir, cores[:1], cores[len(cores)-1:]) {
		if c.Error != "" || c.Value < 0 || c.Unit == "" || c.What == "" || c.Value == 0 && c.Unit != "ppm" {
			t.Errorf("%+v", c)
		}
		t.Logf("%-20s %10.1f %-5s %10.1f MB/CPU-s", c.Name, c.Value, c.Unit, c.PerCPU)
	}
	if after := proc.Cores(); !slices.Equal(after, cores) {
		t.Errorf("this process may use cores %v, before %v", after, cores)
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
