package calibrate

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// clauses says which test holds each clause of METHOD 9, and where it is. S is the sink. Where a clause names seconds that
// would take minutes, the default form is scaled and make method runs the named one.
func clauses() []struct{ clause, in, test string } {
	return []struct{ clause, in, test string }{
		{"S freezes 1 s of 60 at 1,000/s: p99 350-450 ms, count 60,000", "loadgen", "TestAFreezeShiftsThePercentilesAsMuchAsItMust"},
		{"S frozen to the end: the four ends add up, p99 censored", "loadgen", "TestAFrozenTargetHidesNothing"},
		{"2% timeouts: p99 censored", "loadgen", "TestTwoPercentOfTimeoutsCensorTheP99"},
		{"kgo with a 100-record buffer and S frozen: the intended list equals the seed's", "loadgen", "TestTheIntendedListIsTheSeedsHoweverSmallTheBuffer"},
		{"65 s freeze: max >= 65 s", "loadgen", "TestAStallOfOverAMinuteIsItsOwnLength"},
		{"delay on Fetch only: delivery later, ack unchanged", "loadgen", "TestDelayOnFetchIsDeliverysAlone"},
		{"delay on Produce: both later", "loadgen", "TestDelayOnTheStoreIsInBoth"},
		{"a consumer that joins late leaves no trace in p99", "loadgen", "TestAConsumerThatJoinsLateLeavesNoTrace"},
		{"S loses 1, repeats 1 batch, swaps 2, flips 1 bit: named by offset, at full rate", "loadgen", "TestAtFullRateEachFaultIsFoundAtItsOffset"},
		{"the same, one record at a time", "loadgen", "TestFaultsAreFoundAndInvalidateTheRun"},
		{"generator in a cgroup of 10%: generator-limited, S's log agrees within 100 us", "bench/calibrate", "TestAStarvedGeneratorConvictsItself"},
		{"slow S: saturated, pacer unchanged", "loadgen", "TestASlowTargetIsNotThePacersFault"},
		{"closed loop prints no p99", "loadgen", "TestAClosedLoopTellsNoLatency"},
		{"open loop at 1.2x capacity ends saturated", "loadgen", "TestAnOpenLoopAboveCapacityEndsSaturated"},
		{"a child that burns 1.000 s on 8 threads, 4 of which exit: 1.00 +- 0.01", "bench/target", "TestCPUClockCountsEndedThreads"},
		{"Zipf by chi-square at s = 0, 0.5, 0.99, 1.1", "loadgen/workload", "TestZipfIsExactForAnyExponent"},
		{"gaps of 64 producers uncorrelated", "loadgen/workload", "TestProducersGapsAreUncorrelated"},
		{"two merged histograms equal the pooled raw data", "loadgen", "TestMergedHistogramsEqualThePooledData"},
		{"resume after kill -9: finished cells byte-equal", "bench", "TestResumeAfterKill"},
		{"verdict table", "bench/stats", "TestVerdictTable"},
		{"false alarms at the stated rate", "bench/stats", "TestFalseAlarmsAtTheStatedRate"},
		{"power curve", "bench/stats", "TestPowerCurve"},
		{"markup in outside names is escaped", "bench/report", "TestMarkupInNamesIsText"},
		{"METHOD 3: pacer, run queue and CPU convict the generator", "loadgen", "TestALatePacerMarksAndThenLimitsTheRun"},
		{"METHOD 3: waiting for a core counts by what others used of it", "loadgen", "TestWaitingForACoreCountsByWhatOthersUsedOfIt"},
		{"METHOD 3: above 80% of what the workload reaches against the sink", "bench/target", "TestARateNearTheSinksIsTheGenerators"},
		{"METHOD 3: calibration, truth beside reading", "bench/calibrate", "TestTheGeneratorReadsWhatTheSinkDid"},
		{"METHOD 3: a reading outside its tolerance fails it", "bench/calibrate", "TestAWrongReadingFailsTheCalibration"},
		{"METHOD 5: ceilings on both sides of a run", "bench/target", "TestACeilingIsMeasuredOnBothSidesOfARun"},
	}
}

func TestEveryClauseOfTheMethodHasItsTest(t *testing.T) {
	root := filepath.Join("..", "..")
	has := func(dir, test string) bool {
		files, _ := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), "func "+test+"(t *testing.T)") {
				return true
			}
		}
		return false
	}
	for _, c := range clauses() {
		if !has(c.in, c.test) {
			t.Errorf("%s: no %s in %s", c.clause, c.test, c.in)
		}
	}
	script, err := os.ReadFile(filepath.Join(root, "scripts", "lies"))
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9_]+) +\./(\S+) +(Test\w+)$`).FindAllStringSubmatch(string(script), -1) {
		told["lie_"+m[1]+".go"] = true
		if !has(m[2], m[3]) {
			t.Errorf("scripts/lies: no %s in %s", m[3], m[2])
		}
	}
	lies, err := filepath.Glob(filepath.Join(root, "core", "lie", "lie_*.go"))
	if err != nil || len(lies) < 12 {
		t.Errorf("%d lies, %v", len(lies), err)
	}
	for _, f := range lies {
		if !told[filepath.Base(f)] {
			t.Errorf("scripts/lies does not show that %s is caught", f)
		}
	}
}
